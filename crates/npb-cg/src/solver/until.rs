//! A solve whose iterations are repeated until the residual is small, in a loop that the runtime runs.
//!
//! The search direction alternates between two vectors, so the loop's recording consists of two iterations. They use
//! the first elements of the scalars, which its first task clears and its last task passes on.

use thalweg::prelude::*;

use super::super::front::{Front, Hints};
use super::super::gpu;
use super::Solver;

/// The number of CG iterations in each iteration of the loop.
const ITERATIONS: usize = 2;

/// The most iterations of the loop, which are four times as many CG iterations as the benchmark's solve has.
const AT_MOST: usize = 50;

impl Solver<'_> {
    /// Records two CG iterations, for [`step_until`](Self::step_until).
    pub fn record_iterations(&self) -> Result<Recording, SubmitError> {
        self.rt.record(|recorder| {
            Front::task(
                recorder,
                "open",
                (self.rho.slice(1..=ITERATIONS).output(), self.p_dot_q.slice(..ITERATIONS).output()),
                Hints::default(),
                |_, (rho, p_dot_q)| {
                    rho.fill(0.0);
                    p_dot_q.fill(0.0);
                },
                |k, (mut rho, mut p_dot_q)| {
                    gpu::fill(k, &mut rho, 0.0)?;
                    gpu::fill(k, &mut p_dot_q, 0.0)
                },
            )?;
            (0..ITERATIONS).try_for_each(|iteration| self.iterate(recorder, iteration))?;
            let last = self.rho.slice(ITERATIONS..=ITERATIONS);
            Front::task(
                recorder,
                "close",
                (last.input(), self.rho.slice(..1).output(), self.rho_now.output()),
                Hints::default(),
                |_, (last, first, now)| (first[0], now[0]) = (last[0], last[0]),
                |k, (last, mut first, mut now)| gpu::pass_on(k, &last, [&mut first, &mut now]),
            )
        })
    }

    /// Variant of [`step`](Self::step) that repeats recorded iterations until ‖r‖² is at most `bound`.
    pub fn step_until(&self, iterations: &mut Recording, bound: f64, step: usize) -> Result<(), SubmitError> {
        self.begin(self.rt)?;
        iterations.repeat_until(&self.rho_now, bound, AT_MOST)?;
        self.finish(step)
    }
}
