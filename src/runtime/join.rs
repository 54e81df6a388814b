//! Fork-join inside a body: two calls that may run at the same time.
//!
//! The driver distributes the calls to other threads (`driver/threads/forks.rs`).

use crate::Context;
use crate::driver::threads;

impl Context {
    /// Calls both closures, possibly at the same time, and returns both results. Use it to parallelize the inside of a
    /// body, for work that is too fine-grained to be a task or has no regions to declare.
    ///
    /// The body's thread makes the first call. An idle thread of another CPU unit may make the second call; otherwise
    /// the body's thread makes it after the first. Closures can fork again, so a divide-and-conquer recursion keeps all
    /// units busy that have no task. A fork costs about twenty nanoseconds if no other thread takes the second call.
    ///
    /// The closures may borrow anything the body has, including its views, as long as neither changes something that
    /// they share; to divide a slice, use `split_at_mut`. Each closure gets the context of the unit that it runs on.
    /// Both are parts of the same body, so tasks that they submit are children of the body's task. However, they cannot
    /// wait for tasks ([`SubmitError::InsideFork`](crate::error::SubmitError::InsideFork)), and closures that wait for
    /// each other, for instance through a channel, may wait forever.
    ///
    /// On a unit with several cores, the cores of the unit make the calls through `rayon::join`. On devices, the second
    /// call follows the first.
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
    /// Panics if one of the closures panics, after both have ended. If both panic, the panic of the first closure is
    /// propagated. If the first closure panics before another thread has taken the second, the second is dropped
    /// without being called.
    #[track_caller]
    pub fn join<A: Send, B: Send>(
        &self,
        first: impl FnOnce(&Self) -> A + Send,
        second: impl FnOnce(&Self) -> B + Send,
    ) -> (A, B) {
        threads::join(self, first, second)
    }
}
