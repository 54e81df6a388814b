//! Starts and ends of threads, and forks: a fork happens while no thread is in a transition, and every waiting thread
//! continues.

use super::transitions::{Counts, Transitions};
use super::{Traced, model};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

/// Transitions with a value that a thread writes during its transition. The values are read during a fork.
struct World {
    transitions: Transitions,
    written: [Traced; 2],
}

impl World {
    fn new() -> Arc<Self> {
        let transitions = Transitions { counts: Mutex::new(Counts::NONE), settled: Condvar::new() };
        Arc::new(Self { transitions, written: [Traced::new(0), Traced::new(0)] })
    }

    /// Passes through a transition, in which it holds what a child must not find taken.
    fn pass(&self, own: usize) {
        let transition = self.transitions.begin();
        self.written[own].write(1);
        self.written[own].write(0);
        drop(transition);
    }

    fn fork(&self) {
        let unforked = self.transitions.begin_fork();
        self.written.iter().for_each(|written| assert_eq!(written.read(), 0, "the child must find nothing taken"));
        self.transitions.end_fork(unforked);
    }
}

#[test]
fn fork_happens_outside_all_transitions() {
    model(3, || {
        let world = World::new();
        let threads = [0, 1].map(|own| {
            let world = world.clone();
            thread::spawn(move || world.pass(own))
        });
        world.fork();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn two_forks_and_the_transitions_between_them_all_end() {
    model(3, || {
        let world = World::new();
        let others = [0, 1].map(|own| {
            let world = world.clone();
            thread::spawn(move || (0..2 - own).for_each(|_| world.pass(own)))
        });
        world.fork();
        world.fork();
        others.into_iter().for_each(|thread| thread.join().unwrap());
    });
}
