//! The contenders of METG, one file each. Contenders written in Rust run in a child process of the bench.
//!
//! All contenders follow the same protocol, which is defined by [`sweep`] and, for those in C, by `grid.h`: inputs and
//! cells are set up first; the time of a pass runs from the first submission to the end of the wait; every task checks
//! its inputs, and the last cells are checked after each pass.

mod serial;
mod thalweg;

use std::error::Error;
use std::time::{Duration, Instant};

use crate::efficiency::{ENOUGH, FIRST, LAST, PASSES, Sample, Sweep};
use crate::kernel::Cell;
use crate::patterns::Grid;

/// Name of the runtime that this bench measures against the others.
pub(crate) const THALWEG: &str = "thalweg";
/// Name of the reference, which runs the tasks as a loop on one core.
pub(crate) const SERIAL: &str = "serial";

/// A way to run the tasks of a grid.
trait Runner {
    /// Runs every task once, with kernels of `iterations` iterations. Steps are numbered from `first_step`.
    fn pass(&mut self, iterations: u64, first_step: u64) -> Result<(), Box<dyn Error>>;

    /// Returns the content of the cell with this index.
    fn cell(&self, number: usize) -> Result<Cell, Box<dyn Error>>;
}

/// Runs the sweep of a contender written in Rust, in this process.
///
/// # Errors
/// If the name is unknown, a dependence is broken, or the runtime fails.
pub(crate) fn run(name: &str, grid: Grid, workers: usize, peak: f64) -> Result<Sweep, Box<dyn Error>> {
    // Bodies must own their data or borrow it for `'static`. Leaking is fine, because the process ends with the sweep.
    let grid: &'static Grid = Box::leak(Box::new(grid));
    match name {
        THALWEG => sweep(grid, peak, &mut thalweg::Tasks::new(grid, workers)?),
        SERIAL => sweep(grid, peak, &mut serial::Serial::new(grid)),
        _ => Err(format!("no contender {name:?} in this program").into()),
    }
}

/// Runs the grid with larger and larger kernels until the efficiency reaches [`ENOUGH`].
fn sweep(grid: &Grid, peak: f64, runner: &mut impl Runner) -> Result<Sweep, Box<dyn Error>> {
    let mut sweep = Sweep { tasks: grid.tasks(), samples: Vec::new() };
    let mut first_step = grid.steps as u64;
    let mut iterations = FIRST;
    while iterations <= LAST {
        let mut fastest = Duration::MAX;
        for _ in 0..PASSES {
            let start = Instant::now();
            runner.pass(iterations, first_step)?;
            fastest = fastest.min(start.elapsed());
            check(grid, first_step, runner)?;
            first_step += grid.steps as u64;
        }
        let seconds = fastest.as_secs_f64();
        let sample = Sample { iterations, seconds };
        sweep.samples.push(sample);
        if sweep.rate(sample) >= ENOUGH * peak {
            break;
        }
        iterations *= 2;
    }
    Ok(sweep)
}

/// Checks that the cells hold the output of the last tasks that wrote them.
fn check(grid: &Grid, first_step: u64, runner: &impl Runner) -> Result<(), Box<dyn Error>> {
    for step in grid.last_steps() {
        for point in 0..grid.width {
            let counted = first_step + step as u64;
            let [found_step, found_point, _] = runner.cell(grid.cell(step, point))?;
            if (found_step, found_point) != (counted, point as u64) {
                return Err(format!("the cell left by ({counted}, {point}) is of ({found_step}, {found_point})").into());
            }
        }
    }
    Ok(())
}
