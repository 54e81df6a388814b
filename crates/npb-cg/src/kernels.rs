//! The tasks' arithmetic, as plain functions on slices that do not use the runtime. The bench `roofline` calls them
//! in a plain loop.
//!
//! Each function works on one block of rows. The sparse product takes most of the time: it streams values and
//! columns once, and gathers from the vector, which stays in a cache. This module contains the product for storage
//! by rows, which accelerators also use; `sliced` contains the products for cores only.

/// A block of rows of the matrix. `offsets` has one more element than the block has rows. Offsets count from the
/// first entry of the whole matrix, not of the block.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    /// Index of the first entry of each row.
    pub offsets: &'a [u32],
    /// Column of each entry of the block.
    pub columns: &'a [u32],
    /// Value of each entry of the block.
    pub values: &'a [f64],
}

/// A block of rows of the matrix, in any storage.
pub trait Product: Copy {
    /// Computes the products of the rows with a whole vector. If only one triangle is stored, computes the block's
    /// share of the product.
    fn times(self, vector: &[f64], product: &mut [f64]);
}

impl Product for Rows<'_> {
    fn times(self, vector: &[f64], product: &mut [f64]) {
        let first = self.offsets[0];
        for (product, pair) in product.iter_mut().zip(self.offsets.windows(2)) {
            let entries = (pair[0] - first) as usize..(pair[1] - first) as usize;
            *product = sparse_dot(&self.values[entries.clone()], &self.columns[entries], vector);
        }
    }
}

/// Number of partial sums of a dot product. With several sums, additions need not wait for one another. Of 1, 2, 4
/// and 8 sums, 8 measured best in classes W and A, and is 1.5 times as fast as one sum in class W.
const LANES: usize = 8;

/// Computes Σ values[k] · vector[columns[k]].
fn sparse_dot(values: &[f64], columns: &[u32], vector: &[f64]) -> f64 {
    let (value_chunks, value_rest) = values.as_chunks::<LANES>();
    let (column_chunks, column_rest) = columns.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for (values, columns) in value_chunks.iter().zip(column_chunks) {
        for lane in 0..LANES {
            sums[lane] += values[lane] * vector[columns[lane] as usize];
        }
    }
    let rest = value_rest.iter().zip(column_rest);
    let rest: f64 = rest.map(|(value, &column)| value * vector[column as usize]).sum();
    sums.iter().sum::<f64>() + rest
}

/// Computes `q = A p` on a block of rows; returns the block's part of p · q. `own` is the part of `p` that
/// corresponds to `q`.
pub fn multiply(rows: impl Product, p: &[f64], own: &[f64], q: &mut [f64]) -> f64 {
    rows.times(p, q);
    dot(own, q)
}

/// Computes `r -= α q`; returns r · r.
pub fn update_residual(alpha: f64, q: &[f64], r: &mut [f64]) -> f64 {
    let ((r_chunks, r_rest), (q_chunks, q_rest)) = (r.as_chunks_mut::<LANES>(), q.as_chunks::<LANES>());
    let mut sums = [0.0; LANES];
    for (r, q) in r_chunks.iter_mut().zip(q_chunks) {
        for lane in 0..LANES {
            r[lane] -= alpha * q[lane];
            sums[lane] += r[lane] * r[lane];
        }
    }
    for (sum, (r, q)) in sums.iter_mut().zip(r_rest.iter_mut().zip(q_rest)) {
        *r -= alpha * q;
        *sum += *r * *r;
    }
    sums.iter().sum()
}

/// Variant of [`update_residual`] for a q that is a sum of shares. Each share begins with the first of the given
/// rows, and the last share covers all of them.
pub fn update_residual_by_shares<'a>(
    alpha: f64,
    mut shares: impl DoubleEndedIterator<Item = &'a [f64]>,
    r: &mut [f64],
) -> f64 {
    let last = shares.next_back().expect("the last block's share");
    for share in shares {
        r.iter_mut().zip(share).for_each(|(r, q)| *r -= alpha * q);
    }
    update_residual(alpha, last, r)
}

/// Computes `z += α p` and `next = r + β p` in one pass, because both read p.
pub fn advance(alpha: f64, beta: f64, r: &[f64], z: &mut [f64], p: &[f64], next: &mut [f64]) {
    for (((z, p), r), next) in z.iter_mut().zip(p).zip(r).zip(next) {
        *z += alpha * p;
        *next = r + beta * p;
    }
}

/// The sums over a block of rows that verify a solution z of A z = x.
#[derive(Clone, Copy, Debug, Default)]
pub struct Norms {
    /// (x − A z)²
    pub residual: f64,
    /// x · z
    pub x_dot_z: f64,
    /// z · z
    pub z_dot_z: f64,
}

/// Computes the norms on a block of rows. `own` is the block's part of `z`.
pub fn norms(rows: impl Product, x: &[f64], z: &[f64], own: &[f64]) -> Norms {
    let mut products = vec![0.0; own.len()];
    rows.times(z, &mut products);
    norms_of(&products, x, own)
}

/// Variant of [`norms`] for products that are sums of shares, as in [`update_residual_by_shares`].
pub fn norms_by_shares<'a>(shares: impl Iterator<Item = &'a [f64]>, x: &[f64], own: &[f64]) -> Norms {
    let mut products = vec![0.0; own.len()];
    for share in shares {
        products.iter_mut().zip(share).for_each(|(product, share)| *product += share);
    }
    norms_of(&products, x, own)
}

fn norms_of(products: &[f64], x: &[f64], own: &[f64]) -> Norms {
    let mut norms = Norms::default();
    for ((x, own), product) in x.iter().zip(own).zip(products) {
        norms.residual += (x - product) * (x - product);
        norms.x_dot_z += x * own;
        norms.z_dot_z += own * own;
    }
    norms
}

/// Returns the dot product of a vector with itself.
pub fn square(x: &[f64]) -> f64 {
    dot(x, x)
}

/// Returns the dot product of two vectors of equal length, using as many partial sums as a sparse dot product.
pub fn dot(x: &[f64], y: &[f64]) -> f64 {
    let ((x_chunks, x_rest), (y_chunks, y_rest)) = (x.as_chunks::<LANES>(), y.as_chunks::<LANES>());
    let mut sums = [0.0; LANES];
    for (x, y) in x_chunks.iter().zip(y_chunks) {
        for lane in 0..LANES {
            sums[lane] += x[lane] * y[lane];
        }
    }
    for (sum, (x, y)) in sums.iter_mut().zip(x_rest.iter().zip(y_rest)) {
        *sum += x * y;
    }
    sums.iter().sum()
}
