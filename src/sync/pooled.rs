//! A box in pooled memory: for what some tasks have beside their block, which is made on one thread and dropped on another as
//! they are ([`super::pool`]).
//!
//! Invariant: the block holds a value, which is this box's alone.

use super::pool;
use std::alloc::Layout;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// As [`Box`], from the pool.
pub(crate) struct Pooled<T>(NonNull<T>);

// SAFETY: it owns the value, and nothing else has its address.
unsafe impl<T: Send> Send for Pooled<T> {}
// SAFETY: a shared box gives shared references to the value, and nothing else.
unsafe impl<T: Sync> Sync for Pooled<T> {}

impl<T> Pooled<T> {
    const LAYOUT: Layout = Layout::new::<T>();
    const CLASS: usize = pool::class_of(Self::LAYOUT);

    /// A box with this value.
    #[inline]
    pub(crate) fn new(value: T) -> Self {
        const { assert!(size_of::<T>() > 0, "nothing needs no memory") };
        let block = pool::allocate(Self::LAYOUT, Self::CLASS).cast::<T>();
        // SAFETY: the block is new, large enough and aligned.
        unsafe { block.write(value) };
        Self(block)
    }
}

impl<T> Drop for Pooled<T> {
    #[inline]
    fn drop(&mut self) {
        /// Gives the block back, also if the value's destructor panics.
        struct Free<T>(NonNull<T>);

        impl<T> Drop for Free<T> {
            fn drop(&mut self) {
                // SAFETY: allocated with this class and layout, and the value is gone.
                unsafe { pool::free(self.0.cast(), Pooled::<T>::CLASS, || Pooled::<T>::LAYOUT) };
            }
        }

        let _free = Free(self.0);
        // SAFETY: the value is there (the invariant), and nobody uses it afterwards.
        unsafe { self.0.drop_in_place() };
    }
}

impl<T> Deref for Pooled<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the value is there (the invariant), and borrowed as long as the box.
        unsafe { self.0.as_ref() }
    }
}

impl<T> DerefMut for Pooled<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above; the box is borrowed uniquely.
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
    fn the_block_of_a_value_whose_destructor_panics_is_used_again() {
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
