//! The largest eigenvalue of a sparse matrix by power iteration, with the matrix as one value.
//!
//! The matrix is an ordinary struct of vectors, here in compressed rows. The runtime takes it as a *value*, which
//! all tasks read. The vectors are arrays, cut into blocks: one task multiplies a block of rows and returns its
//! part of ‖A x‖², and the tasks of the next step wait for these results.
//!
//! The matrix is the five-point Laplacian of a square of `size` × `size` points, whose largest eigenvalue is known.
//! The iteration's Rayleigh quotient approaches it from below and never exceeds it.

mod common;

use std::f64::consts::PI;
use std::ops::Range;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use common::{Machine, Outcome, integer};
use thalweg::prelude::*;

/// The largest eigenvalue of a sparse matrix by power iteration
#[derive(Parser)]
struct Options {
    /// Points along each side of the square; the matrix has as many rows as the square has points
    #[arg(long, value_name = "N", default_value = "100", value_parser = integer(2..=4096))]
    size: usize,
    /// Rows per task
    #[arg(long, value_name = "N", default_value = "2000", value_parser = integer(1..=100_000_000))]
    block: usize,
    /// Steps of the iteration
    #[arg(long, value_name = "N", default_value = "300", value_parser = integer(1..=1_000_000))]
    steps: usize,
    /// Run a plain loop instead, for comparison
    #[arg(long, conflicts_with_all = ["units", "scheduler", "simulate"])]
    serial: bool,
    #[command(flatten)]
    machine: Machine,
}

/// A matrix in compressed rows: row `i` has `columns[starts[i]..starts[i + 1]]`, with these values.
struct Matrix {
    starts: Vec<usize>,
    columns: Vec<usize>,
    values: Vec<f64>,
}

impl Matrix {
    /// Returns the five-point Laplacian on a square, with zeros around it.
    fn laplacian(size: usize) -> Self {
        let mut matrix = Self { starts: vec![0], columns: vec![], values: vec![] };
        for (i, j) in (0..size).flat_map(|i| (0..size).map(move |j| (i, j))) {
            let points = [(i > 0, i.wrapping_sub(1), j), (j > 0, i, j.wrapping_sub(1)), (true, i, j)];
            let more = [(j + 1 < size, i, j + 1), (i + 1 < size, i + 1, j)];
            for (_, row, column) in points.into_iter().chain(more).filter(|(is_inside, ..)| *is_inside) {
                matrix.columns.push(row * size + column);
                matrix.values.push(if (row, column) == (i, j) { 4.0 } else { -1.0 });
            }
            matrix.starts.push(matrix.columns.len());
        }
        matrix
    }

    /// Sets `y` to the `rows` of A x. Returns the contributions of these rows to xᵀ A x and to ‖A x‖².
    fn multiply(&self, rows: Range<usize>, x: &[f64], y: &mut [f64]) -> [f64; 2] {
        let mut sums = [0.0; 2];
        for (row, y) in rows.zip(y) {
            let entries = self.starts[row]..self.starts[row + 1];
            *y =
                self.columns[entries.clone()].iter().zip(&self.values[entries]).map(|(column, a)| a * x[*column]).sum();
            sums[0] += x[row] * *y;
            sums[1] += *y * *y;
        }
        sums
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    options.machine.run(|rt| {
        let Options { size, steps, .. } = options;
        let (n, matrix) = (size * size, Matrix::laplacian(size));
        // A vector of alternating signs is close to the eigenvector.
        let x: Vec<f64> = (0..n).map(|i| if (i / size + i) % 2 == 0 { 1.0 } else { -1.0 } / size as f64).collect();
        println!("{n} rows, {} entries, {steps} steps", matrix.values.len());
        let start = (rt.now(), Instant::now());
        let eigenvalue = if options.serial { in_a_loop(&matrix, x, steps) } else { by_tasks(rt, matrix, x, &options)? };
        let elapsed = if options.serial { start.1.elapsed() } else { rt.now() - start.0 };
        let expected = 8.0 * (PI * size as f64 / (2 * (size + 1)) as f64).sin().powi(2);
        println!("eigenvalue {eigenvalue:.12}, expected {expected:.12}");
        let is_close = (expected * (1.0 - 1e-3)..=expected * (1.0 + 1e-12)).contains(&eigenvalue);
        Ok(Outcome { elapsed, verified: Some(is_close) })
    })
}

fn in_a_loop(matrix: &Matrix, mut x: Vec<f64>, steps: usize) -> f64 {
    let (mut y, mut quotient) = (vec![0.0; x.len()], 0.0);
    for _ in 0..steps {
        let [numerator, square] = matrix.multiply(0..x.len(), &x, &mut y);
        quotient = numerator;
        let norm = square.sqrt();
        x.iter_mut().zip(&y).for_each(|(x, y)| *x = y / norm);
    }
    quotient
}

fn by_tasks(rt: &Runtime, matrix: Matrix, x: Vec<f64>, options: &Options) -> common::Result<f64> {
    let (n, matrix) = (x.len(), rt.value(matrix).named("matrix"));
    let (x, y) = (rt.data(x).named("x"), rt.zeros(n).named("y"));
    let add = |sums: Vec<&[f64; 2]>| sums.into_iter().fold([0.0; 2], |[a, b], [c, d]| [a + c, b + d]);
    let mut last = None;
    for _ in 0..options.steps {
        let parts: Vec<Pending<[f64; 2]>> = blocks(n, options.block)
            .map(|rows| {
                rt.task("multiply", (matrix.input(), x.input(), y.slice(rows.clone()).output()))
                    .returns(move |_, (matrix, x, y)| matrix.multiply(rows, x, y))
                    .submit()
            })
            .collect::<Result<_, _>>()?;
        let inputs: Vec<_> = parts.iter().map(Pending::input).collect();
        let sums = rt.task("add", inputs).returns(move |_, parts| add(parts)).submit()?;
        for rows in blocks(n, options.block) {
            rt.task("scale", (sums.input(), y.slice(rows.clone()).input(), x.slice(rows).output()))
                .cpu(|_, ([_, square], y, x)| x.iter_mut().zip(y).for_each(|(x, y)| *x = y / square.sqrt()))
                .submit()?;
        }
        last = Some(sums);
    }
    match last {
        Some(sums) if !rt.machine().is_simulated() => Ok(sums.get()?[0]),
        _ => rt.wait().map(|()| f64::NAN).map_err(Into::into),
    }
}
