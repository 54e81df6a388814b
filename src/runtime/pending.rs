//! Results of tasks: accessing them in other tasks, and waiting for them, also as futures.
//!
//! A [`Pending`] consists of a reference to its task and one end of the result. As with any task, nothing is notified
//! of the end of the task unless the program waits; in that case, an internal task that comes after it wakes the thread
//! or the future. A caller that takes the result also waits for its readers (`sync/readers.rs`).

use super::door::Door;
use super::futures::Seat;
use super::handle::TaskHandle;
use super::runtime::Runtime;
use super::wait::internal;
use crate::depend::{Side, Submitting, running};
use crate::driver::inside;
use crate::driver::waiters::{Awaited, own_waker};
use crate::error::{RunError, SubmitError};
use crate::ids::SpaceId;
use crate::memory::{Payload, Promise};
use crate::sealed::Sealed;
use crate::sync::Flow;
use crate::task::{Accesses, ResultAfter, ResultInput, ResultOutcome};
use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Weak;
use std::task::{Context, Poll};

/// The result of type `R` that a task will return. Made by submitting a task with
/// [`TaskBuilder::returns`](crate::TaskBuilder::returns).
///
/// A result can be accessed like any data object: a task with an [`input`](Self::input) access to the result comes
/// after the task that returns it, and its body gets `&R`. [`get`](Self::get) waits for the result and moves it out,
/// and so does `.await`. Dropping a `Pending` cancels nothing; the result is then dropped once it exists and its last
/// reader has ended.
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("2:CPU:1").build()?;
/// let parts: Vec<Pending<u64>> = (0..4u64)
///     .map(|part| rt.task("sum", ()).returns(move |_, ()| (100 * part..100 * (part + 1)).sum()).submit())
///     .collect::<Result<_, _>>()?;
/// let inputs: Vec<_> = parts.iter().map(Pending::input).collect();
/// let total = rt.task("total", inputs).returns(|_, parts| parts.into_iter().sum::<u64>()).submit()?;
/// assert_eq!(total.get()?, 400 * 399 / 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "an unread result is dropped; a task without a result costs less"]
pub struct Pending<R> {
    promise: Promise<R>,
    /// The ID of the runtime that the task was submitted to.
    runtime: u64,
    door: Weak<Door>,
}

impl<R> Pending<R> {
    #[inline]
    pub(super) fn new(promise: Promise<R>, runtime: u64, door: Weak<Door>) -> Self {
        Self { promise, runtime, door }
    }

