//! Tasks' blocks: one owner at a time, freed once, and what was done before is seen.

use super::owned::OwnedTask;
use super::submitting::Submitting;
use super::task::{Flow, Kind};
use super::{Traced, model};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use loom::thread;

/// What a task shares. Its end is a write: it comes after whatever anybody did with a reference to the task.
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

/// A task that has paid for so many shares.
pub(super) fn submitting(shares: u16) -> Submitting<Modelled> {
    Submitting::new(|| Common(Traced::new(1)), 0, Traced::new(0), shares, |body| body)
}

/// What the owner of a task finds that `prepare` has submitted.
pub(super) fn prepare(task: &mut Submitting<Modelled>) {
    *task.owned_mut() = 5;
}

pub(super) fn run(mut task: OwnedTask<Modelled>) {
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
