//! The optional tail of a long task's block: extra edge slots, and notes of its successors' addresses.
//!
//! A task with many accesses has many predecessors and many successors. Between the task's submission and its end,
//! other tasks' bodies evict these blocks from the caches. The thread that ends the task would then stall on one
//! successor after the other, because the list leads through the successors' blocks. The notes are in the task's own
//! block, so all successors can be prefetched at once. They cost one cache line, and a few instructions per edge. Short
//! blocks have no notes: they belong to tasks with few accesses, whose bodies are usually short too.
//!
//! Notes are never used to find a successor; that is the list's purpose.
//!
//! Invariants:
//! 1. Whether a block has a tail follows from its length, which never changes.
//! 2. A note is a hint. It may be missing or lead to any address; its only effect is a prefetch.

use super::edges::Slot;
use super::pool::ALIGN;
use super::task::Kind;
use std::alloc::Layout;
use std::ptr::NonNull;
// Uses the standard library's types even in loom's models, because nothing depends on the order of these accesses.
use std::sync::atomic::{AtomicU32, Ordering};

/// Minimum size of header and body for a block to have a tail. Corresponds to five accesses to parts of
/// four-dimensional arrays, or eight in two dimensions.
pub(super) const LONG: usize = 10 * ALIGN;
/// The number of edge slots in addition to those in the header.
pub(super) const MORE_EDGES: usize = 8;
/// The number of notes that fit in one cache line with their count. Enough for seven successors whose edges are all
/// outside the first line of their blocks.
pub(super) const NOTES: usize = 15;

/// The tail, at the end of a long block.
#[repr(C, align(64))]
pub(super) struct Tail<K: Kind> {
    notes: Notes,
    /// Slots that [`super::edges`] hands out; no reference covers them.
    edges: [Slot<K>; MORE_EDGES],
}

/// Addresses of cache lines, stored as distances from the task's block.
#[derive(Default)]
struct Notes {
    count: AtomicU32,
    lines: [AtomicU32; NOTES],
}

impl<K: Kind> Tail<K> {
    /// Returns the layout of a block with this header and body, extended by a tail if they are long.
    pub(super) const fn added_to(block: Layout) -> Option<Layout> {
        if block.size() < LONG {
            return Some(block);
        }
        let Some(start) = block.size().checked_next_multiple_of(ALIGN) else { return None };
        let Some(bytes) = start.checked_add(size_of::<Self>()) else { return None };
        match Layout::from_size_align(bytes, block.align()) {
            Ok(layout) => Some(layout),
            Err(_) => None,
        }
    }

    /// Whether a block of this size has a tail.
    #[inline]
    pub(super) const fn is_in(block_bytes: usize) -> bool {
        block_bytes >= LONG
    }

    /// Returns the tail of a block, if it has one.
    ///
    /// # Safety
    /// The block was allocated with a layout that [`Self::added_to`] returned, of `block_bytes` bytes, and `block` may
    /// access all of it.
    #[inline]
    pub(super) unsafe fn of(block: NonNull<u8>, block_bytes: usize) -> Option<NonNull<Self>> {
        // SAFETY: such a block ends with a tail, which begins at a multiple of `ALIGN` as the block does.
        Self::is_in(block_bytes).then(|| unsafe { block.add(block_bytes - size_of::<Self>()).cast() })
    }

    /// Initializes a tail without notes.
    ///
    /// # Safety
    /// The caller has exclusive access to the tail.
    pub(super) unsafe fn begin(tail: NonNull<Self>) {
        // SAFETY: the tail is in the caller's block, and its edge slots may stay uninitialized until they are handed
        // out.
        unsafe { (&raw mut (*tail.as_ptr()).notes).write(Notes::default()) };
    }

    /// Returns the memory of the tail's first edge.
    ///
    /// # Safety
    /// The tail is valid.
    #[inline]
    pub(super) unsafe fn edges(tail: NonNull<Self>) -> *mut Slot<K> {
        // SAFETY: the caller guarantees that the tail is valid, and no reference is created.
        unsafe { (&raw mut (*tail.as_ptr()).edges).cast() }
    }

    /// Notes the addresses of a successor's edge and block, which are accessed when the task in the block `of` ends.
    ///
    /// # Safety
    /// The tail was initialized, and is valid.
    #[inline]
    pub(super) unsafe fn note(tail: NonNull<Self>, of: NonNull<u8>, edge: *const u8, block: *const u8) {
        // SAFETY: the caller guarantees that the tail is valid, and the reference covers only atomics.
        let notes = unsafe { &(*tail.as_ptr()).notes };
        notes.add(of, edge);
        notes.add(of, block);
    }

    /// Returns the cache lines that the notes of the block `of` refer to, in the order in which the notes were added.
    ///
    /// # Safety
    /// The tail was initialized, and is valid as long as the iterator is used.
    #[inline]
    pub(super) unsafe fn noted<'t>(tail: NonNull<Self>, of: NonNull<u8>) -> impl Iterator<Item = *const u8> + 't
    where
        K: 't,
    {
        // SAFETY: the caller guarantees that the tail is valid, and the reference covers only atomics.
        unsafe { &(*tail.as_ptr()).notes }.followed(of)
    }
}

impl Notes {
    /// Adds a note. Two threads that add at the same time may lose one of their notes.
    #[inline]
    fn add(&self, of: NonNull<u8>, address: *const u8) {
        let line = (address.addr() / ALIGN).wrapping_sub(of.addr().get() / ALIGN) as u32;
        let count = self.count.load(Ordering::Relaxed) as usize;
        // A successor may have two consecutive edges, so its block may already have been noted.
        let is_known =
            self.lines[count.saturating_sub(2)..count].iter().any(|last| last.load(Ordering::Relaxed) == line);
        if count < NOTES && !is_known {
            self.lines[count].store(line, Ordering::Relaxed);
            self.count.store(count as u32 + 1, Ordering::Relaxed);
        }
    }

    /// Returns the cache lines that the notes refer to, in the order in which the notes were added.
    #[inline]
    fn followed(&self, of: NonNull<u8>) -> impl Iterator<Item = *const u8> + '_ {
        let count = self.count.load(Ordering::Relaxed) as usize;
        self.lines[..count.min(NOTES)].iter().map(move |line| {
            let lines = line.load(Ordering::Relaxed).cast_signed() as isize;
            of.as_ptr().cast_const().wrapping_offset(lines.wrapping_mul(ALIGN.cast_signed()))
        })
    }
}
