//! The factorization of a matrix that exceeds host memory: each tile of the lower half is an array, which leaves for
//! the disk while no task needs it.
//!
//! Tasks also fill the tiles and check the factor, L (Lᵀ v) = A v, so the matrix is never in memory as a whole.

use ndarray::Array1;
use thalweg::prelude::*;

use crate::common::{Outcome, Result, copied_bytes};
use crate::factor::{element, factor};

/// Factors a matrix of `size` rows in tiles of `tile` rows, with this many bytes of host memory.
pub(crate) fn run(rt: &Runtime, size: usize, tile: usize, bytes: u64) -> Result<Outcome> {
    let rows: Vec<_> = blocks(size, tile).collect();
    let mut tiles = Vec::new();
    for i in &rows {
        for j in rows.iter().take_while(|j| j.start <= i.start) {
            let data: Data<f64, Ix2> = rt.zeros([i.len(), j.len()]);
            let (i, j) = (i.start, j.start);
            rt.task("fill", data.output())
                .cpu(move |_, mut a| a.indexed_iter_mut().for_each(|((y, x), a)| *a = element(size, i + y, j + x)))
                .submit()?;
            tiles.push(data);
        }
    }
    rt.wait()?;
    let at = |i: usize, j: usize| tiles[i * (i + 1) / 2 + j].all();
    let (start, before) = (rt.now(), copied_bytes(rt));
    factor(rt, rows.len(), at)?;
    rt.wait()?;
    let (elapsed, moved) = (rt.now() - start, copied_bytes(rt) - before);
    let n = size as f64;
    println!("{:.2} Gflop/s", n.powi(3) / 3.0 / elapsed.as_secs_f64() / 1e9);
    // Beaumont, Eyraud-Dubois, Vérité, Langou: I/O-Optimal Algorithms for Symmetric Linear Algebra Kernels, SPAA 2022.
    let least = 8.0 * n.powi(3) / (3.0 * (2.0 * bytes as f64 / 8.0).sqrt());
    println!("{:.2} GB to and from the disk, at least {:.2} GB in any order", moved as f64 / 1e9, least / 1e9);
    let error = largest_error(rt, size, tile, at)?;
    println!("{size} x {size}, error {error:.1e}");
    Ok(Outcome { elapsed, verified: Some(error < 1e-10) })
}

/// Returns the largest difference between L (Lᵀ v) and A v, divided by the number of rows.
fn largest_error<'a>(
    rt: &Runtime,
    size: usize,
    tile: usize,
    at: impl Fn(usize, usize) -> Region<'a, f64, Ix2>,
) -> Result<f64> {
    let v = Array1::from_shape_fn(size, |i| (i as f64).sin());
    let (between, result) = (rt.zeros::<f64, _>(size), rt.zeros::<f64, _>(size));
    let rows: Vec<_> = blocks(size, tile).collect();
    let lower = || (0..rows.len()).flat_map(|i| (0..=i).map(move |j| (i, j)));
    for (i, j) in lower() {
        let v = v.slice(ndarray::s![rows[i].clone()]).to_owned();
        rt.task("transposed", (at(i, j).input(), between.slice(rows[j].clone()).commutative()))
            .cpu(move |_, (l, sum)| multiply(i == j, |y, x| l[[y, x]], l.dim(), |y, x, l| sum[x] += l * v[y]))
            .submit()?;
    }
    for (i, j) in lower() {
        let accesses =
            (at(i, j).input(), between.slice(rows[j].clone()).input(), result.slice(rows[i].clone()).commutative());
        rt.task("product", accesses)
            .cpu(move |_, (l, from, sum)| multiply(i == j, |y, x| l[[y, x]], l.dim(), |y, x, l| sum[y] += l * from[x]))
            .submit()?;
    }
    let result = rt.take(result)?;
    let expected = |i: usize| (0..size).map(|j| element(size, i, j) * v[j]).sum::<f64>();
    let errors = result.iter().enumerate().map(|(i, found)| (found - expected(i)).abs());
    Ok(errors.fold(0.0, f64::max) / size as f64)
}

/// Visits the elements of a tile, or of its lower half, row by row.
fn multiply(
    is_diagonal: bool,
    element: impl Fn(usize, usize) -> f64,
    (height, width): (usize, usize),
    mut add: impl FnMut(usize, usize, f64),
) {
    for y in 0..height {
        for x in 0..if is_diagonal { y + 1 } else { width } {
            add(y, x, element(y, x));
        }
    }
}
