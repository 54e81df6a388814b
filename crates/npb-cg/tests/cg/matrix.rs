//! Compares the matrix with numbers from an independent implementation of the specification.

use npb_cg::matrix::sparse_vectors;
use npb_cg::{Class, Matrix, Problem};

/// All numbers are from an independent implementation of the specification.
#[test]
fn first_vector_of_class_s_matches_reference() {
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
fn matrix_of_class_s_matches_reference() {
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
fn rows_ascend_and_matrix_is_symmetric() {
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
fn blocks_cover_rows_in_order_and_evenly() {
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
