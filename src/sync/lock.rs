//! The lock of one data's history: [`Spin`] as a mutex.

use super::atomic::AtomicBool;
use super::spin::Spin;

/// A mutex for short sections.
pub(crate) type Lock<T> = lock_api::Mutex<RawLock, T>;

/// What a thread has while it holds a [`Lock`].
pub(crate) type LockGuard<'a, T> = lock_api::MutexGuard<'a, RawLock, T>;

/// The flag behind a [`Lock`].
#[derive(Debug)]
pub(crate) struct RawLock(Spin);

// SAFETY: `Spin::take` returns to one thread at a time until that gives the flag back (`tests/loom`).
unsafe impl lock_api::RawMutex for RawLock {
    #[allow(clippy::declare_interior_mutable_const)] // the trait's way to make a free lock
    const INIT: Self = Self(Spin { taken: AtomicBool::new(false) });
    type GuardMarker = lock_api::GuardNoSend;

    #[inline]
    fn lock(&self) {
        self.0.take();
    }

    #[inline]
    fn try_lock(&self) -> bool {
        self.0.try_take()
    }

    #[inline]
    unsafe fn unlock(&self) {
        self.0.give_back();
    }
}
