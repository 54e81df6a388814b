//! The synchronization primitives that this folder uses. The model-checking tests replace them with those of loom and
//! shuttle.

pub(super) use crossbeam_utils::Backoff;
pub(super) use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
pub(super) use std::sync::{Condvar, Mutex, MutexGuard};

/// The standard library's `UnsafeCell`, with accesses that a model checker can observe.
#[derive(Debug)]
pub(super) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    #[inline]
    pub(super) const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    /// Calls `read` with a pointer that is only used for reads.
    #[inline]
    pub(super) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get())
    }

    /// Calls `write` with a pointer that may be used for writes.
    #[inline]
    pub(super) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}
