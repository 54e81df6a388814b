//! The compute-bound kernel, and the cells through which tasks check each other.
//!
//! The kernel is four chains of dependent multiply-adds in registers. It is bound by the latency of the chains and not
//! by the width of vector instructions, so it runs at the same speed with every compiler. METG therefore compares
//! runtimes and not compilers. `contenders/grid.h` defines the same kernel and the same check.

use std::time::{Duration, Instant};

use thiserror::Error;

/// Number of independent chains.
const CHAINS: usize = 4;
/// Floating-point operations per iteration: a multiplication and an addition in each chain.
pub(crate) const FLOPS: f64 = 2.0 * CHAINS as f64;

/// The output of a task: its step, counted over all passes, its point, and the result of its kernel.
pub(crate) type Cell = [u64; 3];

/// Runs `iterations` of the kernel; the result depends on every operation.
#[inline(never)]
pub(crate) fn kernel(iterations: u64) -> f64 {
    let mut chains: [f64; CHAINS] = std::array::from_fn(|chain| chain as f64);
    for _ in 0..iterations {
        for value in &mut chains {
            *value = *value * 0.999 + 0.001;
        }
    }
    chains.iter().sum()
}

/// Error of a task that found the wrong contents in an input cell, which means that the runtime violated a dependence.
#[derive(Debug, Error)]
#[error("task ({step}, {point}) read the cell of ({}, {}) for ({}, {input})", found[0], found[1], step - 1)]
pub(crate) struct WrongInput {
    step: u64,
    point: usize,
    input: usize,
    found: Cell,
}

/// The body of every task: checks the inputs, computes, and fills `own`.
///
/// `step` counts over all passes, so that a cell left by an earlier pass is detected.
pub(crate) fn body<'a>(
    (step, point): (u64, usize),
    inputs: impl Iterator<Item = (usize, &'a Cell)>,
    own: &mut Cell,
    iterations: u64,
) -> Result<(), WrongInput> {
    for (input, &found) in inputs {
        if (found[0], found[1]) != (step - 1, input as u64) {
            return Err(WrongInput { step, point, input, found });
        }
    }
    *own = [step, point as u64, kernel(iterations).to_bits()];
    Ok(())
}

/// Returns the rate of a plain loop on `workers` threads at once, in operations per second.
pub(crate) fn plain_rate(workers: usize) -> f64 {
    const ITERATIONS: u64 = 20_000_000;
    let slowest = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workers)
            .map(|_| {
                scope.spawn(|| {
                    let start = Instant::now();
                    std::hint::black_box(kernel(std::hint::black_box(ITERATIONS)));
                    start.elapsed()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("the kernel does not panic")).max()
    });
    let seconds = slowest.unwrap_or(Duration::MAX).as_secs_f64();
    FLOPS * ITERATIONS as f64 * workers as f64 / seconds
}
