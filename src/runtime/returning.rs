//! Tasks that return something.

use super::TaskBuilder;
use super::pending::Pending;
use crate::Context;
use crate::depend::Kinds;
use crate::error::{BoxError, Called, SubmitError};
use crate::memory::{AccessList, Always, Fallibly, NoBody, Producer, Producing, Slot, Yields, result_of_task};
use crate::task::Accesses;
use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;

/// A body that returns an `O`, of which `K` makes the task's result. See [`TaskBuilder::returns`].
///
/// ```
/// use thalweg::memory::Always;
/// use thalweg::prelude::*;
/// use thalweg::{Returning, TaskBuilder};
/// fn high<F>(task: TaskBuilder<'_, (), Returning<F, Always, u32>>) -> TaskBuilder<'_, (), Returning<F, Always, u32>> {
///     task.priority(1)
/// }
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// assert_eq!(high(rt.task("one", ()).returns(|_, ()| 1)).submit()?.get()?, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Returning<F, K, O>(F, PhantomData<fn() -> (K, O)>);

impl<F, K, O> Returning<F, K, O> {
    pub(super) fn new(body: F) -> Self {
        Self(body, PhantomData)
    }
}

impl<F, K, O> fmt::Debug for Returning<F, K, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Returning(..)")
    }
}

impl<'rt, A: Accesses> TaskBuilder<'rt, A> {
    /// A body that returns something: submitting the task gives a [`Pending`], which later tasks access, and which can be
    /// waited for. It runs on CPU units, and is the task's only body.
    ///
    /// What is returned may be anything, a [`Result`] too, which then is just a value; where an error is to fail the
    /// task, see [`try_returns`](Self::try_returns).
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("2:CPU:1").build()?;
    /// let x = rt.data(vec![3.0f64, 4.0]);
    /// let norm = rt.task("norm", x.input()).returns(|_, x| x.iter().map(|x| x * x).sum::<f64>().sqrt()).submit()?;
    /// rt.task("scale", (norm.input(), x.inout()))
    ///     .cpu(|_, (norm, x)| x.iter_mut().for_each(|x| *x /= norm))
    ///     .submit()?;
    /// assert_eq!(norm.get()?, 5.0);
    /// assert_eq!(rt.take(x)?, [0.6, 0.8]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn returns<F, R>(self, body: F) -> TaskBuilder<'rt, A, Returning<F, Always, R>>
    where
        F: for<'c, 'a> FnOnce(&'c Context, <A::Stored as AccessList>::Views<'a>) -> R + Send + 'static,
        R: Send + Sync + 'static,
    {
        self.returning(body)
    }

    /// As [`returns`](Self::returns), for a body that can fail: with an error there is no result, the task has failed with
    /// that, and whoever uses what it should have left is skipped.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// let parse = |text: &'static str| rt.task("parse", ()).try_returns(move |_, ()| text.parse::<u8>()).submit();
    /// assert_eq!(parse("42")?.get()?, 42);
    /// let error = parse("many")?.get().unwrap_err();
    /// assert!(error.to_string().contains("invalid digit"), "{error}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn try_returns<F, R, E>(self, body: F) -> TaskBuilder<'rt, A, Returning<F, Fallibly, Result<R, E>>>
    where
        F: for<'c, 'a> FnOnce(&'c Context, <A::Stored as AccessList>::Views<'a>) -> Result<R, E> + Send + 'static,
        R: Send + Sync + 'static,
        E: Into<BoxError> + 'static,
    {
        self.returning(body)
    }

    pub(super) fn returning<F, K, O>(self, body: F) -> TaskBuilder<'rt, A, Returning<F, K, O>> {
        self.for_cores(|NoBody| Returning::new(body))
    }
}

impl<A, F, K, O> TaskBuilder<'_, A, Returning<F, K, O>>
where
    A: Accesses,
    F: for<'c, 'a> FnOnce(&'c Context, <A::Stored as AccessList>::Views<'a>) -> O + Send + 'static,
    K: Yields<O>,
    O: 'static,
{
    /// Submits the task; what is returned stands for its result.
    ///
    /// # Errors
    /// As for tasks that return nothing, and if the task has a body for devices too: that would leave no result.
    #[track_caller]
    #[inline]
    pub fn submit(self) -> Result<Pending<K::Result>, SubmitError> {
        self.submit_producing(Producing::<F, K, O>::new)
    }
}

impl<A: Accesses, F, K: Yields<O>, O> TaskBuilder<'_, A, Returning<F, K, O>> {
    /// Submits the task with the body that `make` makes of the closure and of the place for what it returns.
    #[track_caller]
    #[inline]
    pub(super) fn submit_producing<C: Slot<A::Stored>>(
        self,
        make: impl FnOnce(F, Producer<K::Result>) -> C,
    ) -> Result<Pending<K::Result>, SubmitError> {
        if self.kinds != Kinds::CPU {
            return Err(SubmitError::ResultOnDevice { task: self.name.into() }.called_here());
        }
        let (runtime, door) = (self.entrance.id, self.entrance.downgrade());
        let (producer, promise) = result_of_task();
        let task = self.for_cores(|Returning(body, _)| make(body, producer));
        task.submit_as(Location::caller(), false, |task| Pending::new(promise(task.share()), runtime, door))
    }
}
