//! Something that goes on while no thread works on it: who has a part in it, and who takes it up again.
//!
//! A task whose body has returned, and whose memory is lent out or whose future waits, lies here: it is *parked*. Whoever
//! gives back the last hold takes it to end it; whoever wakes it takes it to have it run on.
//!
//! Invariants:
//! 1. `holds` counts those whose part is not over: one for the body, which has it from the beginning, and one for each
//!    guard. Only who has a hold makes another, so it does not rise from 0.
//! 2. The body gives its hold back when what is held has been parked for good: so whoever gives back the last one finds it.
//! 3. While the body has its hold, what is parked is taken by the one who finds [`PARKED`] without [`WOKEN`], and by
//!    nobody else.
//!
//! Nothing here runs or ends anything, and what is held is dropped by whoever took it: never under the lock.

use super::atomic::{AtomicU32, AtomicUsize, Mutex, Ordering, fence};

/// It waits for somebody to wake it.
const PARKED: u32 = 1;
/// Somebody has woken it since it was last run.
const WOKEN: u32 = 2;

/// See the module. `T` is what goes on.
pub(crate) struct Detached<T> {
    holds: AtomicUsize,
    stage: AtomicU32,
    parked: Mutex<Option<T>>,
}

impl<T> Detached<T> {
    /// The body has its hold, and a thread that works on it.
    pub(crate) fn new() -> Self {
        Self { holds: AtomicUsize::new(1), stage: AtomicU32::new(0), parked: Mutex::new(None) }
    }

    /// One hold more, for who has one.
    pub(crate) fn hold(&self) {
        self.holds.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether the caller, who has a hold, has the only one.
    pub(crate) fn is_last(&self) -> bool {
        self.holds.load(Ordering::Acquire) == 1
    }

    /// Gives a hold back: the last one takes what was parked.
    #[must_use]
    pub(crate) fn give_back(&self) -> Option<T> {
        // What was done with the hold comes before what the last one does.
        if self.holds.fetch_sub(1, Ordering::Release) != 1 {
            return None;
        }
        fence(Ordering::Acquire);
        self.take()
    }

    /// Parks it until the last hold is given back; nobody wakes it any more. The caller has the body's hold.
    pub(crate) fn park_for_good(&self, held: T) {
        *self.lock() = Some(held);
    }

    /// Parks it until it is woken; it comes back if it was woken meanwhile.
    #[must_use]
    pub(crate) fn park(&self, held: T) -> Option<T> {
        *self.lock() = Some(held);
        match self.stage.compare_exchange(0, PARKED, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => None,
            Err(_) => self.take(),
        }
    }

    /// Wakes it: it comes to the caller if it was parked; else it will be run once more than it would have been.
    #[must_use]
    pub(crate) fn wake(&self) -> Option<T> {
        // Written even if it is known to be woken: what the caller did before comes before what is run next.
        if self.stage.fetch_or(WOKEN, Ordering::AcqRel) != PARKED {
            return None;
        }
        let woken = self.take();
        self.stage.fetch_and(!PARKED, Ordering::AcqRel);
        woken
    }

    /// It is about to be run: from here on, who wakes it has something new to tell.
    pub(crate) fn run(&self) {
        self.stage.swap(0, Ordering::AcqRel);
    }

    /// Looks at it, if it is parked.
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
