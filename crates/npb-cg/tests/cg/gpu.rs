//! Compares every kernel with the corresponding Rust function on the rows of a real matrix, and then verifies whole
//! runs on accelerators.
//!
//! Vectors are whole arrays on the accelerator. Kernels get one block of a vector, and the rest must stay
//! unchanged.

use std::ops::Range;

use npb_cg::gpu::{self, Enqueued, Rows};
use npb_cg::{Class, Matrix, Problem, Solver, kernels};
use thalweg::prelude::*;

use crate::testing::accelerated;

/// Everything is in one test, so that the kernels are compiled one after the other before runs launch several of
/// them at the same time.
#[test]
fn kernels_match_host_functions() {
    let Some(rt) = accelerated("1:OPENCL:1") else { return };
    let problem = Class::S.problem();
    let matrix = Matrix::generate(&problem);
    for rows in matrix.row_blocks(7) {
        products(&rt, &matrix, rows.clone());
        vectors(&rt, problem.rows, rows);
    }
    scalars(&rt);
    drop(rt);
    for units in ["1:OPENCL:1", "1:CPU:1,1:OPENCL:1"] {
        run_is_verified(&problem, units);
    }
    for blocks in [1, 5] {
        steps_copy_nothing(&problem, blocks);
    }
}

/// Variant with so few rows that a device simulator can run it.
#[test]
#[ignore = "run under Oclgrind by another test"]
fn kernels_on_few_rows() {
    let rt = accelerated("1:OPENCL:1").expect("the simulator is there");
    let problem = Problem { rows: 70, entries_per_vector: 3, ..Class::S.problem() };
    let matrix = Matrix::generate(&problem);
    for rows in matrix.row_blocks(2) {
        products(&rt, &matrix, rows.clone());
        vectors(&rt, problem.rows, rows);
    }
    scalars(&rt);
}

fn products(rt: &Runtime, matrix: &Matrix, rows: Range<usize>) {
    let (p, x, q) = (numbers(matrix.rows(), 1), numbers(matrix.rows(), 2), numbers(matrix.rows(), 3));
    let (entries, offsets) = (matrix.entries(&rows), rows.start..rows.end + 1);
    let block = matrix.block(&rows);
    let mut expected = q.clone();
    let expected_sum = kernels::multiply(block, &p, &p[rows.clone()], &mut expected[rows.clone()]);
    let norms = kernels::norms(block, &x[rows.clone()], &p, &p[rows.clone()]);

    let (all_offsets, columns) = (placed(rt, matrix.offsets.clone()), placed(rt, matrix.columns.clone()));
    let (values, p, x, q) = (placed(rt, matrix.values.clone()), placed(rt, p), placed(rt, x), placed(rt, q));
    let (sum, sums) = (rt.scalar(0.5), [(); 3].map(|()| rt.scalar(0.0)));
    let of_block = || {
        (
            all_offsets.slice(offsets.clone()).input(),
            columns.slice(entries.clone()).input(),
            values.slice(entries.clone()),
        )
    };
    let first = rows.start;
    let (offsets, columns, values) = of_block();
    rt.task(
        "multiply",
        (offsets, columns, values.input(), p.input(), q.slice(rows.clone()).output(), sum.reduction(Sum)),
    )
    .gpu(move |k, (offsets, columns, values, p, mut q, mut sum)| {
        let rows = Rows { offsets: &offsets, columns: &columns, values: &values, first };
        gpu::multiply(k, rows, &p, &mut q, &mut sum)
    })
    .submit()
    .unwrap();
    let (offsets, columns, values) = of_block();
    let [residual, x_dot_z, z_dot_z] = sums.each_ref().map(|sum| sum.reduction(Sum));
    let accesses = (offsets, columns, values.input(), x.slice(rows).input(), p.input(), residual, x_dot_z, z_dot_z);
    rt.task("norms", accesses)
        .gpu(move |k, (offsets, columns, values, x, z, mut residual, mut x_dot_z, mut z_dot_z)| {
            let rows = Rows { offsets: &offsets, columns: &columns, values: &values, first };
            gpu::norms(k, rows, [&x, &z], [&mut residual, &mut x_dot_z, &mut z_dot_z])
        })
        .submit()
        .unwrap();
    assert_same(&rt.take(q).unwrap(), &expected, "q");
    let found = sums.each_ref().map(|sum| rt.read(sum).unwrap()[0]);
    assert_same(&found, &[norms.residual, norms.x_dot_z, norms.z_dot_z], "norms");
    assert_same(&[rt.read(&sum).unwrap()[0]], &[0.5 + expected_sum], "p . q");
}

