//! Children: tasks that a body submits as parts of its own task, and waits for.
//!
//! A body reaches the public entry point through its [`Context`]. The dependence layer (`depend/domain.rs`) determines
//! the position of the children in submission order; the driver decides what the body's thread does while it waits.

use super::entrance::{EntranceOf, Kin, door};
use super::for_each::LoopBuilder;
use super::group::TaskGroup;
use super::submit::TaskBuilder;
use super::wait::in_vain;
use crate::Context;
use crate::depend::{Group, running};
use crate::driver::deadlock::key_of_children;
use crate::driver::waiters::own_waker;
use crate::error::{Failures, RunError};
use crate::task::{Accesses, LoopAccesses};
use std::borrow::Cow;
use std::sync::Arc;

impl Context {
    /// Begins the description of a child: a task that is a part of this one, and takes its parent's position in the
    /// order.
    ///
    /// A child accesses what its parent has declared for its children: regions within the parent's weak accesses
    /// ([`Region::weak_inout`](crate::task::Region::weak_inout), [`weak_input`](crate::task::Region::weak_input)); for
    /// reading, also regions within those that the parent reads; and data objects made in the parent's body. A child
    /// comes after all previously submitted tasks that touch the same regions, whether they are siblings or not. A task
    /// submitted after the parent comes after the children that touch the same regions, and need not wait for the other
    /// children. A child that fails poisons only the regions that it would have written.
    ///
    /// The parent ends without waiting for its children, unless it calls [`wait`](Self::wait). Children can have
    /// children in turn.
    ///
    /// ```
    /// use thalweg::prelude::*;
    ///
    /// fn sort(at: &Context, x: Data<u32>, part: std::ops::Range<usize>) -> Result<(), SubmitError> {
    ///     if part.len() <= 16 {
    ///         return at.task("sort", (x.slice(part).inout(),)).cpu(|_, (x,)| x.sort_unstable()).submit().map(drop);
    ///     }
    ///     let middle = part.start + part.len() / 2;
    ///     for half in [part.start..middle, middle..part.end] {
    ///         let inner = x.clone();
    ///         at.task("half", (x.slice(half.clone()).weak_inout(),))
    ///             .cpu(move |at, ((),)| sort(at, inner, half))
    ///             .submit()?;
    ///     }
    ///     // Comes after both halves; `sort` of a slice merges runs that are sorted.
    ///     at.task("merge", (x.slice(part).inout(),)).cpu(|_, (x,)| x.sort()).submit().map(drop)
    /// }
    ///
    /// let rt = Runtime::builder().compute_units("2:CPU:1").build()?;
    /// let x = rt.data((0..1000u32).map(|n| n * 7919 % 1000).collect());
    /// let all = x.clone();
    /// rt.task("sort all", (x.weak_inout(),)).cpu(move |at, ((),)| sort(at, all, 0..1000)).submit()?;
    /// assert_eq!(rt.take(x)?, (0..1000).collect::<Vec<_>>());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Submission fails with [`SubmitError::Uncovered`](crate::error::SubmitError::Uncovered) if the parent has not
    /// declared the child's regions, and with [`SubmitError::NoParent`](crate::error::SubmitError::NoParent) on a
    /// thread that runs no part of the body.
    pub fn task<A: Accesses>(&self, name: impl Into<Cow<'static, str>>, accesses: A) -> TaskBuilder<'_, A> {
        let entrance = self.entrance();
        let kin = Kin::of_children(door(&entrance).id);
        TaskBuilder::new(EntranceOf::Body(entrance), kin, name.into(), accesses)
    }

    /// Begins the description of a loop whose iterations are children; see [`task`](Self::task).
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("2:CPU:1").build()?;
    /// let (x, zones) = (rt.data(vec![0; 100]), rt.data(vec![0; 100]));
    /// let inner = x.clone();
    /// rt.for_each("zone", (x.blocks(25).weak_inout(), zones.blocks(25).output(), 0..))
    ///     .cpu(move |cx, ((), zone, i)| {
    ///         zone.fill(i);
    ///         cx.for_each("plane", inner.slice(25 * i..25 * (i + 1)).blocks(5).output()).cpu(|_, x| x.fill(1)).submit()?;
    ///         Ok::<(), SubmitError>(())
    ///     })
    ///     .submit()?;
    /// assert_eq!(rt.take(x)?, [1; 100]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn for_each<A: LoopAccesses>(&self, name: impl Into<Cow<'static, str>>, accesses: A) -> LoopBuilder<'_, A> {
        let entrance = self.entrance();
        let kin = Kin::of_children(door(&entrance).id);
        LoopBuilder::new(EntranceOf::Body(entrance), kin, name.into(), accesses)
    }

