//! The sleep of idle threads: a thread that is woken wakes up, regardless of what else happens.

use super::model;
use super::sleep::{Parker, Sleep};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use loom::thread;

/// Takes one piece of work like an executing thread: searches for work, and sleeps while there is none.
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
fn wake_with_work_wakes_the_sleeper() {
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
fn two_wakes_wake_two_sleepers() {
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
fn wake_all_reaches_every_sleeper() {
    model(2, || {
        // Each thread waits for its own flag, and both threads are woken whenever either of them could continue.
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
fn wake_at_reaches_the_thread_at_that_place() {
    model(2, || {
        // Each thread waits for its own flag and is woken when this flag is set. If the other thread were woken
        // instead, one thread would sleep forever.
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
fn unpark_reaches_a_thread_that_was_also_chosen_for_work() {
    model(3, || {
        // The thread sleeps among the threads that search for work, although it waits for a flag that is announced
        // through its parker's token.
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