fn vectors(rt: &Runtime, length: usize, rows: Range<usize>) {
    let (rho, p_dot_q) = ([2.0, 3.0], 5.0);
    let [mut p, mut q, mut r, mut z] = [4, 5, 6, 7].map(|salt| numbers(length, salt));
    let data = [&p, &q, &r, &z].map(|vector| placed(rt, vector.clone()));
    let [dp, dq, dr, dz] = data.each_ref().map(|vector| vector.slice(rows.clone()));
    let (scalars, divisor, sums) = (rt.data(rho.to_vec()), rt.scalar(p_dot_q), [(); 2].map(|()| rt.scalar(0.0)));

    let first_sum = kernels::update_residual(rho[0] / p_dot_q, &q[rows.clone()], &mut r[rows.clone()]);
    rt.task("r", (scalars.slice(0..1).input(), divisor.input(), dq.input(), dr.inout(), sums[0].reduction(Sum)))
        .gpu(|k, (rho, p_dot_q, q, mut r, mut sum)| gpu::update_residual(k, [&rho, &p_dot_q], &q, &mut r, &mut sum))
        .submit()
        .unwrap();

    let (alpha, beta) = (rho[0] / p_dot_q, rho[1] / rho[0]);
    kernels::advance(alpha, beta, &r[rows.clone()], &mut z[rows.clone()], &p[rows.clone()], &mut q[rows.clone()]);
    rt.task("z, q", (scalars.input(), divisor.input(), dr.input(), dz.inout(), dp.input(), dq.output()))
        .gpu(|k, (rho, p_dot_q, r, mut z, p, mut q)| gpu::advance(k, [&rho, &p_dot_q], &r, &mut z, &p, &mut q))
        .submit()
        .unwrap();
    check(rt, &data, [&p, &q, &r, &z]);

    let second_sum = kernels::square(&q[rows.clone()]);
    z[rows.clone()].fill(0.0);
    r[rows.clone()].copy_from_slice(&q[rows.clone()]);
    p[rows.clone()].copy_from_slice(&q[rows.clone()]);
    rt.task("begin", (dq.input(), dz.output(), dr.output(), dp.output(), sums[1].reduction(Sum)))
        .gpu(|k, (x, mut z, mut r, mut p, mut sum)| gpu::begin(k, &x, [&mut z, &mut r, &mut p], &mut sum))
        .submit()
        .unwrap();
    check(rt, &data, [&p, &q, &r, &z]);

    q[rows.clone()].iter_mut().zip(&r[rows.clone()]).for_each(|(q, r)| *q = r / f64::sqrt(p_dot_q));
    z[rows.clone()].fill(1.5);
    rt.task("normalise", (divisor.input(), dr.input(), dq.output()))
        .gpu(|k, (square, r, mut q)| gpu::normalise(k, [&square, &r], &mut q))
        .submit()
        .unwrap();
    rt.task("fill", (dz.output(),)).gpu(|k, (mut z,)| gpu::fill(k, &mut z, 1.5)).submit().unwrap();
    check(rt, &data, [&p, &q, &r, &z]);
    assert_same(&sums.each_ref().map(|sum| rt.read(sum).unwrap()[0]), &[first_sum, second_sum], "sums");
}

fn scalars(rt: &Runtime) {
    let (residual, x_dot_z, history) = (rt.scalar(9.0), rt.scalar(0.25), placed(rt, vec![f64::NAN; 5]));
    rt.task("zeta", (residual.input(), x_dot_z.input(), history.slice(2..4).output()))
        .gpu(|k, (residual, x_dot_z, mut outcome)| gpu::zeta(k, [&residual, &x_dot_z], &mut outcome, 10.0))
        .submit()
        .unwrap();
    let history = rt.take(history).unwrap();
    assert_eq!(history[2..4], [14.0, 3.0]);
    assert!(history[1].is_nan() && history[4].is_nan());
}

fn run_is_verified(problem: &Problem, units: &str) {
    let Some(rt) = accelerated(units) else { return };
    let solver = Solver::new(&rt, problem, Matrix::generate(problem), 5, None).unwrap();
    solver.reset().unwrap();
    for step in 0..problem.iterations {
        solver.step(step).unwrap();
    }
    let (zeta, residual) = solver.outcome(problem.iterations - 1).unwrap();
    assert!(problem.relative_error(zeta) < 1e-12 && residual < 1e-10, "{units}: {zeta}, {residual}");
}

/// On one device, all vectors and sums stay there: a step copies only the outcome, and only if the program reads it.
fn steps_copy_nothing(problem: &Problem, blocks: usize) {
    let Some(rt) = accelerated("1:OPENCL:1") else { return };
    let solver = Solver::new(&rt, problem, Matrix::generate(problem), blocks, None).unwrap();
    let copies = || rt.statistics().links.iter().map(|link| link.copies).sum::<u64>();
    solver.reset().unwrap();
    solver.step(0).unwrap();
    rt.wait().unwrap();
    let before = copies();
    (1..4).for_each(|step| solver.step(step).unwrap());
    rt.wait().unwrap();
    assert_eq!(copies(), before, "{blocks} blocks: {:?}", rt.statistics().links);
    solver.outcome(3).unwrap();
    assert_eq!(copies(), before + 1, "{blocks} blocks: {:?}", rt.statistics().links);
}

/// Creates an array that is entirely on the accelerator.
fn placed<T: Element>(rt: &Runtime, array: Vec<T>) -> Data<T> {
    let data = rt.data(array);
    rt.task("place", (data.inout(),)).gpu(|_, _| -> Enqueued { Ok(()) }).submit().unwrap();
    data
}

fn numbers(length: usize, salt: usize) -> Vec<f64> {
    (0..length).map(|i| ((i * i + salt) as f64).sin()).collect()
}

fn check(rt: &Runtime, data: &[Data<f64>; 4], expected: [&Vec<f64>; 4]) {
    for ((data, expected), name) in data.iter().zip(expected).zip(["p", "q", "r", "z"]) {
        assert_same(&rt.read(&data).unwrap(), expected, name);
    }
}

fn assert_same(found: &[f64], expected: &[f64], what: &str) {
    assert_eq!(found.len(), expected.len());
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!((found - expected).abs() <= 1e-13 * (1.0 + expected.abs()), "{what}[{at}]: {found}, not {expected}");
    }
}
