//! The sum of two vectors by annotation alone: MACC's first program. One function provides the body for cores, the
//! kernel for accelerators, and the directions of the task's accesses.
//!
//! ```text
//! cargo run --release --example vecadd -- --units 1:CPU:1,1:OPENCL:1
//! ```

#[path = "../common/mod.rs"]
mod common;

use clap::Parser;
use common::{Machine, Outcome, integer};
use std::process::ExitCode;
use thalweg::loops::{Out, target};

/// Adds two vectors, one task per block
#[derive(Parser)]
struct Options {
    /// Elements of a vector
    #[arg(long, value_name = "N", default_value = "1000000", value_parser = integer(0..=1_000_000_000))]
    size: usize,
    /// Elements of a block
    #[arg(long, value_name = "N", default_value = "250000", value_parser = integer(1..=1_000_000_000))]
    block: usize,
    #[command(flatten)]
    machine: Machine,
}

#[target]
fn vecadd(a: &[f64], b: &[f64], c: Out<'_, [f64]>) {
    for i in 0..c.len() {
        c[i] = a[i] + b[i];
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    options.machine.run(|rt| {
        let n = options.size;
        if rt.machine().is_simulated() {
            return Err("cannot simulate a sum of vectors: it has no cost; try `jacobi`".into());
        }
        let (a, b) = (rt.data((0..n).map(|i| i as f64).collect()), rt.data((0..n).map(|i| 0.5 * i as f64).collect()));
        let c = rt.zeros(n);
        let start = rt.now();
        for ((a, b), c) in
            a.blocks(options.block).iter().zip(b.blocks(options.block).iter()).zip(c.blocks(options.block).iter())
        {
            vecadd::task(rt, a, b, c).submit()?;
        }
        rt.wait()?;
        let elapsed = rt.now() - start;
        let right = rt.take(c)?.iter().enumerate().all(|(i, c)| *c == 1.5 * i as f64);
        println!("{n} elements");
        Ok(Outcome { elapsed, verified: Some(right) })
    })
}
