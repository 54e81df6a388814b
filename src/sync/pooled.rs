//! A box in pooled memory, for data that some tasks have in addition to their block. Like a task's block, it is often
//! created on one thread and dropped on another ([`super::pool`]).
//!
//! Invariant: the block holds a value, which only this box can reach.

use super::pool;
use std::alloc::Layout;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Like [`Box`], but from the pool.
pub(crate) struct Pooled<T>(NonNull<T>);

// SAFETY: the box owns the value, and nothing else has the value's address.
unsafe impl<T: Send> Send for Pooled<T> {}
// SAFETY: a shared box gives shared references to the value, and nothing else.
unsafe impl<T: Sync> Sync for Pooled<T> {}

impl<T> Pooled<T> {
    const LAYOUT: Layout = Layout::new::<T>();
    const CLASS: usize = pool::class_of(Self::LAYOUT);

    /// Creates a box with this value.
    #[inline]
    pub(crate) fn new(value: T) -> Self {
        const { assert!(size_of::<T>() > 0, "a zero-sized value needs no box") };
        let block = pool::allocate(Self::LAYOUT, Self::CLASS).cast::<T>();
        // SAFETY: the block was just allocated, so nothing else uses it, and it is large enough and aligned.
        unsafe { block.write(value) };
        Self(block)
    }
}

impl<T> Drop for Pooled<T> {
    #[inline]
    fn drop(&mut self) {
        /// Frees the block even if the value's destructor panics.
        struct Free<T>(NonNull<T>);

        impl<T> Drop for Free<T> {
            fn drop(&mut self) {
                // SAFETY: the block was allocated with this class and layout, and the value has been dropped.
                unsafe { pool::free(self.0.cast(), Pooled::<T>::CLASS, || Pooled::<T>::LAYOUT) };
            }
        }

        let _free = Free(self.0);
        // SAFETY: the block holds a value (the invariant), which is not used afterwards.
        unsafe { self.0.drop_in_place() };
    }
}

impl<T> Deref for Pooled<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the block holds a value (the invariant), which is borrowed for as long as the box.
        unsafe { self.0.as_ref() }
    }
}

impl<T> DerefMut for Pooled<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the block holds a value (the invariant), and the box is borrowed uniquely.
        unsafe { self.0.as_mut() }
    }
}

impl<T: Default> Default for Pooled<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: fmt::Debug> fmt::Debug for Pooled<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;

    #[test]
    fn values_are_dropped_once_on_any_thread() {
        let value = Arc::new(());
        let boxes: Vec<_> = (0..200).map(|n| Pooled::new((value.clone(), n))).collect();
        assert_eq!((Arc::strong_count(&value), boxes.iter().map(|one| one.1).sum::<usize>()), (201, 199 * 100));
        std::thread::spawn(|| drop(boxes)).join().unwrap();
        assert_eq!(Arc::strong_count(&value), 1);
    }

    #[test]
    fn block_is_reused_after_the_destructor_of_its_value_panics() {
        struct Panics([usize; 100]);
        impl Drop for Panics {
            fn drop(&mut self) {
                assert_ne!(self.0[99], 7, "seven");
            }
        }
        let first = Pooled::new(Panics([7; 100]));
        let at = first.0;
        assert!(catch_unwind(AssertUnwindSafe(|| drop(first))).is_err());
        let again = Pooled::new(Panics([0; 100]));
        assert_eq!(again.0, at);
    }
}
