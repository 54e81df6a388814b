//! A tiled Cholesky factorization, right-looking.
//!
//! Every tile is a separate array in column-major order. Kernels are plain loops over columns, compiled for the
//! target's baseline. All contenders call the same kernels, so the bench compares runtimes and not instruction sets or
//! compilers.

use std::error::Error;
use std::mem::take;

use rayon::ThreadPoolBuilder;
use rayon::prelude::*;
use thalweg::prelude::*;

use crate::harness::build::{LIBGOMP, LIBOMP};
use crate::openmp::OpenMp;
use crate::problems::{Answer, RAYON, THALWEG, fastest, timed};

/// Rows and columns of a tile.
pub(crate) const TILE: usize = 256;
/// Number of columns that are subtracted in one pass.
const TOGETHER: usize = 8;

/// The tiles on or below the diagonal, row by row (see [`at`]).
type Tiles = Vec<Vec<f64>>;

/// Factors a matrix with at least `size` rows, rounded up to whole tiles.
pub(crate) fn run(name: &str, size: usize, workers: usize, passes: usize) -> Result<Answer, Box<dyn Error>> {
    let n = size.div_ceil(TILE);
    match name {
        THALWEG => {
            let rt = Runtime::builder().compute_units(format!("{workers}:CPU:1")).use_current_thread(true).build()?;
            fastest(passes, || {
                let tiles: Vec<Data<f64>> = matrix(n).into_iter().map(|tile| rt.data(tile)).collect();
                let (elapsed, factored) = timed(|| -> Result<(), Box<dyn Error>> {
                    submit(&rt, &tiles, n)?;
                    Ok(rt.wait()?)
                });
                factored?;
                let tiles: Result<Tiles, _> = tiles.into_iter().map(|tile| rt.take(tile)).collect();
                Ok((elapsed, check(&tiles?, n)))
            })
        }
        RAYON => {
            let pool = ThreadPoolBuilder::new().num_threads(workers).build()?;
            fastest(passes, || {
                let mut tiles = matrix(n);
                let (elapsed, ()) = timed(|| pool.install(|| step_by_step(&mut tiles, n)));
                Ok((elapsed, check(&tiles, n)))
            })
        }
        LIBGOMP | LIBOMP => {
            let openmp = OpenMp::load()?;
            fastest(passes, || {
                let mut tiles = matrix(n);
                let elapsed = openmp.factor(&mut tiles, n)?;
                Ok((elapsed, check(&tiles, n)))
            })
        }
        _ => fastest(passes, || {
            let mut tiles = matrix(n);
            let (elapsed, ()) = timed(|| one_by_one(&mut tiles, n));
            Ok((elapsed, check(&tiles, n)))
        }),
    }
}

/// Returns the index of tile (`i`, `j`) in [`Tiles`].
const fn at(i: usize, j: usize) -> usize {
    i * (i + 1) / 2 + j
}

fn submit(rt: &Runtime, tiles: &[Data<f64>], n: usize) -> Result<(), SubmitError> {
    for k in 0..n {
        rt.task("potrf", tiles[at(k, k)].inout()).cpu(|_, a| potrf(a)).submit()?;
        for i in k + 1..n {
            rt.task("trsm", (tiles[at(k, k)].input(), tiles[at(i, k)].inout())).cpu(|_, (l, b)| trsm(l, b)).submit()?;
        }
        for i in k + 1..n {
            for j in k + 1..i {
                let accesses = (tiles[at(i, k)].input(), tiles[at(j, k)].input(), tiles[at(i, j)].inout());
                rt.task("gemm", accesses).cpu(|_, (a, b, c)| gemm(a, b, c)).submit()?;
            }
            rt.task("syrk", (tiles[at(i, k)].input(), tiles[at(i, i)].inout()))
                .cpu(|_, (a, c)| gemm(a, a, c))
                .submit()?;
        }
    }
    Ok(())
}

