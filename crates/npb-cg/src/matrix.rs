//! The sparse matrix of NPB CG, in compressed rows.
//!
//! A = Σᵢ wᵢ xᵢ xᵢᵀ + (rcond − shift) I, where the xᵢ are sparse random vectors and the weights wᵢ fall
//! geometrically from 1 to rcond (NASA report RNR-94-007, section 2.4). The matrix is built row by row with a
//! sparse accumulator: row r is the sum of the vectors that have an entry in r, each scaled by that entry. So no
//! triplets are stored, sorted or merged, and the only temporary storage consists of the vectors and one dense row.
//!
//! Invariants: columns are strictly ascending within a row; duplicates are summed in the order of i, so the matrix
//! is identical to the last bit on every machine.

use std::ops::Range;

use super::classes::{Problem, RCOND};
use super::kernels::Rows;
use super::random::Random;

/// A square sparse matrix in compressed row storage.
#[derive(Debug)]
pub struct Matrix {
    /// Index of the first entry of each row, plus one extra element for the end of the last row.
    pub offsets: Vec<u32>,
    /// The column of each entry.
    pub columns: Vec<u32>,
    /// The value of each entry.
    pub values: Vec<f64>,
}

impl Matrix {
    /// Generates the matrix of a problem (`makea` in the reference implementation).
    pub fn generate(problem: &Problem) -> Self {
        let n = problem.rows;
        let vectors = sparse_vectors(n, problem.entries_per_vector);
        let users = Transpose::of(&vectors, n);
        let decay = RCOND.powf(1.0 / n as f64);
        let weights: Vec<f64> = std::iter::successors(Some(1.0), |w| Some(w * decay)).take(n).collect();

        let bound = vectors.iter().map(|v| v.len() * v.len()).sum();
        let mut matrix = Self {
            offsets: Vec::with_capacity(n + 1),
            columns: Vec::with_capacity(bound),
            values: Vec::with_capacity(bound),
        };
        matrix.offsets.push(0);
        let mut sums = vec![0.0; n];
        let mut seen_in = vec![usize::MAX; n];
        for row in 0..n {
            let start = matrix.columns.len();
            for &(vector, entry) in users.row(row) {
                let scale = weights[vector as usize] * entry;
                for &(column, value) in &vectors[vector as usize] {
                    let at = column as usize;
                    let mut product = value * scale;
                    if at == row && vector as usize == row {
                        product += RCOND - problem.shift;
                    }
                    if seen_in[at] == row {
                        sums[at] += product;
                    } else {
                        seen_in[at] = row;
                        sums[at] = product;
                        matrix.columns.push(column);
                    }
                }
            }
            let columns = &mut matrix.columns[start..];
            columns.sort_unstable();
            matrix.values.extend(columns.iter().map(|&column| sums[column as usize]));
            matrix.offsets.push(matrix.columns.len() as u32);
        }
        matrix.columns.shrink_to_fit();
        matrix.values.shrink_to_fit();
        matrix
    }

    /// Returns the order of the matrix.
    pub fn rows(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Returns the number of stored entries.
    pub fn nonzeros(&self) -> usize {
        self.values.len()
    }

    /// Returns the index range in `columns` and `values` of the entries in a range of rows.
    pub fn entries(&self, rows: &Range<usize>) -> Range<usize> {
        self.offsets[rows.start] as usize..self.offsets[rows.end] as usize
    }

    /// Returns a range of rows as a block.
    pub fn block(&self, rows: &Range<usize>) -> Rows<'_> {
        let entries = self.entries(rows);
        let (columns, values) = (&self.columns[entries.clone()], &self.values[entries]);
        Rows { offsets: &self.offsets[rows.start..=rows.end], columns, values }
    }

    /// Divides the rows into at most `blocks` non-empty ranges with about the same number of entries.
    pub fn row_blocks(&self, blocks: usize) -> Vec<Range<usize>> {
        cut(&self.offsets, blocks)
    }
}

/// Divides rows into at most `blocks` non-empty ranges with about the same number of entries. `offsets` has the
/// start of each row's entries.
pub(crate) fn cut(offsets: &[u32], blocks: usize) -> Vec<Range<usize>> {
    let entries = u64::from(offsets[offsets.len() - 1]);
    let cut = |block: usize| {
        let target = (entries * block as u64 / blocks as u64) as u32;
        offsets.partition_point(|&offset| offset < target)
    };
    let cuts: Vec<usize> = (0..=blocks).map(cut).collect();
    cuts.windows(2).map(|pair| pair[0]..pair[1]).filter(|rows| !rows.is_empty()).collect()
}

/// One sparse vector: positions (0-based, in the order drawn) and values.
type SparseVector = Vec<(u32, f64)>;

/// Draws the n sparse vectors: `entries` random positions each, then ½ at the vector's own index.
///
/// Each attempt draws two numbers, first the value and then the position. Both remain consumed even if the position
/// is out of range or taken.
pub fn sparse_vectors(n: usize, entries: usize) -> Vec<SparseVector> {
    let positions = n.next_power_of_two().max(2) as f64;
    let mut random = Random::default();
    random.draw();
    let draw_vector = |own: usize| {
        let mut vector = SparseVector::with_capacity(entries + 1);
        while vector.len() < entries {
            let (value, position) = (random.draw(), random.draw());
            let position = (positions * position) as usize;
            if position < n && vector.iter().all(|&(taken, _)| taken as usize != position) {
                vector.push((position as u32, value));
            }
        }
        match vector.iter_mut().find(|(at, _)| *at as usize == own) {
            Some((_, value)) => *value = 0.5,
            None => vector.push((own as u32, 0.5)),
        }
        vector
    };
    (0..n).map(draw_vector).collect()
}

/// The vectors' entries indexed by position: for each position, the vectors with an entry there, in ascending
/// order.
struct Transpose {
    starts: Vec<usize>,
    entries: Vec<(u32, f64)>,
}

impl Transpose {
    fn of(vectors: &[SparseVector], n: usize) -> Self {
        let mut starts = vec![0; n + 1];
        for &(position, _) in vectors.iter().flatten() {
            starts[position as usize + 1] += 1;
        }
        for row in 0..n {
            starts[row + 1] += starts[row];
        }
        let mut next = starts.clone();
        let mut entries = vec![(0, 0.0); starts[n]];
        for (index, vector) in vectors.iter().enumerate() {
            for &(position, value) in vector {
                let slot = &mut next[position as usize];
                entries[*slot] = (index as u32, value);
                *slot += 1;
            }
        }
        Self { starts, entries }
    }

    fn row(&self, row: usize) -> &[(u32, f64)] {
        &self.entries[self.starts[row]..self.starts[row + 1]]
    }
}
