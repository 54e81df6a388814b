//! Handles of tasks, and waiting for one task.
//!
//! A task does not keep a list of its waiters, because the list would cost every task something. Instead, a thread that
//! wants to wait submits an internal task that comes after the awaited task and does nothing but wake the thread, as
//! when waiting for a value. So the runtime stores nothing except the handle's reference to the task, and tasks that
//! are not awaited pay nothing.

use super::door::Door;
use super::futures::Seat;
use super::wait::internal;
use crate::depend::{Side, TaskRef};
use crate::driver::waiters::{Awaited, own_waker};
use crate::error::{Failures, RunError, SubmitError, TaskFailure};
use crate::ids::{SpaceId, TaskId};
use crate::memory::nothing;
use crate::sync::Flow;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Handle of a submitted task, with which a program can wait for the task. Made by
/// [`TaskBuilder::submit_handle`](crate::TaskBuilder::submit_handle).
///
/// Until the handle is dropped, it keeps a few hundred bytes of the task alive, but not the body and its captures.
/// Dropping the handle does not cancel the task.
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let task: TaskHandle = rt.task("first", ()).cpu(|_, ()| ()).submit_handle()?;
/// task.wait()?;
/// assert_eq!((task.id(), task.name()), (TaskId(0), "first"));
/// assert!(task.is_finished() && task.failure().is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct TaskHandle {
    task: TaskRef,
    /// The runtime that the task was submitted to.
    door: Weak<Door>,
}

impl TaskHandle {
    pub(super) fn new(task: TaskRef, door: Weak<Door>) -> Self {
        Self { task, door }
    }

    /// Returns the task itself.
    pub(super) fn block(&self) -> &TaskRef {
        &self.task
    }

    /// Returns the runtime's door, unless the runtime is gone.
    pub(super) fn door(&self) -> Option<Arc<Door>> {
        self.door.upgrade()
    }

    /// Returns the task's ID.
    pub fn id(&self) -> TaskId {
        self.task.shared().id
    }

    /// Returns the task's name.
    pub fn name(&self) -> &str {
        &self.task.shared().name
    }

    /// Returns whether the task has run, failed or been skipped.
    pub fn is_finished(&self) -> bool {
        self.task.is_finished()
    }

    /// If the task has finished and has failed, returns its failure. If it was skipped, returns the failure of the
    /// other task that caused the skip.
    pub fn failure(&self) -> Option<Arc<TaskFailure>> {
        self.task.poison().filter(|_| self.is_finished())
    }

    /// Waits until the task has run, failed or been skipped, but not for tasks that its body submits. If the thread
    /// hosts a unit, it executes tasks while it waits.
    ///
    /// [`Runtime::wait`](crate::Runtime::wait) does not report the task's failure again.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// let x = rt.scalar(1.0);
    /// let fails = rt.task("fails", (x.inout(),)).cpu(|_, _| Err("no")).submit_handle()?;
    /// let skipped = rt.task("skipped", (x.inout(),)).cpu(|_, _| ()).submit_handle()?;
    /// assert!(fails.wait().is_err());
    /// assert!(skipped.wait().unwrap_err().to_string().contains("`fails`"));
    /// assert_eq!(skipped.failure().map(|failure| failure.task()), Some(fails.id()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns the failure that kept the task from completing. The call is refused where the thread cannot wait, and
    /// after an internal error of the runtime.
    #[track_caller]
    pub fn wait(&self) -> Result<(), RunError> {
        // If the runtime is gone, its tasks have already ended.
        let door = self.door();
        if let Some(door) = &door {
            door.wait_for_task(&self.task, "TaskHandle::wait")?;
        }
        if !self.is_finished() {
            return Err(SubmitError::ShutDown.into());
        }
        self.ended(door.as_deref())
    }

    /// Like [`wait`](Self::wait), but waits for at most `timeout`, which in a simulation is virtual time. Returns
    /// whether the task has ended.
    ///
    /// A call that ends too early leaves an internal task until the awaited one ends, unless the timeout is zero.
    ///
    /// ```
    /// use std::time::Duration;
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// let (open, opened) = std::sync::mpsc::channel::<()>();
    /// let task = rt.task("waits", ()).cpu(move |_, ()| _ = opened.recv()).submit_handle()?;
    /// assert!(!task.wait_timeout(Duration::from_millis(1))?);
    /// drop(open);
    /// assert!(task.wait_timeout(Duration::MAX)?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`wait`](Self::wait). The call is also refused inside every body, because nothing would wake the body at
    /// the end of the timeout.
    #[track_caller]
    pub fn wait_timeout(&self, timeout: Duration) -> Result<bool, RunError> {
        const CALL: &str = "TaskHandle::wait_timeout";
        let door = self.door();
        if let Some(door) = &door
            && !self.is_finished()
        {
            door.outside_body(CALL)?;
            let until = door.driver.now().saturating_add(timeout);
            if !timeout.is_zero() {
                let follower = door.tell_behind(&self.task, own_waker(), CALL)?;
                let left = || u64::from(door.driver.now() < until && !follower.is_finished());
                door.driver.advance(Awaited::ToldUntil(until), left);
            }
            if !self.is_finished() {
                return Ok(door.shared().broken().map(|()| false)?);
            }
        }
        self.ended(door.as_deref()).map(|()| true)
    }

