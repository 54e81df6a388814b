//! Model checking: tasks' blocks with their countdowns, references and poison, the lock-free list of successors, the short
//! lock and the sleep of idle threads, under all interleavings.
//!
//! The files are compiled here a second time, over loom's primitives instead of the standard library's. loom tries
//! every order of events (up to a few preemptions of one thread by another, which is where such errors show) and every
//! value that the memory model lets a load see. A thread that is never woken is a deadlock, which loom reports.

#![allow(unsafe_code, dead_code, unreachable_pub)] // the files under test, of which models use a part
#![allow(clippy::undocumented_unsafe_blocks, clippy::arc_with_non_send_sync)] // loom reports every race on its cells

mod atomic {
    pub(super) use loom::cell::UnsafeCell;
    pub(super) use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
    pub(super) use loom::sync::{Condvar, Mutex};

    /// Lets another thread go on, as waiting for it does in the end.
    pub(super) struct Backoff;

    impl Backoff {
        pub(super) fn new() -> Self {
            Self
        }

        pub(super) fn snooze(&self) {
            loom::thread::yield_now();
        }
    }
}
#[path = "../src/sync/edges.rs"]
mod edges;
/// Memory that loom keeps count of: a block that is never freed, or freed twice, is an error.
mod pool {
    use std::alloc::Layout;
    use std::ptr::NonNull;

    pub(super) const fn class_of(_: Layout) -> usize {
        0
    }

    pub(super) fn allocate(layout: Layout, _class: usize) -> NonNull<u8> {
        NonNull::new(unsafe { loom::alloc::alloc(layout) }).expect("a model needs little memory")
    }

    pub(super) unsafe fn free(block: NonNull<u8>, _class: usize, layout: impl FnOnce() -> Layout) {
        unsafe { loom::alloc::dealloc(block.as_ptr(), layout()) };
    }
}
#[path = "../src/sync/sleep.rs"]
mod sleep;
#[path = "../src/sync/spin.rs"]
mod spin;
#[path = "../src/sync/successors.rs"]
mod successors;
#[path = "../src/sync/task.rs"]
mod task;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use loom::thread;
use sleep::{Parker, Sleep};
use spin::Spin;
use successors::{Closed, Edge, Successors};
use task::{Flow, Kind, OwnedTask, Submitting};

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
fn take(work: &AtomicUsize, sleep: &Sleep, parker: &std::sync::Arc<Parker>) {
    loop {
        if work.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok() {
            return;
        }
        sleep.sleep_unless(0, parker, None, || work.load(Relaxed) > 0);
    }
}

fn parker() -> std::sync::Arc<Parker> {
    std::sync::Arc::new(Parker::new())
}

