//! Task blocks: a task has only one owner at a time, is freed exactly once, and its owner sees all earlier writes.

use super::owned::OwnedTask;
use super::submitting::Submitting;
use super::task::{Flow, Kind};
use super::{Traced, model};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use loom::thread;

/// The shared part of a task. Its destructor writes, so it must be ordered after every use of a reference to the task.
pub(super) struct Common(pub(super) Traced);

impl Drop for Common {
    fn drop(&mut self) {
        self.0.write(0);
    }
}

pub(super) struct Modelled;

impl Kind for Modelled {
    type Shared = Common;
    type Owned = u32;
    type Body = Traced;
    type Cause = Traced;

    fn is_bare(_: &u32) -> bool {
        true
    }
}

/// Returns a task whose reference count allows for `shares` shares.
pub(super) fn submitting(shares: u16) -> Submitting<Modelled> {
    Submitting::new(|| Common(Traced::new(1)), 0, Traced::new(0), shares, |body| body)
}

/// Stores the value that the task's owner must find.
pub(super) fn prepare(task: &mut Submitting<Modelled>) {
    *task.owned_mut() = 5;
}

pub(super) fn run(mut task: OwnedTask<Modelled>) {
    assert_eq!((*task.owned(), task.shared().0.read()), (5, 1));
    *task.owned_mut() = 6;
    task.body().write(1);
    task.finish(|_| panic!("the task has no successors"));
}

#[test]
fn task_becomes_ready_once_after_two_concurrent_predecessors() {
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
                        assert_eq!(
                            (written[0].read(), written[1].read()),
                            (7, 7),
                            "the task must see the writes of both predecessors"
                        );
                        assert!(last.poison().expect("both predecessors passed a cause on").read() < 2);
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
fn task_has_one_owner_whether_commit_or_countdown_comes_last() {
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
            assert_eq!(written.read(), 7, "both predecessors must have finished");
            ran.fetch_add(1, Relaxed);
            run(last);
        }
        drop((reference, also));
        finishing.join().unwrap();
        assert_eq!(ran.load(Relaxed), 1);
    });
}

#[test]
fn last_reference_frees_the_block() {
    model(3, || {
        let mut task = submitting(3);
        prepare(&mut task);
        let (one, two) = (task.share(), task.share()); // the third share stays unused and is subtracted again
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
fn finished_task_shows_its_poison() {
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
fn task_released_before_its_end_ends_once() {
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
            // This task is registered while the other is in flight or after it has ended. Either the list is already
            // closed, or the task is registered and later counted down.
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
        first.finish(|_| panic!("all successors were released before"));
        drop(reference);
        waiting.join().unwrap();
    });
}
