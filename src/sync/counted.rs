//! A shared, reference-counted value in a block of the pool.
//!
//! Meant for values that are created with a task, shared by few owners, and soon dropped. For such values, a
//! general-purpose allocator that has to serve two threads costs more than everything else that is done with the value.
//!
//! Invariant: `refs` is the number of existing [`Counted`]s, and the value lives as long as at least one of them
//! exists.

use super::pool;
use super::ref_count::RefCount;
use std::alloc::Layout;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::{self, NonNull};

/// A reference to the shared value.
pub(crate) struct Counted<T>(NonNull<Inner<T>>, PhantomData<Inner<T>>);

struct Inner<T> {
    refs: RefCount,
    value: T,
}

// SAFETY: as for an `Arc`, references give only shared access, and any thread may drop the value, so `T: Send + Sync`
// suffices.
unsafe impl<T: Send + Sync> Send for Counted<T> {}
// SAFETY: the same argument as for `Send`.
unsafe impl<T: Send + Sync> Sync for Counted<T> {}

/// Moving a reference does not move the value.
impl<T> Unpin for Counted<T> {}

/// The memory block of an `Inner<T>`.
struct Block<T>(NonNull<Inner<T>>);

impl<T> Block<T> {
    const LAYOUT: Layout = Layout::new::<Inner<T>>();
    const CLASS: usize = pool::class_of(Self::LAYOUT);
}

impl<T> Drop for Block<T> {
    fn drop(&mut self) {
        // SAFETY: the block was allocated with this class and layout, and nothing uses it any more.
        unsafe { pool::free(self.0.cast(), Self::CLASS, || Self::LAYOUT) };
    }
}

impl<T> Counted<T> {
    /// Creates a value with two references to it.
    #[inline]
    pub(crate) fn pair(value: T) -> (Self, Self) {
        let block = pool::allocate(Block::<T>::LAYOUT, Block::<T>::CLASS).cast::<Inner<T>>();
        // SAFETY: the block was just allocated, so nothing else uses it, and it is large enough and aligned.
        unsafe { block.write(Inner { refs: RefCount::new(2), value }) };
        (Self(block, PhantomData), Self(block, PhantomData))
    }
}

#[cfg(test)]
impl<T> Counted<T> {
    /// Sets the count as if this many references existed.
    pub(super) fn set_references(&self, references: u32) {
        // SAFETY: this reference keeps the value alive.
        unsafe { self.0.as_ref() }.refs.set(references);
    }
}

impl<T> Clone for Counted<T> {
    #[inline]
    fn clone(&self) -> Self {
        // SAFETY: this reference keeps the value alive.
        unsafe { self.0.as_ref() }.refs.increase();
        Self(self.0, PhantomData)
    }
}

impl<T> Deref for Counted<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this reference keeps the value alive.
        unsafe { &self.0.as_ref().value }
    }
}

impl<T> Drop for Counted<T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this reference keeps the value alive.
        if unsafe { self.0.as_ref() }.refs.decrease() {
            let _block = Block(self.0); // freed after the value, even if its destructor panics
            // SAFETY: this was the last reference, and every earlier use happened before this point.
            unsafe { ptr::drop_in_place(self.0.as_ptr()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;

    /// Larger than the pool's blocks, with a larger alignment.
    #[repr(align(128))]
    struct Large {
        _witness: Arc<()>,
        _bytes: [u8; 2000],
    }

    #[test]
    fn last_reference_drops_the_value_on_any_thread() {
        let witness = Arc::new(());
        let (one, two) = Counted::pair(witness.clone());
        let three = two.clone();
        drop(one);
        let (large, other) = Counted::pair(Large { _witness: witness.clone(), _bytes: [0; 2000] });
        assert_eq!((&raw const *large).addr() % 128, 0);
        drop(other);
        assert_eq!(Arc::strong_count(&witness), 3);
        std::thread::spawn(move || drop((two, large))).join().unwrap();
        assert_eq!((Arc::strong_count(&witness), Arc::strong_count(&three)), (2, 2));
        drop(three);
        assert_eq!(Arc::strong_count(&witness), 1);
    }

    #[test]
    fn panicking_destructor_runs_once() {
        struct Bomb {
            _witness: Arc<()>,
        }
        impl Drop for Bomb {
            fn drop(&mut self) {
                panic!("as a user's destructor may");
            }
        }
        let witness = Arc::new(());
        let (one, two) = Counted::pair(Bomb { _witness: witness.clone() });
        drop(one);
        assert!(catch_unwind(AssertUnwindSafe(|| drop(two))).is_err());
        assert_eq!(Arc::strong_count(&witness), 1);
    }
}
