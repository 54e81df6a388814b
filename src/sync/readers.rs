//! A count of the readers of a value that will be taken away, and the wake-up of the thread or future that waits for
//! the last reader.
//!
//! Readers enter only before the taker waits; from then on they only leave. So a single word suffices without a lock:
//! it counts the readers and records whether the taker waits. Entering and leaving cost one addition each. The lock is
//! used only by the taker, and by the last reader if the taker waits.
//!
//! Invariants:
//! 1. The taker stores its wake-up before it sets [`WAITING`], and reads the count in the same step: either it sees 0,
//!    or the last reader sees the bit.
//! 2. No lock is held while a wake-up is called, because it may be user code.

use super::atomic::{AtomicU32, Mutex, Ordering};

/// The taker waits for the last reader to leave.
const WAITING: u32 = 1 << 31;
/// A reader beyond this number aborts the process, as too many references do ([`super::ref_count`]).
const MOST: u32 = WAITING / 2;

/// The readers of one value; see the module documentation. `W` wakes the waiting taker.
pub(crate) struct Readers<W> {
    state: AtomicU32,
    waiting: Mutex<Option<W>>,
}

impl<W> Readers<W> {
    /// Creates a count without readers.
    pub(crate) fn new() -> Self {
        Self { state: AtomicU32::new(0), waiting: Mutex::new(None) }
    }

    /// Counts one more reader.
    #[inline]
    pub(crate) fn enter(&self) {
        let before = self.state.fetch_add(1, Ordering::Relaxed);
        if before & !WAITING > MOST {
            std::process::abort(); // an uncounted reader could read a value that was taken away
        }
    }

    /// Sets the count as if this many readers existed.
    #[cfg(test)]
    pub(super) fn set(&self, readers: u32) {
        self.state.store(readers, Ordering::Relaxed);
    }

    /// Counts one reader out. That reader must not enter again. Returns the wake-up if this was the last reader and the
    /// taker waits.
    #[inline]
    #[must_use = "the waiting taker has to be woken"]
    pub(crate) fn leave(&self) -> Option<W> {
        let before = self.state.fetch_sub(1, Ordering::AcqRel);
        if before == WAITING | 1 { self.wake() } else { None }
    }

    /// Removes and returns the wake-up, whether there are readers or not.
    #[cold]
    #[must_use = "the waiting taker has to be woken"]
    pub(crate) fn wake(&self) -> Option<W> {
        self.waiting.lock().unwrap_or_else(|error| error.into_inner()).take()
    }

    /// Whether there are no readers left. If so, everything that they have done is visible.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.state.load(Ordering::Acquire) & !WAITING == 0
    }

    /// Leaves a wake-up for the last reader, replacing any earlier wake-up. Returns true if there are no readers left.
    pub(crate) fn wait(&self, wake: W) -> bool {
        let replaced = self.waiting.lock().unwrap_or_else(|error| error.into_inner()).replace(wake);
        let gone = self.state.fetch_or(WAITING, Ordering::AcqRel) & !WAITING == 0;
        drop(replaced);
        gone
    }
}
