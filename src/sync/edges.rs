//! The edges from a task to its predecessors: their memory in the task's own block, and links that name a successor.
//!
//! An edge is stored in the *successor's* block, in its header or its tail ([`super::tail`]), or in an additional
//! chunk. It is linked into the predecessor's list ([`super::successors`]); this file never links edges. Slots do not
//! move while the block lives.
//!
//! The thread that finishes the predecessor reads a linked edge, and a thread that links another edge before it
//! compares and passes on its address. So nothing here makes a reference to an edge, or to anything that contains
//! edges, from the first slot that is handed out until all are given back: memory is accessed through raw pointers
//! alone, field by field.

use super::fixed::Place;
use super::successors::Edge;
use super::tail::{MORE_EDGES, Tail};
use super::task::{BIAS, Flow, Kind, Task};
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

const INLINE_EDGES: usize = 3;
const CHUNK_EDGES: usize = 15;
/// A bound on the edges outside the block that keeps a task's countdown below the bias.
const MOST_EDGES: usize = (BIAS / 2) as usize;

pub(super) type Slot<K> = MaybeUninit<Edge<Link<K>>>;

/// The edges to a task's predecessors: the first few in the header, more in the tail of a long block, and the others in
/// chunks.
pub(super) struct EdgeStore<K: Kind> {
    inline: [Slot<K>; INLINE_EDGES],
    /// The last chunk, which links to the one before; made by `Box::into_raw`. It is not a `Box`, which must not be
    /// moved or borrowed while other threads read its contents.
    last: *mut Chunk<K>,
}

struct Chunk<K: Kind> {
    edges: [Slot<K>; CHUNK_EDGES],
    /// How many chunks there were before this one.
    number: usize,
    before: *mut Chunk<K>,
}

/// The address of a successor, or of its [`Place`] in a fixed graph, with the edge's [`Flow`] in the lowest bit.
pub(super) struct Link<K: Kind>(*mut Task<K>);

impl<K: Kind> Clone for Link<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: Kind> Copy for Link<K> {}

impl<K: Kind> Link<K> {
    pub(super) fn new(task: NonNull<Task<K>>, flow: Flow) -> Self {
        Self(task.as_ptr().map_addr(|a| a | usize::from(flow == Flow::Value)))
    }

    /// Creates a link to a task of a fixed graph.
    pub(super) fn to_place(place: NonNull<Place<K>>, flow: Flow) -> Self {
        const { assert!(align_of::<Place<K>>() > 1, "there is room for the flow") };
        Self::new(place.cast(), flow)
    }

    /// Returns the successor, for a link that leads to a task.
    #[inline]
    pub(super) fn open(self) -> (NonNull<Task<K>>, Flow) {
        let flow = if self.0.addr() & 1 == 1 { Flow::Value } else { Flow::Order };
        // SAFETY: the address was made from a non-null, aligned pointer, so clearing the lowest bit restores it.
        (unsafe { NonNull::new_unchecked(self.0.map_addr(|a| a & !1)) }, flow)
    }

    /// Returns the successor's place, for a link that leads to one.
    #[inline]
    pub(super) fn open_place(self) -> (NonNull<Place<K>>, Flow) {
        let (place, flow) = self.open();
        (place.cast(), flow)
    }
}

impl<K: Kind> EdgeStore<K> {
    /// Creates a store without edges.
    #[inline]
    pub(super) fn new() -> Self {
        Self { inline: [const { MaybeUninit::uninit() }; INLINE_EDGES], last: ptr::null_mut() }
    }

    /// Returns the memory of the `n`-th edge. Slots are requested in order; only the last one may be requested again.
    ///
    /// # Safety
    /// `store` is valid for reads and writes, and so is the block's tail, which must be passed each time if the block
    /// has one. No other thread gets slots of them or clears them meanwhile. Other threads may read the edges in slots
    /// handed out before.
    #[inline]
    pub(super) unsafe fn slot(
        store: *mut Self,
        n: usize,
        tail: impl FnOnce() -> Option<NonNull<Tail<K>>>,
    ) -> *mut Edge<Link<K>> {
        // SAFETY: only the caller gets slots of this store, which is valid. `n` is within the array, which is indexed
        // in place: no reference to it is made.
        unsafe {
            if n < INLINE_EDGES {
                return (&raw mut (*store).inline[n]).cast();
            }
            let (mut n, last) = (n - INLINE_EDGES, (*store).last);
            if let Some(tail) = tail() {
                if n < MORE_EDGES {
                    return Tail::edges(tail).add(n).cast();
                }
                n -= MORE_EDGES;
            }
            let number = n / CHUNK_EDGES;
            if last.is_null() || (*last).number < number {
                assert!(n < MOST_EDGES, "a task has more predecessors than can be counted");
                let edges = [const { MaybeUninit::uninit() }; CHUNK_EDGES];
                (*store).last = Box::into_raw(Box::new(Chunk { edges, number, before: last }));
            }
            // A chunk was made for this slot or for an earlier one.
            (&raw mut (*(*store).last).edges[n % CHUNK_EDGES]).cast()
        }
    }

    /// Frees the chunks.
    ///
    /// # Safety
    /// No thread uses an edge of this store any more.
    #[inline]
    pub(super) unsafe fn clear(&mut self) {
        while !self.last.is_null() {
            // SAFETY: the chunk was made by `Box::into_raw`, it is in this list alone, and no thread reads it any more.
            let chunk = unsafe { Box::from_raw(self.last) };
            self.last = chunk.before;
        }
    }
}
