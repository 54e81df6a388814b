//! Lists of free blocks: a thread keeps some to itself, and full ones change hands under a lock.
//!
//! The lock is taken once per batch of blocks, whoever frees and whoever takes. A thread has two lists, so that one that
//! swings around the boundary of a batch does not take it each time.
//!
//! Invariant: a free block is linked in exactly one list, a thread's or a shared one, and a block that is taken in none. So
//! who takes a block has it alone, and whatever was done to it before it was freed has been done (`tests/loom`).

use super::atomic::{Mutex, UnsafeCell};
use std::ptr::{self, NonNull};

/// A free block: the link lies in the block itself.
struct Free {
    next: UnsafeCell<*mut Free>,
}

/// A singly linked list of free blocks.
pub(super) struct List {
    head: *mut Free,
    len: usize,
}

// SAFETY: a list owns its free blocks; nobody else refers to them (the invariant).
unsafe impl Send for List {}

impl List {
    pub(super) const EMPTY: Self = Self { head: ptr::null_mut(), len: 0 };

    /// How many blocks there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Adds a block.
    ///
    /// # Safety
    /// The block has room for a pointer and is aligned to one, and nobody uses it until it is popped.
    #[inline]
    pub(super) unsafe fn push(&mut self, block: NonNull<u8>) {
        let block = block.cast::<Free>().as_ptr();
        // SAFETY: the caller's block has room for a pointer, aligned, and is nobody else's until it is popped.
        unsafe { block.write(Free { next: UnsafeCell::new(self.head) }) };
        self.head = block;
        self.len += 1;
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<NonNull<u8>> {
        let block = NonNull::new(self.head)?;
        // SAFETY: blocks in the list are valid and ours.
        self.head = unsafe { block.as_ref().next.with(|next| *next) };
        self.len -= 1;
        Some(block.cast())
    }
}

/// Full lists, and what ending threads leave, for whoever needs one.
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
    /// As for [`List::push`].
    #[cold]
    pub(super) unsafe fn put_alone(&self, block: NonNull<u8>) {
        let mut list = List::EMPTY;
        // SAFETY: the caller's block has room for a pointer, aligned, and is nobody else's until it is popped.
        unsafe { list.push(block) };
        self.put(list);
    }
}

/// A thread's own free blocks of one class, twice `BATCH` at most.
pub(super) struct Cache<const BATCH: usize> {
    local: List,
    /// Empty, or full.
    spare: List,
}

impl<const BATCH: usize> Cache<BATCH> {
    pub(super) const fn new() -> Self {
        Self { local: List::EMPTY, spare: List::EMPTY }
    }

    /// A free block; of those that `fresh` makes, if there is none here or with the others.
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
    /// As for [`List::push`].
    #[inline]
    pub(super) unsafe fn put(&mut self, block: NonNull<u8>, shared: &Batches) {
        if self.local.len >= BATCH {
            let local = std::mem::replace(&mut self.local, List::EMPTY);
            let full = std::mem::replace(&mut self.spare, local);
            if full.len > 0 {
                shared.put(full);
            }
        }
        // SAFETY: the caller's block has room for a pointer, aligned, and is nobody else's until it is popped.
        unsafe { self.local.push(block) };
    }

    /// The thread ends: others may have what it has.
    pub(super) fn leave(&mut self, shared: &Batches) {
        for list in [&mut self.local, &mut self.spare] {
            if list.len > 0 {
                shared.put(std::mem::replace(list, List::EMPTY));
            }
        }
    }
}
