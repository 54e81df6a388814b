//! Laplace's equation on a square by Jacobi's method, as tasks on two-dimensional blocks.
//!
//! This is the iteration of Ozen et al. 2014 (compute `u` from `u_old`, reduce the error, repeat until it is small
//! enough) without the barriers. Each task relaxes one block: it reads the block and a halo of one cell from one array
//! and writes the block in the other array. Only every hundredth sweep measures the change, and the program reads the
//! result one hundred sweeps later, so the units never wait for the program.
//!
//! A grid that does not fit into any cache is read from memory once per sweep, so memory bandwidth limits the speed
//! (`reach.rs`). With `--sweeps-per-task`, a task does several sweeps over its block. Each sweep follows one row behind
//! the previous sweep, while these rows are still in the cache. The halo is then as many cells wide as the task does
//! sweeps, and neighbouring tasks compute some of these cells redundantly. The result is bit-identical.
//!
//! With `--host-memory`, the grid is in strips that can leave for a disk (`out_of_core.rs`).
//!
//! The solution is known: u = x³y − xy³ is harmonic, and because its fourth derivatives ∂⁴u/∂x⁴ and ∂⁴u/∂y⁴ vanish,
//! the five-point formula has no discretization error. Only the error of the iteration remains, which the discrete
//! maximum principle bounds by the change of the last sweep. The program stops when this bound meets the tolerance,
//! then checks every point.

#[allow(dead_code, reason = "only a bench that shares this file asks how many cores share a cache")]
#[path = "../common/caches.rs"]
mod caches;
#[path = "../common/mod.rs"]
mod common;
mod out_of_core;
mod reach;
mod sweep;
#[cfg(test)]
#[path = "../../crates/npb/tests/mz/testing.rs"]
mod testing;

use std::mem;
use std::process::ExitCode;

use clap::Parser;
use common::{Machine, Outcome, integer};
use ndarray::Array2;
use reach::Reach;
use sweep::{before, largest_change, relax, relax_often};
use thalweg::kernel::{DeviceView, DeviceViewMut, Kernel, Launcher, Program, Read, Write};
use thalweg::prelude::*;

/// Default number of sweeps in a simulation, where nothing is measured, so nothing converges.
const SIMULATED_SWEEPS: usize = 1000;

/// Number of sweeps from one measurement of the change to the next.
const CHECK_EVERY: usize = 100;

/// Number of these sweeps that are recorded. It is even, so that both arrays have their original roles afterwards.
const RECORDED_SWEEPS: usize = CHECK_EVERY - 2;

/// Laplace's equation on a square by Jacobi's method
#[derive(Parser)]
struct Options {
    /// Unknowns along each side of the square
    #[arg(long, value_name = "N", default_value = "256", value_parser = integer(1..=32_768))]
    size: usize,
    /// Side of a block; each block is one task per sweep
    #[arg(long, value_name = "N", default_value = "128", value_parser = integer(1..=1_000_000_000))]
    block: usize,
    /// Sweeps that a task does at once, on cores only; three rows of a block per sweep should fit into a cache
    #[arg(long, value_name = "N", default_value = "1", value_parser = integer(1..=1000), conflicts_with = "replay")]
    sweeps_per_task: usize,
    /// Largest error to accept at any point
    #[arg(long, value_name = "ERROR", default_value = "1e-6", allow_negative_numbers = true, value_parser = positive)]
    tolerance: f64,
    /// Give up after this many sweeps [default: 1000000, or 1000 in a simulation]
    #[arg(long, value_name = "N", value_parser = integer(1..=1_000_000_000))]
    max_iterations: Option<usize>,
    /// Record the sweeps between two measurements once, and replay them
    #[arg(long)]
    replay: bool,
    #[command(flatten)]
    machine: Machine,
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number > 0.0 && number.is_finite() => Ok(number),
        _ => Err("must be a positive number, such as 1e-6".to_owned()),
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    options.machine.run(|rt| {
        if options.machine.host_memory().is_some() {
            return out_of_core::run(rt, &options);
        }
        let start = rt.now();
        let solution = solve(rt, &options)?;
        let elapsed = rt.now() - start;
        if rt.machine().is_simulated() {
            println!("{0} x {0} unknowns, {1} sweeps", options.size, solution.sweeps);
            return Ok(Outcome { elapsed, verified: None });
        }

        let error = Grid::new(options.size).largest_error(&solution.u);
        println!("{0} x {0} unknowns, {1} sweeps", options.size, solution.sweeps);
        println!("error {error:.2e}, bound {:.2e}, tolerance {:.2e}", solution.bound, options.tolerance);
        let verified = solution.bound <= options.tolerance && error <= options.tolerance;
        Ok(Outcome { elapsed, verified: Some(verified) })
    })
}

