//! The window: when a submission waits because too many tasks are pending, and when it continues regardless.

use crate::common::{MIXES, builder, gate, watched};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;
use thalweg::Context;
use thalweg::prelude::*;

/// Submits from a thread that hosts no unit. Returns the largest number of tasks that were pending at once.
fn most_pending(rt: &Runtime, tasks: usize, body: impl Fn() + Clone + Send + 'static) -> usize {
    let (submitted, finished) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let most = Arc::new(AtomicUsize::new(0));
    for _ in 0..tasks {
        submitted.fetch_add(1, Ordering::SeqCst);
        let (submitted, finished, most, body) = (submitted.clone(), finished.clone(), most.clone(), body.clone());
        let count = move |_: &Context, ()| {
            body();
            // The order of the two loads matters, because the thread may be preempted between them. In this order, the
            // difference can then only be too small and never too large.
            let submitted = submitted.load(Ordering::SeqCst);
            let pending = submitted.saturating_sub(finished.fetch_add(1, Ordering::SeqCst));
            most.fetch_max(pending, Ordering::SeqCst);
        };
        rt.task("count", ()).cpu(count).submit().unwrap();
    }
    rt.wait().unwrap();
    assert_eq!(finished.load(Ordering::SeqCst), tasks);
    most.load(Ordering::SeqCst)
}

#[test]
fn window_throttles_a_submitter_that_hosts_no_unit() {
    for units in ["1:CPU:1", "2:CPU:1", "1:CPU:1,1:EMU:1"] {
        watched(units, move || {
            let rt = builder(units, false).max_pending_tasks(64).build().unwrap();
            // If the system does not schedule any unit for a while, the window widens to four times the number of
            // pending tasks. In this test, that can happen twice.
            let most = most_pending(&rt, 100_000, || ());
            assert!(most <= 64 * 32, "{most} tasks pending at a window of 64");
        });
    }
}

#[test]
fn window_throttles_a_submitter_of_long_tasks() {
    for hosts in [false, true] {
        watched(&format!("hosts={hosts}"), move || {
            let rt = builder("2:CPU:1", hosts).max_pending_tasks(16).build().unwrap();
            let most = most_pending(&rt, 1000, || std::thread::sleep(Duration::from_millis(3)));
            assert!(most <= 16 * 16, "{most} tasks pending at a window of 16");
        });
    }
}

#[test]
fn window_gives_way_when_all_tasks_wait_for_a_later_submission() {
    for units in MIXES {
        for hosts in [false, true] {
            watched(&format!("{units} hosts={hosts}"), move || {
                let rt = builder(units, hosts).max_pending_tasks(8).build().unwrap();
                let (open, opened) = gate();
                let x = rt.scalar(0u64);
                if hosts && units.starts_with("1:CPU") {
                    drop(open); // this thread might have to run the task that waits at the gate
                    rt.task("gate", (x.inout(),)).cpu(|_, _| ()).submit().unwrap();
                    (0..200).for_each(|_| _ = rt.task("add", (x.inout(),)).cpu(|_, (x,)| x[0] += 1).submit().unwrap());
                } else {
                    let (begun, begins) = channel();
                    let body = move |_: &Context, _: (&mut [u64],)| {
                        begun.send(()).unwrap();
                        opened();
                    };
                    rt.task("gate", (x.inout(),)).cpu(body).submit().unwrap();
                    begins.recv().unwrap(); // ensures that the task runs on another thread
                    (0..200).for_each(|_| _ = rt.task("add", (x.inout(),)).cpu(|_, (x,)| x[0] += 1).submit().unwrap());
                    drop(open);
                }
                assert_eq!(rt.read(&x).unwrap()[0], 200);
            });
        }
    }
}

#[test]
fn submission_in_a_body_does_not_wait_for_the_window() {
    watched("nested", || {
        let rt = Arc::new(builder("1:CPU:1", false).max_pending_tasks(4).build().unwrap());
        let inner = rt.clone();
        let body = move |_: &Context, ()| {
            for _ in 0..500 {
                inner.task("child", ()).cpu(|_, ()| ()).submit().unwrap();
            }
        };
        rt.task("parent", ()).cpu(body).submit().unwrap();
        rt.wait().unwrap();
    });
}
