//! The window: when a submission waits because too many tasks are pending, and when it continues regardless.

use crate::common::{MIXES, builder, gate, watched};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
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

/// Submits tasks that allocate, and returns the largest sum that pending tasks allocated at once.
fn most_bytes(rt: &Runtime, sizes: &[i64]) -> i64 {
    let (now, mut most) = (Arc::new(AtomicI64::new(0)), 0);
    for bytes in sizes.iter().copied() {
        let pending = now.clone();
        let end = move |_: &Context, ()| _ = pending.fetch_sub(bytes, Ordering::SeqCst);
        rt.task("allocates", ()).cpu(end).allocates(bytes as u64).submit().unwrap();
        // The task counts from here on, when its body may have ended already. So the sum may be too small, even
        // negative, but it is never too large.
        most = most.max(now.fetch_add(bytes, Ordering::SeqCst) + bytes);
    }
    rt.wait().unwrap();
    assert_eq!(now.load(Ordering::SeqCst), 0);
    most
}

#[test]
fn window_in_bytes_is_kept_unless_one_task_exceeds_it() {
    for units in ["1:CPU:1", "2:CPU:1", "1:CPU:1,1:EMU:1"] {
        for hosts in [false, true] {
            watched(&format!("{units} hosts={hosts}"), move || {
                let rt = builder(units, hosts).max_pending_bytes(100).build().unwrap();
                let sizes: Vec<i64> = (0..2000).map(|n| n * 37 % 60).collect();
                let most = most_bytes(&rt, &sizes);
                assert!(most <= 100, "{most} bytes pending at a window of 100");
                let large: Vec<i64> = (0..20).map(|n| if n % 3 == 0 { 1000 } else { 30 }).collect();
                let most = most_bytes(&rt, &large);
                assert!(most <= 1000, "{most} bytes pending, though a large task runs alone");
            });
        }
    }
}

#[test]
fn window_in_bytes_gives_way_when_all_tasks_wait_for_a_later_submission() {
    for hosts in [false, true] {
        watched(&format!("hosts={hosts}"), move || {
            let rt = builder("1:CPU:1,1:EMU:1", hosts).max_pending_bytes(10).build().unwrap();
            let (x, group) = (rt.scalar(0u64), rt.group());
            let (open, opened) = gate();
            let begins = move |_: &Context, _: &mut [u64]| opened();
            if hosts {
                drop(open); // this thread might have to run the task that waits at the gate
                rt.task("gate", x.inout()).cpu(begins).submit().unwrap();
                (0..50)
                    .for_each(|_| _ = rt.task("add", x.inout()).cpu(|_, x| x[0] += 1).allocates(8).submit().unwrap());
            } else {
                rt.task("gate", x.inout()).host(begins).submit().unwrap();
                (0..12).for_each(|_| {
                    _ = group.task("add", x.inout()).cpu(|_, x| x[0] += 1).allocates(8).submit().unwrap()
                });
                drop(open);
            }
            rt.wait().unwrap();
            assert_eq!(rt.read(&x).unwrap()[0], if hosts { 50 } else { 12 });
        });
    }
}

#[test]
fn wait_for_room_considers_bytes() {
    watched("room", || {
        let rt = builder("1:CPU:1", false).max_pending_bytes(10).throttle_submissions(false).build().unwrap();
        let (open, opened) = gate();
        rt.task("held", ()).cpu(move |_, ()| opened()).allocates(6).submit().unwrap();
        assert!(rt.wait_for_room(Duration::ZERO));
        rt.task("next", ()).cpu(|_, ()| ()).allocates(6).submit().unwrap();
        assert!(!rt.wait_for_room(Duration::ZERO), "12 of 10 bytes are pending");
        drop(open);
        while !rt.wait_for_room(Duration::from_secs(1)) {}
        rt.wait().unwrap();
    });
}

#[test]
fn submission_in_a_body_does_not_wait_for_bytes_and_every_end_returns_them() {
    watched("nested", || {
        let rt = Arc::new(builder("1:CPU:1", false).max_pending_bytes(100).build().unwrap());
        let inner = rt.clone();
        let body = move |_: &Context, ()| {
            (0..50).for_each(|_| _ = inner.task("child", ()).cpu(|_, ()| ()).allocates(90).submit().unwrap());
        };
        rt.task("parent", ()).cpu(body).allocates(90).submit().unwrap();
        rt.wait().unwrap();
        let x = rt.scalar(0u64);
        for _ in 0..20 {
            rt.task("fails", x.inout()).cpu(|_, _| Err("as planned")).allocates(60).submit().unwrap();
            rt.task("poisoned", x.inout()).cpu(|_, _| ()).allocates(60).submit().unwrap();
            rt.task("writes", x.output()).cpu(|_, x| x[0] = 1).allocates(60).submit().unwrap();
            let refused = rt.task("refused", (x.inout(), x.inout())).cpu(|_, _| ()).allocates(60).submit();
            refused.unwrap_err();
        }
        assert!(rt.wait().is_err());
        // If a share was left, this task would have to wait for it in vain.
        assert_eq!(most_bytes(&rt, &[100; 10]), 100);
    });
}

#[test]
fn bytes_of_pending_tasks_may_exceed_a_machine_word() {
    watched("huge", || {
        let rt = builder("1:CPU:1", false).max_pending_bytes(u64::MAX).throttle_submissions(false).build().unwrap();
        let (open, opened) = gate();
        rt.task("held", ()).cpu(move |_, ()| opened()).allocates(u64::MAX).submit().unwrap();
        rt.task("next", ()).cpu(|_, ()| ()).allocates(u64::MAX).submit().unwrap();
        assert!(!rt.wait_for_room(Duration::ZERO), "twice the window is pending");
        drop(open);
        rt.wait().unwrap();
        assert!(rt.wait_for_room(Duration::ZERO));
    });
}
