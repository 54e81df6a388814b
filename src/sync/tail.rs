//! What a long task's block has behind its body: room for more edges, and notes of where its successors lie.
//!
//! A task with many accesses has many predecessors and many successors. Between its submission and its end other tasks' bodies take
//! the caches. Whoever ends it would then wait for one successor after the other, since their list leads through their own
//! blocks. The notes lie in the task's block: by them, all are asked for at once. They cost a cache line and a few instructions an
//! edge, which short tasks do without: those with few accesses, whose bodies as a rule are short too.
//!
//! It follows no note and finds no successor: that is what the list is for.
//!
//! Invariants:
//! 1. Whether a block has a tail follows from its length, which never changes.
//! 2. A note is a hint. It may be missing, or lead anywhere; all that comes of it is a prefetch.

use super::edges::Slot;
use super::pool::ALIGN;
use super::task::Kind;
use std::alloc::Layout;
use std::ptr::NonNull;
// The standard library's in loom's models too: nothing follows from the order of these.
use std::sync::atomic::{AtomicU32, Ordering};

/// A header and a body that are as long have a tail: five accesses to parts of arrays in four dimensions, or eight in two.
pub(super) const LONG: usize = 10 * ALIGN;
/// For how many edges there is room, beside those in the header.
pub(super) const MORE_EDGES: usize = 8;
/// As many as there is room for in one line with their count: for seven successors, where each has its edge in a line of its own.
pub(super) const NOTES: usize = 15;

/// The end of a long block.
#[repr(C, align(64))]
pub(super) struct Tail<K: Kind> {
    notes: Notes,
    /// Handed out by [`super::edges`]; no reference covers them.
    edges: [Slot<K>; MORE_EDGES],
}

/// Lines of memory, by how far they are from the task's block.
#[derive(Default)]
struct Notes {
    count: AtomicU32,
    lines: [AtomicU32; NOTES],
}

impl<K: Kind> Tail<K> {
    /// The layout of a block with this header and body, to which a tail is added if they are long.
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

    /// Whether a block that is so long has a tail.
    #[inline]
    pub(super) const fn is_in(block_bytes: usize) -> bool {
        block_bytes >= LONG
    }

    /// The tail of a block, if it has one.
    ///
    /// # Safety
    /// The block was allocated with the layout that [`Self::added_to`] gave, of `block_bytes`, and `block` may reach all of it.
    #[inline]
    pub(super) unsafe fn of(block: NonNull<u8>, block_bytes: usize) -> Option<NonNull<Self>> {
        // SAFETY: such a block ends with a tail, which begins at a multiple of `ALIGN` as the block does.
        Self::is_in(block_bytes).then(|| unsafe { block.add(block_bytes - size_of::<Self>()).cast() })
    }

    /// Makes a tail without notes.
    ///
    /// # Safety
    /// It is the caller's alone.
    pub(super) unsafe fn begin(tail: NonNull<Self>) {
        // SAFETY: the tail is in the caller's block; edges are memory without a value until they are handed out.
        unsafe { (&raw mut (*tail.as_ptr()).notes).write(Notes::default()) };
    }

    /// The memory of the first of its edges.
    ///
    /// # Safety
    /// The tail is valid.
    #[inline]
    pub(super) unsafe fn edges(tail: NonNull<Self>) -> *mut Slot<K> {
        // SAFETY: the caller's promise; no reference is made.
        unsafe { (&raw mut (*tail.as_ptr()).edges).cast() }
    }

    /// Takes down where a successor's edge and its block are, which will be looked at when the task of the block `of` ends.
    ///
    /// # Safety
    /// The tail was begun, and is valid.
    #[inline]
    pub(super) unsafe fn note(tail: NonNull<Self>, of: NonNull<u8>, edge: *const u8, block: *const u8) {
        // SAFETY: the caller's promise; the reference covers atomics alone.
        let notes = unsafe { &(*tail.as_ptr()).notes };
        notes.add(of, edge);
        notes.add(of, block);
    }

    /// The lines that the notes of the block `of` lead to, in the order in which they were taken.
    ///
    /// # Safety
    /// As for [`Self::note`], as long as the iterator is used.
    #[inline]
    pub(super) unsafe fn noted<'t>(tail: NonNull<Self>, of: NonNull<u8>) -> impl Iterator<Item = *const u8> + 't
    where
        K: 't,
    {
        // SAFETY: the caller's promise; the reference covers atomics alone.
        unsafe { &(*tail.as_ptr()).notes }.followed(of)
    }
}

impl Notes {
    /// Two threads that add at once may lose one of their notes.
    #[inline]
    fn add(&self, of: NonNull<u8>, address: *const u8) {
        let line = (address.addr() / ALIGN).wrapping_sub(of.addr().get() / ALIGN) as u32;
        let count = self.count.load(Ordering::Relaxed) as usize;
        // Of one successor there may be two edges, one after the other.
        let is_known =
            self.lines[count.saturating_sub(2)..count].iter().any(|last| last.load(Ordering::Relaxed) == line);
        if count < NOTES && !is_known {
            self.lines[count].store(line, Ordering::Relaxed);
            self.count.store(count as u32 + 1, Ordering::Relaxed);
        }
    }

    /// The lines that they lead to, in the order in which they were added.
    #[inline]
    fn followed(&self, of: NonNull<u8>) -> impl Iterator<Item = *const u8> + '_ {
        let count = self.count.load(Ordering::Relaxed) as usize;
        self.lines[..count.min(NOTES)].iter().map(move |line| {
            let lines = line.load(Ordering::Relaxed).cast_signed() as isize;
            of.as_ptr().cast_const().wrapping_offset(lines.wrapping_mul(ALIGN.cast_signed()))
        })
    }
}
