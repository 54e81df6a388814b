//! The spin lock.

use super::model;
use super::spin::Spin;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::AtomicBool;
use loom::thread;

#[test]
fn lock_excludes_other_threads_and_publishes_writes() {
    model(3, || {
        let lock = Arc::new((Spin { taken: AtomicBool::new(false) }, UnsafeCell::new(0)));
        // Two attempts per thread suffice, because waiting for the lock consists only of further attempts.
        let add = |lock: &(Spin, UnsafeCell<u32>)| {
            let tries = [(); 2].map(|()| {
                let taken = lock.0.try_take();
                if taken {
                    // SAFETY: loom reports any access that races with another, so a data race cannot go unnoticed.
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
