//! Describing a task of a scope, whose bodies may borrow.

use super::{Pending, Returning, Scope, TaskBuilder, TaskHandle};
use crate::Context;
use crate::error::{BoxError, SubmitError};
use crate::ids::TaskId;
use crate::kernel::Launcher;
use crate::memory::{
    AccessList, Again, Always, Async, Detached, Fallibly, IntoOutcome, LeasedAsync, LeasedBody, LeasedDetached,
    LeasedFuture, LeasedRepeatable, Lend, Lending, NoBody, Retries, Slot, With, Yields,
};
use crate::task::{Accesses, IterationSpace};
use std::fmt;
use std::marker::PhantomData;

/// The body of a scoped task for CPU units; a box, whatever the closure is.
type Body<A> = With<LeasedBody<A>, Result<(), BoxError>>;

/// The same of a body that is run again when it fails.
type Repeatable<A> = Again<LeasedRepeatable<A>, Result<(), BoxError>>;

/// A detached body of a scoped task.
type DetachedBody<A> = Detached<LeasedDetached<A>, Result<(), BoxError>>;

/// A body of a scoped task that makes a future.
type AsyncBody<A> = Async<LeasedAsync<A>, LeasedFuture<'static>>;

/// A task of a scope that is being described; nothing happens until [`submit`](ScopedTask::submit). As
/// [`TaskBuilder`], but that its bodies may borrow whatever outlives the scope. Made by [`Scope::task`].
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("2:CPU:1").build()?;
/// let (count, x) = (AtomicUsize::new(0), rt.data(vec![1.0; 8]));
/// rt.scope(|s| {
///     let task = s.task("count", (x.input(),)).priority(1);
///     task.cpu(|_, (x,)| _ = count.fetch_add(x.len(), Ordering::Relaxed)).submit()
/// })??;
/// assert_eq!(count.into_inner(), 8);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a task runs only once it is submitted"]
pub struct ScopedTask<'scope, 'env, A: Accesses, C = NoBody> {
    pub(super) scope: &'scope Scope<'scope, 'env>,
    pub(super) task: TaskBuilder<'scope, A, C>,
}

impl<'scope, 'env, A: Accesses> ScopedTask<'scope, 'env, A> {
    pub(super) fn new(scope: &'scope Scope<'scope, 'env>, task: TaskBuilder<'scope, A>) -> Self {
        Self { scope, task }
    }

    /// The body for CPU units and emulated devices, as [`TaskBuilder::cpu`].
    pub fn cpu<F, R>(self, body: F) -> ScopedTask<'scope, 'env, A, Body<A::Stored>>
    where
        F: for<'c, 'a> FnOnce(&'c Context, <A::Stored as AccessList>::Views<'a>) -> R + Send + 'scope,
        R: IntoOutcome,
    {
        let body = self.scope.lease().body::<A::Stored, F, R>(body);
        ScopedTask { scope: self.scope, task: self.task.cpu(body) }
    }

    /// As [`cpu`](Self::cpu), for CPU units only.
    pub fn host<F, R>(self, body: F) -> ScopedTask<'scope, 'env, A, Body<A::Stored>>
    where
        F: for<'c, 'a> FnOnce(&'c Context, <A::Stored as AccessList>::Views<'a>) -> R + Send + 'scope,
        R: IntoOutcome,
    {
        let body = self.scope.lease().body::<A::Stored, F, R>(body);
        ScopedTask { scope: self.scope, task: self.task.host(body) }
    }

    /// A body for CPU units whose task continues after it has returned, as [`TaskBuilder::host_detached`]. Guards may go to any
    /// thread, one that outlives the scope too: the scope returns when all of them are given back.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// let (mut ghost, message) = (vec![0.0; 3], [1.0, 2.0, 3.0]);
    /// rt.scope(|s| {
    ///     let ghost = s.borrow_mut(&mut ghost);
    ///     s.task("receive", ghost.output())
    ///         .host_detached(|_, mut ghost: Lent<[f64]>| {
    ///             ghost.copy_from_slice(&message); // borrowed, not moved
    ///             std::thread::spawn(move || ghost.finish()); // as a transport would, when all has arrived
    ///         })
    ///         .submit()
    /// })??;
    /// assert_eq!(ghost, message);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn host_detached<F, R>(self, body: F) -> ScopedTask<'scope, 'env, A, DetachedBody<A::Stored>>
    where
        A::Stored: Lend,
        F: for<'c> FnOnce(&'c Lending<'c>, <A::Stored as Lend>::Lent) -> R + Send + 'scope,
        R: IntoOutcome,
    {
        let body = self.scope.lease().detached::<A::Stored, F, R>(body);
        ScopedTask { scope: self.scope, task: self.task.host_detached(body) }
    }

