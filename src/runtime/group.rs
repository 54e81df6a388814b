//! Groups of tasks: waiting for some tasks, and cancelling them.

use super::door::Door;
use super::entrance::{EntranceOf, Kin};
use super::for_each::LoopBuilder;
use super::futures::Seat;
use super::runtime::Runtime;
use super::submit::TaskBuilder;
use super::wait::in_vain;
use crate::depend::{Group, Told, running};
use crate::driver::waiters::{Awaited, own_waker};
use crate::error::{Failures, RunError, SubmitError};
use crate::memory::Owned;
use crate::sealed::Sealed;
use crate::sync::CallSite;
use crate::task::{Accesses, LoopAccesses};
use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

impl Runtime {
    /// Returns a new group of tasks.
    pub fn group(&self) -> TaskGroup {
        TaskGroup::new(self.door.clone(), Arc::default(), false)
    }
}

/// Tasks that are waited for together, fail together, or are cancelled together.
///
/// Made by [`Runtime::group`]; clones are handles of the same group. A handle borrows nothing, so it can be stored in
/// a struct and sent to other threads. It does not keep the runtime from ending: after that, submissions are refused.
///
/// A group imposes no order: only their accesses determine how its tasks depend on each other and on other tasks. A
/// task in a group costs one more allocation and two more counter updates than a task without one. Tasks without a
/// group pay nothing for groups.
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
#[derive(Clone)]
pub struct TaskGroup {
    pub(super) door: Arc<Door>,
    pub(super) group: Arc<Group>,
    priority: i32,
    /// Whether the group's tasks are children of the task in whose body they are submitted.
    of_children: bool,
}

impl TaskGroup {
    pub(super) fn new(door: Arc<Door>, group: Arc<Group>, of_children: bool) -> Self {
        Self { door, group, priority: 0, of_children }
    }

    /// Returns this handle with a default priority: its tasks have this priority unless they set their own.
    #[must_use]
    pub fn with_priority(self, priority: i32) -> Self {
        Self { priority, ..self }
    }

    /// Returns the door through which the tasks of this handle enter the runtime, and their parent task.
    fn entrance(&self) -> (EntranceOf<'_>, Kin) {
        let kin = if self.of_children { Kin::of_children(self.door.id) } else { Kin::None };
        (EntranceOf::Front(&self.door), kin)
    }

    /// Begins the description of a task in this group; see [`Runtime::task`].
    pub fn task<A: Accesses>(&self, name: impl Into<Cow<'static, str>>, accesses: A) -> TaskBuilder<'_, A> {
        let (entrance, kin) = self.entrance();
        TaskBuilder::new(entrance, kin, name.into(), accesses).group(self)
    }

    /// Begins the description of a loop whose iterations are tasks in this group; see [`Runtime::for_each`].
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("2:CPU:1").build()?;
    /// let (x, group) = (rt.data(vec![1; 100]), rt.group());
    /// group.for_each("double", x.blocks(10).inout()).cpu(|_, x| x.iter_mut().for_each(|x| *x *= 2)).submit()?;
    /// group.wait()?;
    /// assert_eq!(rt.take(x)?, [2; 100]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn for_each<A: LoopAccesses>(&self, name: impl Into<Cow<'static, str>>, accesses: A) -> LoopBuilder<'_, A> {
        let (entrance, kin) = self.entrance();
        LoopBuilder::new(entrance, kin, name.into(), accesses).group(self)
    }

    /// Returns a group that is a part of this one: its tasks belong to both.
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
    pub fn group(&self) -> Self {
        Self { group: Arc::new(self.group.part()), ..self.clone() }
    }

    /// Waits until no task of the group is left, including tasks that are submitted to the group during the wait. If
    /// the thread hosts a unit, it executes tasks of any group while it waits.
    ///
    /// When the call returns, the bodies of the group's tasks have ended, their captures have been dropped, and handles
    /// of the tasks report that they have finished.
    ///
    /// # Errors
    /// Returns the failures that kept tasks of the group from completing, including failures of other tasks that are
    /// the cause. Each failure is reported once, to the call that ends first; a later [`Runtime::wait`] does not report
    /// it again. The call is refused inside a body, or after an internal error of the runtime.
    #[track_caller]
    pub fn wait(&self) -> Result<(), RunError> {
        self.door.may_wait("wait")?;
        self.outside_of_it()?;
        let waited = self.door.driver.await_members(&self.group, false, CallSite::caller());
        waited.map_err(|vain| in_vain("wait", vain))?;
        self.ended()
    }

