//! A flag that one thread holds at a time, for sections of some ten nanoseconds.
//!
//! Submitting a task takes one lock for each of its data. A lock that can put threads to sleep needs an atomic exchange
//! to be given back, since somebody may have to be woken; this one is given back by a plain store, and who finds it taken
//! looks again, ever less often, and soon yields its core. It is not fair, and not for sections that do anything slow.

use super::atomic::{AtomicBool, Backoff, Ordering};

/// Taken or free.
#[derive(Debug)]
pub(crate) struct Spin {
    pub(super) taken: AtomicBool,
}

impl Spin {
    /// Waits until the flag is free, and takes it; all that earlier holders did is visible then.
    #[inline]
    pub(crate) fn take(&self) {
        if !self.try_take() {
            self.take_contended();
        }
    }

    /// Takes the flag if it is free.
    #[inline]
    pub(crate) fn try_take(&self) -> bool {
        !self.taken.swap(true, Ordering::Acquire)
    }

    /// Gives the flag back; only for who holds it.
    #[inline]
    pub(crate) fn give_back(&self) {
        self.taken.store(false, Ordering::Release);
    }

    #[cold]
    fn take_contended(&self) {
        let backoff = Backoff::new();
        while !self.try_take() {
            backoff.snooze();
        }
    }
}