/// Result of the iteration.
struct Solution {
    /// Values at all points, including the boundary.
    u: Array2<f64>,
    sweeps: usize,
    /// Upper bound of the error at any point.
    bound: f64,
}

/// Sweeps until the error is certain to be within the tolerance, or the limit of sweeps is reached.
fn solve(rt: &Runtime, options: &Options) -> common::Result<Solution> {
    let grid = Grid::new(options.size);
    let field = || match rt.machine().is_simulated() {
        true => Ok(rt.zeros([grid.points; 2])),
        false => rt.data_with([grid.points; 2], move |at| grid.guess(at)),
    };
    let (mut old, mut new) = (field()?.named("old"), field()?.named("new"));

    let most = options.max_iterations.unwrap_or(if rt.machine().is_simulated() { SIMULATED_SWEEPS } else { 1_000_000 });
    let mut sweeps = 0;
    let mut measured: Option<Data<f64>> = None;
    let mut between = if options.replay { Some(record_sweeps(rt, options.block, &old, &new)?) } else { None };
    while sweeps < most {
        if let Some(recording) = &mut between
            && sweeps % CHECK_EVERY == 0
            && sweeps + RECORDED_SWEEPS < most
        {
            recording.replay()?;
            sweeps += RECORDED_SWEEPS;
        }
        mem::swap(&mut old, &mut new);
        let before_check = (sweeps + 1).next_multiple_of(CHECK_EVERY).min(most) - sweeps - 1;
        if before_check > 0 {
            let together = options.sweeps_per_task.min(before_check);
            match together {
                1 => submit_sweep(rt, options.block, &old, &new)?,
                _ => submit_sweeps(rt, options.block, together, &old, &new)?,
            }
            sweeps += together;
            continue;
        }
        sweeps += 1;
        let change = rt.scalar(0.0).named("change");
        submit_measured_sweep(rt, options.block, &old, &new, &change)?;
        if let Some(earlier) = measured.replace(change) {
            let bound = grid.error_bound(rt.read(&earlier)?[0]);
            if bound <= options.tolerance && !rt.machine().is_simulated() {
                break;
            }
        }
    }
    let bound = match measured {
        Some(change) => grid.error_bound(rt.read(&change)?[0]),
        None => f64::INFINITY,
    };
    Ok(Solution { u: rt.take(new)?, sweeps, bound })
}

/// Returns the blocks of inner points: squares of a given side, possibly smaller at the far edges.
fn blocks(u: &Data<f64, Ix2>, side: usize) -> Partition<'_, f64, Ix2> {
    let inside = 1..u.shape()[0] - 1;
    u.block((inside.clone(), inside)).tiles([side, side])
}

/// Returns where the two arrays are when a sweep reads them: in a cache or in memory.
fn reach(u: &Data<f64, Ix2>) -> Reach {
    Reach::of(2 * u.len() * size_of::<f64>())
}

