//! The edges between a task and its predecessors: their memory, which is in the task's own block, and the links by
//! which edges name their successor.
//!
//! An edge is stored in the *successor's* block, in its header or its tail ([`super::tail`]), or in an additional
//! chunk. The edge is linked into the predecessor's list ([`super::successors`]), but not by this module. Slots do not
//! move while the block is alive.
//!
//! A linked edge is read by the thread that finishes the predecessor, and its address is compared and stored by any
//! thread that links another edge in front of it. So from the time the first slot is handed out until all slots are
//! given back, nothing here creates a reference to an edge or to anything that contains edges. The memory is accessed
//! only through raw pointers, field by field.

use super::fixed::Place;
use super::successors::Edge;
use super::tail::{MORE_EDGES, Tail};
use super::task::{BIAS, Flow, Kind, Task};
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

const INLINE_EDGES: usize = 3;
const CHUNK_EDGES: usize = 15;
/// Upper bound for the number of edges outside the block, which keeps a task's countdown below the bias.
const MOST_EDGES: usize = (BIAS / 2) as usize;

pub(super) type Slot<K> = MaybeUninit<Edge<Link<K>>>;

/// Storage for the edges to a task's predecessors: the first few are in the header, more are in the tail of a long
/// block, and the rest are in chunks.
pub(super) struct EdgeStore<K: Kind> {
    inline: [Slot<K>; INLINE_EDGES],
    /// The last chunk, created by `Box::into_raw`; each chunk links to the previous one. This is not a `Box`, because a
    /// `Box` must not be moved or borrowed while other threads read its contents.
    last: *mut Chunk<K>,
}

struct Chunk<K: Kind> {
    edges: [Slot<K>; CHUNK_EDGES],
    /// Number of chunks before this one.
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
        // SAFETY: the address was created from a non-null, aligned pointer, so clearing the lowest bit restores that
        // pointer.
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

    /// Returns the memory of the `n`-th edge. Slots must be requested in order; only the last slot may be requested
    /// again.
    ///
    /// # Safety
    /// `store` is valid for reads and writes, and so is the block's tail, which must be passed each time if the block
    /// has one. No other thread requests or clears slots in the meantime. Other threads may read edges in slots that
    /// were handed out earlier.
    #[inline]
    pub(super) unsafe fn slot(
        store: *mut Self,
        n: usize,
        tail: impl FnOnce() -> Option<NonNull<Tail<K>>>,
    ) -> *mut Edge<Link<K>> {
        // SAFETY: the store is valid, and only the caller requests slots of it. `n` is within the array, which is
        // indexed in place, so no reference to the array is created.
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
            // A chunk was created for this slot or for an earlier one, so `last` is valid.
            (&raw mut (*(*store).last).edges[n % CHUNK_EDGES]).cast()
        }
    }

    /// Frees the chunks.
    ///
    /// # Safety
    /// No thread uses an edge of this store from now on.
    #[inline]
    pub(super) unsafe fn clear(&mut self) {
        while !self.last.is_null() {
            // SAFETY: the chunk was created by `Box::into_raw`, is in this list alone, and is no longer read by any
            // thread, so it can be turned back into a box.
            let chunk = unsafe { Box::from_raw(self.last) };
            self.last = chunk.before;
        }
    }
}
