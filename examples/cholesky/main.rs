//! A tiled Cholesky factorization: A = L Lᵀ, right-looking, in place in the lower half of A.
//!
//! Each step factors a diagonal tile, solves for the tiles below it, and subtracts their products from the tiles
//! further right. The program never says which tiles of later steps can already be processed, because that follows from
//! the tiles that each task declares.
//!
//! With `--nested`, the same factorization recurses on halves ([`nested`]). With `--host-memory`, each tile is a
//! separate array, so that tiles can leave for a disk ([`out_of_core`]).

#[path = "../common/mod.rs"]
mod common;
mod factor;
mod kernels;
mod nested;
mod out_of_core;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use common::{Machine, Outcome, integer};
use factor::{element, factor};
use kernels::{gemm, potrf, trsm};
use nalgebra::DMatrix;
use ndarray::{Array2, Axis, s};

/// Largest matrix size whose factor is compared element by element with that of another library. Larger matrices are
/// checked by a product with a vector.
const COMPARED: usize = 1024;

/// Cholesky factorization in tiles
#[derive(Parser)]
struct Options {
    /// Rows and columns of the matrix
    #[arg(long, value_name = "N", default_value = "1024", value_parser = integer(1..=65_536))]
    size: usize,
    /// Rows and columns of a tile
    #[arg(long, value_name = "N", default_value = "128", value_parser = integer(1..=65_536))]
    tile: usize,
    /// Use nested tasks, which halve the matrix until single tiles are left
    #[arg(long)]
    nested: bool,
    /// Run the same kernels in plain loops on one core, without the runtime
    #[arg(long, conflicts_with_all = ["nested", "units", "scheduler", "simulate"])]
    serial: bool,
    #[command(flatten)]
    machine: Machine,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let Options { size, tile, nested, serial, machine } = &options;
    if *serial {
        let mut a = matrix(*size);
        let start = Instant::now();
        factor_serially(&mut a, *tile);
        return judge(start.elapsed(), &a).conclude();
    }
    machine.run(|rt| {
        if let Some(bytes) = machine.host_memory() {
            return out_of_core::run(rt, *size, *tile, bytes);
        }
        let a = if rt.machine().is_simulated() { rt.zeros([*size, *size]) } else { rt.array(matrix(*size)) };
        let start = rt.now();
        if *nested {
            nested::factor(rt, &a, *tile)?
        } else {
            let tiles = a.tiles([*tile, *tile]);
            factor(rt, tiles.shape()[0], |i, j| tiles.part([i, j]))?
        }
        rt.wait()?;
        let elapsed = rt.now() - start;
        Ok(if rt.machine().is_simulated() { Outcome { elapsed, verified: None } } else { judge(elapsed, &rt.take(a)?) })
    })
}

/// Factors tile by tile in plain loops.
fn factor_serially(a: &mut Array2<f64>, tile: usize) {
    let n = a.nrows();
    for k in (0..n).step_by(tile) {
        let end = n.min(k + tile);
        let (mut column, mut rest) = a.slice_mut(s![k.., k..]).split_at(Axis(1), end - k);
        let (mut diagonal, mut below) = column.view_mut().split_at(Axis(0), end - k);
        potrf(diagonal.view_mut());
        below.axis_chunks_iter_mut(Axis(0), tile).for_each(|rows| trsm(diagonal.view(), rows));
        let mut right = rest.slice_mut(s![end - k.., ..]);
        for (i, mut rows) in right.axis_chunks_iter_mut(Axis(0), tile).enumerate() {
            let chunk = |i: usize| below.slice(s![i * tile..below.nrows().min((i + 1) * tile), ..]);
            for (j, mut a) in rows.axis_chunks_iter_mut(Axis(1), tile).enumerate().take(i + 1) {
                gemm(chunk(i), chunk(j), &mut a);
            }
        }
    }
}

fn matrix(n: usize) -> Array2<f64> {
    Array2::from_shape_fn((n, n), |(i, j)| element(n, i, j))
}

/// Checks whether the lower half of `l` is the Cholesky factor.
fn judge(elapsed: Duration, l: &Array2<f64>) -> Outcome {
    let n = l.nrows();
    let lower = Array2::from_shape_fn((n, n), |(i, j)| if j <= i { l[[i, j]] } else { 0.0 });
    let a = matrix(n);
    let error = if n <= COMPARED {
        let expected = DMatrix::from_fn(n, n, |i, j| a[[i, j]]).cholesky().expect("a is positive definite").unpack();
        lower.indexed_iter().fold(0.0, |error, (at, l)| f64::max(error, (l - expected[at]).abs()))
    } else {
        let v = ndarray::Array1::from_shape_fn(n, |i| (i as f64).sin());
        (lower.dot(&lower.t().dot(&v)) - a.dot(&v)).fold(0.0, |error, x| f64::max(error, x.abs())) / n as f64
    };
    println!("{n} x {n}, error {error:.1e}");
    println!("{:.2} Gflop/s", (n as f64).powi(3) / 3.0 / elapsed.as_secs_f64() / 1e9);
    Outcome { elapsed, verified: Some(error < 1e-10) }
}