/// Submits a sweep that computes `new` from `old`, with one task per block.
fn submit_sweep(rt: &Runtime, side: usize, old: &Data<f64, Ix2>, new: &Data<f64, Ix2>) -> Result<(), SubmitError> {
    let reach = reach(old);
    rt.for_each("relax", (blocks(old, side).grow(1).input(), blocks(new, side).output()))
        .cpu(move |_, (old, mut new)| relax(&old, &mut new, reach))
        .gpu(|k, (old, mut new)| launch_relax(k, &old, &mut new))
        .submit()?;
    Ok(())
}

/// Submits one task per block; each task does `sweeps` sweeps.
fn submit_sweeps(
    rt: &Runtime,
    side: usize,
    sweeps: usize,
    old: &Data<f64, Ix2>,
    new: &Data<f64, Ix2>,
) -> Result<(), SubmitError> {
    let along = (old.shape()[0] - 2).div_ceil(side);
    rt.for_each("relax often", (0.., blocks(old, side).grow(sweeps).input(), blocks(new, side).output()))
        .cpu(move |_, (number, old, mut new)| {
            let before = [number / along, number % along].map(|number| before(number, side, sweeps));
            relax_often(&old, before, &mut new, sweeps);
        })
        .submit()?;
    Ok(())
}

/// Records [`RECORDED_SWEEPS`] sweeps, which can then be submitted with a single call.
fn record_sweeps(
    rt: &Runtime,
    side: usize,
    old: &Data<f64, Ix2>,
    new: &Data<f64, Ix2>,
) -> Result<Recording, SubmitError> {
    let reach = reach(old);
    rt.record(|r| {
        let (mut old, mut new) = (old, new);
        for _ in 0..RECORDED_SWEEPS {
            mem::swap(&mut old, &mut new);
            r.for_each("relax", (blocks(old, side).grow(1).input(), blocks(new, side).output()))
                .cpu(move |_, (old, mut new)| relax(&old, &mut new, reach))
                .gpu(|k, (old, mut new)| launch_relax(k, &old, &mut new))
                .submit()?;
        }
        Ok(())
    })
}

/// Submits a sweep that also reduces the largest change over all points into `change`.
fn submit_measured_sweep(
    rt: &Runtime,
    side: usize,
    old: &Data<f64, Ix2>,
    new: &Data<f64, Ix2>,
    change: &Data<f64>,
) -> Result<(), SubmitError> {
    let reach = reach(old);
    let accesses = (blocks(old, side).grow(1).input(), blocks(new, side).output(), change.reduction(Max));
    rt.for_each("relax and measure", accesses)
        .cpu(move |_, (old, mut new, change)| {
            relax(&old, &mut new, reach);
            change[0] = change[0].max(largest_change(&old, &new));
        })
        .gpu(|k, (old, mut new, mut change)| launch_relax_and_measure(k, &old, &mut new, &mut change))
        .submit()?;
    Ok(())
}

#[allow(unsafe_code)]
// SAFETY: a thread does nothing unless `rows` and `columns` say that it has a point. It then writes only this point and
// reads only the points around it, so all accesses are in bounds.
const JACOBI: Program = unsafe { Program::new("jacobi.cl", include_str!("../../kernels/jacobi.cl")) }
    .header("reduce.h", include_str!("../../kernels/reduce.h"));
/// Arguments: old, new; rows, columns; the row strides of both arrays.
type Relax = (Read<f64>, Write<f64>, i32, i32, i64, i64);
/// Like [`Relax`], with the change as an additional argument after the arrays.
type RelaxAndMeasure = (Read<f64>, Write<f64>, Write<f64>, i32, i32, i64, i64);

static RELAX: Kernel<Relax> = Kernel::new(&JACOBI, "relax");
static RELAX_AND_MEASURE: Kernel<RelaxAndMeasure> = Kernel::new(&JACOBI, "relax_and_measure");

/// Runs [`relax`] on an accelerator.
fn launch_relax(
    k: &mut Launcher<'_>,
    old: &DeviceView<'_, f64>,
    new: &mut DeviceViewMut<'_, f64>,
) -> Result<(), DeviceError> {
    let (threads, rows, columns, old_stride, new_stride) = geometry(old, new);
    k.launch(&RELAX, threads, (old, new, rows, columns, old_stride, new_stride))
}

