//! Cholesky factorization in tiles, which ranks own 2-D block-cyclically.
//!
//! `mpirun -np 4 target/release/examples/mpi_cholesky [SIZE] [TILE]`

use std::error::Error;
use std::time::Instant;
use thalweg::Runtime;
use thalweg::ndarray::{Array2, ArrayView2, ArrayViewMut2, Ix2};
use thalweg_mpi::{Cluster, ClusterData, owners};

/// An element of a symmetric, diagonally dominant matrix.
fn element(i: usize, j: usize, size: usize) -> f64 {
    let (a, b) = (i.min(j), i.max(j));
    ((a * 7 + b * 13) % 17) as f64 / 17.0 + if i == j { size as f64 } else { 0.0 }
}

/// Factorizes a diagonal tile.
fn potrf(mut a: ArrayViewMut2<'_, f64>) -> Result<(), String> {
    for j in 0..a.nrows() {
        let pivot = a[[j, j]] - (0..j).map(|k| a[[j, k]] * a[[j, k]]).sum::<f64>();
        if pivot <= 0.0 {
            return Err(format!("pivot {j} is {pivot}, so the matrix is not positive definite"));
        }
        a[[j, j]] = pivot.sqrt();
        for i in j + 1..a.nrows() {
            let sum: f64 = (0..j).map(|k| a[[i, k]] * a[[j, k]]).sum();
            a[[i, j]] = (a[[i, j]] - sum) / a[[j, j]];
        }
    }
    Ok(())
}

/// Solves for a tile below a diagonal tile.
fn trsm(l: ArrayView2<'_, f64>, mut a: ArrayViewMut2<'_, f64>) {
    for i in 0..a.nrows() {
        for j in 0..a.ncols() {
            let sum: f64 = (0..j).map(|k| a[[i, k]] * l[[j, k]]).sum();
            a[[i, j]] = (a[[i, j]] - sum) / l[[j, j]];
        }
    }
}

/// Subtracts the product of a tile and a transposed tile.
fn gemm(a: ArrayView2<'_, f64>, b: ArrayView2<'_, f64>, mut c: ArrayViewMut2<'_, f64>) {
    for (i, mut c) in c.rows_mut().into_iter().enumerate() {
        let a = a.row(i);
        let a = a.to_slice().expect("rows are contiguous");
        for (j, c) in c.iter_mut().enumerate() {
            let b = b.row(j);
            let b = b.to_slice().expect("rows are contiguous");
            *c -= dot(a, b);
        }
    }
}

/// A dot product in eight sums, which vectorizes.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    let (a, b) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest: f64 = a.remainder().iter().zip(b.remainder()).map(|(a, b)| a * b).sum();
    a.zip(b).for_each(|(a, b)| (0..8).for_each(|at| sums[at] += a[at] * b[at]));
    sums.iter().sum::<f64>() + rest
}

fn main() -> Result<(), Box<dyn Error>> {
    let numbers: Vec<usize> = std::env::args().skip(1).map(|text| text.parse()).collect::<Result<_, _>>()?;
    let number = |at: usize, default| numbers.get(at).copied().unwrap_or(default);
    let (size, extent) = (number(0, 512).max(1), number(1, 64).max(1));
    let units = std::env::var("UNITS").unwrap_or("1:CPU:1".to_owned());
    let cluster = Cluster::init(Runtime::builder().compute_units(units).pin_threads(false))?;
    let (rows, columns) = owners::square(cluster.ranks());
    let owner = owners::block_cyclic(rows, columns);
    let a: ClusterData<f64, Ix2> = cluster.distributed([size, size], [extent, extent], owner);
    let tiles = a.grid()[0];
    for i in 0..tiles {
        for j in 0..=i {
            let fill = cluster.task("fill", a.tile([i, j]).output());
            let at = move |p: usize, q: usize| element(i * extent + p, j * extent + q, size);
            fill.cpu(move |_, mut a| a.indexed_iter_mut().for_each(|((p, q), a)| *a = at(p, q))).submit()?;
        }
    }
    cluster.wait()?;
    let begin = Instant::now();
    for k in 0..tiles {
        let pivot = a.tile([k, k]);
        cluster.task("potrf", pivot.inout()).cpu(|_, a| potrf(a)).submit()?;
        for i in k + 1..tiles {
            let task = cluster.task("trsm", (pivot.input(), a.tile([i, k]).inout()));
            task.cpu(|_, (l, a)| trsm(l, a)).submit()?;
        }
        for i in k + 1..tiles {
            for j in k + 1..i {
                let task =
                    cluster.task("gemm", (a.tile([i, k]).input(), a.tile([j, k]).input(), a.tile([i, j]).inout()));
                task.cpu(|_, (a, b, c)| gemm(a, b, c)).submit()?;
            }
            let task = cluster.task("syrk", (a.tile([i, k]).input(), a.tile([i, i]).inout()));
            task.cpu(|_, (a, c)| gemm(a, a, c)).submit()?;
        }
        // The panel is not read again: its copies are not needed any more.
        (k..tiles).try_for_each(|i| cluster.release(a.tile([i, k])))?;
    }
    cluster.wait()?;
    let (time, traffic) = (begin.elapsed().as_secs_f64(), cluster.traffic());
    let rate = (size as f64).powi(3) / 3.0 / time / 1e9;
    println!(
        "rank {} of {}: {time:.3} s, {rate:.2} Gflop/s in all, {} messages, {} bytes",
        cluster.rank(),
        cluster.ranks(),
        traffic.messages,
        traffic.bytes
    );
    let l = cluster.gather(&a)?;
    let lower = Array2::from_shape_fn((size, size), |(i, j)| if j <= i { l[[i, j]] } else { 0.0 });
    // Some rows of the product suffice, and all of a small matrix.
    let mut worst = 0.0f64;
    for i in (0..size).step_by(1 + size / 300) {
        for j in 0..=i {
            let product = dot(&lower.as_slice().expect("contiguous")[i * size..][..=j], &lower.row(j).to_vec()[..=j]);
            worst = worst.max((product - element(i, j, size)).abs());
        }
    }
    println!("largest error {worst:.1e}");
    println!("{}", if worst < 1e-9 * size as f64 { "VERIFIED" } else { "FAILED" });
    assert!(worst < 1e-9 * size as f64, "the product of the factors differs from the matrix");
    Ok(())
}