    /// A body for CPU units that makes a future, as [`TaskBuilder::host_async`]. The future too may borrow what outlives the
    /// scope.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// let (mut x, name) = (vec![1, 2, 3], String::from("later"));
    /// rt.scope(|s| {
    ///     let x = s.borrow_mut(&mut x);
    ///     s.task("later", x.inout())
    ///         .host_async(|_, mut x| async {
    ///             std::future::ready(()).await; // whatever the program waits for
    ///             x[0] = name.len();
    ///             x.finish();
    ///         })
    ///         .submit()
    /// })??;
    /// assert_eq!(x, [5, 2, 3]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn host_async<F, U>(self, body: F) -> ScopedTask<'scope, 'env, A, AsyncBody<A::Stored>>
    where
        A::Stored: Lend,
        F: FnOnce(Context, <A::Stored as Lend>::Lent) -> U + Send + 'scope,
        U: Future<Output: IntoOutcome> + Send + 'scope,
    {
        let body = self.scope.lease().asynchronous::<A::Stored, F, U>(body);
        ScopedTask { scope: self.scope, task: self.task.host_async(body) }
    }

    /// A body that returns something, as [`TaskBuilder::returns`]. The result too may borrow what outlives the scope, and
    /// can then be kept for as long as that is there. Later tasks can access results that borrow nothing; one that borrows
    /// is waited for.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("2:CPU:1").build()?;
    /// let text = String::from("to be or not to be");
    /// let longest = rt.scope(|s| {
    ///     let find = s.task("longest", ()).returns(|_, ()| text.split(' ').max_by_key(|word| word.len()));
    ///     let (longest, count) = (find.submit()?, s.task("count", ()).returns(|_, ()| text.len()).submit()?);
    ///     s.task("print", count.input()).cpu(|_, count| println!("{count} bytes")).submit()?;
    ///     longest.get()
    /// })??;
    /// assert_eq!(longest, Some("not"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn returns<F, R>(self, body: F) -> ScopedTask<'scope, 'env, A, Returning<F, Always, R>>
    where
        F: for<'c, 'a> FnOnce(&'c Context, <A::Stored as AccessList>::Views<'a>) -> R + Send + 'scope,
        R: Send + Sync + 'scope,
    {
        ScopedTask { scope: self.scope, task: self.task.returning(body) }
    }

    /// As [`returns`](Self::returns), for a body that can fail, as [`TaskBuilder::try_returns`].
    pub fn try_returns<F, R, E>(self, body: F) -> ScopedTask<'scope, 'env, A, Returning<F, Fallibly, Result<R, E>>>
    where
        F: for<'c, 'a> FnOnce(&'c Context, <A::Stored as AccessList>::Views<'a>) -> Result<R, E> + Send + 'scope,
        R: Send + Sync + 'scope,
        E: Into<BoxError> + 'scope,
    {
        ScopedTask { scope: self.scope, task: self.task.returning(body) }
    }

    /// The body, which is given next, is run again if it fails, up to so many times; see [`TaskBuilder::retries`].
    pub fn retries(self, times: u32) -> ScopedTask<'scope, 'env, A, Retries> {
        ScopedTask { scope: self.scope, task: self.task.retries(times) }
    }
}

impl<'scope, 'env, A: Accesses> ScopedTask<'scope, 'env, A, Retries> {
    /// The body for CPU units and emulated devices; one that can be called more than once.
    pub fn cpu<F, R>(self, body: F) -> ScopedTask<'scope, 'env, A, Repeatable<A::Stored>>
    where
        F: for<'c, 'a> Fn(&'c Context, <A::Stored as AccessList>::Views<'a>) -> R + Send + 'scope,
        R: IntoOutcome,
    {
        let body = self.scope.lease().repeatable::<A::Stored, F, R>(body);
        ScopedTask { scope: self.scope, task: self.task.cpu(body) }
    }

