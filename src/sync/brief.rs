//! Locks that polling, launching and placement need, and the check that no call of a device's interface blocks while
//! one is held.
//!
//! A thread that blocks in a driver under such a lock stops its device: nothing is launched, and no end is noticed.
//! Builds with debug assertions count the locks that a thread holds. Backends call [`may_block`] before each call that
//! may wait for the device or for the system; it panics if the count is not zero.

use parking_lot::{Mutex, MutexGuard};
use std::ops::{Deref, DerefMut};

#[cfg(debug_assertions)]
thread_local! {
    /// The number of locks that this thread holds.
    static HELD: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// A mutex under which no call blocks.
#[derive(Debug, Default)]
pub(crate) struct Brief<T>(Mutex<T>);

/// The guard of a [`Brief`].
pub(crate) struct BriefGuard<'a, T>(MutexGuard<'a, T>);

impl<T> Brief<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> BriefGuard<'_, T> {
        BriefGuard::of(self.0.lock())
    }

    /// Returns `None` if another guard exists.
    pub(crate) fn try_lock(&self) -> Option<BriefGuard<'_, T>> {
        self.0.try_lock().map(BriefGuard::of)
    }
}

impl<'a, T> BriefGuard<'a, T> {
    fn of(guard: MutexGuard<'a, T>) -> Self {
        #[cfg(debug_assertions)]
        HELD.set(HELD.get() + 1);
        Self(guard)
    }
}

#[cfg(debug_assertions)]
impl<T> Drop for BriefGuard<'_, T> {
    fn drop(&mut self) {
        HELD.set(HELD.get() - 1);
    }
}

impl<T> Deref for BriefGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for BriefGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

/// Called before a call that may block.
#[inline]
#[track_caller]
#[cfg_attr(
    not(any(feature = "cuda", feature = "hip", feature = "opencl")),
    allow(dead_code, reason = "only accelerators have calls that block")
)]
pub(crate) fn may_block() {
    #[cfg(debug_assertions)]
    assert!(HELD.get() == 0, "a call that may block is made under a lock that launching or placement needs");
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::*;

    #[test]
    fn call_that_may_block_is_refused_under_a_lock() {
        let (one, other) = (Brief::new(1), Brief::new(2));
        let blocks = || std::panic::catch_unwind(may_block).is_err();
        assert!(!blocks());
        let first = one.lock();
        assert!(blocks());
        drop(other.lock());
        assert!(blocks(), "the first lock is still held");
        drop(first);
        assert!(!blocks());
    }
}
