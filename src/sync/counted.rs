//! A value that several share, in a block of the pool.
//!
//! For what is made with a task, shared by few, and gone soon after: an allocator that has to serve two threads costs more
//! than all else that is done with it.
//!
//! Invariant: `refs` counts the [`Counted`]s; the value lives as long as there is one.

use super::pool;
use super::ref_count::RefCount;
use std::alloc::Layout;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::{self, NonNull};

/// One of the references to a value.
pub(crate) struct Counted<T>(NonNull<Inner<T>>, PhantomData<Inner<T>>);

struct Inner<T> {
    refs: RefCount,
    value: T,
}

// SAFETY: as for an `Arc`: references give shared access, and any thread may drop the value.
unsafe impl<T: Send + Sync> Send for Counted<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Counted<T> {}

/// Moving a reference moves no value.
impl<T> Unpin for Counted<T> {}

/// A block for an `Inner<T>`.
struct Block<T>(NonNull<Inner<T>>);

impl<T> Block<T> {
    const LAYOUT: Layout = Layout::new::<Inner<T>>();
    const CLASS: usize = pool::class_of(Self::LAYOUT);
}

impl<T> Drop for Block<T> {
    fn drop(&mut self) {
        // SAFETY: nobody uses the block any more, which was allocated with these.
        unsafe { pool::free(self.0.cast(), Self::CLASS, || Self::LAYOUT) };
    }
}

impl<T> Counted<T> {
    /// Two references to a new value.
    #[inline]
    pub(crate) fn pair(value: T) -> (Self, Self) {
        let block = pool::allocate(Block::<T>::LAYOUT, Block::<T>::CLASS).cast::<Inner<T>>();
        // SAFETY: the block is ours, large enough and aligned.
        unsafe { block.write(Inner { refs: RefCount::new(2), value }) };
        (Self(block, PhantomData), Self(block, PhantomData))
    }
}

#[cfg(test)]
impl<T> Counted<T> {
    /// Pretends that there are this many references.
    pub(super) fn set_references(&self, references: u32) {
        // SAFETY: the value lives by this reference.
        unsafe { self.0.as_ref() }.refs.set(references);
    }
}

impl<T> Clone for Counted<T> {
    #[inline]
    fn clone(&self) -> Self {
        // SAFETY: the value lives by this reference.
        unsafe { self.0.as_ref() }.refs.increase();
        Self(self.0, PhantomData)
    }
}

impl<T> Deref for Counted<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the value lives by this reference.
        unsafe { &self.0.as_ref().value }
    }
}

impl<T> Drop for Counted<T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the value lives by this reference.
        if unsafe { self.0.as_ref() }.refs.decrease() {
            let _block = Block(self.0); // freed after the value, also if its destructor panics
            // SAFETY: the last reference is gone, and every use comes before.
            unsafe { ptr::drop_in_place(self.0.as_ptr()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;

    /// Larger than the pool's blocks, and aligned to more.
    #[repr(align(128))]
    struct Large {
        _witness: Arc<()>,
        _bytes: [u8; 2000],
    }

    #[test]
    fn the_last_reference_drops_the_value_on_whatever_thread() {
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
    fn a_destructor_that_panics_runs_once() {
        struct Bomb {
            _witness: Arc<()>,
        }
        impl Drop for Bomb {
            fn drop(&mut self) {
                panic!("as a user's may");
            }
        }
        let witness = Arc::new(());
        let (one, two) = Counted::pair(Bomb { _witness: witness.clone() });
        drop(one);
        assert!(catch_unwind(AssertUnwindSafe(|| drop(two))).is_err());
        assert_eq!(Arc::strong_count(&witness), 1);
    }
}