/// Runs [`relax`] on an accelerator, and raises `change` to the value of [`largest_change`] if this value is larger.
fn launch_relax_and_measure(
    k: &mut Launcher<'_>,
    old: &DeviceView<'_, f64>,
    new: &mut DeviceViewMut<'_, f64>,
    change: &mut DeviceViewMut<'_, f64>,
) -> Result<(), DeviceError> {
    let (threads, rows, columns, old_stride, new_stride) = geometry(old, new);
    k.launch(&RELAX_AND_MEASURE, threads, (old, new, change, rows, columns, old_stride, new_stride))
}

/// Returns the number of threads, the rows and columns, and the row strides of both arrays.
fn geometry(old: &DeviceView<'_, f64>, new: &DeviceViewMut<'_, f64>) -> ([usize; 2], i32, i32, i64, i64) {
    let [rows, columns, ..] = new.extents();
    ([columns, rows], rows as i32, columns as i32, old.strides()[0] as i64, new.strides()[0] as i64)
}

/// A uniform grid on the square −1 ≤ x, y ≤ 1, including the boundary.
#[derive(Clone, Copy)]
struct Grid {
    /// Number of points along each side, including the boundary.
    points: usize,
}

impl Grid {
    fn new(unknowns: usize) -> Self {
        Self { points: unknowns + 2 }
    }

    fn step(&self) -> f64 {
        2.0 / (self.points - 1) as f64
    }

    /// Returns the solution at a point.
    fn exact(&self, (i, j): (usize, usize)) -> f64 {
        let coordinate = |i: usize| i as f64 * self.step() - 1.0;
        let (x, y) = (coordinate(j), coordinate(i));
        x * y * (x * x - y * y)
    }

    /// Returns the initial value of a point: the solution on the boundary, zero inside.
    fn guess(&self, (i, j): (usize, usize)) -> f64 {
        let inside = 1..self.points - 1;
        if inside.contains(&i) && inside.contains(&j) { 0.0 } else { self.exact((i, j)) }
    }

    /// Bounds the error at any point, given the largest change of a sweep.
    ///
    /// A change of δ is a residual of 4 δ/h². The comparison function (1 − x²)/2 is at most ½ and its discrete −Δ
    /// is 1, so the maximum principle gives an error of at most half the residual. Later sweeps cannot make it
    /// larger.
    fn error_bound(&self, change: f64) -> f64 {
        2.0 * change / self.step().powi(2)
    }

