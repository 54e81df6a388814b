//! The matrix stored as one triangle, for cores. A symmetric matrix contains each off-diagonal entry twice, and
//! here only the one below the diagonal is stored. So a product reads half as many bytes, which pays off if the
//! matrix comes from memory.
//!
//! An entry at (i, j) contributes to element i of the product and, with the same value, to element j. The diagonal
//! is a separate array. The entries below it are in slices (`sliced.rs`): row sums are computed as usual, and each
//! entry also adds to its column's element at once.
//!
//! A block of rows also contributes to the elements of all earlier rows. So that blocks need not wait for each
//! other, each block writes a separate vector, the block's *share* of the product, which ends with the block's last
//! row. Code that uses the product adds up the shares in block order. The cost is that, with b blocks of a matrix
//! of order n, about 2/3 b n numbers are written and read.
//!
//! Measured on two Zen 4 cores that share 32 MiB of cache, one block each, compared with slices of the whole
//! matrix: class B, whose slices take 140 MB, needs 0.26 ns per entry, down from 0.40, and on one core 0.52, down
//! from 0.84. If a cache holds the matrix, there is little to gain, because an entry whose column's element is also
//! updated takes as long as two other entries: class W runs at 0.8 times the rate, class A at 0.9 times on two
//! cores and at the same rate on one core. Therefore `storage.rs` uses one triangle only for large matrices. The
//! rule is fixed, because the shares and therefore the last digits of the product depend on the division into
//! blocks.
//!
//! NPB's matrix is symmetric except for rounding errors in sums; its entries above the diagonal are not read.
//!
//! Invariants: a block's slices, entries and diagonal are contiguous; a share depends only on the block's rows, not
//! on the machine or unit.

use std::ops::Range;

use super::kernels::Product;
use super::matrix::{Matrix, cut};
use super::sliced::{LANES, Part, STRIP, Slice, Sliced, Slices, WINDOW, in_words, windows, words};

/// The triangles of blocks of rows, starting with the first block.
#[derive(Debug, Default)]
pub struct Symmetric {
    /// The diagonal's entries, one per row of the matrix.
    pub diagonal: Vec<f64>,
    /// The entries below the diagonal.
    pub below: Sliced,
}

impl Symmetric {
    /// Adds the next block of rows; returns the position of its slices. Its part of the diagonal is at the indices
    /// of its rows.
    pub fn push(&mut self, matrix: &Matrix, rows: Range<usize>) -> Part {
        let begin = self.below.end();
        for first in rows.clone().step_by(STRIP) {
            let strip = first..rows.end.min(first + STRIP);
            let (left, diagonal): (Vec<_>, Vec<_>) = strip.clone().map(|row| below_diagonal(matrix, row)).unzip();
            self.diagonal.extend(diagonal);
            self.below.push_strip(matrix, left, windows(strip.end, rows.end));
        }
        self.below.part(begin)
    }

    /// Returns the block with these rows, whose slices are at `part`.
    pub fn block(&self, rows: &Range<usize>, part: &Part) -> Triangle<'_> {
        Triangle { diagonal: &self.diagonal[rows.clone()], below: self.below.slices(part) }
    }
}

/// Returns the range of a row's entries below the diagonal, and the value of the entry on it.
pub fn below_diagonal(matrix: &Matrix, row: usize) -> (Range<usize>, f64) {
    let entries = matrix.entries(&(row..row + 1));
    let columns = &matrix.columns[entries.clone()];
    let end = entries.start + columns.partition_point(|&column| (column as usize) < row);
    let on = end < entries.end && matrix.columns[end] as usize == row;
    (entries.start..end, if on { matrix.values[end] } else { 0.0 })
}

/// Divides a matrix's rows into at most `blocks` non-empty ranges with about the same number of entries on and
/// below the diagonal.
pub fn row_blocks(matrix: &Matrix, blocks: usize) -> Vec<Range<usize>> {
    let mut offsets = vec![0];
    offsets.extend((0..matrix.rows()).scan(0, |end, row| {
        *end += 1 + below_diagonal(matrix, row).0.len() as u32;
        Some(*end)
    }));
    cut(&offsets, blocks)
}

/// A block's part of [`Symmetric`].
#[derive(Clone, Copy, Debug)]
pub struct Triangle<'a> {
    /// The diagonal's entries, one per row.
    pub diagonal: &'a [f64],
    /// The entries below the diagonal.
    pub below: Slices<'a>,
}

/// Both vectors end with the block's last row, and the product is the block's share.
impl Product for Triangle<'_> {
    fn times(self, vector: &[f64], product: &mut [f64]) {
        let end = product.len();
        let rows = end - self.diagonal.len()..end;
        if end >= WINDOW {
            return self.compute(rows, vector, product);
        }
        // Pad the vectors to a whole window.
        let [mut of_vector, mut of_product] = [[0.0; WINDOW]; 2];
        of_vector[..end].copy_from_slice(vector);
        self.compute(rows, &of_vector, &mut of_product);
        product.copy_from_slice(&of_product[..end]);
    }
}

impl Triangle<'_> {
    /// Computes [`Product::times`] for the block with these rows. The vectors must be at least a window long.
    fn compute(self, rows: Range<usize>, vector: &[f64], product: &mut [f64]) {
        product[..rows.start].fill(0.0);
        for ((product, on), x) in product[rows.clone()].iter_mut().zip(self.diagonal).zip(&vector[rows.clone()]) {
            *product = on * x;
        }
        let mut slices = self.below.each();
        for first in rows.clone().step_by(STRIP) {
            let strip = first..rows.end.min(first + STRIP);
            for window in windows(strip.end, vector.len()) {
                let of_vector = vector[window.clone()].first_chunk().expect("a window");
                for slice in slices.by_ref().take(strip.len().div_ceil(LANES)) {
                    let of_product = product[window.clone()].first_chunk_mut().expect("a window");
                    let sums = add(slice, &vector[strip.clone()], of_vector, of_product);
                    slice.add(sums, &mut product[strip.clone()]);
                }
            }
        }
    }
}

/// Adds the contributions of a slice's entries to a window of the product; returns the sums of the slice's rows
/// within the window of the vector.
///
/// This processes half of the rows at a time so that their numbers and sums stay in registers, of which all
/// processors have enough for that. Compiled for AVX2, it is no faster. Compiled for AVX-512, it takes 1.4 times as
/// long, because compilers use the gather instruction.
#[inline(always)]
fn add(slice: Slice<'_>, strip: &[f64], vector: &[f64; WINDOW], product: &mut [f64; WINDOW]) -> [f64; LANES] {
    let own = slice.places.map(|place| strip.get(place as usize).copied().unwrap_or(0.0));
    let mut sums = [0.0; LANES];
    for half in [0..LANES / 2, LANES / 2..LANES] {
        for (columns, values) in slice.entries() {
            let words = words(columns);
            for lane in half.clone() {
                let column = in_words(words, lane) as usize % WINDOW;
                sums[lane] += values[lane] * vector[column];
                product[column] += values[lane] * own[lane];
            }
        }
    }
    sums
}