#[test]
fn work_for_one_sleeper_wakes_it() {
    model(3, || {
        let (work, sleep) = (Arc::new(AtomicUsize::new(0)), Arc::new(Sleep::new()));
        let (theirs, bed) = (work.clone(), sleep.clone());
        let sleeper = thread::spawn(move || take(&theirs, &bed, &parker()));
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
            thread::spawn(move || take(&work, &sleep, &parker()))
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
                let parker = parker();
                while !ready[own].load(Relaxed) {
                    sleep.sleep_unless(own, &parker, None, || ready[own].load(Relaxed));
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

#[test]
fn a_call_to_a_place_reaches_the_thread_there() {
    model(2, || {
        // Each thread waits for something of its own, and is called when it is there. Whoever wakes the other one instead
        // leaves one asleep.
        let ready = Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
        let sleep = Arc::new(Sleep::new());
        let sleepers = [0, 1].map(|own| {
            let (ready, sleep) = (ready.clone(), sleep.clone());
            thread::spawn(move || {
                let parker = parker();
                while !ready[own].load(Relaxed) {
                    sleep.sleep_unless(own, &parker, None, || ready[own].load(Relaxed));
                }
            })
        });
        for own in [1, 0] {
            ready[own].store(true, Relaxed);
            sleep.wake_at(own);
        }
        sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
    });
}

#[test]
fn a_token_reaches_a_thread_whatever_else_it_is_chosen_for() {
    model(3, || {
        // A thread sleeps among those that look for work while it waits for something that it is told of by its token.
        let told = Arc::new(AtomicBool::new(false));
        let (sleep, parker) = (Arc::new(Sleep::new()), parker());
        let (flag, bed, own) = (told.clone(), sleep.clone(), parker.clone());
        let sleeper = thread::spawn(move || {
            while !flag.load(Relaxed) {
                bed.sleep_unless(0, &own, None, || flag.load(Relaxed));
            }
        });
        sleep.wake(1);
        told.store(true, Relaxed);
        parker.unpark();
        sleeper.join().unwrap();
    });
}

#[test]
fn one_thread_at_a_time_holds_the_lock_and_sees_what_the_last_one_did() {
    model(3, || {
        let lock = Arc::new((Spin { taken: loom::sync::atomic::AtomicBool::new(false) }, UnsafeCell::new(0)));
        // Each thread tries twice: waiting for the lock is nothing but trying again.
        let add = |lock: &(Spin, UnsafeCell<u32>)| {
            let tries = [(); 2].map(|()| {
                let taken = lock.0.try_take();
                if taken {
                    // SAFETY: loom itself reports an access that races with another.
                    lock.1.with_mut(|sum| unsafe { *sum += 1 });
                    lock.0.give_back();
                }
                u32::from(taken)
            });
            tries[0] + tries[1]
        };
        let theirs = lock.clone();
        let thread = thread::spawn(move || add(&theirs));
        let taken = add(&lock) + thread.join().unwrap();
        lock.1.with(|sum| assert_eq!(unsafe { *sum }, taken));
    });
}

/// What one thread writes and others read: loom reports it if nothing orders the two.
struct Traced(UnsafeCell<u32>);

// SAFETY: loom runs one thread at a time, and reports every race.
unsafe impl Send for Traced {}
// SAFETY: as above.
unsafe impl Sync for Traced {}

impl Traced {
    fn new(value: u32) -> Self {
        Self(UnsafeCell::new(value))
    }

    fn write(&self, value: u32) {
        self.0.with_mut(|at| unsafe { *at = value });
    }

    fn read(&self) -> u32 {
        self.0.with(|at| unsafe { *at })
    }
}

/// What a task shares. Its end is a write: it comes after whatever anybody did with a reference to the task.
struct Common(Traced);

impl Drop for Common {
    fn drop(&mut self) {
        self.0.write(0);
    }
}

struct Modelled;

impl Kind for Modelled {
    type Shared = Common;
    type Owned = u32;
    type Body = Traced;
    type Cause = Traced;
}

/// A task that has paid for so many shares.
fn submitting(shares: u32) -> Submitting<Modelled> {
    Submitting::new(|| Common(Traced::new(1)), 0, Traced::new(0), shares, |body| body)
}

/// What the owner of a task finds that `prepare` has submitted.
fn prepare(task: &mut Submitting<Modelled>) {
    *task.owned_mut() = 5;
}

fn run(mut task: OwnedTask<Modelled>) {
    assert_eq!((*task.owned(), task.shared().0.read()), (5, 1));
    *task.owned_mut() = 6;
    task.body().write(1);
    task.finish(|_| panic!("nobody waits for it"));
}

#[test]
fn a_task_is_ready_once_after_two_that_finish_together() {
    model(3, || {
        let written = Arc::new([Traced::new(0), Traced::new(0)]);
        let ran = Arc::new(AtomicUsize::new(0));
        let firsts = [(); 2].map(|()| submitting(0).commit().unwrap());
        let mut last = submitting(0);
        for first in &firsts {
            last.wait_for(&first.share(), Flow::Value).unwrap();
        }
        prepare(&mut last);
        assert!(last.commit().is_none());
        let threads: Vec<_> = firsts
            .into_iter()
            .enumerate()
            .map(|(own, first)| {
                let (written, ran) = (written.clone(), ran.clone());
                thread::spawn(move || {
                    written[own].write(7);
                    first.set_poison(std::sync::Arc::new(Traced::new(own as u32)));
                    first.finish(|last| {
                        assert_eq!((written[0].read(), written[1].read()), (7, 7), "it sees what both have done");
                        assert!(last.poison().expect("both passed a cause on").read() < 2);
                        ran.fetch_add(1, Relaxed);
                        run(last);
                    });
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(ran.load(Relaxed), 1);
    });
}

#[test]
fn a_task_has_one_owner_whether_it_is_committed_or_counted_down_last() {
    model(3, || {
        let written = Arc::new(Traced::new(0));
        let ran = Arc::new(AtomicUsize::new(0));
        let [mut before, first] = [submitting(1), submitting(0)];
        let (reference, first) = (before.share(), first.commit().unwrap());
        let (before, also) = (before.commit().unwrap(), first.share());
        let (wrote, counter) = (written.clone(), ran.clone());
        let finishing = thread::spawn(move || {
            wrote.write(7);
            for first in [before, first] {
                first.finish(|last| {
                    counter.fetch_add(1, Relaxed);
                    run(last);
                });
            }
        });
        let mut last = submitting(2);
        let _ = last.wait_for(&reference, Flow::Value);
        let _ = last.wait_for(&also, Flow::Order);
        prepare(&mut last);
        if let Some(last) = last.commit() {
            assert_eq!(written.read(), 7, "linked and counted down, or refused: both are finished");
            ran.fetch_add(1, Relaxed);
            run(last);
        }
        drop((reference, also));
        finishing.join().unwrap();
        assert_eq!(ran.load(Relaxed), 1);
    });
}

#[test]
fn the_last_reference_frees_the_block() {
    model(3, || {
        let mut task = submitting(3);
        prepare(&mut task);
        let (one, two) = (task.share(), task.share()); // a third was paid for and is settled
        let threads = [
            thread::spawn(move || _ = one.shared().0.read()),
            thread::spawn(move || {
                let three = two.clone();
                drop(two);
                three.shared().0.read();
            }),
        ];
        run(task.commit().unwrap());
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn who_finds_a_task_finished_finds_its_poison() {
    model(3, || {
        let mut task = submitting(1);
        prepare(&mut task);
        let reference = task.share();
        let reader = thread::spawn(move || {
            let finished = reference.is_finished();
            let cause = reference.poison();
            assert!(cause.is_some() || !finished);
            if let Some(cause) = cause {
                assert_eq!(cause.read(), 9);
            }
        });
        let task = task.commit().unwrap();
        let cause = std::sync::Arc::new(Traced::new(0));
        cause.write(9);
        task.set_poison(cause);
        task.set_poison(std::sync::Arc::new(Traced::new(10)));
        run(task);
        reader.join().unwrap();
    });
}

#[test]
fn a_task_released_before_its_end_ends_once() {
    model(3, || {
        let written = Arc::new(Traced::new(0));
        let first = submitting(0).commit().unwrap();
        let (reference, late) = (first.share(), first.share());
        let mut last = submitting(0);
        last.wait_for(&reference, Flow::Order).unwrap();
        prepare(&mut last);
        assert!(last.commit().is_none());
        let seen = written.clone();
        let waiting = thread::spawn(move || {
            // Comes while the task is in flight, or after it: the list is closed, or it is entered and counted down.
            let mut later = submitting(0);
            let linked = later.wait_for(&late, Flow::Order).is_ok();
            prepare(&mut later);
            match later.commit() {
                Some(later) => {
                    assert_eq!(seen.read(), 7);
                    run(later);
                }
                None => assert!(linked),
            }
        });
        written.write(7);
        let mut released = 0;
        first.release(|last| {
            released += 1;
            run(last);
        });
        assert!(released >= 1 && reference.is_finished());
        first.finish(|_| panic!("all were let go before"));
        drop(reference);
        waiting.join().unwrap();
    });
}