    /// `in`: a later task reads the result. If the result is missing because its task failed, the later task is
    /// skipped.
    #[inline]
    pub fn input(&self) -> ResultInput<'_, R> {
        ResultInput::new(&self.promise, self.runtime)
    }

    /// `outcome`: a later task reads the result, or gets the failure of its task. The later task is not skipped.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("2:CPU:1").build()?;
    /// let texts = ["1", "two", "3"];
    /// let numbers: Vec<_> = texts
    ///     .iter()
    ///     .map(|text| rt.task("parse", ()).try_returns(|_, ()| text.parse::<u32>()).submit())
    ///     .collect::<Result<_, _>>()?;
    /// let inputs: Vec<_> = numbers.iter().map(Pending::outcome).collect();
    /// let sum = rt.task("add", inputs).returns(|_, numbers| numbers.into_iter().flatten().sum::<u32>()).submit()?;
    /// assert_eq!(sum.get()?, 4);
    /// assert!(rt.wait().is_err()); // reports the failure, once
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn outcome(&self) -> ResultOutcome<'_, R> {
        ResultOutcome::new(&self.promise, self.runtime)
    }

    /// `after`: a later task comes after the task that returns the result, and runs even if the earlier task has
    /// failed. The body of the later task gets `()`, and the result can be [taken](Self::get) without waiting for the
    /// later task.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// let log = rt.value(Vec::new());
    /// let answer = rt.task("ask", log.inout()).returns(|_, log| { log.push("asked"); 42 }).submit()?;
    /// rt.task("hang up", (answer.after(), log.inout())).cpu(|_, ((), log)| log.push("hung up")).submit()?;
    /// assert_eq!(answer.get()?, 42);
    /// assert_eq!(rt.take(log)?, ["asked", "hung up"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn after(&self) -> ResultAfter<'_, R> {
        ResultAfter::new(&self.promise, self.runtime)
    }

    /// Returns whether the task has run, failed or been skipped.
    pub fn is_finished(&self) -> bool {
        self.promise.task().is_finished()
    }

    /// Returns a handle of the task, like the handles of other tasks.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// let one = rt.task("one", ()).returns(|_, ()| 1).submit()?;
    /// one.task().wait()?;
    /// assert_eq!(one.task().name(), "one");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn task(&self) -> TaskHandle {
        TaskHandle::new(self.promise.task().clone(), self.door.clone())
    }

    /// Waits until the task has run, failed or been skipped. If the thread hosts a unit, it executes tasks while it
    /// waits.
    ///
    /// # Errors
    /// As for [`get`](Self::get).
    #[track_caller]
    pub fn wait(&self) -> Result<(), RunError> {
        self.wait_in("wait")
    }

    /// Waits for the result and for the tasks that read it, and moves the result out. If the thread hosts a unit, it
    /// executes tasks while it waits.
    ///
    /// # Errors
    /// Returns [`RunError::NoResult`] with the failure that left the result missing; the errors that led to the failure
    /// are its [sources](std::error::Error::source). [`Runtime::wait`](crate::Runtime::wait) does not report this
    /// failure again. The call is refused inside a body, or after an internal error of the runtime. In a simulation it
    /// returns [`RunError::NotComputed`], because a simulation computes no results.
    ///
    /// ```
    /// use std::error::Error;
    /// use std::num::ParseIntError;
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// let parsed = rt.task("parse", ()).try_returns(|_, ()| "many".parse::<u32>()).submit()?;
    /// let doubled = rt.task("double", parsed.input()).returns(|_, n| 2 * n).submit()?;
    /// match doubled.get() {
    ///     Err(RunError::NoResult { task, failure }) => {
    ///         assert_eq!((task.as_str(), failure.name()), ("double", "parse")); // skipped, because that one failed
    ///         assert!(failure.source().is_some_and(|error| error.is::<ParseIntError>()));
    ///     }
    ///     other => unreachable!("{other:?}"),
    /// }
    /// # Ok::<(), Box<dyn Error>>(())
    /// ```
    #[track_caller]
    pub fn get(self) -> Result<R, RunError> {
        self.wait_in("get")?;
        if !self.promise.is_unread() && !self.promise.wake_when_unread(own_waker()) {
            let door = self.door.upgrade().ok_or(SubmitError::ShutDown)?;
            door.driver.advance(Awaited::Told, || u64::from(!self.promise.is_unread()));
            if !self.promise.is_unread() {
                door.shared().broken()?;
            }
        }
        self.take()
    }

    /// Submits an internal task that writes the result that `make` returns, if the task that should have returned it
    /// fails. From then on, the internal task represents the result.
    #[track_caller]
    pub(super) fn mend(
        &mut self,
        rt: &Runtime,
        make: impl FnOnce() -> R + Send + 'static,
        name: &'static str,
    ) -> Result<(), SubmitError>
    where
        R: Send + Sync + 'static,
    {
        ResultOutcome::new(&self.promise, self.runtime).check(rt.door.id).map_err(|refusal| refusal.of_task(name))?;
        let failed = (self.promise.task().clone(), Flow::Order);
        let side = Side { space: Some(SpaceId::HOST), predecessors: vec![failed], ..Side::default() };
        let payload = Payload::mending(self.promise.mend(), make);
        let task = rt.door.driver.submit(internal(name, side), payload, &[], Submitting::share)?;
        self.promise.stand_in(task);
        Ok(())
    }

    #[track_caller]
    fn wait_in(&self, call: &'static str) -> Result<(), RunError> {
        // If the runtime is gone, its tasks have already ended.
        if let Some(door) = self.door.upgrade() {
            door.wait_for_task(self.promise.task(), call)?;
        }
        self.ended()
    }

    /// Returns `Ok` if the task has succeeded, and otherwise the reason why it has not.
    fn ended(&self) -> Result<(), RunError> {
        let task = self.promise.task();
        match task.poison() {
            _ if !task.is_finished() => Err(SubmitError::ShutDown.into()),
            Some(failure) => {
                if let Some(door) = self.door.upgrade() {
                    door.shared().engine.failures().told(std::slice::from_ref(&failure));
                }
                Err(RunError::NoResult { task: task.shared().name.clone().into_owned(), failure })
            }
            None => Ok(()),
        }
    }

    /// Returns the result of a task that has ended; the result has no more readers.
    fn take(self) -> Result<R, RunError> {
        self.ended()?;
        let task = self.promise.task().clone();
        let name = || task.shared().name.clone().into_owned();
        self.promise.take().ok_or_else(|| RunError::NotComputed { task: name() })
    }
}

