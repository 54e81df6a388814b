//! Tasks that return a result.

use super::pending::Pending;
use super::submit::TaskBuilder;
use crate::Context;
use crate::depend::Kinds;
use crate::error::{BoxError, Called, SubmitError};
use crate::memory::{AccessList, Always, Fallibly, Keep, NoBody, Yields, result_of_task};
use crate::sync::CallSite;
use crate::task::Accesses;
use std::fmt;
use std::marker::PhantomData;

/// A body that returns a value of type `O`, which `K` converts into the task's result. See [`TaskBuilder::returns`].
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

impl<F, K, O> fmt::Debug for Returning<F, K, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Returning(..)")
    }
}

impl<'rt, 'b, A: Accesses, K: Keep<'b>> TaskBuilder<'rt, A, NoBody, K> {
    /// Sets a body that returns a result: submitting the task returns a [`Pending`], which later tasks can access and
    /// the program can wait for. The body runs on CPU units, and is the task's only body.
    ///
    /// The result may be of any type. A [`Result`] is treated like any other value; to let an error fail the task, use
    /// [`try_returns`](Self::try_returns).
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
    pub fn returns<F, R>(self, body: F) -> TaskBuilder<'rt, A, Returning<F, Always, R>, K>
    where
        F: for<'c, 'a> FnOnce(&'c Context, <A::Stored as AccessList>::Views<'a>) -> R + Send + 'b,
        R: Send + Sync + 'b,
    {
        self.returning(body)
    }

    /// Like [`returns`](Self::returns), for a body that can fail. If the body returns an error, the task fails with
    /// that error, the result is missing, and tasks that use the result or the regions that the task writes are
    /// skipped.
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
    pub fn try_returns<F, R, E>(self, body: F) -> TaskBuilder<'rt, A, Returning<F, Fallibly, Result<R, E>>, K>
    where
        F: for<'c, 'a> FnOnce(&'c Context, <A::Stored as AccessList>::Views<'a>) -> Result<R, E> + Send + 'b,
        R: Send + Sync + 'b,
        E: Into<BoxError> + 'b,
    {
        self.returning(body)
    }

    fn returning<F, Y, O>(self, body: F) -> TaskBuilder<'rt, A, Returning<F, Y, O>, K> {
        self.for_cores(|NoBody| Returning(body, PhantomData))
    }
}

impl<'b, A, F, Y, O, K> TaskBuilder<'_, A, Returning<F, Y, O>, K>
where
    A: Accesses,
    F: for<'c, 'a> FnOnce(&'c Context, <A::Stored as AccessList>::Views<'a>) -> O + Send + 'b,
    Y: Yields<O> + 'b,
    O: 'b,
    K: Keep<'b>,
{
    /// Submits the task and returns a handle of its result.
    ///
    /// # Errors
    /// As for tasks that return nothing. Submission also fails if the task has a body for devices, because that body
    /// would leave no result.
    #[track_caller]
    #[inline]
    pub fn submit(self) -> Result<Pending<Y::Result>, SubmitError> {
        if self.kinds != Kinds::CPU {
            return Err(SubmitError::ResultOnDevice { task: self.name.into() }.called_here());
        }
        let (keep, runtime, door) = (self.keep, self.entrance.id, self.entrance.downgrade());
        let (producer, promise) = result_of_task();
        let task = self.for_cores(|Returning(body, _)| {
            keep.body::<A::Stored, _, Result<(), BoxError>>(move |context, views| {
                producer.set(Y::outcome(body(context, views))?);
                Ok(())
            })
        });
        task.submit_as(CallSite::caller(), false, |task| Pending::new(promise(task.share()), runtime, door))
    }
}