    /// Like [`wait`](Self::wait), but waits for at most `timeout`, which in a simulation is virtual time. Returns
    /// whether no task is left.
    ///
    /// If tasks are left, no failure is reported yet.
    ///
    /// ```
    /// use std::time::Duration;
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// let (group, (open, opened)) = (rt.group(), std::sync::mpsc::channel::<()>());
    /// group.task("waits", ()).cpu(move |_, ()| _ = opened.recv()).submit()?;
    /// assert!(!group.wait_timeout(Duration::from_millis(1))?);
    /// drop(open);
    /// assert!(group.wait_timeout(Duration::MAX)?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`wait`](Self::wait). The call is also refused inside every body, because nothing would wake the body at
    /// the end of the timeout.
    pub fn wait_timeout(&self, timeout: Duration) -> Result<bool, RunError> {
        self.door.outside_body("wait_timeout")?;
        let driver = &self.door.driver;
        let until = driver.now().saturating_add(timeout);
        let _told = self.group.tell(own_waker());
        driver.advance(Awaited::ToldUntil(until), || if driver.now() < until { self.group.left() } else { 0 });
        let ended = self.group.left() == 0;
        if ended { self.ended().map(|()| true) } else { Ok(self.door.shared().broken().map(|()| false)?) }
    }

    /// Like [`wait`](Self::wait), but returns a future that works with any executor. The future also waits for tasks
    /// that are submitted before it is ready.
    ///
    /// While no thread waits, a unit that is hosted by the submitter
    /// ([`use_current_thread`](crate::Builder::use_current_thread)) executes nothing, and stalls are not reported.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// # let executor = tokio::runtime::Builder::new_current_thread().build()?;
    /// # executor.block_on(async {
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// let group = rt.group();
    /// group.task("fails", ()).cpu(|_, ()| Err("no")).submit()?;
    /// assert!(group.wait_async().await.is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`wait`](Self::wait). A body of [`host_async`](TaskBuilder::host_async) can await groups that its task
    /// does not belong to.
    pub fn wait_async(&self) -> impl Future<Output = Result<(), RunError>> + Send + use<> {
        let seat = Seat::new(&self.door);
        let told = self.group.tell(seat.waker());
        Members { refused: self.outside_of_it().err(), group: self.clone(), seat, _told: told }
    }

    /// Refuses a wait in the body of a member, because that task would wait for itself.
    fn outside_of_it(&self) -> Result<(), SubmitError> {
        let inside = |task: Cow<'static, str>| SubmitError::InsideGroup { task: task.into_owned() };
        running::member_of(&self.group).map_or(Ok(()), |task| Err(inside(task)))
    }

    /// Called when no member is left or the wait can never end; returns why members have not completed.
    fn ended(&self) -> Result<(), RunError> {
        if self.group.left() > 0 {
            self.door.shared().broken()?;
        }
        let failures = self.door.failures_of(&self.group);
        if failures.is_empty() { Ok(()) } else { Err(RunError::Failed(failures)) }
    }

    /// Waits until no task of the group is left, whether tasks fail or not, and whatever they wait for; `at` is the
    /// call site.
    ///
    /// # Errors
    /// Fails if the runtime is broken and tasks are left.
    pub(super) fn wait_until_empty(&self, at: CallSite) -> Result<(), SubmitError> {
        self.door.shared().in_own_process()?;
        let waited = self.door.driver.await_members(&self.group, true, at);
        debug_assert!(waited.is_ok(), "only waits with a key are refused");
        if self.group.left() == 0 { Ok(()) } else { self.door.shared().broken() }
    }

