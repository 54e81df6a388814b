//! Sweeps over a grid that exceeds host memory: each strip of rows is an array, which leaves for the disk while no task
//! needs it.
//!
//! Each strip contains a copy of the row above it and of the row below it. After the sweep of a strip, a task exchanges
//! these rows with the strip above, while both are still in memory. So a sweep reads and writes the grid once.
//!
//! There are too few sweeps to converge, so the check is another one: the iteration starts at the solution plus an
//! eigenvector of the iteration, sin(pπx) sin(pπy). Each sweep multiplies the eigenvector by cos(pπ/(n+1)), and the
//! solution stays. Every point is compared with this value.

use std::f64::consts::PI;
use std::mem;
use std::time::Duration;

use ndarray::{ArrayView2, ArrayViewMut2, s};
use thalweg::prelude::*;

use super::common::{self, Outcome, copied_bytes};
use super::reach::Reach;
use super::sweep::relax;
use super::{Grid, Options};

type Strips = Vec<Data<f64, Ix2>>;

/// Does `--max-iterations` sweeps (by default 10) over strips of `--block` rows, and checks them.
pub(super) fn run(rt: &Runtime, options: &Options) -> common::Result<Outcome> {
    let (grid, sweeps) = (Grid::new(options.size), options.max_iterations.unwrap_or(10));
    let rows: Vec<_> = blocks(options.size, options.block).collect();
    let strips = || -> Strips { rows.iter().map(|rows| rt.zeros([rows.len() + 2, grid.points])).collect() };
    let (mut old, mut new) = (strips(), strips());
    for (strip, rows) in old.iter().zip(&rows) {
        let first = rows.start;
        rt.task("fill", strip.output())
            .cpu(move |_, mut u| u.indexed_iter_mut().for_each(|((i, j), u)| *u = value(&grid, 0, (first + i, j))))
            .submit()?;
    }
    rt.wait()?;
    let (start, before) = (rt.now(), copied_bytes(rt));
    for _ in 0..sweeps {
        for i in 0..rows.len() {
            rt.task("relax", (old[i].input(), new[i].output())).cpu(|_, (old, new)| sweep(&old, new)).submit()?;
            if i > 0 {
                let (above, below) = new.split_at(i);
                rt.task("exchange", (above[i - 1].inout(), below[0].inout()))
                    .cpu(|_, (above, below)| exchange(above, below))
                    .submit()?;
            }
        }
        mem::swap(&mut old, &mut new);
    }
    rt.wait()?;
    let (elapsed, moved) = (rt.now() - start, copied_bytes(rt) - before);
    println!("{0} x {0} unknowns, {sweeps} sweeps", options.size);
    println!("{:.2} GB to and from the disk, {:.0} MB/s", moved as f64 / 1e9, rate(moved, elapsed) / 1e6);
    let largest = rt.scalar(0.0);
    for (strip, rows) in old.iter().zip(&rows) {
        let first = rows.start;
        let compare = move |_: &thalweg::Context, (u, largest): (ArrayView2<'_, f64>, &mut [f64])| {
            let error = |((i, j), u): ((usize, usize), &f64)| (u - value(&grid, sweeps, (first + i, j))).abs();
            largest[0] = u.indexed_iter().map(error).fold(largest[0], f64::max);
        };
        rt.task("compare", (strip.input(), largest.commutative())).cpu(compare).submit()?;
    }
    let error = rt.read(&largest)?[0];
    println!("error {error:.2e}");
    Ok(Outcome { elapsed, verified: Some(error < 1e-12) })
}

fn rate(bytes: u64, elapsed: Duration) -> f64 {
    bytes as f64 / elapsed.as_secs_f64()
}

/// Returns the value of a point after a number of sweeps.
fn value(grid: &Grid, sweeps: usize, (i, j): (usize, usize)) -> f64 {
    let intervals = grid.points - 1;
    let periods = (intervals / 3).max(1);
    // Reducing the argument first keeps the sine exact to the last digits on large grids.
    let sine = |i: usize| (PI * (periods * i % (2 * intervals)) as f64 / intervals as f64).sin();
    let factor = (PI * periods as f64 / intervals as f64).cos();
    grid.exact((i, j)) + factor.powi(sweeps as i32) * sine(i) * sine(j)
}

/// Relaxes the inner points of a strip, and copies the others.
fn sweep(old: &ArrayView2<'_, f64>, mut new: ArrayViewMut2<'_, f64>) {
    let (rows, columns) = new.dim();
    for row in [0, rows - 1] {
        new.row_mut(row).assign(&old.row(row));
    }
    for column in [0, columns - 1] {
        new.column_mut(column).assign(&old.column(column));
    }
    relax(old, &mut new.slice_mut(s![1..rows - 1, 1..columns - 1]), Reach::Memory);
}

/// Copies the last row of a strip and the first row of the next strip to each other's edges.
fn exchange(mut above: ArrayViewMut2<'_, f64>, mut below: ArrayViewMut2<'_, f64>) {
    let rows = above.nrows();
    below.row_mut(0).assign(&above.row(rows - 2));
    above.row_mut(rows - 1).assign(&below.row(1));
}
