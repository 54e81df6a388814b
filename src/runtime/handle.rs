//! Waiting for one task.
//!
//! A task does not know who waits for it: that would cost all tasks. Who wants to wait submits a task of the runtime's own
//! behind it, which does nothing and tells the waiting thread, as for a value. So nothing is kept but the handle's reference
//! to the task, and nothing is done until somebody waits.

use super::wait::internal;
use super::{Door, Runtime};
use crate::depend::{Side, TaskRef};
use crate::driver::waiters::own_waker;
use crate::error::{Failures, RunError, SubmitError, TaskFailure};
use crate::ids::{SpaceId, TaskId};
use crate::memory::nothing;
use crate::sync::Flow;
use std::fmt;
use std::sync::Arc;
use std::task::Waker;

/// A submitted task that can be waited for: see [`Runtime::wait_for`]. Made by
/// [`TaskBuilder::submit_handle`](crate::TaskBuilder::submit_handle).
///
/// It keeps a few hundred bytes of the task, without its body and what that captured, until it is dropped. Dropping it does
/// not cancel the task.
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let task: TaskHandle = rt.task("first", ()).cpu(|_, ()| ()).submit_handle()?;
/// rt.wait_for(&task)?;
/// assert_eq!((task.id(), task.name()), (TaskId(0), "first"));
/// assert!(task.is_finished() && task.failure().is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct TaskHandle {
    /// Of the runtime that it was submitted to.
    runtime: u64,
    task: TaskRef,
}

impl TaskHandle {
    pub(super) fn new(runtime: u64, task: TaskRef) -> Self {
        Self { runtime, task }
    }

    /// The task's id.
    pub fn id(&self) -> TaskId {
        self.task.shared().id
    }

    /// The task's name.
    pub fn name(&self) -> &str {
        &self.task.shared().name
    }

    /// Whether the task has run, failed or been skipped.
    pub fn is_finished(&self) -> bool {
        self.task.is_finished()
    }

    /// The failure of the finished task, if it has failed; or that of another, if it was skipped because of it.
    pub fn failure(&self) -> Option<Arc<TaskFailure>> {
        self.task.poison().filter(|_| self.is_finished())
    }
}

impl fmt::Debug for TaskHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = f.debug_struct("TaskHandle");
        parts.field("id", &self.id()).field("name", &self.name()).field("is_finished", &self.is_finished());
        parts.finish_non_exhaustive()
    }
}

impl Runtime {
    /// Waits until this task has run, failed or been skipped; not for what its body submits. A thread that hosts a unit
    /// executes tasks meanwhile.
    ///
    /// [`wait`](Self::wait) does not report the task's failure again.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// let x = rt.scalar(1.0);
    /// let fails = rt.task("fails", (x.inout(),)).cpu(|_, _| Err("no")).submit_handle()?;
    /// let skipped = rt.task("skipped", (x.inout(),)).cpu(|_, _| ()).submit_handle()?;
    /// assert!(rt.wait_for(&fails).is_err());
    /// assert!(rt.wait_for(&skipped).unwrap_err().to_string().contains("`fails`"));
    /// assert_eq!(skipped.failure().map(|failure| failure.task()), Some(fails.id()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The failure because of which the task has not run to its end. Or that the call is refused: inside a body, after an
    /// error of the runtime's own, or because the task is another runtime's.
    #[track_caller]
    pub fn wait_for(&self, task: &TaskHandle) -> Result<(), RunError> {
        self.door.may_wait_for(&task.task, "wait_for")?;
        if task.runtime != self.door.id {
            return Err(SubmitError::ForeignTask { task: task.name().to_owned() }.into());
        }
        if !task.is_finished() {
            self.door.wait_behind(&task.task, "wait_for")?;
        }
        let Some(failure) = task.failure() else { return Ok(()) };
        self.shared().engine.failures().told(std::slice::from_ref(&failure));
        Err(RunError::Failed(Failures(vec![failure])))
    }
}

impl Door {
    /// Waits until a task has ended.
    #[track_caller]
    pub(super) fn wait_behind(&self, task: &TaskRef, call: &'static str) -> Result<(), SubmitError> {
        self.driver.run_descendants(|| task.is_finished());
        if task.is_finished() {
            return Ok(());
        }
        let follower = self.tell_behind(task, own_waker(), call)?;
        self.await_end(&follower)
    }

    /// Has `waker` woken when a task has ended; by the end of the one that is returned.
    #[track_caller]
    pub(super) fn tell_behind(&self, task: &TaskRef, waker: Waker, call: &'static str) -> Result<TaskRef, SubmitError> {
        let side = Side { space: Some(SpaceId::HOST), awaited_by: Some(waker), ..Side::default() };
        self.driver.submit(internal(call, side), nothing(), &[], |follower| {
            let _ = follower.wait_for(task, Flow::Order); // otherwise it has finished meanwhile
            follower.share()
        })
    }
}
