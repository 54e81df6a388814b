//! Quicksort by nested tasks that never wait; or, with `--forks`, by one task whose body forks.
//!
//! A task partitions its part of the array and *returns* where the halves meet. A second task, which holds the part
//! only *weakly*, receives that index and submits the sorts of both halves as its children, which recurse in the same
//! way. No task has to know the depth of the recursion or wait for its end: a reader of some elements waits only for
//! the tasks that sort these elements.

mod common;

use std::ops::Range;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use common::{Machine, Outcome, integer};
use thalweg::prelude::*;

/// Quicksort by nested tasks
#[derive(Parser)]
struct Options {
    /// Elements
    #[arg(long, value_name = "N", default_value = "4000000", value_parser = integer(0..=1_000_000_000))]
    size: usize,
    /// Largest part that a single task sorts
    #[arg(long, value_name = "N", default_value = "50000", value_parser = integer(2..=1_000_000_000))]
    leaf: usize,
    /// Use one task, whose body sorts both halves in parallel if a unit is idle
    #[arg(long, conflicts_with = "serial")]
    forks: bool,
    /// Run a plain function instead, for comparison
    #[arg(long, conflicts_with_all = ["units", "scheduler", "simulate"])]
    serial: bool,
    #[command(flatten)]
    machine: Machine,
}

fn main() -> ExitCode {
    let options = Options::parse();
    options.machine.run(|rt| {
        let Options { size, leaf, .. } = options;
        let mut elements = scattered(size);
        let mut expected = elements.clone();
        println!("{size} elements, leaves of {leaf}");
        let start = (rt.now(), Instant::now());
        if options.serial {
            sort_in_place(&mut elements, leaf);
        } else {
            let x = rt.data(elements).named("x");
            if options.forks {
                rt.task("sort", x.inout()).cpu(move |at, x| sort_by_forks(at, x, leaf)).submit()?;
            } else {
                let all = x.clone();
                rt.task("sort", x.weak_inout()).host(move |at, ()| sort(at, &all, 0..size, leaf)).submit()?;
            }
            elements = rt.take(x)?;
        }
        let elapsed = if options.serial { start.1.elapsed() } else { rt.now() - start.0 };
        expected.sort_unstable();
        rt.wait()?;
        Ok(Outcome { elapsed, verified: Some(elements == expected) })
    })
}

/// Sorts a part of `x` by children of the current task.
fn sort(at: &Context, x: &Data<u64>, part: Range<usize>, leaf: usize) -> Result<(), SubmitError> {
    if part.is_empty() {
        return Ok(());
    }
    if part.len() <= leaf {
        return at.task("leaf", x.slice(part).inout()).cpu(|_, x| x.sort_unstable()).submit().map(drop);
    }
    let middle = at.task("partition", x.slice(part.clone()).inout()).returns(|_, x| partition(x)).submit()?;
    let inner = x.clone();
    at.task("halves", (x.slice(part.clone()).weak_inout(), middle.input()))
        .host(move |at, ((), middle)| {
            let middle = part.start + middle;
            sort(at, &inner, part.start..middle, leaf)?;
            sort(at, &inner, middle..part.end, leaf)
        })
        .submit()
        .map(drop)
}

/// Sorts a view, with both halves in parallel if a unit is idle.
fn sort_by_forks(at: &Context, x: &mut [u64], leaf: usize) {
    if x.len() <= leaf {
        return x.sort_unstable();
    }
    let middle = partition(x);
    let (left, right) = x.split_at_mut(middle);
    at.join(|at| sort_by_forks(at, left, leaf), |at| sort_by_forks(at, right, leaf));
}

/// Sorts in a plain function.
fn sort_in_place(x: &mut [u64], leaf: usize) {
    if x.len() <= leaf {
        return x.sort_unstable();
    }
    let middle = partition(x);
    let (left, right) = x.split_at_mut(middle);
    sort_in_place(left, leaf);
    sort_in_place(right, leaf);
}

/// Moves small elements before large ones. Returns where the large ones begin: never at the start or the end (Hoare
/// 1961).
fn partition(x: &mut [u64]) -> usize {
    let mut three = [x[0], x[x.len() / 2], x[x.len() - 1]];
    three.sort_unstable();
    let pivot = three[1];
    let (mut low, mut high) = (0, x.len() - 1);
    loop {
        while x[low] < pivot {
            low += 1;
        }
        while x[high] > pivot {
            high -= 1;
        }
        if low >= high {
            return low.max(1);
        }
        x.swap(low, high);
        low += 1;
        high -= 1;
    }
}

/// Returns numbers without order, the same in each run (Steele, Lea & Flood 2014: SplitMix64).
fn scattered(size: usize) -> Vec<u64> {
    let mix = |z: u64| {
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    (1..=size as u64).map(|n| mix(n.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partition_returns_two_ordered_nonempty_parts() {
        for len in 2..40u64 {
            for modulus in [1, 2, 3, 1000] {
                let mut x: Vec<u64> = (0..len).map(|n| n * 7919 % 31 % modulus).collect();
                let middle = partition(&mut x);
                assert!((1..x.len()).contains(&middle), "{x:?}: {middle}");
                assert!(x[..middle].iter().max() <= x[middle..].iter().min(), "{x:?}: {middle}");
            }
        }
    }
}
