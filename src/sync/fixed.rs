//! The edges and countdowns of a fixed graph, stored contiguously.
//!
//! While tasks are submitted one by one, an edge is stored in its successor's block, and so is the successor's
//! countdown. So a thread that ends a task goes from block to block and touches two cache lines of each. Once the edges
//! no longer change, each task's list can be laid out contiguously, and so can all countdowns. Then the edges and
//! countdowns fit in the caches even if the graph's blocks do not.
//!
//! This module never runs, owns or frees a task.
//!
//! Invariants:
//! 1. From [`FixedEdges::new`] to [`FixedEdges::take_back`], the lists of these tasks consist of edges that are stored
//!    here, whose links lead to places; in between no thread pushes an edge or closes a list.
//! 2. A countdown that reaches zero is reset before its task is taken up, so every countdown has its initial value
//!    between two rounds.

use super::atomic::{AtomicU32, Ordering};
use super::edges::Link;
use super::successors::Edge;
use super::task::{Kind, Task};
use std::ptr::NonNull;

/// A task as its predecessors see it.
pub(super) struct Place<K: Kind> {
    task: NonNull<Task<K>>,
    /// Number of predecessors that have not ended in this round.
    blockers: AtomicU32,
    /// Total number of predecessors.
    linked: u32,
}

impl<K: Kind> Place<K> {
    pub(super) fn task(&self) -> NonNull<Task<K>> {
        self.task
    }

    /// Counts the end of one of the task's predecessors. Returns true if it was the last predecessor, in which case the
    /// caller takes up the task's ownership.
    #[inline]
    pub(super) fn count_down(&self) -> bool {
        if self.linked == 1 {
            return true; // there is no other predecessor
        }
        let is_last = self.blockers.fetch_sub(1, Ordering::AcqRel) == 1;
        if is_last {
            self.blockers.store(self.linked, Ordering::Relaxed); // no thread counts down before the next round
        }
        is_last
    }
}

/// The edges and countdowns; see the module documentation.
pub(super) struct FixedEdges<K: Kind> {
    /// Both slices are created by `Box::into_raw`. They are not stored as boxes, because boxes must not be moved while
    /// other threads read their contents.
    places: NonNull<[Place<K>]>,
    edges: NonNull<[Edge<Link<K>>]>,
}

impl<K: Kind> FixedEdges<K> {
    /// Lays out the edges between these tasks. None of the tasks may have an edge to any other task.
    ///
    /// # Safety
    /// All of the tasks are alive, each is in the list once, and the caller has exclusive access to them, including
    /// their stamps, until this returns. The edges in their blocks are not used afterwards.
    pub(super) unsafe fn new(tasks: &[NonNull<Task<K>>]) -> Self {
        let place = |(number, task): (u64, &NonNull<Task<K>>)| {
            // SAFETY: the task is alive, and the caller has exclusive access to it.
            let header = unsafe { task.as_ref() };
            header.set_stamp(number); // so that its predecessors find its place below
            // SAFETY: the task is alive, and the caller has exclusive access to it.
            let linked = header.linked.with(|linked| unsafe { *linked });
            Place { task: *task, blockers: AtomicU32::new(linked), linked }
        };
        let places: Box<[Place<K>]> = (0..).zip(tasks).map(place).collect();
        let places = NonNull::from(Box::leak(places));
        let (mut edges, mut ends) = (Vec::new(), Vec::with_capacity(tasks.len()));
        for task in tasks {
            // SAFETY: the caller has exclusive access to the task, so the list is not closed, and its edges are in the
            // blocks of live tasks.
            unsafe {
                task.as_ref().successors.look(|link| {
                    let (successor, flow) = link.open();
                    let place = places.cast::<Place<K>>().add(successor.as_ref().stamp() as usize);
                    edges.push(Edge::new(Link::to_place(place, flow)));
                });
            }
            ends.push(edges.len());
        }
        let edges = NonNull::from(Box::leak(edges.into_boxed_slice()));
        let mut start = 0;
        for (task, end) in tasks.iter().zip(ends) {
            let first = edges.cast::<Edge<Link<K>>>();
            // SAFETY: the run of edges is within the slice, which does not move, and is in no other list. The edges in
            // the blocks are no longer in any list and are not used.
            unsafe {
                let run = NonNull::slice_from_raw_parts(first.add(start), end - start);
                task.as_ref().successors.replace(run);
            }
            start = end;
        }
        Self { places, edges }
    }

    /// Leaves these tasks without successors.
    ///
    /// # Safety
    /// `tasks` are the tasks from which this was created, and no round is under way.
    pub(super) unsafe fn take_back(self, tasks: &[NonNull<Task<K>>]) {
        // SAFETY: the tasks are alive, no thread walks a list because no round is under way, and each raw slice is
        // turned back into a box exactly once.
        unsafe {
            for task in tasks {
                task.as_ref().successors.replace(NonNull::slice_from_raw_parts(NonNull::dangling(), 0));
            }
            drop(Box::from_raw(self.places.as_ptr()));
            drop(Box::from_raw(self.edges.as_ptr()));
        }
    }
}
