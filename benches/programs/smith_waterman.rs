//! The best local alignment of two sequences, in tiles so small that the overhead per task matters. One version keeps
//! the whole score table, the other only the borders of tiles.

use std::error::Error;

use ndarray::{Array2, s};
use rayon::ThreadPoolBuilder;
use rayon::prelude::*;
use thalweg::prelude::*;

use crate::alignment::{score, sequence, step};
use crate::problems::{Answer, RAYON, THALWEG, fastest, timed};

/// Rows and columns of a tile.
const TILE: usize = 32;
/// Aligns with the whole score table in memory.
pub(crate) fn table(name: &str, size: usize, workers: usize, passes: usize) -> Result<Answer, Box<dyn Error>> {
    let [a, b] = [1, 2].map(|seed| sequence(size, seed));
    if name != THALWEG {
        return fastest(passes, || {
            let (mut scores, above, left) =
                (Array2::zeros((size + 1, size + 1)), Array2::zeros((1, size + 1)), Array2::zeros((size, 1)));
            let mut inner = scores.slice_mut(s![1.., 1..]);
            let (elapsed, best) = timed(|| score(&a, &b, above.view(), left.view(), &mut inner));
            Ok((elapsed, best.into()))
        });
    }
    let rt = runtime(workers)?;
    fastest(passes, || {
        let (scores, best) = (rt.zeros([size + 1, size + 1]), rt.scalar(0));
        let (elapsed, filled) = timed(|| -> Result<(), Box<dyn Error>> {
            for tile in scores.block((1.., 1..)).tiles([TILE, TILE]) {
                let left = tile.halo(Face::low(1), 1);
                let above = tile.grow([(0, 0), (1, 0)]).halo(Face::low(0), 1);
                let (a, b, rows, columns) = (a.clone(), b.clone(), tile.range(0), tile.range(1));
                rt.task("score", (above.input(), left.input(), tile.output(), best.reduction(Max)))
                    .cpu(move |_, (above, left, mut tile, best)| {
                        let (a, b) = (&a[rows.start - 1..rows.end - 1], &b[columns.start - 1..columns.end - 1]);
                        best[0] = best[0].max(score(a, b, above, left, &mut tile));
                    })
                    .submit()?;
            }
            Ok(rt.wait()?)
        });
        filled?;
        Ok((elapsed, rt.read(&best)?[0].into()))
    })
}

/// Aligns while keeping only the last row and the last column of each tile, until the neighbouring tiles have read
/// them.
pub(crate) fn strips(name: &str, size: usize, workers: usize, passes: usize) -> Result<Answer, Box<dyn Error>> {
    let [a, b] = [1, 2].map(|seed| sequence(size, seed));
    let tiles = size.div_ceil(TILE);
    match name {
        THALWEG => {
            let rt = runtime(workers)?;
            fastest(passes, || {
                // For each row of tiles, the column to its left, corner first, followed by the best score so far.
                let (above, left) = (rt.data(vec![0; size]), rt.data(vec![0; tiles * (TILE + 2)]));
                let (elapsed, swept) = timed(|| -> Result<i32, Box<dyn Error>> {
                    for (i, left) in left.blocks(TILE + 2).into_iter().enumerate() {
                        let (a, b) = (a.clone(), b.clone());
                        rt.for_each("score", (0.., above.blocks(TILE).inout(), left.inout()))
                            .cpu(move |_, (j, above, left)| {
                                let (left, best) = left.split_at_mut(TILE + 1);
                                best[0] = best[0].max(sweep(part(&a, i), part(&b, j), above, left));
                            })
                            .submit()?;
                    }
                    let bests = rt.read(&left)?.into_iter().skip(TILE + 1).step_by(TILE + 2);
                    Ok(bests.max().unwrap_or(0))
                });
                Ok((elapsed, swept?.into()))
            })
        }
        RAYON => {
            let pool = ThreadPoolBuilder::new().num_threads(workers).build()?;
            fastest(passes, || {
                let (mut above, mut left) = (vec![0; size], vec![0; tiles * (TILE + 1)]);
                let (elapsed, best) = timed(|| pool.install(|| along_diagonals(&a, &b, &mut above, &mut left)));
                Ok((elapsed, best.into()))
            })
        }
        _ => fastest(passes, || {
            let (mut above, mut left) = (vec![0; size], vec![0; size + 1]);
            let (elapsed, best) = timed(|| sweep(&a, &b, &mut above, &mut left));
            Ok((elapsed, best.into()))
        }),
    }
}

fn runtime(workers: usize) -> Result<Runtime, Box<dyn Error>> {
    Ok(Runtime::builder().compute_units(format!("{workers}:CPU:1")).use_current_thread(true).build()?)
}

fn part(letters: &[u8], tile: usize) -> &[u8] {
    &letters[tile * TILE..letters.len().min((tile + 1) * TILE)]
}

/// Sweeps diagonal by diagonal, with all tiles of a diagonal in parallel.
fn along_diagonals(a: &[u8], b: &[u8], above: &mut [i32], left: &mut [i32]) -> i32 {
    let tiles = a.len().div_ceil(TILE);
    let diagonal = |d: usize| {
        let first = d.saturating_sub(tiles - 1);
        let count = d.min(tiles - 1) + 1 - first;
        let rows = left.par_chunks_mut(TILE + 1).skip(first).take(count);
        let columns = above.par_chunks_mut(TILE).skip(d - (first + count - 1)).take(count).rev();
        let best = rows
            .zip(columns)
            .enumerate()
            .map(|(k, (left, above))| sweep(part(a, first + k), part(b, d - first - k), above, left));
        best.max().unwrap_or(0)
    };
    (0..2 * tiles - 1).map(diagonal).max().unwrap_or(0)
}

/// Computes the last row and the last column of a part of the table from the row above the part and the column to its
/// left (corner first). Returns the largest score in the part.
#[inline(never)] // all contenders run the same code
fn sweep(a: &[u8], b: &[u8], above: &mut [i32], left: &mut [i32]) -> i32 {
    let (mut best, mut corner) = (0, left[0]);
    left[0] = above[above.len() - 1];
    for (a, left) in a.iter().zip(&mut left[1..]) {
        let (mut diagonal, mut west) = (corner, *left);
        corner = west;
        for (b, score) in b.iter().zip(above.iter_mut()) {
            west = step(a == b, diagonal, *score, west);
            diagonal = std::mem::replace(score, west);
            best = best.max(west);
        }
        *left = west;
    }
    best
}