impl<R> Sealed for &mut Pending<R> {}

impl<R> fmt::Debug for Pending<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pending").field(&self.task()).finish()
    }
}

/// `.await` yields the same as [`Pending::get`]. It works with any executor and in a task's own futures, because the
/// runtime wakes the future when its task has ended.
///
/// The first poll blocks if tasks run only while a thread waits. This is the case in a simulation, and if the thread
/// that built the runtime hosts a unit that no other thread takes over
/// ([`Builder::use_current_thread`](crate::Builder::use_current_thread)).
impl<R> IntoFuture for Pending<R> {
    type Output = Result<R, RunError>;
    type IntoFuture = ResultFuture<R>;

    fn into_future(self) -> ResultFuture<R> {
        ResultFuture { pending: Some(self), seat: None }
    }
}

/// The future of a [`Pending`], made by `.await`. Dropping it cancels nothing.
///
/// ```
/// use std::future::IntoFuture;
/// use std::task::{Context, Poll, Waker};
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let one = rt.task("one", ()).returns(|_, ()| 1).submit()?;
/// rt.wait()?;
/// let mut future = std::pin::pin!(one.into_future());
/// let Poll::Ready(one) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) else { unreachable!() };
/// assert_eq!(one?, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a future does nothing unless it is awaited"]
pub struct ResultFuture<R> {
    pending: Option<Pending<R>>,
    /// `None` until a task has been submitted that wakes the future.
    seat: Option<Seat>,
}

impl<R> ResultFuture<R> {
    /// Returns `Ready` when the task and the readers of its result have ended, or when the wait can never end.
    ///
    /// # Errors
    /// Returns the reason why the wait can never end.
    fn poll_pending(&mut self, pending: &Pending<R>, cx: &mut Context<'_>) -> Poll<Result<(), SubmitError>> {
        let left = || u64::from(!pending.is_finished() || !pending.promise.is_unread());
        if left() == 0 {
            return Poll::Ready(Ok(()));
        }
        let door = pending.door.upgrade().ok_or(SubmitError::ShutDown)?;
        door.shared().in_own_process()?;
        if let Some(replayed) = running::replayed_here(door.id) {
            door.is_within(replayed, pending.promise.task(), "await")?;
        }
        let seat = match &mut self.seat {
            Some(seat) => seat,
            none => {
                let seat = Seat::new(&door);
                if !pending.is_finished() {
                    door.tell_behind(pending.promise.task(), seat.waker(), "await")?;
                }
                none.insert(seat)
            }
        };
        if pending.is_finished() {
            pending.promise.wake_when_unread(seat.waker());
        }
        if seat.poll(cx, || Awaited::Told, left).is_pending() {
            return Poll::Pending;
        }
        Poll::Ready(if left() == 0 { Ok(()) } else { door.shared().broken() })
    }
}

impl<R> Future for ResultFuture<R> {
    type Output = Result<R, RunError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let pending = self.pending.take().expect("a future is not polled after its end");
        if let Some(door) = pending.door.upgrade()
            && !door.driver.goes_on_by_itself()
            && !inside::in_body(door.id)
        {
            return Poll::Ready(pending.get());
        }
        match self.poll_pending(&pending, cx) {
            Poll::Pending => {
                self.pending = Some(pending);
                Poll::Pending
            }
            Poll::Ready(Ok(())) => Poll::Ready(pending.take()),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error.into())),
        }
    }
}

impl<R> fmt::Debug for ResultFuture<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ResultFuture").field(&self.pending).finish()
    }
}
