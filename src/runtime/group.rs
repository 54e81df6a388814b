//! Groups of tasks: waiting for some tasks, and giving them up.

use super::wait::circular;
use super::{Runtime, TaskBuilder};
use crate::depend::{Group, running};
use crate::driver::circle::key_of_group;
use crate::driver::waiters::{Awaited, own_waker};
use crate::error::{Failures, RunError, SubmitError};
use crate::memory::Slot;
use crate::task::Accesses;
use std::borrow::Cow;
use std::sync::Arc;

impl Runtime {
    /// A new group of tasks.
    pub fn group(&self) -> TaskGroup<'_> {
        TaskGroup { runtime: self, group: Arc::default(), priority: 0 }
    }
}

/// Tasks that are waited for together, fail together, or are given up together. Made by [`Runtime::group`]; clones are
/// handles of the same group.
///
/// A group orders nothing: its tasks depend on each other, and on others, by their accesses. A task in a group costs an
/// allocation and two counts more than one without; a task without a group pays nothing for there being groups.
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("2:CPU:1").build()?;
/// let (x, y) = (rt.data(vec![1; 8]), rt.data(vec![1; 8]));
/// let (urgent, other) = (rt.group().with_priority(1), rt.group());
/// urgent.task("double", (x.inout(),)).cpu(|_, (x,)| x.iter_mut().for_each(|x| *x *= 2)).submit()?;
/// rt.task("fails", (y.inout(),)).group(&other).cpu(|_, _| Err("no")).submit()?;
/// urgent.wait()?;
/// assert!(other.wait().is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct TaskGroup<'rt> {
    pub(super) runtime: &'rt Runtime,
    pub(super) group: Arc<Group>,
    priority: i32,
}

impl<'rt> TaskGroup<'rt> {
    /// This handle, whose tasks have this priority unless they have one of their own.
    #[must_use]
    pub fn with_priority(self, priority: i32) -> Self {
        Self { priority, ..self }
    }

    /// Begins the description of a task in this group; see [`Runtime::task`].
    pub fn task<A: Accesses>(&self, name: impl Into<Cow<'static, str>>, accesses: A) -> TaskBuilder<'rt, A> {
        self.runtime.task(name, accesses).group(self)
    }

    /// A group that is a part of this one: its tasks belong to both.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// let all = rt.group();
    /// let part = all.group();
    /// part.task("t", ()).cpu(|_, ()| ()).submit()?;
    /// all.wait()?; // for the tasks of the part as well
    /// all.cancel();
    /// assert!(part.is_cancelled());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn group(&self) -> TaskGroup<'rt> {
        Self { group: Arc::new(self.group.part()), ..*self }
    }

    /// Waits until no task of the group is left, and for no other; what is submitted to it meanwhile is waited for too.
    /// A thread that hosts a unit executes tasks meanwhile, of whatever group.
    ///
    /// When it returns, the tasks' bodies have ended, what they captured is dropped, and handles of them say that they have
    /// finished.
    ///
    /// # Errors
    /// The failures because of which tasks of the group have not run to their ends, those of others among them if they
    /// are the cause; each once, to the call that ends first. [`Runtime::wait`] does not report them again if it is
    /// called later. Or that the call is refused: inside a body, or after an error of the runtime's own.
    pub fn wait(&self) -> Result<(), RunError> {
        self.runtime.may_wait("wait")?;
        if let Some(task) = running::member_of(&self.group) {
            return Err(SubmitError::InsideGroup { task: task.into_owned() }.into());
        }
        let told = self.group.tell(own_waker());
        let waited = self.runtime.door.driver.await_told(key_of_group(&self.group), || self.group.left());
        drop(told);
        waited.map_err(|circle| circular("wait", circle))?;
        if self.group.left() > 0 {
            self.runtime.shared().broken()?;
        }
        let failures = self.runtime.failures_of(&self.group);
        if failures.is_empty() { Ok(()) } else { Err(RunError::Failed(failures)) }
    }

    /// Waits until no task of the group is left, whether they fail or not, and whatever they wait for.
    ///
    /// # Errors
    /// If the runtime is broken, and some are left.
    pub(super) fn wait_until_empty(&self) -> Result<(), SubmitError> {
        self.runtime.shared().in_own_process()?;
        let told = self.group.tell(own_waker());
        self.runtime.door.driver.advance(Awaited::Told, || self.group.left());
        drop(told);
        if self.group.left() == 0 { Ok(()) } else { self.runtime.shared().broken() }
    }

    /// Gives the group up: tasks that have not begun will not run. They fail as cancelled
    /// ([`FailureReason::Cancelled`](crate::error::FailureReason)) when it would be their turn, and what they should
    /// have written is poisoned, as after any failure. Further tasks are refused ([`SubmitError::Cancelled`]), here and in
    /// groups that are parts of this one. Returns at once.
    ///
    /// A body that runs is not disturbed; it can ask [`Context::is_cancelled`](crate::Context::is_cancelled). A future
    /// ([`host_async`](TaskBuilder::host_async)) that has begun and not ended is dropped by a unit's thread instead of being
    /// polled again, and its task fails as cancelled. If it has given guards to other threads, the task ends when these are
    /// back. So does a task of [`host_detached`](TaskBuilder::host_detached) whose body has returned: nobody can take a guard
    /// away from the thread that has it, and the task ends as its guards say.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// let x = rt.scalar(0);
    /// let (open, opened) = std::sync::mpsc::channel::<()>();
    /// rt.task("first", (x.inout(),)).cpu(move |_, (x,)| { _ = opened.recv(); x[0] += 1 }).submit()?;
    /// let group = rt.group();
    /// group.task("second", (x.inout(),)).cpu(|_, (x,)| x[0] += 1).submit()?;
    /// group.cancel();
    /// drop(open);
    /// assert!(group.wait().unwrap_err().to_string().contains("cancelled"));
    /// rt.accept(&x)?;
    /// assert_eq!(rt.read_scalar(&x)?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel(&self) {
        self.group.cancel();
    }

    /// Whether the group was cancelled, or one that it is a part of.
    pub fn is_cancelled(&self) -> bool {
        self.group.is_cancelled()
    }

    /// How many of its tasks have not ended.
    pub fn pending(&self) -> u64 {
        self.group.left()
    }
}

impl Runtime {
    /// What has failed in a group and was not asked for before. Nobody is told of it again who waits for more.
    pub(super) fn failures_of(&self, group: &Group) -> Failures {
        let failures = group.take_failures();
        if !failures.is_empty() {
            self.shared().engine.failures().told(&failures);
        }
        Failures(failures)
    }
}

impl<A, C> TaskBuilder<'_, A, C>
where
    A: Accesses,
    C: Slot<A::Stored>,
{
    /// Makes the task a member of a group, with the group's priority unless it has one of its own. The last call wins.
    pub fn group(mut self, group: &TaskGroup<'_>) -> Self {
        self.hints.group = Some((group.runtime.door.id, group.group.clone()));
        if self.hints.priority == 0 {
            self.hints.priority = group.priority;
        }
        self
    }
}

/// Refuses a task for a group that it cannot be in.
#[cold]
pub(super) fn check(task: &str, (of, group): &(u64, Arc<Group>), runtime: u64) -> Result<(), SubmitError> {
    let task = || task.to_owned();
    match () {
        () if *of != runtime => Err(SubmitError::ForeignGroup { task: task() }),
        () if group.is_cancelled() => Err(SubmitError::Cancelled { task: task() }),
        () => Ok(()),
    }
}
