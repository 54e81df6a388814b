//! The edges from a task to those it waits for: memory in the task's own block, links that name a successor.
//!
//! An edge lies in the *successor's* block and is linked into the predecessor's list ([`super::successors`]); this file
//! never links any. Slots stay where they are as long as the block.

use super::successors::Edge;
use super::task::{Flow, Kind, Task};
use std::mem::MaybeUninit;
use std::ptr::NonNull;

const INLINE_EDGES: usize = 3;
const CHUNK_EDGES: usize = 15;

/// The edges to a task's predecessors: a few in the block itself, more in chunks.
pub(super) struct EdgeStore<K: Kind> {
    inline: [MaybeUninit<Edge<Link<K>>>; INLINE_EDGES],
    chunks: u32,
    /// The last chunk, which holds the one before.
    overflow: Option<Box<Chunk<K>>>,
}

struct Chunk<K: Kind> {
    edges: [MaybeUninit<Edge<Link<K>>>; CHUNK_EDGES],
    before: Option<Box<Chunk<K>>>,
}

/// A successor's address with the edge's [`Flow`] in its lowest bit.
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

    pub(super) fn open(self) -> (NonNull<Task<K>>, Flow) {
        let flow = if self.0.addr() & 1 == 1 { Flow::Value } else { Flow::Order };
        // SAFETY: made from a non-null pointer aligned to 64, so clearing the lowest bit gives it back.
        (unsafe { NonNull::new_unchecked(self.0.map_addr(|a| a & !1)) }, flow)
    }
}

impl<K: Kind> EdgeStore<K> {
    /// Without edges.
    #[inline]
    pub(super) fn new() -> Self {
        Self { inline: [const { MaybeUninit::uninit() }; INLINE_EDGES], chunks: 0, overflow: None }
    }

    /// Gives the chunks back.
    #[inline]
    pub(super) fn clear(&mut self) {
        let mut overflow = self.overflow.take();
        while let Some(mut chunk) = overflow {
            overflow = chunk.before.take(); // in a loop: a chain of boxes would drop recursively
        }
    }

    /// The memory of the `n`-th edge; slots are asked for in order, the last one perhaps again.
    #[inline]
    pub(super) fn slot(&mut self, n: usize) -> &mut MaybeUninit<Edge<Link<K>>> {
        if n < INLINE_EDGES {
            return &mut self.inline[n];
        }
        let n = n - INLINE_EDGES;
        if n / CHUNK_EDGES == self.chunks as usize {
            let before = self.overflow.take();
            self.overflow = Some(Box::new(Chunk { edges: [const { MaybeUninit::uninit() }; CHUNK_EDGES], before }));
            self.chunks += 1;
        }
        &mut self.overflow.as_mut().expect("a chunk was made for this slot or an earlier one").edges[n % CHUNK_EDGES]
    }
}