/// Factors with hand-written parallelism: each step handles its three kinds of tiles one after the other, and the tiles
/// of each kind in parallel.
fn step_by_step(tiles: &mut Tiles, n: usize) {
    for k in 0..n {
        potrf(&mut tiles[at(k, k)]);
        let diagonal = take(&mut tiles[at(k, k)]);
        let mut column: Tiles = (k + 1..n).map(|i| take(&mut tiles[at(i, k)])).collect();
        column.par_iter_mut().for_each(|b| trsm(&diagonal, b));
        let places = (k + 1..n).flat_map(|i| (k + 1..=i).map(move |j| (i, j)));
        let mut rest: Vec<_> = places.map(|(i, j)| ((i, j), take(&mut tiles[at(i, j)]))).collect();
        rest.par_iter_mut().for_each(|((i, j), c)| gemm(&column[*i - k - 1], &column[*j - k - 1], c));
        rest.into_iter().for_each(|((i, j), c)| tiles[at(i, j)] = c);
        (k + 1..n).zip(column).for_each(|(i, b)| tiles[at(i, k)] = b);
        tiles[at(k, k)] = diagonal;
    }
}

fn one_by_one(tiles: &mut Tiles, n: usize) {
    for k in 0..n {
        potrf(&mut tiles[at(k, k)]);
        let diagonal = take(&mut tiles[at(k, k)]);
        (k + 1..n).for_each(|i| trsm(&diagonal, &mut tiles[at(i, k)]));
        tiles[at(k, k)] = diagonal;
        for i in k + 1..n {
            for j in k + 1..=i {
                let mut c = take(&mut tiles[at(i, j)]);
                gemm(&tiles[at(i, k)], &tiles[at(j, k)], &mut c);
                tiles[at(i, j)] = c;
            }
        }
    }
}

/// Replaces the lower half of `a` by its Cholesky factor.
#[inline(never)] // all contenders run the same code
pub(crate) fn potrf(a: &mut [f64]) {
    for k in 0..TILE {
        let (left, right) = a.split_at_mut((k + 1) * TILE);
        let own = &mut left[k * TILE..];
        let root = own[k].sqrt();
        own[k] = root;
        own[k + 1..].iter_mut().for_each(|x| *x /= root);
        for (column, j) in right.chunks_exact_mut(TILE).zip(k + 1..) {
            let factor = own[j];
            column[j..].iter_mut().zip(&own[j..]).for_each(|(c, x)| *c -= x * factor);
        }
    }
}

/// Replaces `b` by b L⁻ᵀ.
#[inline(never)]
pub(crate) fn trsm(l: &[f64], b: &mut [f64]) {
    for k in 0..TILE {
        let (left, right) = b.split_at_mut((k + 1) * TILE);
        let own = &mut left[k * TILE..];
        let root = l[k * TILE + k];
        own.iter_mut().for_each(|x| *x /= root);
        for (column, j) in right.chunks_exact_mut(TILE).zip(k + 1..) {
            let factor = l[k * TILE + j];
            column.iter_mut().zip(&*own).for_each(|(c, x)| *c -= x * factor);
        }
    }
}

/// Subtracts a bᵀ from `c`.
#[inline(never)]
pub(crate) fn gemm(a: &[f64], b: &[f64], c: &mut [f64]) {
    for (j, c) in c.chunks_exact_mut(TILE).enumerate() {
        for (a, k) in a.chunks_exact(TOGETHER * TILE).zip((0..TILE).step_by(TOGETHER)) {
            let factor: [f64; TOGETHER] = std::array::from_fn(|t| b[(k + t) * TILE + j]);
            let column: [&[f64]; TOGETHER] = std::array::from_fn(|t| &a[t * TILE..(t + 1) * TILE]);
            for (i, c) in c.iter_mut().enumerate() {
                *c -= column[0][i] * factor[0]
                    + column[1][i] * factor[1]
                    + column[2][i] * factor[2]
                    + column[3][i] * factor[3]
                    + column[4][i] * factor[4]
                    + column[5][i] * factor[5]
                    + column[6][i] * factor[6]
                    + column[7][i] * factor[7];
            }
        }
    }
}

/// Returns a symmetric matrix, positive definite because its diagonal outweighs the rest.
fn matrix(n: usize) -> Tiles {
    let places = (0..n).flat_map(|i| (0..=i).map(move |j| (i * TILE, j * TILE)));
    let element = |row: usize, column: usize| match row.abs_diff(column) {
        0 => (n * TILE) as f64,
        apart => 1.0 / (1 + apart) as f64,
    };
    let tile = |(i, j)| (0..TILE * TILE).map(|at| element(i + at % TILE, j + at / TILE)).collect();
    places.map(tile).collect()
}

/// Returns the sum of the factor's last row.
fn check(tiles: &Tiles, n: usize) -> f64 {
    (0..n).flat_map(|j| tiles[at(n - 1, j)].chunks_exact(TILE)).map(|column| column[TILE - 1]).sum()
}
