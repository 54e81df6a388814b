//! BT-MZ, SP-MZ and LU-MZ: the multi-zone NAS Parallel Benchmarks.
//!
//! ```text
//! cargo run --release --example npb_mz -- bt --class S --serial
//! ```

#![expect(clippy::reversed_empty_ranges, reason = "the negative ends of ndarray's slices count from the last element")]

#[macro_use]
mod lanes;

mod bt;
mod classes;
mod components;
mod exchange;
mod initial;
mod lines;
mod lu;
mod norms;
mod operator;
mod physics;
mod planes;
mod rows;
mod serial;
mod sp;
mod stencil;
#[cfg(test)]
mod tests;
mod verify;
mod zones;

use std::process::ExitCode;

use clap::Parser;

use classes::{Benchmark, Class};
use serial::Mode;

/// The multi-zone NAS Parallel Benchmarks
#[derive(Parser)]
struct Options {
    /// Which of the three
    #[arg(value_enum)]
    benchmark: Benchmark,
    /// Problem class
    #[arg(long, value_enum, default_value = "S")]
    class: Class,
    /// Without the runtime: a plain loop over the zones
    #[arg(long, required = true)]
    serial: bool,
    /// Time steps [default: those of the class]
    #[arg(long)]
    niter: Option<usize>,
    /// Time the stages of a step, which are then done one after the other
    #[arg(long)]
    stages: bool,
    /// Threads inside a zone
    #[arg(long, default_value_t = 1)]
    threads: usize,
}

fn main() -> ExitCode {
    let Options { benchmark, class, niter, threads, stages, .. } = Options::parse();
    let problem = benchmark.problem(class);
    let steps = niter.unwrap_or(problem.steps);
    let mode = if stages { Mode::Stages } else { Mode::Fused };
    let run = serial::run(benchmark, &problem, steps, threads, mode);
    println!("{benchmark:?}-MZ, class {class:?}: {steps} steps in {:.4} s, {:.0} Mop/s", run.seconds, run.rate);
    print!("{}", run.stages);
    let verdict = run.verdict(&problem);
    println!("{verdict}");
    if steps == problem.steps && !verdict.verified() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
