//! The edges of a graph that stays, and its tasks' countdowns, side by side in memory.
//!
//! While tasks are submitted one by one, an edge lies in its successor's block, and so does the successor's countdown:
//! whoever ends a task goes from block to block, and touches two cache lines of each. Once no edge comes or goes, each
//! task's list is laid out in one piece, and so are all countdowns: of a graph whose blocks exceed the caches, these do not.
//!
//! It never runs, owns or frees a task.
//!
//! Invariants:
//! 1. From [`FixedEdges::new`] to [`FixedEdges::take_back`], the lists of these tasks consist of edges that lie here, whose
//!    links lead to places; in between nobody pushes an edge or closes a list.
//! 2. What was counted down to the last is armed again before its task is taken up. So between two rounds every countdown
//!    is as it was made.

use super::atomic::{AtomicU32, Ordering};
use super::edges::Link;
use super::successors::Edge;
use super::task::{Kind, Task};
use std::ptr::NonNull;

/// A task as its predecessors see it.
pub(super) struct Place<K: Kind> {
    task: NonNull<Task<K>>,
    /// How many of its predecessors have not ended in this round.
    blockers: AtomicU32,
    /// How many it has.
    linked: u32,
}

impl<K: Kind> Place<K> {
    pub(super) fn task(&self) -> NonNull<Task<K>> {
        self.task
    }

    /// One of the task's predecessors has ended: whether it was the last, so that the caller takes up the ownership.
    #[inline]
    pub(super) fn count_down(&self) -> bool {
        if self.linked == 1 {
            return true; // there is nobody else to meet
        }
        let is_last = self.blockers.fetch_sub(1, Ordering::AcqRel) == 1;
        if is_last {
            self.blockers.store(self.linked, Ordering::Relaxed); // nobody counts down before the next round
        }
        is_last
    }
}

/// See the module.
pub(super) struct FixedEdges<K: Kind> {
    /// Both made by `Box::into_raw`. Not boxes: those must not be moved while others read what is inside.
    places: NonNull<[Place<K>]>,
    edges: NonNull<[Edge<Link<K>>]>,
}

impl<K: Kind> FixedEdges<K> {
    /// Lays out the edges between these tasks; none of them has one to another task.
    ///
    /// # Safety
    /// All of them live, each is in the list once, and they are the caller's alone until this returns, stamps included. Nobody
    /// uses the edges in their blocks after.
    pub(super) unsafe fn new(tasks: &[NonNull<Task<K>>]) -> Self {
        let place = |(number, task): (u64, &NonNull<Task<K>>)| {
            // SAFETY: the task lives, and is the caller's alone.
            let header = unsafe { task.as_ref() };
            header.set_stamp(number); // by which its predecessors find it below
            // SAFETY: as above.
            let linked = header.linked.with(|linked| unsafe { *linked });
            Place { task: *task, blockers: AtomicU32::new(linked), linked }
        };
        let places: Box<[Place<K>]> = (0..).zip(tasks).map(place).collect();
        let places = NonNull::from(Box::leak(places));
        let (mut edges, mut ends) = (Vec::new(), Vec::with_capacity(tasks.len()));
        for task in tasks {
            // SAFETY: as above, so the list is not closed, and its edges are in the blocks of tasks that live.
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
            // SAFETY: the run is within the slice, which stays where it is, and in no other list. Edges in the blocks are in
            // no list any more, and nobody uses them.
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
    /// They are those that this was made of, and no round is under way.
    pub(super) unsafe fn take_back(self, tasks: &[NonNull<Task<K>>]) {
        // SAFETY: the tasks live, nobody walks a list, and what was leaked is put back into its boxes once.
        unsafe {
            for task in tasks {
                task.as_ref().successors.replace(NonNull::slice_from_raw_parts(NonNull::dangling(), 0));
            }
            drop(Box::from_raw(self.places.as_ptr()));
            drop(Box::from_raw(self.edges.as_ptr()));
        }
    }
}