    /// As [`cpu`](Self::cpu), for CPU units only.
    pub fn host<F, R>(self, body: F) -> ScopedTask<'scope, 'env, A, Repeatable<A::Stored>>
    where
        F: for<'c, 'a> Fn(&'c Context, <A::Stored as AccessList>::Views<'a>) -> R + Send + 'scope,
        R: IntoOutcome,
    {
        let body = self.scope.lease().repeatable::<A::Stored, F, R>(body);
        ScopedTask { scope: self.scope, task: self.task.host(body) }
    }
}

impl<'scope, A, F, K, O> ScopedTask<'scope, '_, A, Returning<F, K, O>>
where
    A: Accesses,
    F: for<'c, 'a> FnOnce(&'c Context, <A::Stored as AccessList>::Views<'a>) -> O + Send + 'scope,
    K: Yields<O>,
    O: 'scope,
{
    /// Submits the task; what is returned stands for its result.
    ///
    /// # Errors
    /// As for tasks that return nothing, and if the task has a body for devices too.
    #[track_caller]
    pub fn submit(self) -> Result<Pending<K::Result>, SubmitError> {
        let lease = self.scope.lease();
        self.task.submit_producing(|body, producer| {
            let body = lease.body::<A::Stored, _, Result<(), BoxError>>(move |context, views| {
                producer.set(K::outcome(body(context, views))?);
                Ok(())
            });
            With(body, PhantomData)
        })
    }
}

impl<A: Accesses, C> ScopedTask<'_, '_, A, C> {
    /// Among ready tasks, larger priorities go first. A hint; the default is 0.
    pub fn priority(mut self, priority: i32) -> Self {
        self.task = self.task.priority(priority);
        self
    }

    /// How much work the task is, in any unit that is the same for all tasks. A hint for schedulers.
    pub fn cost(mut self, cost: f64) -> Self {
        self.task = self.task.cost(cost);
        self
    }

    /// The task's index in an iteration space, in the instance that was begun last.
    pub fn at(mut self, space: &IterationSpace, index: usize) -> Self {
        self.task = self.task.at(space, index);
        self
    }

    /// As [`TaskBuilder::beside`].
    pub fn beside(mut self, space: &IterationSpace, index: usize) -> Self {
        self.task = self.task.beside(space, index);
        self
    }
}

impl<'scope, A, C> ScopedTask<'scope, '_, A, C>
where
    A: Accesses,
    C: Slot<A::Stored>,
{
    /// A body for emulated devices, as [`TaskBuilder::emulated`].
    pub fn emulated<F, R>(mut self, body: F) -> Self
    where
        F: for<'c, 'a> FnOnce(&'c Context, <A::Stored as AccessList>::Views<'a>) -> R + Send + 'scope,
        R: IntoOutcome,
    {
        self.task = self.task.emulated(self.scope.lease().body::<A::Stored, F, R>(body));
        self
    }

    /// The body for accelerators, as [`TaskBuilder::gpu`].
    pub fn gpu<F, R>(mut self, body: F) -> Self
    where
        F: for<'l, 'd, 'a> FnOnce(&'l mut Launcher<'d>, <A::Stored as AccessList>::DeviceViews<'a>) -> R
            + Send
            + 'scope,
        R: IntoOutcome,
    {
        self.task = self.task.gpu(self.scope.lease().device_body::<A::Stored, F, R>(body));
        self
    }

    /// Submits the task, as [`TaskBuilder::submit`].
    ///
    /// # Errors
    /// As there; or if the scope's group was cancelled.
    #[track_caller]
    pub fn submit(self) -> Result<TaskId, SubmitError> {
        self.task.submit()
    }

    /// Submits the task, as [`TaskBuilder::submit_handle`].
    ///
    /// # Errors
    /// As for [`submit`](Self::submit).
    #[track_caller]
    pub fn submit_handle(self) -> Result<TaskHandle, SubmitError> {
        self.task.submit_handle()
    }
}

impl<A: Accesses, C> fmt::Debug for ScopedTask<'_, '_, A, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.task, f)
    }
}
