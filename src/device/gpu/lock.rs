//! Locks that polling and launching need, and the check that no call of an interface blocks while one is held.
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
#[derive(Default)]
pub(super) struct Lock<T>(Mutex<T>);

/// The guard of a [`Lock`].
pub(super) struct Locked<'a, T>(MutexGuard<'a, T>);

impl<T> Lock<T> {
    pub(super) fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    pub(super) fn lock(&self) -> Locked<'_, T> {
        let guard = self.0.lock();
        #[cfg(debug_assertions)]
        HELD.set(HELD.get() + 1);
        Locked(guard)
    }
}

#[cfg(debug_assertions)]
impl<T> Drop for Locked<'_, T> {
    fn drop(&mut self) {
        HELD.set(HELD.get() - 1);
    }
}

impl<T> Deref for Locked<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Locked<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

/// Called before a call that may block.
#[inline]
#[track_caller]
pub(in crate::device) fn may_block() {
    #[cfg(debug_assertions)]
    assert!(HELD.get() == 0, "a call that may block is made under a device's lock");
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::*;

    #[test]
    fn call_that_may_block_is_refused_under_a_lock() {
        let (one, other) = (Lock::new(1), Lock::new(2));
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
