//! Lists of free blocks: each thread has its own lists, and full lists move between threads under a lock.
//!
//! Freeing and allocating threads take the lock only once per batch of blocks. A thread has two lists, so it does not
//! have to take the lock each time its number of blocks crosses a batch boundary.
//!
//! Invariant: a free block is linked in exactly one list, either a thread's list or a shared one, and an allocated
//! block is in no list. So a thread that takes a block has exclusive access to it, and everything that was done to the
//! block before it was freed happened before the block is taken (`tests/loom`).

use super::atomic::{Mutex, UnsafeCell};
use std::ptr::{self, NonNull};

/// A free block. The link is stored in the block itself.
struct Free {
    next: UnsafeCell<*mut Free>,
}

/// A singly linked list of free blocks.
pub(super) struct List {
    head: *mut Free,
    len: usize,
}

// SAFETY: a list owns its free blocks, and nothing else refers to them (the invariant), so they can move to another
// thread with the list.
unsafe impl Send for List {}

impl List {
    pub(super) const EMPTY: Self = Self { head: ptr::null_mut(), len: 0 };

    /// The number of blocks in the list.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Adds a block.
    ///
    /// # Safety
    /// The block has room for a pointer and is aligned to one, and no other code uses it until it is popped.
    #[inline]
    pub(super) unsafe fn push(&mut self, block: NonNull<u8>) {
        let block = block.cast::<Free>().as_ptr();
        // SAFETY: the caller's block has room for an aligned pointer, and no other code uses it until it is popped.
        unsafe { block.write(Free { next: UnsafeCell::new(self.head) }) };
        self.head = block;
        self.len += 1;
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<NonNull<u8>> {
        let block = NonNull::new(self.head)?;
        // SAFETY: blocks in the list are valid and owned by the list, so their links can be read.
        self.head = unsafe { block.as_ref().next.with(|next| *next) };
        self.len -= 1;
        Some(block.cast())
    }
}

/// Full lists, and lists left behind by ending threads, for use by any thread.
pub(super) struct Batches {
    pub(super) full: Mutex<Vec<List>>,
}

impl Batches {
    #[cold]
    fn put(&self, list: List) {
        self.full.lock().unwrap_or_else(|e| e.into_inner()).push(list);
    }

    #[cold]
    fn take(&self) -> Option<List> {
        self.full.lock().unwrap_or_else(|e| e.into_inner()).pop()
    }

    /// Adds a list of one block.
    ///
    /// # Safety
    /// The same as for [`List::push`].
    #[cold]
    pub(super) unsafe fn put_alone(&self, block: NonNull<u8>) {
        let mut list = List::EMPTY;
        // SAFETY: the caller's block has room for an aligned pointer, and no other code uses it until it is popped.
        unsafe { list.push(block) };
        self.put(list);
    }
}

/// One thread's free blocks of one class; holds at most twice `BATCH` blocks.
pub(super) struct Cache<const BATCH: usize> {
    local: List,
    /// The second list, which is always either empty or full.
    spare: List,
}

impl<const BATCH: usize> Cache<BATCH> {
    pub(super) const fn new() -> Self {
        Self { local: List::EMPTY, spare: List::EMPTY }
    }

    /// Takes a free block from this cache or from `shared`. If both are empty, takes it from a new list created by
    /// `fresh`.
    #[inline]
    pub(super) fn take(&mut self, shared: &Batches, fresh: impl FnOnce() -> List) -> NonNull<u8> {
        self.local.pop().unwrap_or_else(|| self.refill(shared, fresh))
    }

    #[cold]
    fn refill(&mut self, shared: &Batches, fresh: impl FnOnce() -> List) -> NonNull<u8> {
        self.local = match std::mem::replace(&mut self.spare, List::EMPTY) {
            List { len: 0, .. } => shared.take().unwrap_or_else(fresh),
            spare => spare,
        };
        self.local.pop().expect("the list was just filled")
    }

    /// Gives a block back.
    ///
    /// # Safety
    /// The same as for [`List::push`].
    #[inline]
    pub(super) unsafe fn put(&mut self, block: NonNull<u8>, shared: &Batches) {
        if self.local.len >= BATCH {
            let local = std::mem::replace(&mut self.local, List::EMPTY);
            let full = std::mem::replace(&mut self.spare, local);
            if full.len > 0 {
                shared.put(full);
            }
        }
        // SAFETY: the caller's block has room for an aligned pointer, and no other code uses it until it is popped.
        unsafe { self.local.push(block) };
    }

    /// Leaves all blocks to other threads. Called when this thread ends.
    pub(super) fn leave(&mut self, shared: &Batches) {
        for list in [&mut self.local, &mut self.spare] {
            if list.len > 0 {
                shared.put(std::mem::replace(list, List::EMPTY));
            }
        }
    }
}
