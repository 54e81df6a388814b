//! State of a task that continues after its body has returned, while no thread works on the task, and the rules for
//! resuming or ending it.
//!
//! A task whose body has returned while its memory is still lent out, or whose future waits, is *parked* here. The
//! thread that gives back the last hold takes the task and ends it. A thread that wakes the task takes it and has it
//! resumed.
//!
//! Invariants:
//! 1. `holds` counts what keeps the task from ending: one hold for the body, from the beginning, and one for each
//!    guard. Only the owner of a hold can create another, so the count never rises from 0.
//! 2. The body gives its hold back only after the value has been parked for good, so the thread that gives back the
//!    last hold finds the value.
//! 3. While the body has its hold, the parked value is taken by the thread that finds [`PARKED`] without [`WOKEN`], and
//!    by no other thread. If the value was woken before it could be parked, [`Detached::park`] returns it.
//!
//! This module never runs or ends a task. The thread that takes the value also drops it, and never does so under the
//! lock.

use super::atomic::{AtomicU32, AtomicUsize, Mutex, Ordering, fence};

/// The value waits to be woken.
const PARKED: u32 = 1;
/// The value was woken after it was last run.
const WOKEN: u32 = 2;

/// See the module documentation. `T` is the value that is parked.
pub(crate) struct Detached<T> {
    holds: AtomicUsize,
    stage: AtomicU32,
    parked: Mutex<Option<T>>,
}

impl<T> Detached<T> {
    /// Creates the state in which the body has its hold and a thread works on it.
    pub(crate) fn new() -> Self {
        Self { holds: AtomicUsize::new(1), stage: AtomicU32::new(0), parked: Mutex::new(None) }
    }

    /// Adds a hold. The caller must have one.
    pub(crate) fn hold(&self) {
        self.holds.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether the caller's hold is the only one.
    pub(crate) fn is_last(&self) -> bool {
        self.holds.load(Ordering::Acquire) == 1
    }

    /// Gives a hold back. If it was the last hold, takes and returns the parked value.
    #[must_use]
    pub(crate) fn give_back(&self) -> Option<T> {
        // Everything done under this hold happens before anything that the last holder does.
        if self.holds.fetch_sub(1, Ordering::Release) != 1 {
            return None;
        }
        fence(Ordering::Acquire);
        self.take()
    }

    /// Parks the value until the last hold is given back; wake-ups no longer have an effect. The caller must have the
    /// body's hold.
    pub(crate) fn park_for_good(&self, held: T) {
        *self.lock() = Some(held);
    }

    /// Parks the value until it is woken. Returns the value if it has already been woken.
    #[must_use]
    pub(crate) fn park(&self, held: T) -> Option<T> {
        *self.lock() = Some(held);
        match self.stage.compare_exchange(0, PARKED, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => None,
            Err(_) => self.take(),
        }
    }

    /// Wakes the value. Takes and returns it if it was parked; otherwise causes it to be run once more.
    #[must_use]
    pub(crate) fn wake(&self) -> Option<T> {
        // Write even if the value has already been woken, because what the caller did before must happen before the
        // next run.
        if self.stage.fetch_or(WOKEN, Ordering::AcqRel) != PARKED {
            return None;
        }
        let woken = self.take();
        self.stage.fetch_and(!PARKED, Ordering::AcqRel);
        woken
    }

    /// Records that the value is about to run. Any later wake-up causes another run.
    pub(crate) fn run(&self) {
        self.stage.swap(0, Ordering::AcqRel);
    }

    /// Calls `see` with the value if it is parked.
    pub(crate) fn look<R>(&self, see: impl FnOnce(&T) -> R) -> Option<R> {
        self.lock().as_ref().map(see)
    }

    fn take(&self) -> Option<T> {
        self.lock().take()
    }

    fn lock(&self) -> impl std::ops::DerefMut<Target = Option<T>> + '_ {
        self.parked.lock().unwrap_or_else(|e| e.into_inner())
    }
}