    fn largest_error(&self, u: &Array2<f64>) -> f64 {
        u.indexed_iter().fold(0.0, |largest, (at, u)| f64::max(largest, (u - self.exact(at)).abs()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::s;

    fn solved(units: &str, flags: &[&str]) -> Solution {
        let rt = Runtime::builder().compute_units(units).use_current_thread(true).build().unwrap();
        let options = Options::parse_from([&["jacobi"], flags].concat());
        solve(&rt, &options).unwrap()
    }

    #[test]
    fn relaxing_the_solution_does_not_change_it() {
        let grid = Grid::new(30);
        let exact = Array2::from_shape_fn((32, 32), |at| grid.exact(at));
        let mut relaxed = exact.clone();
        for reach in [Reach::Cache, Reach::Memory] {
            relax(&exact.view(), &mut relaxed.slice_mut(s![1..31, 1..31]), reach);
            assert!(grid.largest_error(&relaxed) < 1e-15, "{reach:?}");
        }
    }

    #[test]
    fn sweep_takes_the_mean_of_the_neighbours() {
        let old = Array2::from_shape_fn((3, 4), |(i, j)| (10 * i + j * j) as f64);
        let mut new = Array2::zeros((1, 2));
        relax(&old.view(), &mut new.view_mut(), Reach::Cache);
        assert_eq!(new, ndarray::array![[11.5, 14.5]]);
        assert_eq!(largest_change(&old.view(), &new.view_mut()), 0.5);
    }

    #[test]
    fn memory_sweep_matches_cache_sweep_bitwise() {
        // The sizes include rows that begin and end inside a cache line, rows shorter than a cache line, many rows, and
        // none.
        for (rows, columns) in [(5, 100), (3, 5), (1, 1), (40, 8), (7, 67), (0, 3), (3, 0), (2, 2500)] {
            let old = Array2::from_shape_fn((rows + 2, columns + 2), |(i, j)| ((i * 31 + j * 17) as f64).sin());
            let mut near = Array2::from_elem((rows + 2, columns + 2), 7.0);
            let mut far = near.clone();
            let inside = s![1..=rows, 1..=columns];
            relax(&old.view(), &mut near.slice_mut(inside), Reach::Cache);
            relax(&old.view(), &mut far.slice_mut(inside), Reach::Memory);
            assert_eq!(near, far, "{rows} x {columns}");
        }
    }

    #[test]
    fn arrays_are_in_memory_if_no_cache_has_room() {
        assert_eq!(Reach::of(0), Reach::Cache);
        assert_eq!(Reach::of(1 << 40), Reach::Memory);
    }

    #[test]
    fn error_bound_holds_and_all_machines_agree_bitwise() {
        let flags = ["--size", "40", "--block", "16", "--tolerance", "1e-9"];
        let first = solved("2:CPU:1", &flags);
        let error = Grid::new(40).largest_error(&first.u);
        assert!(0.0 < error && error <= first.bound && first.bound <= 1e-9, "{error} {}", first.bound);
        for (units, more) in [("1:CPU:2", None), ("1:CPU:1,2:EMU:1", None), ("2:CPU:1", Some("--replay"))] {
            let other = solved(units, &[&flags[..], more.as_slice()].concat());
            assert_eq!((other.sweeps, other.bound), (first.sweeps, first.bound), "{units}");
            assert_eq!(other.u, first.u, "{units}");
        }
    }

    #[test]
    fn several_sweeps_per_task_are_bit_identical() {
        let flags = ["--size", "40", "--tolerance", "1e-9"];
        let first = solved("2:CPU:1", &flags);
        // The sizes include blocks that end next to the boundary, blocks smaller than their halo, and a single block.
        for (block, sweeps) in [("16", "2"), ("13", "7"), ("39", "5"), ("3", "6"), ("40", "99"), ("128", "1000")] {
            for units in ["2:CPU:1", "1:CPU:1,2:EMU:1"] {
                let other = solved(units, &[&flags[..], &["--block", block, "--sweeps-per-task", sweeps]].concat());
                assert_eq!((other.sweeps, other.bound), (first.sweeps, first.bound), "{block}, {sweeps}, {units}");
                assert_eq!(other.u, first.u, "{block}, {sweeps}, {units}");
            }
        }
    }

    #[test]
    fn accelerators_are_bit_identical() {
        // Begin with a single block, so that kernels are compiled one after the other.
        for block in ["40", "16"] {
            let flags = ["--size", "40", "--block", block, "--tolerance", "1e-9"];
            let first = solved("2:CPU:1", &flags);
            for units in ["1:OPENCL:1", "1:CPU:1,1:OPENCL:1"] {
                let Some(rt) = testing::accelerated(units) else { return };
                let options = Options::parse_from([&["jacobi"], &flags[..]].concat());
                let other = solve(&rt, &options).unwrap();
                assert_eq!((other.sweeps, other.bound), (first.sweeps, first.bound), "{units}");
                assert_eq!(other.u, first.u, "{units}");
            }
        }
    }

    #[test]
    fn too_few_sweeps_miss_the_tolerance() {
        let stopped = solved("2:CPU:1", &["--size", "40", "--max-iterations", "30"]);
        assert_eq!(stopped.sweeps, 30);
        let error = Grid::new(40).largest_error(&stopped.u);
        assert!(1e-6 < error && error <= stopped.bound, "{error} {}", stopped.bound);
    }
}
