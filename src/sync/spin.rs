//! A flag that one thread holds at a time, for critical sections of about ten nanoseconds.
//!
//! Submitting a task takes one lock for each of its data objects. Releasing a lock that can put threads to sleep takes
//! an atomic exchange, because a thread may have to be woken. This lock, by contrast, is released by a plain store. A
//! thread that finds it taken retries with increasing backoff and soon yields its core. The lock is not fair, and must
//! not be held during anything slow.

use super::atomic::{AtomicBool, Backoff, Ordering};

/// The flag: taken or free.
#[derive(Debug)]
pub(crate) struct Spin {
    pub(super) taken: AtomicBool,
}

impl Spin {
    /// Waits until the flag is free, then takes it. Everything that earlier holders did is visible afterwards.
    #[inline]
    pub(crate) fn take(&self) {
        if !self.try_take() {
            self.take_contended();
        }
    }

    /// Takes the flag if it is free; returns whether it did.
    #[inline]
    pub(crate) fn try_take(&self) -> bool {
        !self.taken.swap(true, Ordering::Acquire)
    }

    /// Gives the flag back. Only its holder may call this.
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
