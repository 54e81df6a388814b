//! Bodies whose task ends outside of them.

use super::TaskBuilder;
use crate::Context;
use crate::memory::{IntoOutcome, Keep, Lend, Lending, NoBody};
use crate::task::Accesses;

impl<'rt, 'b, A: Accesses, K: Keep<'b>> TaskBuilder<'rt, A, NoBody, K> {
    /// A body for CPU units whose task goes on when it returns: it gets a guard of each region ([`Lent`]), which it may
    /// give to any thread, and the task ends when all of them are given back. So no core is kept busy while a message, a
    /// file or a device of the program's own is waited for.
    ///
    /// Each guard says how its part has ended: [`finish`](crate::memory::Lent::finish), or
    /// [`fail`](crate::memory::Lent::fail) with a reason. One that is dropped without either fails the task
    /// ([`FailureReason::Abandoned`](crate::error::FailureReason::Abandoned)), and so do a panic and an error of the body;
    /// the task ends when the others are back all the same. What is forgotten ([`std::mem::forget`]) keeps the task from
    /// ending: its memory stays, the runtime waits for it, also when it is dropped, and a report of a
    /// [`Stall`](crate::Stall) names it.
    ///
    /// A task without accesses, or whose end depends on more, asks its first argument for a
    /// [`completion`](Lending::completion). If nothing is out when the body returns, the task has ended.
    ///
    /// Cancelling the task's group does not end it once its body has begun: a thread that has a guard may be using it. Such a
    /// thread can ask a clone of the body's context ([`Context::is_cancelled`]) and give its guard back early.
    ///
    /// Until then its accesses are held: whoever depends on the task waits, a `commutative` one keeps its turn, a
    /// reduction its replica. Schedulers see the time that the body took. In a simulation the body is not run, and the
    /// task takes what the machine file says.
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
    /// send.send([1.0, 2.0, 3.0])?; // the unit was free meanwhile
    /// assert_eq!(rt.read_scalar(&sum)?, 6.0);
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

    /// A body for CPU units that makes a future. The units' threads poll it, whenever it is woken, as they run ready
    /// tasks; while it waits no core is busy. No executor is needed; within the future one can be used, such as tokio's,
    /// whose timers and sockets need its reactor to be entered ([`Handle::enter`]).
    ///
    /// The future owns a guard of each region ([`Lent`]), so it can be polled by any thread. The task ends as the future
    /// does, with its error if it returns one, when all guards are back. Here a guard that is dropped is given back;
    /// [`fail`](crate::memory::Lent::fail) fails the task all the same. A panic fails it too. A future that is never
    /// woken keeps its task from ending, as a forgotten guard does. If the task's group is
    /// [cancelled](crate::TaskGroup::cancel), a unit's thread drops the future instead of polling it again.
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