    /// Returns a new group for children of this task. If the task is itself a member of a group, the new group is a
    /// part of that outer group: cancelling the outer group cancels these children, and waiting for the outer group
    /// waits for them.
    ///
    /// A handle of the group can submit tasks in the body of this task, and in parts of that body. On another thread,
    /// submissions are refused ([`SubmitError::NoParent`](crate::error::SubmitError::NoParent)).
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("2:CPU:1").build()?;
    /// let (x, all) = (rt.data(vec![1; 100]), rt.group());
    /// let inner = x.clone();
    /// let parent = all.task("parent", x.weak_inout()).cpu(move |cx, ()| {
    ///     let group = cx.group();
    ///     group.for_each("double", inner.blocks(10).inout()).cpu(|_, x| x.iter_mut().for_each(|x| *x *= 2)).submit()?;
    ///     group.wait()
    /// });
    /// parent.submit()?;
    /// all.wait()?;
    /// assert_eq!(rt.take(x)?, [2; 100]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn group(&self) -> TaskGroup {
        let entrance = self.entrance();
        let door = door(&entrance).downgrade().upgrade().expect("an entrance keeps its door");
        let group = self.group.as_ref().map_or_else(Group::default, Group::part);
        TaskGroup::new(door, Arc::new(group), true)
    }

    /// Returns whether the work of this body is no longer wanted, because the task's group or one of its outer groups
    /// was cancelled, or because the runtime is being dropped while the program unwinds from a panic.
    ///
    /// The runtime never interrupts a body. A long body should call this from time to time and return early; the call
    /// takes a few nanoseconds. The body's return value decides how the task ends, so return an error unless the
    /// results so far are good. A clone of the context can be queried as well, for instance by a thread that has a
    /// guard of [`host_detached_until_event`](TaskBuilder::host_detached_until_event).
    ///
    /// ```
    /// use std::sync::mpsc::channel;
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// let (group, (begins, begun)) = (rt.group(), channel());
    /// let search = group.task("search", ()).cpu(move |cx, ()| {
    ///     _ = begins.send(());
    ///     while !cx.is_cancelled() {
    ///         std::hint::spin_loop(); // a piece of the work
    ///     }
    ///     Err("given up")
    /// });
    /// search.submit()?;
    /// begun.recv()?;
    /// group.cancel();
    /// assert!(group.wait().unwrap_err().to_string().contains("given up"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_cancelled(&self) -> bool {
        let by_runtime = || self.entrance.upgrade().is_some_and(|entrance| door(&entrance).shared().is_cancelled());
        self.group.as_ref().is_some_and(|group| group.is_cancelled()) || by_runtime()
    }

    /// Waits until all children of this task that were submitted so far are complete, with their children. The thread
    /// executes arbitrary other tasks while it waits, so do not hold a lock across the call that one of those tasks may
    /// want, or use [`wait_isolated`](Self::wait_isolated).
    ///
    /// Only memory limits the nesting of waiting tasks, because a waiting body keeps its stack and further stacks are
    /// created on demand.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// let x = rt.data(vec![0; 8]);
    /// let inner = x.clone();
    /// rt.task("parent", (x.weak_inout(),))
    ///     .cpu(move |cx, ((),)| {
    ///         for part in blocks(8, 2) {
    ///             cx.task("child", (inner.slice(part).inout(),)).cpu(|_, (x,)| x.fill(1)).submit()?;
    ///         }
    ///         cx.wait()
    ///     })
    ///     .submit()?;
    /// assert_eq!(rt.take(x)?, [1; 8]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns the failures of children that no call has reported before; the runtime reports them as well
    /// ([`Runtime::wait`](crate::Runtime::wait)). The call is refused on a thread other than the body's own, in a body
    /// for devices, and in a destructor.
    #[track_caller]
    pub fn wait(&self) -> Result<(), RunError> {
        self.wait_for_children("Context::wait", false)
    }

    /// Like [`wait`](Self::wait), but the thread executes only descendants of this task while it waits, so a body may
    /// hold a lock across the call that other tasks want. If other units are running all descendants that are ready,
    /// the thread sleeps.
    ///
    /// The unit is idle while descendants wait for other tasks. The wait ends only if
    /// - no descendant wants the lock,
    /// - descendants that wait use `wait_isolated` as well, because a thread that runs a descendant which waits in any
    ///   other way may begin a task that wants the lock on top of that descendant, and
    /// - the tasks that descendants depend on, and that are not descendants themselves (siblings of this task among
    ///   them), can run on another unit without the lock.
    ///
    /// ```
    /// use std::sync::{Arc, Mutex};
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// let order = Arc::new(Mutex::new(vec![]));
    /// for n in 0..2 {
    ///     let (x, order) = (rt.data(vec![0; 8]), order.clone());
    ///     let inner = x.clone();
    ///     let body = move |cx: &Context, ()| {
    ///         let mut order = order.lock().expect("no body panics");
    ///         for part in blocks(8, 2) {
    ///             cx.task("child", inner.slice(part).inout()).cpu(|_, x| x.fill(1)).submit()?;
    ///         }
    ///         cx.wait_isolated()?; // `wait` might run the other parent, which wants the lock
    ///         order.push(n);
    ///         Ok::<_, RunError>(())
    ///     };
    ///     rt.task("parent", x.weak_inout()).cpu(body).submit()?;
    /// }
    /// rt.wait()?;
    /// assert_eq!(order.lock().expect("no body panics").len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`wait`](Self::wait).
    #[track_caller]
    pub fn wait_isolated(&self) -> Result<(), RunError> {
        self.wait_for_children("Context::wait_isolated", true)
    }

    #[track_caller]
    fn wait_for_children(&self, call: &'static str, isolated: bool) -> Result<(), RunError> {
        let Some(entrance) = self.entrance.upgrade() else { return Ok(()) };
        let door = door(&entrance);
        door.shared().in_own_process()?;
        if !door.driver.may_wait_for_children() {
            return Err(door.unsuspended(call).into());
        }
        let Some(domain) = running::domain_here(door.id) else { return Ok(()) };
        if !isolated {
            door.driver.run_descendants(|| domain.children() == 0);
        }
        if domain.children() > 0 {
            domain.set_waiter(own_waker());
            let waited = match isolated {
                true => door.driver.await_isolated(&domain),
                false => door.driver.await_told(key_of_children(&domain), || domain.children()),
            };
            waited.map_err(|vain| in_vain(call, vain))?;
        }
        door.shared().broken()?;
        match domain.take_failures() {
            none if none.is_empty() => Ok(()),
            failures => {
                door.shared().engine.failures().seen(&failures);
                Err(RunError::Failed(Failures(failures)))
            }
        }
    }
}
