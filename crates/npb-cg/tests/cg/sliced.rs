//! Products with a matrix in slices.

use npb_cg::gather::Gather;
use npb_cg::kernels::Product;
use npb_cg::sliced::{STRIP, Sliced, WINDOW};
use npb_cg::{Class, Matrix};

use crate::serial;

/// Creates a matrix of `rows` rows, where row `r` has `entries(r)` entries.
fn matrix(rows: usize, entries: impl Fn(usize) -> usize) -> Matrix {
    let mut matrix = Matrix { offsets: vec![0], columns: vec![], values: vec![] };
    for row in 0..rows {
        let count = entries(row).min(rows);
        // Spread the entries over all columns, using each column at most once.
        let mut columns: Vec<u32> = (0..count).map(|n| ((n * rows / count.max(1) + row) % rows) as u32).collect();
        columns.sort_unstable();
        matrix.values.extend(columns.iter().map(|&column| f64::from(column).sin() + row as f64 / rows as f64));
        matrix.columns.extend(columns);
        matrix.offsets.push(matrix.columns.len() as u32);
    }
    matrix
}

#[test]
fn sliced_products_match_plain_products() {
    let empty = |_| 0;
    let uneven = |row: usize| if row.is_multiple_of(97) { row } else { row % 13 };
    let matrices = [matrix(1, |_| 1), matrix(7, |row| row), matrix(9, empty), matrix(STRIP + 1, uneven)];
    // Sizes: one window plus one column, two windows, and many strips.
    for matrix in matrices.into_iter().chain([WINDOW + 1, 2 * WINDOW, 10_000].map(|rows| matrix(rows, uneven))) {
        let vector: Vec<f64> = (0..matrix.rows()).map(|row| (row as f64).cos()).collect();
        let expected = serial::multiply(&matrix, &vector);
        let mut one = Vec::new();
        for blocks in [1, 3] {
            let mut sliced = Sliced::default();
            let cut = |n: usize| matrix.rows() * n / blocks;
            let parts: Vec<_> =
                (0..blocks).map(|n| (cut(n)..cut(n + 1), sliced.push(&matrix, cut(n)..cut(n + 1)))).collect();
            let mut product = vec![f64::NAN; matrix.rows()];
            for (rows, part) in parts {
                sliced.slices(&part).times(&vector, &mut product[rows]);
            }
            for (found, expected) in product.iter().zip(&expected) {
                assert!((found - expected).abs() <= 1e-10 * (1.0 + expected.abs()), "{found}, not {expected}");
            }
            if blocks == 1 {
                let all = sliced.part((0, 0));
                for gather in Gather::all() {
                    let mut other = vec![f64::NAN; matrix.rows()];
                    sliced.slices(&all).times_by(gather, &vector, &mut other);
                    assert_eq!(product, other, "{gather:?} changes sums");
                }
                one = product;
            } else {
                assert_eq!(product, one, "the division into blocks changes sums");
            }
        }
    }
}

#[test]
fn padding_is_at_most_three_percent() {
    let matrix = Matrix::generate(&Class::S.problem());
    let mut sliced = Sliced::default();
    sliced.push(&matrix, 0..matrix.rows());
    assert!(sliced.values.len() * 100 <= matrix.nonzeros() * 103, "{} of {}", sliced.values.len(), matrix.nonzeros());
    assert_eq!(sliced.values.iter().filter(|value| **value != 0.0).count(), matrix.nonzeros());
}
