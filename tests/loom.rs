//! Model checking: the lock-free list of successors and the sleep of idle threads, under all interleavings.
//!
//! Both files are compiled here a second time, over loom's primitives instead of the standard library's. loom tries
//! every order of events (up to a few preemptions of one thread by another, which is where such errors show) and every
//! value that the memory model lets a load see. A thread that is never woken is a deadlock, which loom reports.

#![allow(unsafe_code, dead_code, unreachable_pub)] // the files under test, of which models use a part
#![allow(clippy::undocumented_unsafe_blocks, clippy::arc_with_non_send_sync)] // loom reports every race on its cells

mod atomic {
    pub(super) use loom::sync::atomic::{AtomicPtr, AtomicUsize, Ordering, fence};
    pub(super) use loom::sync::{Condvar, Mutex};
}
#[path = "../src/sync/sleep.rs"]
mod sleep;
#[path = "../src/sync/successors.rs"]
mod successors;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use loom::thread;
use sleep::Sleep;
use successors::{Closed, Edge, Successors};

fn model(preemptions: usize, check: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(preemptions);
    builder.check(check);
}

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

/// Takes one piece of work, as an executing thread does: looks, and sleeps while there is none.
fn take(work: &AtomicUsize, sleep: &Sleep) {
    loop {
        if work.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok() {
            return;
        }
        sleep.sleep_unless(|| work.load(Relaxed) > 0);
    }
}

#[test]
fn work_for_one_sleeper_wakes_it() {
    model(3, || {
        let (work, sleep) = (Arc::new(AtomicUsize::new(0)), Arc::new(Sleep::new()));
        let (theirs, bed) = (work.clone(), sleep.clone());
        let sleeper = thread::spawn(move || take(&theirs, &bed));
        work.fetch_add(1, Relaxed);
        sleep.wake(1);
        sleeper.join().unwrap();
    });
}

#[test]
fn two_pieces_of_work_wake_two_sleepers() {
    model(2, || {
        let (work, sleep) = (Arc::new(AtomicUsize::new(0)), Arc::new(Sleep::new()));
        let sleepers = [(); 2].map(|()| {
            let (work, sleep) = (work.clone(), sleep.clone());
            thread::spawn(move || take(&work, &sleep))
        });
        for _ in 0..2 {
            work.fetch_add(1, Relaxed);
            sleep.wake(1);
        }
        sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
    });
}

#[test]
fn a_call_to_all_reaches_each_whatever_the_others_do() {
    model(2, || {
        // Each thread waits for something of its own, and both are called whenever either could go on.
        let ready = Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
        let sleep = Arc::new(Sleep::new());
        let sleepers = [0, 1].map(|own| {
            let (ready, sleep) = (ready.clone(), sleep.clone());
            thread::spawn(move || {
                while !ready[own].load(Relaxed) {
                    sleep.sleep_unless(|| ready[own].load(Relaxed));
                }
            })
        });
        for own in ready.iter() {
            own.store(true, Relaxed);
            sleep.wake_all();
        }
        sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
    });
}
