//! BT-MZ, SP-MZ and LU-MZ: the multi-zone NAS Parallel Benchmarks.
//!
//! ```text
//! cargo run --release --example npb_mz -- bt --class S --serial
//! ```

mod classes;
mod components;
mod exchange;
mod initial;
mod lanes;
mod lines;
mod lu;
mod norms;
mod operator;
mod physics;
mod rows;
mod serial;
mod stencil;
#[cfg(test)]
mod tests;
mod verify;
mod zones;

use clap::Parser;

use classes::{Benchmark, Class};

/// The multi-zone NAS Parallel Benchmarks
#[derive(Parser)]
struct Options {
    /// Which of the three
    #[arg(value_enum)]
    benchmark: Benchmark,
    /// Problem class
    #[arg(long, value_enum, default_value = "S")]
    class: Class,
}

fn main() {
    let options = Options::parse();
    let problem = options.benchmark.problem(options.class);
    println!("{:?}", problem.points);
}
