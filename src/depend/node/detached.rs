//! Tasks that continue after their body has returned, until an event outside the body ends them.
//!
//! The objects that a body lends out (guards of its views, completions) and the future that it returns keep the task
//! from ending: each of them has a [`Hold`]. Meanwhile the driver parks the task here. The thread that gives back the
//! last hold passes the task to the driver to be ended, and a thread that wakes the task's future passes it to the
//! driver to be resumed ([`Reception`]).
//!
//! The task holds its accesses until it ends. Its unit can run other tasks as soon as the body has returned and
//! reported that the task continues (`Body::run`, `driver/threads/detached.rs`).
//!
//! Invariants:
//! 1. A task ends when its last hold has been given back, and not before, so everything that it lent out stays valid
//!    until then. A hold that is never given back prevents the task from ever ending.
//! 2. The task's failure is final before its last hold is given back. The first cause is kept, with one exception: any
//!    other cause replaces that of a dropped guard, because the dropped guard may be a consequence of the other cause.
//!
//! This module never runs a body, and runs no user code under the lock.

use super::OwnedTask;
use crate::error::{BoxError, FailureReason};
use crate::ids::UnitId;
use crate::sync::{Birth, Detached, drop_quietly};
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Wake, Waker};

/// The driver's interface for receiving tasks that have continued without a thread.
pub(crate) trait Reception: Send + Sync {
    /// Ends a task after everything that it lent out has been given back. May be called by any thread.
    fn ended(self: Arc<Self>, task: OwnedTask, away: Away);

    /// Resumes a task. May be called by any thread.
    fn woken(&self, task: OwnedTask, unit: UnitId);
}

/// Information about a task that was detached from its driver.
#[derive(Debug)]
pub(crate) struct Away {
    /// The unit that ran the task's body.
    pub(crate) unit: UnitId,
    /// Total time in nanoseconds for which units have run the task.
    pub(crate) elapsed_ns: u64,
    pub(crate) failure: Option<FailureReason>,
}

/// A parked task, which no thread is currently working on.
pub(crate) struct Parked {
    pub(crate) task: OwnedTask,
    pub(crate) unit: UnitId,
}

/// State that prevents a task from ending when its body returns; see the module documentation.
pub(crate) struct Detachment {
    state: Detached<Parked>,
    failure: Mutex<Option<FailureReason>>,
    elapsed_ns: AtomicU64,
    /// Whether the future must be dropped instead of being polled again.
    cancelled: AtomicBool,
    /// Whether dropping a guard without finishing it fails the task.
    strict: bool,
    birth: Birth,
    /// The driver; `None` until the body has returned. Kept until the task ends, because the driver owns the resources
    /// that the task uses.
    reception: Mutex<Option<Arc<dyn Reception>>>,
}

impl Detachment {
    /// Makes the state of a task whose body is being run. If it is `strict`, guards must report that their work is
    /// done.
    pub(crate) fn new(strict: bool) -> Arc<Self> {
        Arc::new(Self {
            state: Detached::new(),
            failure: Mutex::default(),
            elapsed_ns: AtomicU64::new(0),
            cancelled: AtomicBool::new(false),
            strict,
            birth: Birth::here(),
            reception: Mutex::default(),
        })
    }

    /// Adds a hold for code that the body runs.
    pub(crate) fn hold(self: &Arc<Self>) -> Hold {
        self.state.hold();
        Hold(Some(self.clone()))
    }

    /// Records the reason for the task's failure, which is reported when the task ends.
    pub(crate) fn fail(&self, reason: FailureReason) {
        if !self.birth.is_here() {
            return; // in a child of `fork`, no part of the runtime continues
        }
        let mut failure = self.failure.lock();
        let unwanted = match &*failure {
            None | Some(FailureReason::Abandoned) => failure.replace(reason),
            Some(_) => Some(reason),
        };
        drop(failure);
        drop_quietly(|| drop(unwanted));
    }

    /// Records that the task is about to be resumed.
    pub(crate) fn run(&self) {
        self.state.run();
    }

    /// Makes a unit's thread drop the task's future instead of polling it again. Guards that are lent out stay valid.
    pub(crate) fn cancel(self: &Arc<Self>) {
        self.cancelled.store(true, Ordering::Release);
        self.wake_by_ref();
    }

