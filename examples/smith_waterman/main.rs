//! The best local alignment of two sequences (Smith & Waterman 1981), in tiles of the table of scores.
//!
//! A score depends on its upper, left and upper left neighbours, so tiles become ready along a wave that moves through
//! the table. Each task declares the strips that it reads around its tile, and the wave follows from these
//! declarations.

#[path = "../common/mod.rs"]
mod common;
mod kernel;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Parser;
use common::{Machine, Outcome, integer};
use kernel::{score, sequence};
use ndarray::{Array2, s};
use thalweg::prelude::*;

/// Aligns two random sequences locally
#[derive(Parser)]
struct Options {
    /// Letters of each sequence
    #[arg(long, value_name = "N", default_value = "2048", value_parser = integer(1..=100_000))]
    size: usize,
    /// Rows and columns of a tile
    #[arg(long, value_name = "N", default_value = "128", value_parser = integer(1..=100_000))]
    tile: usize,
    /// Run a plain loop over the table on one core, without the runtime
    #[arg(long, conflicts_with_all = ["units", "scheduler", "simulate"])]
    serial: bool,
    #[command(flatten)]
    machine: Machine,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let Options { size, tile, serial, machine } = &options;
    let [a, b] = [1, 2].map(|seed| sequence(*size, seed));
    if *serial {
        let start = Instant::now();
        let (scores, best) = align_serially(&a, &b);
        return judge(start.elapsed(), best, Some((scores, best))).conclude();
    }
    machine.run(|rt| {
        let scores = rt.zeros([size + 1, size + 1]); // with a row and a column of zeros before the first
        let best = rt.scalar(0);
        let start = rt.now();
        align(rt, &a, &b, *tile, &scores, &best)?;
        rt.wait()?;
        let elapsed = rt.now() - start;
        if rt.machine().is_simulated() {
            return Ok(Outcome { elapsed, verified: None });
        }
        let expected = align_serially(&a, &b);
        Ok(judge(elapsed, expected.1, Some((rt.take(scores)?, rt.read(&best)?[0])).filter(|found| *found == expected)))
    })
}

/// Submits the alignment: fills the table, and finds its largest score.
fn align(
    rt: &Runtime,
    a: &Arc<[u8]>,
    b: &Arc<[u8]>,
    tile: usize,
    scores: &Data<i32, Ix2>,
    best: &Data<i32>,
) -> Result<(), SubmitError> {
    for tile in scores.block((1.., 1..)).tiles([tile, tile]) {
        let left = tile.halo(Face::low(1), 1);
        let above = tile.grow([(0, 0), (1, 0)]).halo(Face::low(0), 1); // including the upper left corner
        let (a, b, rows, columns) = (a.clone(), b.clone(), tile.range(0), tile.range(1));
        rt.task("score", (above.input(), left.input(), tile.output(), best.reduction(Max)))
            .cpu(move |_, (above, left, mut tile, best)| {
                let (a, b) = (&a[rows.start - 1..rows.end - 1], &b[columns.start - 1..columns.end - 1]);
                best[0] = best[0].max(score(a, b, above, left, &mut tile));
            })
            .submit()?;
    }
    Ok(())
}

/// Aligns in one piece.
fn align_serially(a: &[u8], b: &[u8]) -> (Array2<i32>, i32) {
    let mut scores = Array2::zeros((a.len() + 1, b.len() + 1));
    let (above, left) = (Array2::zeros((1, b.len() + 1)), Array2::zeros((a.len(), 1)));
    let best = score(a, b, above.view(), left.view(), &mut scores.slice_mut(s![1.., 1..]));
    (scores, best)
}

fn judge(elapsed: Duration, best: i32, found: Option<(Array2<i32>, i32)>) -> Outcome {
    println!("best score {best}");
    Outcome { elapsed, verified: Some(found.is_some()) }
}
