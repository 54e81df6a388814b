//! NPB CG as tasks: the smallest eigenvalue of a sparse matrix by inverse power iteration.
//!
//! CG is the NAS Parallel Benchmark that stresses irregular memory access and global sums. A run is verified
//! against the official value of ζ; the rate uses NPB's own count of operations per second.
//!
//! ```text
//! cargo run --release --example cg -- --class A --units 1:CPU:1,2:EMU:1
//! ```

mod common;

use std::process::ExitCode;
use std::time::Instant;

use clap::{Parser, ValueEnum};
use common::{Machine, Outcome, integer};
use npb_cg::{Class, EPSILON, Matrix, Solver, Storage};
use thalweg::Runtime;

/// Number of power iteration steps that are in flight at once: enough to keep the units busy, and few enough to keep
/// the graph small.
const STEPS_IN_FLIGHT: usize = 2;

/// Default number of blocks per core. All blocks have about the same number of entries, so more blocks would hardly
/// improve the balance. Measured on two cores: with two blocks per core, class W runs at 0.92 times the speed and class
/// A at 0.97 times.
const BLOCKS_PER_CORE: usize = 1;

/// NPB CG: conjugate gradients on an irregular sparse matrix
#[derive(Parser)]
struct Options {
    /// Problem class
    #[arg(long, visible_alias = "size", value_enum, default_value = "S")]
    class: Class,
    /// Blocks of rows; each is one task per phase [default: one per core of this machine, or one per device if all
    /// units are devices]
    #[arg(long, value_name = "N", value_parser = integer(1..=65_536))]
    blocks: Option<usize>,
    /// Storage of the matrix [default: symmetric in classes B and C unless there are many blocks, else the faster
    /// of rows and sliced, measured at the start; always rows if a unit is an accelerator]
    #[arg(long, value_enum)]
    storage: Option<Storage>,
    /// Record one step's solve, and replay it in every step
    #[arg(long)]
    replay: bool,
    /// Repeat the iterations of each solve, two at a time, until ‖r‖² is at most this, instead of 25 times
    #[arg(long, value_name = "BOUND", conflicts_with = "replay")]
    until: Option<f64>,
    /// Print ζ and the residual of every step
    #[arg(long, short)]
    verbose: bool,
    #[command(flatten)]
    machine: Machine,
}

fn main() -> ExitCode {
    let options = Options::parse();
    options.machine.run(|rt| cg(rt, &options))
}

fn cg(rt: &Runtime, options: &Options) -> common::Result<Outcome> {
    let problem = options.class.problem();
    let start = Instant::now();
    let matrix = Matrix::generate(&problem);
    println!(
        "NPB CG, class {:?}: {} rows, {} entries, generated in {:.2?}",
        options.class,
        matrix.rows(),
        matrix.nonzeros(),
        start.elapsed()
    );
    let blocks = options.blocks.unwrap_or_else(|| match rt.machine().num_cpu_units() {
        0 => rt.machine().num_devices(),
        _ => BLOCKS_PER_CORE * std::thread::available_parallelism().map_or(1, usize::from),
    });
    let solver = Solver::new(rt, &problem, matrix, blocks, options.storage)?;
    let storage = solver.storage().to_possible_value().expect("no value is hidden");
    println!("{} blocks, {} steps, matrix stored as {}", solver.blocks(), problem.iterations, storage.get_name());

    // The benchmark's rules require an untimed step first, which loads the code and places the data.
    solver.reset()?;
    solver.step(0)?;
    solver.reset()?;
    let mut recording = match options {
        Options { replay: true, .. } => Some(solver.record()?),
        Options { until: Some(_), .. } => Some(solver.record_iterations()?),
        _ => None,
    };
    rt.wait()?;

    let mut zeta = f64::NAN;
    let start = rt.now();
    for submitted in 0..problem.iterations + STEPS_IN_FLIGHT {
        if submitted < problem.iterations {
            match (&mut recording, options.until) {
                (Some(iterations), Some(bound)) => solver.step_until(iterations, bound, submitted)?,
                (Some(solve), None) => solver.replayed_step(solve, submitted)?,
                (None, _) => solver.step(submitted)?,
            }
        }
        let Some(step) = submitted.checked_sub(STEPS_IN_FLIGHT) else {
            continue;
        };
        let residual;
        (zeta, residual) = solver.outcome(step)?;
        if options.verbose {
            rt.without_progress(|| println!("{:>4}  {zeta:.13}  {residual:.3e}", step + 1));
        }
    }
    rt.wait()?;
    let elapsed = rt.now() - start;
    let rate = problem.operations() * 1e-6 / elapsed.as_secs_f64();
    if rt.machine().is_simulated() {
        println!("rate      {rate:.0} Mop/s");
        return Ok(Outcome { elapsed, verified: None });
    }

    let error = problem.relative_error(zeta);
    println!("zeta      {zeta:.13}");
    println!("reference {:.13}", problem.zeta);
    println!("error     {error:.1e}, at most {EPSILON:.0e} to verify");
    println!("rate      {rate:.0} Mop/s");
    Ok(Outcome { elapsed, verified: Some(error <= EPSILON) })
}
