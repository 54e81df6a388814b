//! The matrix as one triangle, for cores: a symmetric matrix has each entry beside its diagonal twice, and here it stands once,
//! below. So a product reads half of the bytes: what counts where the matrix comes from memory.
//!
//! An entry at (i, j) adds to element i of the product, and with the same value to element j. The diagonal is an array of its
//! own; what is below it lies in slices (`sliced.rs`), whose sums are those of rows as ever, while each entry adds to its
//! column's element at once.
//!
//! A block of rows adds to elements of all rows before it as well. So that blocks need not wait for each other, each writes a
//! vector of its own, the block's *share* of the product, which ends with the block's last row. Who needs the product adds the
//! shares up, in the order of the blocks. That is a price: with b blocks of a matrix of order n, about 2/3 b n numbers are
//! written and read.
//!
//! Measured on two Zen 4 cores with 32 MiB of cache that both share, a block each, against slices of the whole matrix: class B,
//! whose slices have 140 MB, takes 0.26 ns an entry, not 0.40, and on one core 0.52, not 0.84. Where a cache holds the matrix
//! there is little to gain, because an entry that is also stored to takes as long as two that are not: class W has 0.8 times the
//! rate, class A 0.9 times on two cores and as much on one. Therefore `storage.rs` takes it for large matrices only; and by a
//! rule, because shares depend on where blocks are cut, and so do the last digits of the product.
//!
//! Of NPB's matrix, which is symmetric but for the rounding of sums, what is above the diagonal is not read.
//!
//! Invariants: a block's slices, entries and diagonal are contiguous; a share depends on the block's rows alone, not on which
//! machine or unit.

use std::ops::Range;

use super::kernels::Product;
use super::matrix::{Matrix, cut};
use super::sliced::{LANES, Part, STRIP, Slice, Sliced, Slices, WINDOW, in_words, windows, words};

/// Blocks of rows, from the first one on.
#[derive(Debug, Default)]
pub struct Symmetric {
    /// The diagonal's entries.
    pub diagonal: Vec<f64>,
    /// Those below.
    pub below: Sliced,
}

impl Symmetric {
    /// Adds the next block of rows; where its slices lie. Its part of the diagonal is at its rows.
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

    /// The block with these rows, whose slices lie there.
    pub fn block(&self, rows: &Range<usize>, part: &Part) -> Triangle<'_> {
        Triangle { diagonal: &self.diagonal[rows.clone()], below: self.below.slices(part) }
    }
}

/// Where a row's entries below the diagonal lie, and the value of the one on it.
pub fn below_diagonal(matrix: &Matrix, row: usize) -> (Range<usize>, f64) {
    let entries = matrix.entries(&(row..row + 1));
    let columns = &matrix.columns[entries.clone()];
    let end = entries.start + columns.partition_point(|&column| (column as usize) < row);
    let on = end < entries.end && matrix.columns[end] as usize == row;
    (entries.start..end, if on { matrix.values[end] } else { 0.0 })
}

/// Cuts a matrix's rows into at most `blocks` ranges with about equally many entries on the diagonal and below; none is empty.
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
    /// The diagonal's entries, as many as there are rows.
    pub diagonal: &'a [f64],
    /// Those below.
    pub below: Slices<'a>,
}

/// Both vectors end with the block's last row; the product is the block's share.
impl Product for Triangle<'_> {
    fn times(self, vector: &[f64], product: &mut [f64]) {
        let end = product.len();
        let rows = end - self.diagonal.len()..end;
        if end >= WINDOW {
            return self.compute(rows, vector, product);
        }
        // Filled up, so that there is a window.
        let [mut of_vector, mut of_product] = [[0.0; WINDOW]; 2];
        of_vector[..end].copy_from_slice(vector);
        self.compute(rows, &of_vector, &mut of_product);
        product.copy_from_slice(&of_product[..end]);
    }
}

impl Triangle<'_> {
    /// [`Product::times`] for the block with these rows and vectors of at least a window.
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

/// Adds what a slice's entries add to a window of the product; the sums of the slice's rows within the window of the vector.
///
/// Half of the rows at a time: their numbers and sums stay in registers, of which all processors have as many as that takes.
/// Compiled for AVX2 it is no faster, and for AVX-512, where compilers take the instruction that gathers, it takes 1.4 times
/// as long.
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
