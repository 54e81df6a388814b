//! Who reads something that will be taken away from them: how many there are, and who waits for the last.
//!
//! Readers come while the one who will take is not yet waiting, and they only go after that. So the one word needs no lock:
//! it counts readers, and says whether anybody waits. Coming and going is one addition; the lock is for the one who waits,
//! and for the last reader, if it is waited for.
//!
//! Invariants:
//! 1. Who waits has left its wake-up before it sets [`WAITING`], and looks at the count as it does so: either it sees 0, or
//!    the last reader sees the bit.
//! 2. A wake-up is called under no lock: it may be a user's.

use super::atomic::{AtomicU32, Mutex, Ordering};

/// Somebody waits for the last one to go.
const WAITING: u32 = 1 << 31;
/// A reader beyond this number aborts the process, as references do ([`super::ref_count`]).
const MOST: u32 = WAITING / 2;

/// See the module. `W` wakes who waits.
pub(crate) struct Readers<W> {
    state: AtomicU32,
    waiting: Mutex<Option<W>>,
}

impl<W> Readers<W> {
    /// Nobody yet.
    pub(crate) fn new() -> Self {
        Self { state: AtomicU32::new(0), waiting: Mutex::new(None) }
    }

    /// One more reader.
    #[inline]
    pub(crate) fn enter(&self) {
        let before = self.state.fetch_add(1, Ordering::Relaxed);
        if before & !WAITING > MOST {
            std::process::abort(); // one more reader than is counted would read what was taken away
        }
    }

    /// Pretends that there are this many readers.
    #[cfg(test)]
    pub(super) fn set(&self, readers: u32) {
        self.state.store(readers, Ordering::Relaxed);
    }

    /// One reader less, who does not come back: what to wake, if this was the last one and somebody waits.
    #[inline]
    #[must_use = "who waits has to be woken"]
    pub(crate) fn leave(&self) -> Option<W> {
        let before = self.state.fetch_sub(1, Ordering::AcqRel);
        if before == WAITING | 1 { self.wake() } else { None }
    }

    /// Takes what is to be woken out, whether anybody reads or not.
    #[cold]
    #[must_use = "who waits has to be woken"]
    pub(crate) fn wake(&self) -> Option<W> {
        self.waiting.lock().unwrap_or_else(|error| error.into_inner()).take()
    }

    /// Whether there is none any more. If so, what they have done is visible.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.state.load(Ordering::Acquire) & !WAITING == 0
    }

    /// Leaves a wake-up for when the last one goes, in the place of what was left before; true if there is none any more.
    pub(crate) fn wait(&self, wake: W) -> bool {
        let replaced = self.waiting.lock().unwrap_or_else(|error| error.into_inner()).replace(wake);
        let gone = self.state.fetch_or(WAITING, Ordering::AcqRel) & !WAITING == 0;
        drop(replaced);
        gone
    }
}
