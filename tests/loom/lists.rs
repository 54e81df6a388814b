//! The list of a task's successors: every edge is seen by who closes it, or refused.

use super::model;
use super::successors::{Closed, Edge, Successors};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

/// A task that has a list of successors, and what it wrote before it finished.
struct Task {
    successors: Successors<usize>,
    written: UnsafeCell<u32>,
    /// What each pusher wrote before it pushed.
    pushers: [UnsafeCell<u32>; 2],
}

impl Task {
    fn new() -> Self {
        let pushers = [(); 2].map(|()| UnsafeCell::new(0));
        Self { successors: Successors::new(), written: UnsafeCell::new(0), pushers }
    }

    /// Finishes the task; the sum of the successors found, each of which must have been written completely.
    fn finish(&self) -> usize {
        // SAFETY (of both closures): loom itself reports an access that races with another.
        self.written.with_mut(|written| unsafe { *written = 7 });
        let mut found = 0;
        self.successors.close(|successor| {
            self.pushers[successor - 1].with(|written| assert_eq!(unsafe { *written }, 1));
            found += successor;
        });
        found
    }

    /// Registers successor 1 or 2: its number if it has to wait.
    fn register(&self, successor: usize, edge: &mut Edge<usize>) -> usize {
        self.pushers[successor - 1].with_mut(|written| unsafe { *written = 1 });
        // SAFETY: the edge stays until both threads have joined.
        match unsafe { self.successors.push(edge) } {
            Ok(()) => successor,
            Err(Closed) => {
                assert!(self.successors.is_closed());
                self.written.with(|written| assert_eq!(unsafe { *written }, 7, "a refusal shows what was done before"));
                0
            }
        }
    }
}

#[test]
fn every_edge_is_seen_by_the_close_or_refused() {
    model(3, || {
        let task = Arc::new(Task::new());
        let (a, b) = (task.clone(), task.clone());
        // Edges outlive all threads: the main one keeps them.
        let edges = std::sync::Arc::new([1, 2].map(|n| UnsafeCell::new(Edge::new(n))));
        let (one, two) = (edges.clone(), edges.clone());
        let first = thread::spawn(move || one[0].with_mut(|edge| a.register(1, unsafe { &mut *edge })));
        let second = thread::spawn(move || two[1].with_mut(|edge| b.register(2, unsafe { &mut *edge })));
        let found = task.finish();
        let linked = first.join().unwrap() + second.join().unwrap();
        assert_eq!(found, linked, "what was linked is what was found");
        task.successors.close(|_| panic!("a second close finds nothing"));
    });
}

#[test]
fn who_sees_a_closed_list_sees_what_was_done_before() {
    model(3, || {
        let task = Arc::new(Task::new());
        let finishing = task.clone();
        let thread = thread::spawn(move || finishing.finish());
        if task.successors.is_closed() {
            task.written.with(|written| assert_eq!(unsafe { *written }, 7));
        }
        assert_eq!(thread.join().unwrap(), 0);
    });
}
