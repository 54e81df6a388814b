//! The same benchmark without tasks: one thread, whole vectors, one statement after the other.
//!
//! The tests compare results with this version. It uses the program's matrix, which has its own tests, but none of
//! the program's kernels.

use npb_cg::classes::CG_ITERATIONS;
use npb_cg::{Matrix, Problem};

/// Returns ζ after each of the first `iterations` steps of the power iteration.
pub(crate) fn zetas(problem: &Problem, matrix: &Matrix, iterations: usize) -> Vec<f64> {
    let mut x = vec![1.0; problem.rows];
    let step = |_| {
        let z = solve(matrix, &x);
        let zeta = problem.shift + 1.0 / dot(&x, &z);
        let norm = dot(&z, &z).sqrt();
        x = z.iter().map(|z| z / norm).collect();
        zeta
    };
    (0..iterations).map(step).collect()
}

/// Returns an approximate solution of A z = x by conjugate gradients.
fn solve(matrix: &Matrix, x: &[f64]) -> Vec<f64> {
    let mut z = vec![0.0; x.len()];
    let (mut r, mut p) = (x.to_vec(), x.to_vec());
    let mut rho = dot(&r, &r);
    for _ in 0..CG_ITERATIONS {
        let q = multiply(matrix, &p);
        let alpha = rho / dot(&p, &q);
        for i in 0..x.len() {
            z[i] += alpha * p[i];
            r[i] -= alpha * q[i];
        }
        let previous = rho;
        rho = dot(&r, &r);
        for (p, r) in p.iter_mut().zip(&r) {
            *p = r + rho / previous * *p;
        }
    }
    z
}

/// Returns A p.
pub(crate) fn multiply(matrix: &Matrix, p: &[f64]) -> Vec<f64> {
    let row =
        |row: usize| matrix.entries(&(row..row + 1)).map(|k| matrix.values[k] * p[matrix.columns[k] as usize]).sum();
    (0..matrix.rows()).map(row).collect()
}

fn dot(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(x, y)| x * y).sum()
}
