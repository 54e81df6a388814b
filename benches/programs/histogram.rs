//! A histogram with many bins, where each task counts a block of numbers.

use std::error::Error;

use rayon::ThreadPoolBuilder;
use rayon::prelude::*;
use thalweg::prelude::*;

use crate::problems::{Answer, RAYON, THALWEG, fastest, timed};

const BINS: usize = 1 << 18;
/// Numbers per task.
const BLOCK: usize = 1 << 16;

/// Counts `size` numbers, using either `accumulate` or `reduction`.
pub(crate) fn run(
    name: &str,
    accumulates: bool,
    size: usize,
    workers: usize,
    passes: usize,
) -> Result<Answer, Box<dyn Error>> {
    let numbers = scattered(size);
    match name {
        THALWEG => {
            let rt = Runtime::builder().compute_units(format!("{workers}:CPU:1")).use_current_thread(true).build()?;
            let numbers = rt.data(numbers);
            fastest(passes, || {
                let bins = rt.data(vec![0u32; BINS]);
                let (elapsed, counted) = timed(|| -> Result<(), Box<dyn Error>> {
                    let blocks = numbers.blocks(BLOCK);
                    if accumulates {
                        let accesses = (blocks.input(), bins.accumulate(Sum));
                        rt.for_each("count", accesses).cpu(|_, (numbers, bins)| count(numbers, bins)).submit()?;
                    } else {
                        let accesses = (blocks.input(), bins.reduction(Sum));
                        rt.for_each("count", accesses).cpu(|_, (numbers, bins)| count(numbers, bins)).submit()?;
                    }
                    Ok(rt.fetch(&bins, SpaceId::HOST)?)
                });
                counted?;
                Ok((elapsed, check(&rt.take(bins)?)))
            })
        }
        RAYON => {
            let pool = ThreadPoolBuilder::new().num_threads(workers).build()?;
            fastest(passes, || {
                let (elapsed, bins) = timed(|| pool.install(|| by_rayon(&numbers)));
                Ok((elapsed, check(&bins)))
            })
        }
        _ => fastest(passes, || {
            let mut bins = vec![0; BINS];
            let (elapsed, ()) = timed(|| count(&numbers, &mut bins));
            Ok((elapsed, check(&bins)))
        }),
    }
}

fn count(numbers: &[u32], bins: &mut [u32]) {
    for &number in numbers {
        bins[number as usize % BINS] += 1;
    }
}

fn by_rayon(numbers: &[u32]) -> Vec<u32> {
    let add = |mut all: Vec<u32>, more: Vec<u32>| {
        all.iter_mut().zip(more).for_each(|(all, more)| *all += more);
        all
    };
    let none = || vec![0; BINS];
    let counted = numbers.par_chunks(BLOCK).fold(none, |mut bins, block| {
        count(block, &mut bins);
        bins
    });
    counted.reduce_with(add).unwrap_or_else(none)
}

/// Returns pseudo-random numbers (Knuth's linear congruential generator, high bits).
fn scattered(size: usize) -> Vec<u32> {
    let step =
        |state: &u64| Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407));
    std::iter::successors(Some(1), step).skip(1).map(|state| (state >> 33) as u32).take(size).collect()
}

/// Returns a number that depends on the count of every bin.
fn check(bins: &[u32]) -> f64 {
    bins.iter().enumerate().map(|(bin, count)| (bin % 1009) as f64 * f64::from(*count)).sum()
}
