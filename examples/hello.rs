//! The first program: y += 3 x, one task per block. The runtime determines which tasks may run in parallel.

mod common;

use std::process::ExitCode;

use clap::Parser;
use common::{Machine, Outcome, integer};

/// Adds a multiple of one vector to another, block by block
#[derive(Parser)]
struct Options {
    /// Length of the vectors
    #[arg(long, value_name = "N", default_value_t = 1 << 22, value_parser = integer(1..=1 << 28))]
    size: usize,
    #[command(flatten)]
    machine: Machine,
}

fn main() -> ExitCode {
    let Options { size, machine } = Options::parse();
    machine.run(|rt| {
        let x = rt.data(vec![1.0; size]);
        let y = rt.data(vec![2.0; size]);
        let start = rt.now();
        rt.for_each("axpy", (x.blocks(1 << 16).input(), y.blocks(1 << 16).inout()))
            .cpu(|_, (x, y)| y.iter_mut().zip(x).for_each(|(y, x)| *y += 3.0 * x))
            .submit()?;
        rt.wait()?;
        let elapsed = rt.now() - start;
        let verified = rt.take(y)?.iter().all(|&y| y == 5.0);
        Ok(Outcome { elapsed, verified: Some(verified) })
    })
}
