//! Sweeps over blocks of an array, with a choice of three performance mistakes that a trace reveals.
//!
//! `--mistake small-tasks` cuts the array into blocks so small that the runtime's overhead for a task outweighs the
//! task's work; `wide-region` declares more elements than a task touches, so tasks wait for each other needlessly;
//! `ping-pong` alternates sweeps between a core and a device, so data is copied back and forth. The guide's chapter on
//! slow programs finds each mistake with `thalweg trace` and fixes it.

mod common;

use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use common::{Machine, Outcome, integer};
use thalweg::prelude::*;

/// Sweeps over blocks of an array, with three mistakes to choose from
#[derive(Parser)]
struct Options {
    /// Number of elements
    #[arg(long, value_name = "N", default_value = "1048576", value_parser = integer(1..=1_000_000_000))]
    size: usize,
    /// Elements per block
    #[arg(long, value_name = "N", default_value = "65536", value_parser = integer(1..=1_000_000_000))]
    block: usize,
    /// Number of sweeps
    #[arg(long, value_name = "N", default_value = "20", value_parser = integer(1..=10_000))]
    sweeps: usize,
    /// Mistake to make
    #[arg(long, value_enum)]
    mistake: Option<Mistake>,
    #[command(flatten)]
    machine: Machine,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mistake {
    /// Blocks of 64 elements
    SmallTasks,
    /// Regions that reach from a block to the end of the array
    WideRegion,
    /// Every second sweep on an emulated device; needs units such as 1:CPU:1,1:EMU:1
    PingPong,
}

/// The work on a block, which takes a few nanoseconds per element.
fn sweep(block: &mut [f64]) {
    for x in block {
        for _ in 0..4 {
            *x = (*x * *x + 1.0).sqrt() * 0.9;
        }
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    options.machine.run(|rt| {
        let input: Vec<f64> = (0..options.size).map(|i| i as f64 / options.size as f64).collect();
        let x = if rt.machine().is_simulated() { rt.zeros(options.size) } else { rt.data(input.clone()) }.named("x");
        let start = rt.now();
        (0..options.sweeps).try_for_each(|number| submit(rt, &x, &options, number))?;
        rt.wait()?;
        let elapsed = rt.now() - start;
        if rt.machine().is_simulated() {
            return Ok(Outcome { elapsed, verified: None });
        }
        let mut expected = input;
        (0..options.sweeps).for_each(|_| sweep(&mut expected));
        Ok(Outcome { elapsed, verified: Some(rt.take(x)? == expected) })
    })
}

/// Submits a sweep with one task per block.
fn submit(rt: &Runtime, x: &Data<f64>, options: &Options, number: usize) -> Result<(), SubmitError> {
    let mistake = options.mistake;
    let block = if mistake == Some(Mistake::SmallTasks) { 64 } else { options.block };
    for part in blocks(options.size, block) {
        let len = part.len();
        let declared = if mistake == Some(Mistake::WideRegion) { part.start..options.size } else { part };
        let task = rt.task("sweep", (x.slice(declared).inout(),));
        let on_device = mistake == Some(Mistake::PingPong) && number % 2 == 1;
        match on_device {
            true => task.emulated(move |_, (x,)| sweep(&mut x[..len])).submit()?,
            false => task.cpu(move |_, (x,)| sweep(&mut x[..len])).submit()?,
        };
    }
    Ok(())
}
