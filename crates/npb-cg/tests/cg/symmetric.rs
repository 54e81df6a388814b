//! Products with one triangle of a matrix.

use std::ops::Range;

use npb_cg::kernels::Product;
use npb_cg::sliced::{STRIP, WINDOW};
use npb_cg::symmetric::{Symmetric, below_diagonal, row_blocks};
use npb_cg::{Class, Matrix};

use crate::serial;

/// Creates a symmetric matrix of `rows` rows, where row `r` has `below(r)` entries below the diagonal.
fn matrix(rows: usize, below: impl Fn(usize) -> usize) -> Matrix {
    let mut entries = vec![Vec::new(); rows];
    for row in 0..rows {
        let count = below(row).min(row);
        // Spread the entries over all columns, using each column at most once.
        for column in (0..count).map(|n| n * row / count) {
            let value = (column as f64).sin() + row as f64 / rows as f64;
            entries[row].push((column as u32, value));
            entries[column].push((row as u32, value));
        }
        // Some rows have no entry on the diagonal.
        if !row.is_multiple_of(3) {
            entries[row].push((row as u32, row as f64));
        }
    }
    let mut matrix = Matrix { offsets: vec![0], columns: vec![], values: vec![] };
    for row in entries {
        let (columns, values): (Vec<_>, Vec<_>) = row.into_iter().unzip();
        assert!(columns.is_sorted());
        matrix.columns.extend(columns);
        matrix.values.extend(values);
        matrix.offsets.push(matrix.columns.len() as u32);
    }
    matrix
}

/// Returns the sum of the blocks' shares of a product.
fn product(matrix: &Matrix, blocks: &[Range<usize>], vector: &[f64]) -> Vec<f64> {
    let mut symmetric = Symmetric::default();
    let parts: Vec<_> = blocks.iter().map(|rows| symmetric.push(matrix, rows.clone())).collect();
    let mut product = vec![0.0; matrix.rows()];
    for (rows, part) in blocks.iter().zip(&parts) {
        let mut share = vec![f64::NAN; rows.end];
        symmetric.block(rows, part).times(&vector[..rows.end], &mut share);
        product.iter_mut().zip(share).for_each(|(product, share)| *product += share);
    }
    product
}

#[test]
fn shares_add_up_to_product() {
    let empty = |_| 0;
    let uneven = |row: usize| if row.is_multiple_of(97) { row / 2 } else { row % 13 };
    let matrices = [matrix(1, empty), matrix(7, |row| row), matrix(9, empty), matrix(STRIP + 1, uneven)];
    // Sizes: one window, one window plus one column, two windows, and many strips.
    let sizes = [WINDOW, WINDOW + 1, 2 * WINDOW, 10_000];
    for mut matrix in matrices.into_iter().chain(sizes.map(|rows| matrix(rows, uneven))) {
        let vector: Vec<f64> = (0..matrix.rows()).map(|row| (row as f64).cos()).collect();
        let expected = serial::multiply(&matrix, &vector);
        // Entries above the diagonal are not read.
        for row in 0..matrix.rows() {
            for entry in matrix.entries(&(row..row + 1)) {
                if matrix.columns[entry] as usize > row {
                    matrix.values[entry] = f64::NAN;
                }
            }
        }
        for blocks in [1, 3, 50] {
            let found = product(&matrix, &row_blocks(&matrix, blocks), &vector);
            for (found, expected) in found.iter().zip(&expected) {
                assert!((found - expected).abs() <= 1e-9 * (1.0 + expected.abs()), "{found}, not {expected}");
            }
        }
    }
}

#[test]
fn blocks_cover_rows_in_order_and_evenly() {
    let matrix = Matrix::generate(&Class::S.problem());
    for count in [1, 3, 8, 5_000] {
        let blocks = row_blocks(&matrix, count);
        assert_eq!((blocks[0].start, blocks[blocks.len() - 1].end), (0, matrix.rows()));
        assert!(blocks.windows(2).all(|pair| pair[0].end == pair[1].start));
        assert!(blocks.iter().all(|rows| !rows.is_empty()));
        assert!(blocks.len() <= count);
    }
    let entries = |rows: &Range<usize>| rows.clone().map(|row| 1 + below_diagonal(&matrix, row).0.len()).sum();
    let largest: Option<usize> = row_blocks(&matrix, 8).iter().map(entries).max();
    assert!(largest < Some(matrix.nonzeros() / 16 + 200), "{largest:?}");
}
