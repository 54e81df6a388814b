//! Forks inside a body: two calls that may run at the same time.
//!
//! The driver distributes them to other threads (`driver/threads/forks.rs`).

use crate::Context;
use crate::driver::threads;

impl Context {
    /// Calls both closures, perhaps at the same time, and returns both results. It parallelizes the inside of a body,
    /// for work that is too fine to be a task or has no regions to declare.
    ///
    /// The body's thread makes the first call. An idle thread of another CPU unit may make the second; otherwise the
    /// body's thread makes it after the first. Calls can fork again, so a divide-and-conquer recursion keeps all
    /// units busy that have no task. A fork costs some twenty nanoseconds if no other thread takes the second call.
    ///
    /// The closures may borrow anything the body has, its views too, as long as neither changes something that they
    /// share: `split_at_mut` divides a slice. Each gets the context of the unit that it runs on. Both are parts of
    /// the same body: tasks that they submit are its children. But they cannot wait for tasks
    /// ([`SubmitError::InsideFork`](crate::error::SubmitError::InsideFork)), and closures that wait for each other,
    /// by a channel for instance, may wait forever.
    ///
    /// On a unit with several cores, its cores make the calls, by `rayon::join`. On devices the second follows the
    /// first.
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
    /// If one of the calls panics, after both have ended; with the first's panic if both do. If the first panics
    /// before another thread has taken the second, the second is dropped.
    #[track_caller]
    pub fn join<A: Send, B: Send>(
        &self,
        first: impl FnOnce(&Self) -> A + Send,
        second: impl FnOnce(&Self) -> B + Send,
    ) -> (A, B) {
        threads::join(self, first, second)
    }
}
