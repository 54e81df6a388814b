//! The sparse matrix of NPB CG, in compressed rows.
//!
//! A = Σᵢ wᵢ xᵢ xᵢᵀ + (rcond − shift) I, where the xᵢ are sparse random vectors and the weights wᵢ
//! fall geometrically from 1 to rcond (NASA report RNR-94-007, section 2.4). It is built row by
//! row with a sparse accumulator: row r is the sum of the vectors that have an entry in r, each
//! scaled by that entry. So no triplets are stored, sorted or merged: besides the result there are
//! only the vectors and one dense row.
//!
//! Invariants: columns ascend strictly within a row; every duplicate is summed in the order of i,
//! which makes the matrix the same to the last bit on every machine.

use std::ops::Range;

use super::classes::{Problem, RCOND};
use super::kernels::Rows;
use super::random::Random;

/// A square sparse matrix in compressed row storage.
#[derive(Debug)]
pub struct Matrix {
    /// Where the entries of each row start; one more than there are rows.
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

    /// The order of the matrix.
    pub fn rows(&self) -> usize {
        self.offsets.len() - 1
    }

    /// The number of stored entries.
    pub fn nonzeros(&self) -> usize {
        self.values.len()
    }

    /// Where the entries of a range of rows lie in `columns` and `values`.
    pub fn entries(&self, rows: &Range<usize>) -> Range<usize> {
        self.offsets[rows.start] as usize..self.offsets[rows.end] as usize
    }

    /// A range of rows.
    pub fn block(&self, rows: &Range<usize>) -> Rows<'_> {
        let entries = self.entries(rows);
        let (columns, values) = (&self.columns[entries.clone()], &self.values[entries]);
        Rows { offsets: &self.offsets[rows.start..=rows.end], columns, values }
    }

    /// Cuts the rows into at most `blocks` ranges with about equally many entries; none is empty.
    pub fn row_blocks(&self, blocks: usize) -> Vec<Range<usize>> {
        cut(&self.offsets, blocks)
    }
}

/// Cuts rows whose entries start there into at most `blocks` ranges with about equally many; none is empty.
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
/// Two numbers are drawn for each attempt, the value and then the position, and stay consumed when
/// the position is out of range or taken.
fn sparse_vectors(n: usize, entries: usize) -> Vec<SparseVector> {
    let positions = n.next_power_of_two().max(2) as f64;
    let mut random = Random::new();
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

/// The same entries by position: which vectors have an entry there, in ascending order.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classes::Class;

    /// All numbers are from an independent implementation of the specification.
    #[test]
    fn the_first_vector_of_class_s() {
        let Problem { rows, entries_per_vector, .. } = Class::S.problem();
        let first = &sparse_vectors(rows, entries_per_vector)[0];
        let columns: Vec<u32> = first.iter().map(|entry| entry.0 + 1).collect();
        assert_eq!(columns, [1327, 37, 1033, 43, 887, 658, 495, 1]);
        let values: Vec<f64> = first.iter().map(|entry| entry.1).collect();
        let expected = [
            0.8690652738745399,
            0.7855626502289539,
            0.4053770072096228,
            0.30401010484889923,
            0.8883132657115453,
            0.22690187699880937,
            0.8869505025979976,
            0.5,
        ];
        assert_eq!(values, expected);
    }

    #[test]
    fn the_matrix_of_class_s() {
        let matrix = Matrix::generate(&Class::S.problem());
        assert_eq!((matrix.rows(), matrix.nonzeros()), (1_400, 78_148));
        assert_eq!(matrix.offsets[1], 43);
        assert_eq!(matrix.columns[..3], [0, 1, 36]);
        let expected = [-8.827405531242738, 0.08061892944739288, 0.39278132511447694];
        for (got, expected) in matrix.values.iter().zip(expected) {
            assert!((got - expected).abs() < 1e-14, "{got}");
        }
        let last = matrix.entries(&(1_399..1_400));
        let diagonal = last.clone().find(|&k| matrix.columns[k] == 1_399).expect("a diagonal");
        assert!((matrix.values[diagonal] + 8.622947582837343).abs() < 1e-13);
    }

    #[test]
    fn rows_ascend_and_the_matrix_is_symmetric() {
        let matrix = Matrix::generate(&Class::S.problem());
        let row = |row: usize| matrix.entries(&(row..row + 1));
        let entry = |at: usize, column: u32| {
            let found = matrix.columns[row(at)].binary_search(&column).ok()?;
            Some(matrix.values[row(at).start + found])
        };
        for at in 0..matrix.rows() {
            assert!(matrix.columns[row(at)].is_sorted_by(|a, b| a < b));
            for k in row(at) {
                let mirrored = entry(matrix.columns[k] as usize, at as u32).expect("symmetric structure");
                assert!((mirrored - matrix.values[k]).abs() < 1e-14);
            }
        }
    }

    #[test]
    fn blocks_cover_the_rows_in_order_and_evenly() {
        let matrix = Matrix::generate(&Class::S.problem());
        for count in [1, 3, 8, 5_000] {
            let blocks = matrix.row_blocks(count);
            assert_eq!((blocks[0].start, blocks[blocks.len() - 1].end), (0, matrix.rows()));
            assert!(blocks.windows(2).all(|pair| pair[0].end == pair[1].start));
            assert!(blocks.iter().all(|rows| !rows.is_empty()));
            assert!(blocks.len() <= count);
        }
        let largest = matrix.row_blocks(8).iter().map(|rows| matrix.entries(rows).len()).max();
        assert!(largest < Some(matrix.nonzeros() / 8 + 200));
    }
}
