//! Tile kernels: factorization, triangular solve, and product.

use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView2, ArrayViewMut2, Axis, s};

/// Blocks that are larger than this are halved recursively, so that most of the work is done by matrix products.
const SMALL: usize = 32;

/// Replaces the lower half of `a` by its Cholesky factor.
pub(crate) fn potrf(mut a: ArrayViewMut2<'_, f64>) {
    let n = a.nrows();
    if n > SMALL {
        let (mut top, mut bottom) = a.split_at(Axis(0), n / 2);
        let (mut below, mut rest) = bottom.view_mut().split_at(Axis(1), n / 2);
        potrf(top.slice_mut(s![.., ..n / 2]));
        trsm(top.slice(s![.., ..n / 2]), below.view_mut());
        gemm(below.view(), below.view(), &mut rest);
        return potrf(rest);
    }
    for j in 0..n {
        for i in j..n {
            let sum = a[[i, j]] - dot(a.slice(s![i, ..j]).to_slice(), a.slice(s![j, ..j]).to_slice());
            a[[i, j]] = if i == j { sum.sqrt() } else { sum / a[[j, j]] };
        }
    }
}

/// Replaces `b` by b L⁻ᵀ.
pub(crate) fn trsm(l: ArrayView2<'_, f64>, mut b: ArrayViewMut2<'_, f64>) {
    let n = l.nrows();
    if n > SMALL {
        let (mut left, mut right) = b.split_at(Axis(1), n / 2);
        trsm(l.slice(s![..n / 2, ..n / 2]), left.view_mut());
        gemm(left.view(), l.slice(s![n / 2.., ..n / 2]), &mut right);
        return trsm(l.slice(s![n / 2.., n / 2..]), right);
    }
    for mut row in b.rows_mut() {
        for j in 0..n {
            row[j] = (row[j] - dot(row.slice(s![..j]).to_slice(), l.slice(s![j, ..j]).to_slice())) / l[[j, j]];
        }
    }
}

/// Subtracts a bᵀ from `c`.
pub(crate) fn gemm(a: ArrayView2<'_, f64>, b: ArrayView2<'_, f64>, c: &mut ArrayViewMut2<'_, f64>) {
    general_mat_mul(-1.0, &a, &b.t(), 1.0, c);
}

/// Returns the dot product of two rows, which must be contiguous.
fn dot(a: Option<&[f64]>, b: Option<&[f64]>) -> f64 {
    a.into_iter().flatten().zip(b.into_iter().flatten()).map(|(a, b)| a * b).sum()
}