    /// Whether the future must be dropped. Call this after [`Self::run`], so that a later [`Self::cancel`] wakes the
    /// future again.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    /// Returns a waker of the task's future.
    pub(crate) fn waker(self: &Arc<Self>) -> Waker {
        self.clone().into()
    }

    /// Adds to the time for which units have run the task.
    pub(crate) fn ran(&self, elapsed_ns: u64) {
        self.elapsed_ns.fetch_add(elapsed_ns, Ordering::Relaxed);
    }

    /// Whether the body's hold is the last one, so that the task need not be parked.
    pub(crate) fn is_last(&self) -> bool {
        self.state.is_last()
    }

    /// Whether the task may have been detached from its driver.
    pub(crate) fn was_away(&self) -> bool {
        self.reception.lock().is_some()
    }

    /// Sets the driver to which the task returns; from now on the task may be detached.
    pub(crate) fn comes_back_to(&self, reception: Arc<dyn Reception>) {
        *self.reception.lock() = Some(reception);
    }

    /// Parks the task after its body has ended, and gives the body's hold back.
    pub(crate) fn leave(&self, parked: Parked) {
        self.state.park_for_good(parked);
        self.give_back();
    }

    /// Parks a task whose future waits until it is woken. Returns the task if it has already been woken.
    pub(crate) fn wait(&self, parked: Parked) -> Option<Parked> {
        self.state.park(parked)
    }

    /// Returns information about how the task has ended. Must be called when the body's hold is the only one left.
    pub(crate) fn away(&self, unit: UnitId) -> Away {
        Away { unit, elapsed_ns: self.elapsed_ns.load(Ordering::Relaxed), failure: self.failure.lock().take() }
    }

    /// Calls `see` with the task, if it is parked.
    pub(crate) fn look<R>(&self, see: impl FnOnce(&OwnedTask, UnitId) -> R) -> Option<R> {
        self.state.look(|parked| see(&parked.task, parked.unit))
    }

    fn give_back(&self) {
        if !self.birth.is_here() {
            return;
        }
        if let Some(Parked { task, unit }) = self.state.give_back() {
            let reception = self.reception.lock().take().expect("a parked task has a driver to return to");
            reception.ended(task, self.away(unit));
        }
    }
}

impl Wake for Detachment {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.birth.is_here() {
            return;
        }
        if let Some(Parked { task, unit }) = self.state.wake() {
            let reception = self.reception.lock().clone().expect("a parked task has a driver to return to");
            reception.woken(task, unit);
        }
    }
}

impl fmt::Debug for Detachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Detachment").field("strict", &self.strict).finish_non_exhaustive()
    }
}

/// Prevents a task from ending until the hold is given back or dropped.
#[derive(Debug)]
pub(crate) struct Hold(Option<Arc<Detachment>>);

impl Hold {
    /// Returns another hold on the same task.
    pub(crate) fn another(&self) -> Self {
        self.detachment().hold()
    }

    /// Gives the hold back: the work is done.
    pub(crate) fn finish(mut self) {
        self.0.take().into_iter().for_each(|detachment| detachment.give_back());
    }

    /// Gives the hold back: the task has failed.
    pub(crate) fn fail(self, error: impl Into<BoxError>) {
        let error = error.into();
        self.detachment().fail(FailureReason::Returned(error));
        self.finish();
    }

    /// Calls `see` with the task, if its body has returned.
    pub(crate) fn look<R>(&self, see: impl FnOnce(&OwnedTask) -> R) -> Option<R> {
        self.detachment().look(|task, _| see(task))
    }

    fn detachment(&self) -> &Arc<Detachment> {
        self.0.as_ref().expect("a hold is given back only once, by consuming it")
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let Some(detachment) = self.0.take() {
            if detachment.strict {
                detachment.fail(FailureReason::Abandoned);
            }
            detachment.give_back();
        }
    }
}

/// Reason why a body returned without ending its task successfully.
pub(crate) enum Stop {
    /// The task has failed.
    Failed(crate::error::BoxError),
    /// The task continues without its body.
    Detached(Leaving),
}

/// A task that continues after its body has returned.
pub(crate) struct Leaving {
    pub(crate) detachment: Arc<Detachment>,
    /// Whether the task's future waits to be woken. If false, the body has ended.
    pub(crate) waits: bool,
}
