//! Tasks that continue after their body has returned, until an event outside the body ends them.
//!
//! Objects that a body lends out (guards of its views, completions), or the future that it has made, keep the task
//! from ending through a [`Hold`]. Its driver parks the task here. The thread that gives back the last hold hands the
//! task to the driver to be ended ([`Reception`]), and the thread that wakes its future hands it over to be resumed.
//!
//! The accesses of the task are held until it ends. Its unit has room for other tasks as soon as the body has returned
//! and has reported that the task continues (`Body::run`, `driver/threads/detached.rs`).
//!
//! Invariants:
//! 1. A task ends when its last hold has been given back, and not before: everything that was lent out of it stays
//!    valid until then. A hold that is never given back keeps the task from ending for ever.
//! 2. The task's failure is settled before its last hold is given back. The first cause stays, except that any other
//!    cause replaces that of a dropped guard, which may be a consequence of the other.
//!
//! Nothing here runs a body, and no user code runs under the lock.

use super::OwnedTask;
use crate::error::{BoxError, FailureReason};
use crate::ids::UnitId;
use crate::sync::{Birth, Detached, drop_quietly};
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Wake, Waker};

/// The driver as the recipient of tasks that have continued without a thread.
pub(crate) trait Reception: Send + Sync {
    /// Ends a task after everything that was lent out of it has been given back. Called by any thread.
    fn ended(self: Arc<Self>, task: OwnedTask, away: Away);

    /// Resumes a task. Called by any thread.
    fn woken(&self, task: OwnedTask, unit: UnitId);
}

/// Information about a task that was detached from its driver.
#[derive(Debug)]
pub(crate) struct Away {
    /// The unit that ran its body.
    pub(crate) unit: UnitId,
    /// How long units have run it in total.
    pub(crate) elapsed_ns: u64,
    pub(crate) failure: Option<FailureReason>,
}

/// A task that no thread works on.
pub(crate) struct Parked {
    pub(crate) task: OwnedTask,
    pub(crate) unit: UnitId,
}

/// State that keeps a task from ending when its body has returned; see the module documentation.
pub(crate) struct Detachment {
    state: Detached<Parked>,
    failure: Mutex<Option<FailureReason>>,
    elapsed_ns: AtomicU64,
    /// The future is to be dropped at its next poll.
    cancelled: AtomicBool,
    /// A guard that is dropped without being finished fails the task.
    strict: bool,
    birth: Birth,
    /// The driver, once the body has returned. Kept until the task ends, because the driver owns what the task
    /// consists of.
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

    /// Records why the task will have failed.
    pub(crate) fn fail(&self, reason: FailureReason) {
        if !self.birth.is_here() {
            return; // in a child of `fork` nothing of the runtime continues
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

    /// Whether the future is to be dropped. Call this after [`Self::run`], so that a later [`Self::cancel`] wakes the
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

    /// Parks the task, whose body waits, until it is woken; returns it if it was woken already.
    pub(crate) fn wait(&self, parked: Parked) -> Option<Parked> {
        self.state.park(parked)
    }

    /// Returns how the task has ended; no hold is left but its body's.
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

/// Keeps a task from ending until the hold is given back or dropped.
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

/// Why a body that has returned has not ended its task successfully.
pub(crate) enum Stop {
    /// It has failed.
    Failed(crate::error::BoxError),
    /// The task continues without it.
    Detached(Leaving),
}

/// A task that continues after its body has returned.
pub(crate) struct Leaving {
    pub(crate) detachment: Arc<Detachment>,
    /// The task's future waits to be woken; otherwise the body has ended.
    pub(crate) waits: bool,
}
