//! The shutdown of a runtime: pending tasks complete, later submissions are refused, and nothing remains.

use crate::common::{MIXES, builder, failed, gate, watched};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use thalweg::Context;
use thalweg::prelude::*;

/// Returns how many threads of this process have this name in the operating system.
fn threads(name: &str) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    tasks.filter(|task| std::fs::read_to_string(task.path().join("comm")).is_ok_and(|comm| comm.trim() == name)).count()
}

#[test]
fn runtime_dropped_on_another_thread_leaves_no_thread_behind() {
    watched("elsewhere", || {
        for _ in 0..20 {
            // No other test here has units of three cores, so the third thread of a pool belongs to this test.
            let rt = builder("1:CPU:3", true).build().unwrap();
            let x = rt.scalar(0u64);
            rt.task("t", (x.inout(),)).cpu(|_, (x,)| x[0] += 1).submit().unwrap();
            std::thread::spawn(move || drop((x, rt))).join().unwrap();
        }
        // If the pool is dropped, its threads end soon afterwards.
        while threads("thalweg-0.2") > 0 {
            std::thread::yield_now();
        }
    });
}

#[test]
fn handles_may_be_dropped_while_the_runtime_ends() {
    for units in ["1:CPU:1", "1:CPU:1,1:EMU:1"] {
        watched(units, move || {
            for round in 0..50 {
                let rt = builder(units, false).build().unwrap();
                let data: Vec<_> = (0..100).map(|_| rt.data(vec![1u8; 1000])).collect();
                let x = data[0].clone();
                rt.task("x", (x.inout(),)).cpu(move |_, (x,)| x.fill(round)).submit().unwrap();
                let other = std::thread::spawn(move || drop(data));
                drop(rt);
                other.join().unwrap();
            }
        });
    }
}

#[test]
fn release_of_a_value_after_its_runtime_waits_for_its_tasks() {
    struct Told(Arc<AtomicUsize>);
    impl Drop for Told {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    for units in ["1:CPU:1", "2:CPU:1", "1:CPU:1,1:EMU:1"] {
        watched(units, move || {
            let rt = Arc::new(builder(units, false).build().unwrap());
            let (last, drops) = (rt.clone(), Arc::new(AtomicUsize::new(0)));
            let ((begin, wait_for_main), (open, wait)) = (gate(), gate());
            let ((dropped, is_dropped), (said, hear)) = (channel(), channel());
            let (value, order) = (rt.value(Told(drops.clone())), rt.token());
            let body = move |_: &Context, ()| {
                wait_for_main();
                drop(last);
                dropped.send(()).unwrap();
                wait();
            };
            rt.task("drops the runtime", order.inout()).host(body).submit().unwrap();
            let seen = drops.clone();
            let uses = move |_: &Context, (_, ()): (&Told, ())| said.send(seen.load(Ordering::SeqCst)).unwrap();
            rt.task("uses", (value.input(), order.inout())).host(uses).submit().unwrap();
            drop(rt);
            drop(begin);
            is_dropped.recv().unwrap();
            drop((value, order));
            drop(open);
            assert_eq!(hear.recv().unwrap(), 0, "the value must live while a task uses it");
            while drops.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
        });
    }
}

#[test]
fn shutdown_runs_everything_and_refuses_later_submissions() {
    for units in MIXES {
        for hosts in [false, true] {
            watched(&format!("{units} hosts={hosts}"), move || {
                let rt = Arc::new(builder(units, hosts).build().unwrap());
                let x = rt.data(vec![0u64; 10]);
                let ran = Arc::new(AtomicUsize::new(0));
                let (inner, counter) = (rt.clone(), ran.clone());
                let body = move |_: &Context, _: (&mut [u64],)| {
                    // Children of tasks are still accepted.
                    for _ in 0..10 {
                        let counter = counter.clone();
                        let child = move |_: &Context, ()| _ = counter.fetch_add(1, Ordering::Relaxed);
                        inner.task("child", ()).cpu(child).submit().unwrap();
                    }
                };
                rt.task("parent", (x.inout(),)).cpu(body).submit().unwrap();
                rt.task("fails", ()).host(|_, ()| Err::<(), _>(std::io::Error::other("on purpose"))).submit().unwrap();
                assert_eq!(failed(rt.shutdown()), ["fails"]);
                assert_eq!(ran.load(Ordering::Relaxed), 10);
                assert_eq!(Arc::strong_count(&rt), 1, "bodies and their captures must be dropped");
                let refused = rt.task("late", ()).cpu(|_, ()| ()).submit().unwrap_err();
                assert_eq!(refused, SubmitError::ShutDown);
                assert!(refused.to_string().contains("shut down"), "{refused}");
                assert!(matches!(rt.read(&x.all()), Err(RunError::Refused(SubmitError::ShutDown))));
                drop(x);
                rt.shutdown().unwrap();
                rt.wait().unwrap();
            });
        }
    }
}

#[test]
fn shutdown_in_a_body_is_refused() {
    watched("inside", || {
        let rt = Arc::new(builder("1:CPU:1", false).build().unwrap());
        let inner = rt.clone();
        let body = move |_: &Context, ()| match inner.shutdown() {
            Err(RunError::Refused(SubmitError::InsideTask { call })) => assert_eq!(call, "shutdown"),
            other => panic!("{other:?}"),
        };
        rt.task("ends", ()).cpu(body).submit().unwrap();
        rt.shutdown().unwrap();
    });
}

#[test]
fn shutdown_ends_although_other_threads_keep_submitting() {
    watched("submitters", || {
        let rt = Arc::new(builder("2:CPU:1", false).max_pending_tasks(64).build().unwrap());
        let submitters: Vec<_> = (0..3)
            .map(|_| {
                let rt = rt.clone();
                std::thread::spawn(move || while rt.task("endless", ()).cpu(|_, ()| ()).submit().is_ok() {})
            })
            .collect();
        rt.shutdown().unwrap();
        submitters.into_iter().for_each(|submitter| submitter.join().unwrap());
    });
}
