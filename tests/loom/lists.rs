//! The list of a task's successors: every edge is either seen by the thread that closes the list or refused.

use super::model;
use super::successors::{Closed, Edge, Successors};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

/// A task with a list of successors, and a value that it writes before it finishes.
struct Task {
    successors: Successors<usize>,
    written: UnsafeCell<u32>,
    /// A value per pusher, written before the push.
    pushers: [UnsafeCell<u32>; 2],
}

impl Task {
    fn new() -> Self {
        let pushers = [(); 2].map(|()| UnsafeCell::new(0));
        Self { successors: Successors::new(), written: UnsafeCell::new(0), pushers }
    }

    /// Finishes the task. Returns the sum of the IDs of the successors found, each of which must have been written
    /// completely.
    fn finish(&self) -> usize {
        // SAFETY (of both closures): loom reports any access that races with another, so a data race cannot go
        // unnoticed.
        self.written.with_mut(|written| unsafe { *written = 7 });
        let mut found = 0;
        self.successors.close(|successor| {
            self.pushers[successor - 1].with(|written| assert_eq!(unsafe { *written }, 1));
            found += successor;
        });
        found
    }

    /// Registers successor 1 or 2. Returns the successor's ID if it has to wait, and 0 otherwise.
    fn register(&self, successor: usize, edge: &mut Edge<usize>) -> usize {
        self.pushers[successor - 1].with_mut(|written| unsafe { *written = 1 });
        // SAFETY: the edge lives until both threads have been joined.
        match unsafe { self.successors.push(edge) } {
            Ok(()) => successor,
            Err(Closed) => {
                assert!(self.successors.is_closed());
                self.written.with(|written| assert_eq!(unsafe { *written }, 7, "a refusal must show earlier writes"));
                0
            }
        }
    }
}

#[test]
fn edge_is_either_seen_by_the_close_or_refused() {
    model(3, || {
        let task = Arc::new(Task::new());
        let (a, b) = (task.clone(), task.clone());
        // The main thread owns the edges, so they outlive all other threads.
        let edges = std::sync::Arc::new([1, 2].map(|n| UnsafeCell::new(Edge::new(n))));
        let (one, two) = (edges.clone(), edges.clone());
        let first = thread::spawn(move || one[0].with_mut(|edge| a.register(1, unsafe { &mut *edge })));
        let second = thread::spawn(move || two[1].with_mut(|edge| b.register(2, unsafe { &mut *edge })));
        let found = task.finish();
        let linked = first.join().unwrap() + second.join().unwrap();
        assert_eq!(found, linked, "the close must find exactly the linked edges");
        task.successors.close(|_| panic!("a second close finds nothing"));
    });
}

#[test]
fn thread_that_sees_a_closed_list_sees_earlier_writes() {
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

/// A successor may run, end and give up its block before the closing thread continues.
#[test]
fn edge_may_be_reused_once_its_successor_was_passed_on() {
    model(1, || {
        let (successors, mut found) = (Successors::new(), Vec::new());
        let mut edges = [1, 2, 3].map(Edge::new);
        edges.iter_mut().for_each(|edge| unsafe { successors.push(edge) }.unwrap());
        successors.close_with(|edge, successor| {
            found.push(successor);
            unsafe { edge.write(Edge::new(0)) };
        });
        assert_eq!(found, [3, 2, 1]);
    });
}
