//! Waiting for readers: the last reader wakes the waiter, and the waiter sees everything that the readers have done.

use super::readers::Readers;
use super::{Traced, model};
use loom::sync::Arc;
use loom::sync::Notify;
use loom::thread;

#[test]
fn waiter_for_readers_sees_the_end_of_all() {
    for readers in [1, 2] {
        model(3, move || {
            let shared = Arc::new((Readers::new(), [Traced::new(0), Traced::new(0)]));
            (0..readers).for_each(|_| shared.0.enter());
            let threads: Vec<_> = (0..readers)
                .map(|n| {
                    let shared = shared.clone();
                    thread::spawn(move || {
                        shared.1[n].write(1);
                        if let Some(wake) = shared.0.leave() {
                            let wake: Arc<Notify> = wake;
                            wake.notify();
                        }
                    })
                })
                .collect();
            let woken = Arc::new(Notify::new());
            let gone = shared.0.is_empty() || shared.0.wait(woken.clone());
            while !gone && !shared.0.is_empty() {
                woken.wait(); // a lost notification would cause a deadlock here
            }
            (0..readers).for_each(|n| shared.1[n].write(2)); // like a taker that moves the value out
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
    }
}
