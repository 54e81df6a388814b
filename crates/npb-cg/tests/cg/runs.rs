//! The matrix, the kernels and the tasks, compared with published and independent values.

use npb_cg::{Class, EPSILON, Matrix, Problem, Solver, Storage, kernels};
use thalweg::Runtime;

use crate::serial;

const STORAGES: [Storage; 3] = [Storage::Rows, Storage::Sliced, Storage::Symmetric];

fn class(class: Class) -> (Problem, Matrix) {
    let problem = class.problem();
    let matrix = Matrix::generate(&problem);
    (problem, matrix)
}

fn assert_close(got: f64, expected: f64, tolerance: f64) {
    let error = ((got - expected) / expected).abs();
    assert!(error <= tolerance, "{got} instead of {expected}, off by {error:.1e}");
}

/// Entry counts and ζ after the first three steps, from an independent implementation.
#[test]
fn serial_method_reproduces_first_steps() {
    for (name, entries, zetas) in [
        (Class::S, 78_148, [9.9986441579140, 8.5733279203222, 8.5954510374058]),
        (Class::W, 508_402, [11.9997003727381, 10.3457275664058, 10.3617880137963]),
    ] {
        let (problem, matrix) = class(name);
        assert_eq!(matrix.nonzeros(), entries);
        for (got, expected) in serial::zetas(&problem, &matrix, 3).into_iter().zip(zetas) {
            assert_close(got, expected, 1e-13);
        }
    }
}

#[test]
fn serial_method_is_verified_in_class_s() {
    let (problem, matrix) = class(Class::S);
    let zetas = serial::zetas(&problem, &matrix, problem.iterations);
    assert_close(zetas[problem.iterations - 1], problem.zeta, EPSILON);
}

#[test]
fn kernels_match_plain_product_on_every_block() {
    let (problem, matrix) = class(Class::S);
    let p: Vec<f64> = (0..problem.rows).map(|i| (i as f64).sin()).collect();
    let x: Vec<f64> = (0..problem.rows).map(|i| (i as f64).cos()).collect();
    let expected = serial::multiply(&matrix, &p);
    for rows in matrix.row_blocks(7) {
        let block = matrix.block(&rows);
        let (own, expected) = (&p[rows.clone()], &expected[rows.clone()]);
        let mut q = vec![0.0; rows.len()];
        let sum = kernels::multiply(block, &p, own, &mut q);
        for (got, expected) in q.iter().zip(expected) {
            assert!((got - expected).abs() < 1e-12);
        }
        let expected_sum: f64 = own.iter().zip(expected).map(|(p, q)| p * q).sum();
        assert_close(sum, expected_sum, 1e-12);

        let x = &x[rows.clone()];
        let norms = kernels::norms(block, x, &p, own);
        let residual: f64 = x.iter().zip(expected).map(|(x, q)| (x - q) * (x - q)).sum();
        assert_close(norms.residual, residual, 1e-12);
        assert_close(norms.x_dot_z, x.iter().zip(own).map(|(x, z)| x * z).sum(), 1e-12);
        assert_close(norms.z_dot_z, own.iter().map(|z| z * z).sum(), 1e-12);
    }
}

/// Whether the tasks of a step are submitted or replayed.
#[derive(Clone, Copy, Debug)]
enum Steps {
    Submitted,
    Replayed,
}

/// Returns ζ and the residual of every step of class S, computed by tasks.
fn by_tasks(units: &str, blocks: usize, steps: Steps, storage: Storage) -> Vec<(f64, f64)> {
    let rt = Runtime::builder().compute_units(units).use_current_thread(true).build().unwrap();
    let (problem, matrix) = class(Class::S);
    let solver = Solver::new(&rt, &problem, matrix, blocks, storage).unwrap();
    assert_eq!(solver.storage(), storage);
    solver.reset().unwrap();
    let mut solve = solver.record().unwrap();
    for step in 0..problem.iterations {
        match steps {
            Steps::Submitted => solver.step(step).unwrap(),
            Steps::Replayed => solver.replayed_step(&mut solve, step).unwrap(),
        }
    }
    (0..problem.iterations).map(|step| solver.outcome(step).unwrap()).collect()
}

#[test]
fn tasks_match_serial_method_at_every_step() {
    let (problem, matrix) = class(Class::S);
    let expected = serial::zetas(&problem, &matrix, problem.iterations);
    for (blocks, storage) in STORAGES.into_iter().flat_map(|storage| [(1, storage), (5, storage)]) {
        let found = by_tasks("2:CPU:1", blocks, Steps::Submitted, storage);
        for ((zeta, residual), expected) in found.into_iter().zip(&expected) {
            assert_close(zeta, *expected, 1e-13);
            assert!(residual < 1e-10, "{residual}");
        }
    }
}

#[test]
fn submitted_and_replayed_steps_give_same_bits_on_any_units() {
    for storage in STORAGES {
        let expected = by_tasks("2:CPU:1", 6, Steps::Submitted, storage);
        assert_close(expected[14].0, Class::S.problem().zeta, EPSILON);
        for units in ["2:CPU:1", "1:CPU:2", "1:CPU:1,2:EMU:1"] {
            for steps in [Steps::Submitted, Steps::Replayed] {
                assert_eq!(by_tasks(units, 6, steps, storage), expected, "{units}, {steps:?}, {storage:?}");
            }
        }
    }
}
