//! Forks inside a body: two calls that may run at the same time.
//!
//! How they come to other threads is the driver's matter (`driver/threads/forks.rs`).

use crate::Context;
use crate::driver::threads;

impl Context {
    /// Calls both, perhaps at the same time, and returns what they return: a body's own parallelism, for what is too fine to
    /// be a task, or has no regions to declare.
    ///
    /// The body's thread makes the first call. A thread of another CPU unit that has nothing to do may make the second; else
    /// the body's thread makes it after the first. Calls can fork again, so a recursion that divides its work keeps all units
    /// busy that have no task. A fork costs some twenty nanoseconds when nobody comes for it.
    ///
    /// The calls borrow what the body has, its views too, as long as they share nothing that one of them changes:
    /// `split_at_mut` divides a slice. Each gets the context of the unit that it runs on. They are parts of the same
    /// body: what they submit are its children. But they do not wait for tasks
    /// ([`SubmitError::InsideFork`](crate::error::SubmitError::InsideFork)), and calls that wait for each other, by a channel
    /// for instance, may wait for ever.
    ///
    /// On a unit with several cores, its cores make the calls, by `rayon::join`. On devices the second comes after the first.
    ///
    /// ```
    /// use thalweg::prelude::*;
    ///
    /// fn sum(at: &Context, x: &[u64]) -> u64 {
    ///     if x.len() <= 1000 {
    ///         return x.iter().sum();
    ///     }
    ///     let (low, high) = x.split_at(x.len() / 2);
    ///     let (low, high) = at.join(|at| sum(at, low), |at| sum(at, high));
    ///     low + high
    /// }
    ///
    /// let rt = Runtime::builder().compute_units("2:CPU:1").build()?;
    /// let x = rt.data((1..=100_000).collect());
    /// let total = rt.task("sum", (x.input(),)).returns(|at, (x,)| sum(at, x)).submit()?;
    /// assert_eq!(total.get()?, 5_000_050_000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// If one of the calls does, after both have ended; with the first's panic if both do. If the first panics before
    /// anybody has come for the second, that is dropped.
    #[track_caller]
    pub fn join<A: Send, B: Send>(
        &self,
        first: impl FnOnce(&Self) -> A + Send,
        second: impl FnOnce(&Self) -> B + Send,
    ) -> (A, B) {
        threads::join(self, first, second)
    }
}