    /// Cancels the group: tasks that have not begun will not run. They fail as cancelled
    /// ([`FailureReason::Cancelled`](crate::error::FailureReason)) when their turn comes, and the regions that they
    /// should have written are poisoned, as after any failure. Further submissions to this group and to groups that are
    /// parts of it are refused ([`SubmitError::Cancelled`]). Returns immediately.
    ///
    /// A running body is not interrupted; it can query [`Context::is_cancelled`](crate::Context::is_cancelled). A
    /// future ([`host_async`](TaskBuilder::host_async)) that has begun and not ended is dropped by a unit's thread
    /// instead of being polled again, and its task fails as cancelled. If it has given guards to other threads, the
    /// task ends only when all of them have been returned. The same holds for a task of
    /// [`host_detached_until_event`](TaskBuilder::host_detached_until_event) whose body has returned: a guard cannot be
    /// revoked from the thread that holds it, so the task ends with the outcome that its guards report.
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
    /// assert_eq!(rt.read(&x)?[0], 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel(&self) {
        self.group.cancel();
    }

    /// Returns whether this group, or an outer group that it is a part of, was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.group.is_cancelled()
    }

    /// Returns the number of the group's tasks that have not ended.
    pub fn pending(&self) -> u64 {
        self.group.left()
    }

    /// Returns a guard that cancels the group when it is dropped, for instance by an early return with an error.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// fn request(rt: &Runtime, fails: bool) -> Result<thalweg::TaskGroup, Box<dyn std::error::Error>> {
    ///     let group = rt.group().cancel_on_drop();
    ///     group.task("step", ()).cpu(|_, ()| ()).submit()?;
    ///     if fails {
    ///         return Err("the caller has gone".into()); // the tasks are cancelled
    ///     }
    ///     Ok(group.keep())
    /// }
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// assert!(!request(&rt, false)?.is_cancelled());
    /// assert!(request(&rt, true).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel_on_drop(self) -> CancelOnDrop {
        CancelOnDrop(Some(self))
    }

    /// Returns the ID of the runtime, the group, and the priority of a task whose stated priority is `stated`.
    pub(super) fn admission(&self, stated: i32) -> ((u64, Arc<Group>), i32) {
        ((self.door.id, self.group.clone()), if stated == 0 { self.priority } else { stated })
    }
}

impl fmt::Debug for TaskGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskGroup")
            .field("group", &self.group)
            .field("priority", &self.priority)
            .finish_non_exhaustive()
    }
}

/// A handle of a group that cancels the group when dropped; see [`TaskGroup::cancel_on_drop`]. Dropping a clone of the
/// group does not cancel it.
#[derive(Debug)]
#[must_use = "dropping the guard cancels the group"]
pub struct CancelOnDrop(Option<TaskGroup>);

impl CancelOnDrop {
    /// Disarms the guard and returns the group, which is then no longer cancelled on drop.
    pub fn keep(mut self) -> TaskGroup {
        self.0.take().expect("the group is taken once, with its guard")
    }
}

impl Deref for CancelOnDrop {
    type Target = TaskGroup;

    fn deref(&self) -> &TaskGroup {
        self.0.as_ref().expect("the group is taken once, with its guard")
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.iter().for_each(TaskGroup::cancel);
    }
}

/// See [`TaskGroup::wait_async`].
struct Members {
    refused: Option<SubmitError>,
    group: TaskGroup,
    seat: Seat,
    _told: Told,
}

impl Future for Members {
    type Output = Result<(), RunError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { refused, group, seat, .. } = self.get_mut();
        if let Some(refusal) = refused.take().or_else(|| group.outside_of_it().err()) {
            return Poll::Ready(Err(refusal.into()));
        }
        match seat.poll(cx, || Awaited::Told, || group.group.left()) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) => Poll::Ready(group.ended()),
        }
    }
}

impl Door {
    /// Returns the failures in a group that no call has reported. Later waits that cover more than the group do not
    /// report them again.
    pub(super) fn failures_of(&self, group: &Group) -> Failures {
        let failures = group.take_failures();
        if !failures.is_empty() {
            self.shared().engine.failures().told(&failures);
        }
        Failures(failures)
    }
}

/// Builders whose tasks are not members of a group yet. These are all builders except those of a scope, which waits
/// only for its own group.
#[doc(hidden)]
pub trait Ungrouped: Sealed {}

impl Ungrouped for Owned {}

impl<A: Accesses, C, K: Ungrouped> TaskBuilder<'_, A, C, K> {
    /// Makes the task a member of a group. The task has the group's priority unless it sets its own. The last call
    /// wins.
    pub fn group(mut self, group: &TaskGroup) -> Self {
        let (admitted, priority) = group.admission(self.hints.priority);
        (self.hints.group, self.hints.priority) = (Some(admitted), priority);
        self
    }
}

impl<A: LoopAccesses, C, K: Ungrouped> LoopBuilder<'_, A, C, K> {
    /// Makes the iterations members of a group, as [`TaskBuilder::group`] does of one task.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("2:CPU:1").build()?;
    /// let (x, group) = (rt.data(vec![1; 100]), rt.group());
    /// rt.for_each("fails", x.blocks(10).inout()).group(&group).cpu(|_, _| Err("no")).submit()?;
    /// assert!(group.wait().is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn group(mut self, group: &TaskGroup) -> Self {
        let (admitted, priority) = group.admission(self.rest.priority);
        (self.rest.group, self.rest.priority) = (Some(admitted), priority);
        self
    }
}
