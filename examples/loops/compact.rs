//! Stream compaction by annotation alone: the elements above a limit, packed together. A running sum counts them up
//! to each position; then each element of the result searches the counts for its own position.
//!
//! ```text
//! cargo run --release --example compact -- --units 1:CPU:1,1:OPENCL:1
//! ```

#[path = "../common/mod.rs"]
mod common;

use clap::Parser;
use common::{Machine, Outcome, integer};
use std::process::ExitCode;
use thalweg::loops::{Out, target};

/// Selects the elements of a vector that are above a limit
#[derive(Parser)]
struct Options {
    /// Elements of the vector
    #[arg(long, value_name = "N", default_value = "1000000", value_parser = integer(0..=1_000_000_000))]
    size: usize,
    /// Limit for elements, which are numbers from 0 to 1
    #[arg(long, value_name = "X", default_value = "0.75")]
    limit: f64,
    #[command(flatten)]
    machine: Machine,
}

/// Counts the elements above the limit, up to each element and in total.
#[target]
fn count(x: &[f64], limit: f64, counts: Out<'_, [u32]>, total: &mut u32) {
    for i in 0..x.len() {
        *total += if x[i] > limit { 1 } else { 0 };
        counts[i] = *total;
    }
}

/// Element `n` of the result is where the counts reach `n + 1`.
#[target]
fn gather(x: &[f64], counts: &[u32], found: Out<'_, [f64]>) {
    for n in 0..found.len() {
        let mut first = 0;
        let mut end = x.len();
        while first < end {
            let middle = first + (end - first) / 2;
            if counts[middle] as usize > n {
                end = middle;
            } else {
                first = middle + 1;
            }
        }
        found[n] = x[first];
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    options.machine.run(|rt| {
        if rt.machine().is_simulated() {
            return Err("cannot simulate a compaction: it has no cost; try `jacobi`".into());
        }
        let (n, limit) = (options.size, options.limit);
        let numbers: Vec<f64> = (0..n as u64).map(|i| (i * 7919 % 10_007) as f64 / 10_007.0).collect();
        let (x, counts, total) = (rt.data(numbers.clone()), rt.zeros::<u32, _>(n), rt.scalar(0u32));
        let start = rt.now();
        count::task(rt, &x, limit, &counts, &total).submit()?;
        let found = rt.zeros(rt.read(&total)?[0] as usize);
        gather::task(rt, &x, &counts, &found).submit()?;
        let found = rt.take(found)?;
        let elapsed = rt.now() - start;
        println!("found {} of {n} elements above {limit}", found.len());
        let right = numbers.into_iter().filter(|number| *number > limit).eq(found);
        Ok(Outcome { elapsed, verified: Some(right) })
    })
}
