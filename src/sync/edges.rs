//! The edges from a task to those it waits for: memory in the task's own block, links that name a successor.
//!
//! An edge lies in the *successor's* block, in its header or its tail ([`super::tail`]), or in a chunk behind those, and is linked
//! into the predecessor's list ([`super::successors`]); this file never links any. Slots stay where they are as long as the block.
//!
//! A linked edge is read by whoever finishes the predecessor, and its address is compared and passed on by whoever links
//! another one before it. So nothing here makes a reference to an edge, or to what contains edges, from the first slot
//! that is handed out until all are given back: memory is reached through raw pointers alone, field by field.

use super::fixed::Place;
use super::successors::Edge;
use super::tail::{MORE_EDGES, Tail};
use super::task::{BIAS, Flow, Kind, Task};
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

const INLINE_EDGES: usize = 3;
const CHUNK_EDGES: usize = 15;
/// A task with fewer edges beyond its block keeps its countdown below the bias.
const MOST_EDGES: usize = (BIAS / 2) as usize;

pub(super) type Slot<K> = MaybeUninit<Edge<Link<K>>>;

/// The edges to a task's predecessors: a few in the header, of a long block more in its tail, and the others in chunks.
pub(super) struct EdgeStore<K: Kind> {
    inline: [Slot<K>; INLINE_EDGES],
    /// The last chunk, which names the one before; made by `Box::into_raw`. Not a box: that must not be moved or borrowed
    /// while others read what is inside.
    last: *mut Chunk<K>,
}

struct Chunk<K: Kind> {
    edges: [Slot<K>; CHUNK_EDGES],
    /// How many chunks there were before.
    number: usize,
    before: *mut Chunk<K>,
}

/// A successor's address, or that of its [`Place`] in a graph that stays, with the edge's [`Flow`] in its lowest bit.
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

    /// To a task of a graph that stays.
    pub(super) fn to_place(place: NonNull<Place<K>>, flow: Flow) -> Self {
        const { assert!(align_of::<Place<K>>() > 1, "there is room for the flow") };
        Self::new(place.cast(), flow)
    }

    /// The successor, of a link that leads to a task.
    #[inline]
    pub(super) fn open(self) -> (NonNull<Task<K>>, Flow) {
        let flow = if self.0.addr() & 1 == 1 { Flow::Value } else { Flow::Order };
        // SAFETY: made from a non-null, aligned pointer, so clearing the lowest bit gives it back.
        (unsafe { NonNull::new_unchecked(self.0.map_addr(|a| a & !1)) }, flow)
    }

    /// The successor's place, of a link that leads to one.
    #[inline]
    pub(super) fn open_place(self) -> (NonNull<Place<K>>, Flow) {
        let (place, flow) = self.open();
        (place.cast(), flow)
    }
}

impl<K: Kind> EdgeStore<K> {
    /// Without edges.
    #[inline]
    pub(super) fn new() -> Self {
        Self { inline: [const { MaybeUninit::uninit() }; INLINE_EDGES], last: ptr::null_mut() }
    }

    /// The memory of the `n`-th edge; slots are asked for in order, the last one perhaps again.
    ///
    /// # Safety
    /// `store` is valid for reads and writes, and so is the block's tail, which is given each time if it has one. Nobody else gets
    /// slots of them or clears them meanwhile. Others may read the edges in slots handed out before.
    #[inline]
    pub(super) unsafe fn slot(
        store: *mut Self,
        n: usize,
        tail: impl FnOnce() -> Option<NonNull<Tail<K>>>,
    ) -> *mut Edge<Link<K>> {
        // SAFETY: the caller alone gets slots of this store, which is valid. `n` is within the array, which is indexed
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
                assert!(n < MOST_EDGES, "a task waits for more tasks than can be counted");
                let edges = [const { MaybeUninit::uninit() }; CHUNK_EDGES];
                (*store).last = Box::into_raw(Box::new(Chunk { edges, number, before: last }));
            }
            // A chunk was made for this slot or an earlier one.
            (&raw mut (*(*store).last).edges[n % CHUNK_EDGES]).cast()
        }
    }

    /// Gives the chunks back.
    ///
    /// # Safety
    /// Nobody uses an edge of this store any more.
    #[inline]
    pub(super) unsafe fn clear(&mut self) {
        while !self.last.is_null() {
            // SAFETY: made by `Box::into_raw`, in this list alone, and nobody is left who reads it.
            let chunk = unsafe { Box::from_raw(self.last) };
            self.last = chunk.before;
        }
    }
}