    /// Like [`wait`](Self::wait), but returns a future that works with any executor. The call notes the task; a poll
    /// only checks whether it has ended.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// # let executor = tokio::runtime::Builder::new_current_thread().build()?;
    /// # executor.block_on(async {
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// let task = rt.task("fails", ()).cpu(|_, ()| Err("no")).submit_handle()?;
    /// assert!(task.wait_async().await.is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`wait`](Self::wait).
    #[track_caller]
    pub fn wait_async(&self) -> impl Future<Output = Result<(), RunError>> + Send + use<> {
        let awaited = self.door().filter(|_| !self.is_finished()).map(|door| {
            let seat = Seat::new(&door);
            let follower = door.may_wait_for(&self.task, "TaskHandle::wait_async");
            (follower.and_then(|()| door.tell_behind(&self.task, seat.waker(), "TaskHandle::wait_async")), seat)
        });
        Ended { task: self.clone(), awaited }
    }

    /// Returns the outcome of a task that has ended, or that will never end because the runtime is gone.
    fn ended(&self, door: Option<&Door>) -> Result<(), RunError> {
        if !self.is_finished() {
            return Err(SubmitError::ShutDown.into());
        }
        let Some(failure) = self.failure() else { return Ok(()) };
        if let Some(door) = door {
            door.shared().engine.failures().told(std::slice::from_ref(&failure));
        }
        Err(RunError::Failed(Failures(vec![failure])))
    }
}

/// See [`TaskHandle::wait_async`].
struct Ended {
    task: TaskHandle,
    /// The task that comes after the awaited one, or the refusal of the wait; `None` if there is nothing to wait for.
    awaited: Option<(Result<TaskRef, SubmitError>, Seat)>,
}

impl Future for Ended {
    type Output = Result<(), RunError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { task, awaited } = self.get_mut();
        let Some((follower, seat)) = awaited else { return Poll::Ready(task.ended(task.door().as_deref())) };
        let follower = match follower {
            Ok(follower) => follower,
            Err(refusal) => return Poll::Ready(Err(refusal.clone().into())),
        };
        let door = seat.door();
        door.shared().in_own_process()?;
        if seat.poll(cx, || Awaited::Told, || u64::from(!follower.is_finished())).is_pending() {
            return Poll::Pending;
        }
        if !follower.is_finished() {
            door.shared().broken()?;
        }
        Poll::Ready(task.ended(Some(&door)))
    }
}

impl fmt::Debug for TaskHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = f.debug_struct("TaskHandle");
        parts.field("id", &self.id()).field("name", &self.name()).field("is_finished", &self.is_finished());
        parts.finish_non_exhaustive()
    }
}

impl Door {
    /// Waits until a task has ended, unless this thread cannot wait for it.
    #[track_caller]
    pub(super) fn wait_for_task(&self, task: &TaskRef, call: &'static str) -> Result<(), SubmitError> {
        self.may_wait_for(task, call)?;
        if task.is_finished() { Ok(()) } else { self.wait_behind(task, call) }
    }

    /// Waits until a task has ended.
    #[track_caller]
    fn wait_behind(&self, task: &TaskRef, call: &'static str) -> Result<(), SubmitError> {
        self.driver.run_descendants(|| task.is_finished());
        if task.is_finished() {
            return Ok(());
        }
        let follower = self.tell_behind(task, own_waker(), call)?;
        self.await_end(&follower)
    }

    /// Submits a task that comes after this one and wakes `waker`, and returns the new task.
    #[track_caller]
    pub(super) fn tell_behind(&self, task: &TaskRef, waker: Waker, call: &'static str) -> Result<TaskRef, SubmitError> {
        let side = Side { space: Some(SpaceId::HOST), awaited_by: Some(waker), ..Side::default() };
        self.driver.submit(internal(call, side), nothing(), &[], |follower| {
            let _ = follower.wait_for(task, Flow::Order); // otherwise it has finished meanwhile
            follower.share()
        })
    }
}
