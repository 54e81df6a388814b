//! The lock of one data object's history: [`Spin`] as a mutex.

use super::atomic::AtomicBool;
use super::spin::Spin;

/// A mutex for short sections.
pub(crate) type Lock<T> = lock_api::Mutex<RawLock, T>;

/// The guard that a thread has while it holds a [`Lock`].
pub(crate) type LockGuard<'a, T> = lock_api::MutexGuard<'a, RawLock, T>;

/// The flag that implements a [`Lock`].
#[derive(Debug)]
pub(crate) struct RawLock(Spin);

// SAFETY: `Spin::take` returns in one thread at a time until that thread gives the flag back (`tests/loom`).
unsafe impl lock_api::RawMutex for RawLock {
    #[allow(clippy::declare_interior_mutable_const)] // the trait requires a constant to create a free lock
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
