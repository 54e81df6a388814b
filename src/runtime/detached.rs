//! Bodies that return before their task ends.

use super::submit::TaskBuilder;
use crate::Context;
use crate::memory::{IntoOutcome, Keep, Lend, Lending, NoBody};
use crate::task::Accesses;

impl<'rt, 'b, A: Accesses, K: Keep<'b>> TaskBuilder<'rt, A, NoBody, K> {
    /// Sets a body for CPU units whose task continues after the body has returned. The body gets a guard of each region
    /// ([`Lent`]) and may give guards to any thread; the task ends when all guards have been given back. This way, no
    /// core is busy while the program waits for a message, a file or its own device.
    ///
    /// Each guard reports how its part of the work has ended, with [`finish`](crate::memory::Lent::finish), or with
    /// [`fail`](crate::memory::Lent::fail) and a reason. Dropping a guard without either call fails the task
    /// ([`FailureReason::Abandoned`](crate::error::FailureReason::Abandoned)), and so does a panic or an error of the
    /// body; even then, the task ends only when the other guards have been given back. A forgotten guard
    /// ([`std::mem::forget`]) keeps the task from ending: the task's memory stays, the runtime waits for the task, even
    /// when dropped, and [`Stall`](crate::Stall) reports name it.
    ///
    /// If the task has no accesses, or its end depends on more than its guards, the body requests a
    /// [`completion`](Lending::completion) from its first argument. If no guard or completion is left when the body
    /// returns, the task ends at that point.
    ///
    /// Once the body has begun, cancelling the task's group does not end the task, because a thread that holds a guard
    /// may be using it. Such a thread can query a clone of the body's context ([`Context::is_cancelled`]) and give its
    /// guard back early.
    ///
    /// The accesses are held until the task ends: dependent tasks wait, a `commutative` access keeps its turn, and a
    /// reduction its replica. Schedulers see only the time that the body itself took. In a simulation, the body does
    /// not run, and the task takes the time given in the machine file.
    ///
    /// ```
    /// use std::sync::mpsc::channel;
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// let (ghost, sum) = (rt.data(vec![0.0; 3]), rt.scalar(0.0));
    /// let (send, messages) = channel::<[f64; 3]>();
    /// rt.task("receive", (ghost.output(),))
    ///     .host_detached_until_event(move |_, (mut ghost,): (Lent<[f64]>,)| {
    ///         std::thread::spawn(move || match messages.recv() {
    ///             Ok(message) => {
    ///                 ghost.copy_from_slice(&message);
    ///                 ghost.finish();
    ///             }
    ///             Err(error) => ghost.fail(error),
    ///         });
    ///     })
    ///     .submit()?;
    /// rt.task("sum", (ghost.input(), sum.output())).cpu(|_, (ghost, sum)| sum[0] = ghost.iter().sum()).submit()?;
    /// send.send([1.0, 2.0, 3.0])?; // the unit was free in the meantime
    /// assert_eq!(rt.read(&sum)?[0], 6.0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// [`Lent`]: crate::memory::Lent
    pub fn host_detached_until_event<F, R>(self, body: F) -> TaskBuilder<'rt, A, K::Detached<A::Stored, F, R>, K>
    where
        A::Stored: Lend,
        F: for<'c> FnOnce(&'c Lending<'c>, <A::Stored as Lend>::Lent) -> R + Send + 'b,
        R: IntoOutcome + 'b,
    {
        let keep = self.keep;
        self.for_cores(|NoBody| keep.detached(body))
    }

    /// Sets a body for CPU units that creates a future. Whenever the future is woken, a unit's thread polls it, just as
    /// it would run a ready task; no core is busy while the future waits. No executor is needed. The future can still
    /// use one, such as tokio's, whose timers and sockets need its reactor to be entered ([`Handle::enter`]).
    ///
    /// The future owns a guard of each region ([`Lent`]), so any thread can poll it. The task ends when the future has
    /// ended and all guards have been given back; if the future returns an error, the task fails with that error.
    /// Unlike in other detached bodies, a dropped guard counts as given back; [`fail`](crate::memory::Lent::fail) still
    /// fails the task, and so does a panic. A future that is never woken keeps its task from ending, as a forgotten
    /// guard does. If the task's group is [cancelled](crate::TaskGroup::cancel), a unit's thread drops the future
    /// instead of polling it again.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// let (x, y) = (rt.data(vec![1.0, 2.0]), rt.data(vec![0.0; 2]));
    /// rt.task("later", (x.input(), y.output()))
    ///     .host_async(|_, (x, mut y)| async move {
    ///         std::future::ready(()).await; // whatever the program waits for
    ///         y.copy_from_slice(&x);
    ///     })
    ///     .submit()?;
    /// assert_eq!(rt.take(y)?, [1.0, 2.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// [`Lent`]: crate::memory::Lent
    /// [`Handle::enter`]: https://docs.rs/tokio/latest/tokio/runtime/struct.Handle.html#method.enter
    pub fn host_async<F, U>(self, body: F) -> TaskBuilder<'rt, A, K::Async<A::Stored, F, U>, K>
    where
        A::Stored: Lend,
        F: FnOnce(Context, <A::Stored as Lend>::Lent) -> U + Send + 'b,
        U: Future<Output: IntoOutcome> + Send + 'b,
    {
        let keep = self.keep;
        self.for_cores(|NoBody| keep.asynchronous(body))
    }
}
