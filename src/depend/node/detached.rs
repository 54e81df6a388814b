//! Tasks whose end comes from outside: the body has returned, and the task goes on.
//!
//! What a body lends out (guards of its views, completions), or the future that it has made, keeps the task from ending
//! by a [`Hold`]. Its driver parks the task here; whoever gives back the last hold hands it to the driver to be ended
//! ([`Reception`]), and whoever wakes its future hands it over to be run on.
//!
//! Invariants:
//! 1. A task ends when its last hold has been given back, and not before: what was lent out of it stays valid as long. A
//!    hold that is never given back keeps the task from ending for ever.
//! 2. Its failure is settled before its last hold is given back. The first cause stays, but any other is better than a
//!    guard that was dropped, which may be what the other has brought about.
//!
//! Nothing here runs a body, and no code of a user's runs under the lock.

use super::OwnedTask;
use crate::error::{BoxError, FailureReason};
use crate::ids::UnitId;
use crate::sync::{Birth, Detached, drop_quietly};
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Wake, Waker};

/// To whom a task comes back that has gone on without a thread: its driver.
pub(crate) trait Reception: Send + Sync {
    /// All that was lent out of it is back: it ends. Called by any thread.
    fn ended(self: Arc<Self>, task: OwnedTask, away: Away);

    /// It is to be run on. Called by any thread.
    fn woken(&self, task: OwnedTask, unit: UnitId);
}

/// What is known of a task that was away.
#[derive(Debug)]
pub(crate) struct Away {
    /// The unit that ran its body.
    pub(crate) unit: UnitId,
    /// For how long units have run it.
    pub(crate) elapsed_ns: u64,
    pub(crate) failure: Option<FailureReason>,
}

/// A task that no thread works on.
pub(crate) struct Parked {
    pub(crate) task: OwnedTask,
    pub(crate) unit: UnitId,
}

/// What keeps a task from ending when its body has returned; see the module.
pub(crate) struct Detachment {
    state: Detached<Parked>,
    failure: Mutex<Option<FailureReason>>,
    elapsed_ns: AtomicU64,
    /// The future is to be dropped at its next poll.
    cancelled: AtomicBool,
    /// A guard that is dropped without a word fails the task.
    strict: bool,
    birth: Birth,
    /// The driver, once the body has returned. Kept until the task ends, since with it goes what the task consists of.
    reception: Mutex<Option<Arc<dyn Reception>>>,
}

impl Detachment {
    /// Of a task whose body is being run. If it is `strict`, guards have to say that their work is done.
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

    /// Another hold, for code that is run by the body.
    pub(crate) fn hold(self: &Arc<Self>) -> Hold {
        self.state.hold();
        Hold(Some(self.clone()))
    }

    /// The task will have failed.
    pub(crate) fn fail(&self, reason: FailureReason) {
        if !self.birth.is_here() {
            return; // in a child of `fork` nothing of the runtime's goes on
        }
        let mut failure = self.failure.lock();
        let unwanted = match &*failure {
            None | Some(FailureReason::Abandoned) => failure.replace(reason),
            Some(_) => Some(reason),
        };
        drop(failure);
        drop_quietly(|| drop(unwanted));
    }

    /// The task is about to be run on.
    pub(crate) fn run(&self) {
        self.state.run();
    }

    /// Has a unit's thread drop the task's future instead of polling it again. Guards that are lent out stay valid.
    pub(crate) fn cancel(self: &Arc<Self>) {
        self.cancelled.store(true, Ordering::Release);
        self.wake_by_ref();
    }

    /// Whether the future is to be dropped; to be asked after [`Self::run`], so that a later [`Self::cancel`] wakes it again.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    /// Wakes the task's future.
    pub(crate) fn waker(self: &Arc<Self>) -> Waker {
        self.clone().into()
    }

    /// A unit has run the task for so long.
    pub(crate) fn ran(&self, elapsed_ns: u64) {
        self.elapsed_ns.fetch_add(elapsed_ns, Ordering::Relaxed);
    }

    /// Whether the body's hold is the last one, so that the task need not be parked.
    pub(crate) fn is_last(&self) -> bool {
        self.state.is_last()
    }

    /// Whether the task has been away from its driver.
    pub(crate) fn was_away(&self) -> bool {
        self.reception.lock().is_some()
    }

    /// From now on it may be: to whom it comes back.
    pub(crate) fn comes_back_to(&self, reception: Arc<dyn Reception>) {
        *self.reception.lock() = Some(reception);
    }

    /// The body is over: parks the task and gives the body's hold back.
    pub(crate) fn leave(&self, parked: Parked) {
        self.state.park_for_good(parked);
        self.give_back();
    }

    /// The body waits: parks the task until it is woken, or gives it back if it was.
    pub(crate) fn wait(&self, parked: Parked) -> Option<Parked> {
        self.state.park(parked)
    }

    /// How the task has ended, which has no hold left but its body's.
    pub(crate) fn away(&self, unit: UnitId) -> Away {
        Away { unit, elapsed_ns: self.elapsed_ns.load(Ordering::Relaxed), failure: self.failure.lock().take() }
    }

    /// Looks at the task, if it is parked.
    pub(crate) fn look<R>(&self, see: impl FnOnce(&OwnedTask, UnitId) -> R) -> Option<R> {
        self.state.look(|parked| see(&parked.task, parked.unit))
    }

    fn give_back(&self) {
        if !self.birth.is_here() {
            return;
        }
        if let Some(Parked { task, unit }) = self.state.give_back() {
            let reception = self.reception.lock().take().expect("what is parked comes back to its driver");
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
            let reception = self.reception.lock().clone().expect("what is parked comes back to its driver");
            reception.woken(task, unit);
        }
    }
}

impl fmt::Debug for Detachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Detachment").field("strict", &self.strict).finish_non_exhaustive()
    }
}

/// Keeps a task from ending, until it is given back or dropped.
#[derive(Debug)]
pub(crate) struct Hold(Option<Arc<Detachment>>);

impl Hold {
    /// Another one.
    pub(crate) fn another(&self) -> Self {
        self.detachment().hold()
    }

    /// Gives it back: the work is done.
    pub(crate) fn finish(mut self) {
        self.0.take().into_iter().for_each(|detachment| detachment.give_back());
    }

    /// Gives it back: the task has failed.
    pub(crate) fn fail(self, error: impl Into<BoxError>) {
        let error = error.into();
        self.detachment().fail(FailureReason::Returned(error));
        self.finish();
    }

    /// Looks at the task, if its body has returned.
    pub(crate) fn look<R>(&self, see: impl FnOnce(&OwnedTask) -> R) -> Option<R> {
        self.detachment().look(|task, _| see(task))
    }

    fn detachment(&self) -> &Arc<Detachment> {
        self.0.as_ref().expect("a hold is given back once, with its owner")
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

/// Why a body that has returned has not ended its task well.
pub(crate) enum Stop {
    /// It has failed.
    Failed(crate::error::BoxError),
    /// The task goes on without it.
    Detached(Leaving),
}

/// A task whose body has returned while the task goes on.
pub(crate) struct Leaving {
    pub(crate) detachment: Arc<Detachment>,
    /// Its future waits to be woken; else the body is over.
    pub(crate) waits: bool,
}
