//! Detached tasks, which end only when everything that their bodies have lent out is returned, by any thread.

use crate::common::{MIXES, SCHEDULERS, failed, for_each_mix, gate, runtime, watched};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use thalweg::ids::UnitId;
use thalweg::memory::ReadOnly;
use thalweg::ndarray::{ArrayRef, array};
use thalweg::prelude::*;

/// Submits a task that lends out all of `x`. The returned receiver gets the guard.
pub(crate) fn lend(rt: &Runtime, x: &Data<u64>) -> std::sync::mpsc::Receiver<Lent<[u64]>> {
    let (send, lent) = channel();
    rt.task("lend", (x.inout(),)).host_detached_until_event(move |_, (x,)| send.send(x).unwrap()).submit().unwrap();
    lent
}

#[test]
fn task_ends_only_when_its_guard_is_returned() {
    for_each_mix(|rt| {
        let x = rt.data(vec![1u64, 2, 3]);
        let lent = lend(rt, &x);
        rt.task("double", (x.inout(),)).cpu(|_, (x,)| x.iter_mut().for_each(|x| *x *= 2)).submit().unwrap();
        thread::scope(|scope| {
            scope.spawn(move || {
                let mut lent = lent.recv().unwrap();
                lent[0] += 10;
                lent.finish();
            });
            rt.wait().unwrap();
        });
        assert_eq!(rt.read(&x).unwrap(), [22, 4, 6]);
        assert_eq!(rt.statistics().tasks.iter().map(|(_, tasks)| tasks).sum::<u64>(), 2, "both tasks must be counted");
    });
}

#[test]
fn unit_continues_while_its_tasks_are_detached() {
    for_each_mix(|rt| {
        // More tasks than any unit is given at once. Their guards are returned in reverse order.
        const TASKS: usize = 20;
        let data: Vec<_> = (0..TASKS).map(|_| rt.scalar(0u64)).collect();
        let (send, guards) = channel();
        for (n, x) in data.iter().enumerate() {
            let send = send.clone();
            rt.task("lend", (x.output(),))
                .host_detached_until_event(move |_, (x,): (Lent<[u64]>,)| send.send((n, x)).unwrap())
                .submit()
                .unwrap();
        }
        thread::scope(|scope| {
            scope.spawn(move || {
                let mut all: Vec<_> = (0..TASKS).map(|_| guards.recv().unwrap()).collect();
                all.sort_unstable_by_key(|(n, _)| std::cmp::Reverse(*n));
                for (n, mut x) in all {
                    x[0] = n as u64;
                    x.finish();
                }
            });
            rt.wait().unwrap();
        });
        for (n, x) in data.iter().enumerate() {
            assert_eq!(rt.read(x).unwrap()[0], n as u64);
        }
    });
}

#[test]
fn every_kind_of_access_except_concurrent_can_be_lent() {
    for_each_mix(|rt| {
        let [read, written, updated, turns] = [1u64, 2, 3, 4].map(|x| rt.data(vec![x; 4]));
        let [sum, count] = [10u64, 20].map(|x| rt.data(vec![x; 4]));
        let plane = rt.array(array![[1u64, 2], [3, 4]]);
        let order = rt.scalar(0u64);
        type Four = (Lent<[u64], ReadOnly>, Lent<[u64]>, Lent<[u64]>, Lent<[u64]>);
        type Plane = (Lent<ArrayRef<u64, Ix2>>, Completion);
        type All = (Four, (Lent<[u64]>, Lent<[u64]>), Plane, Vec<Lent<[u64], ReadOnly>>);
        let (send, lent) = channel::<All>();
        for _ in 0..2 {
            let send = send.clone();
            let accesses = (
                (read.input(), written.output(), updated.inout(), turns.commutative()),
                (sum.reduction(Sum), count.accumulate(Sum)),
                (plane.block((.., 1)).inout(), order.after()),
                vec![read.slice(..2).input(), read.slice(2..).input()],
            );
            rt.task("all", accesses)
                .host_detached_until_event(move |_, lent| send.send(lent).unwrap())
                .submit()
                .unwrap();
        }
        thread::scope(|scope| {
            scope.spawn(move || {
                for _ in 0..2 {
                    let ((read, mut written, mut updated, mut turns), (mut sum, mut count), (mut plane, order), parts) =
                        lent.recv().unwrap();
                    for i in 0..4 {
                        written[i] = read[i] + 100;
                        updated[i] += parts[i / 2][i % 2];
                        turns[i] *= 2;
                        (sum[i], count[i]) = (sum[i] + 1, count[i] + 2);
                    }
                    plane.iter_mut().for_each(|x| *x *= 10);
                    assert_eq!(plane.shape(), [2, 1]);
                    read.finish();
                    [written, updated, turns, sum, count].into_iter().for_each(Lent::finish);
                    plane.finish();
                    parts.into_iter().for_each(Lent::finish);
                    order.finish();
                }
            });
            rt.wait().unwrap();
        });
        let all = [&written, &updated, &turns, &sum, &count].map(|x| rt.read(x).unwrap()[3]);
        assert_eq!(all, [101, 5, 16, 12, 24]);
        assert_eq!(rt.read(&plane).unwrap(), array![[1, 200], [3, 400]]);
    });
}

#[test]
fn task_without_guards_ends_with_its_body() {
    for_each_mix(|rt| {
        rt.task("nothing", ()).host_detached_until_event(|cx, ()| assert!(cx.inner_cores() > 0)).submit().unwrap();
        let x = rt.scalar(1u64);
        rt.task("at once", (x.inout(),))
            .host_detached_until_event(|_, (mut x,): (Lent<[u64]>,)| {
                x[0] += 1;
                x.finish();
            })
            .submit()
            .unwrap();
        rt.wait().unwrap();
        assert_eq!(rt.read(&x).unwrap()[0], 2);
        rt.task("drops", (x.inout(),)).host_detached_until_event(|_, lent| drop(lent)).submit().unwrap();
        assert_eq!(failed(rt.wait()), ["drops"]);
    });
}

#[test]
fn task_may_have_a_detached_body_and_a_device_body() {
    watched("beside devices", || {
        let rt = runtime("1:CPU:1,1:EMU:1");
        let x = rt.scalar(0u64);
        for _ in 0..10 {
            rt.task("either", (x.inout(),))
                .host_detached_until_event(|_, (mut x,): (Lent<[u64]>,)| {
                    thread::spawn(move || {
                        x[0] += 1;
                        x.finish();
                    });
                })
                .emulated(|_, (x,)| x[0] += 1)
                .submit()
                .unwrap();
        }
        assert_eq!(rt.read(&x).unwrap()[0], 10);
        // On a machine without CPU units, a detached body still runs where its guards can be used.
        let rt = runtime("1:EMU:1");
        let y = rt.scalar(1u64);
        rt.task("on the device", (y.inout(),)).emulated(|_, (y,)| y[0] *= 2).submit().unwrap();
        lend(&rt, &y)
            .recv()
            .map(|mut y| {
                y[0] += 5;
                y.finish();
            })
            .unwrap();
        assert_eq!(rt.read(&y).unwrap()[0], 7);
    });
}

#[test]
fn guard_may_be_returned_in_a_body_destructor_or_ending_thread() {
    struct Finishes(Option<Lent<[u64]>>);
    impl Drop for Finishes {
        fn drop(&mut self) {
            self.0.take().into_iter().for_each(Lent::finish);
        }
    }
    thread_local! {
        static LATE: RefCell<Option<Finishes>> = const { RefCell::new(None) };
    }
    let ways: [fn(Lent<[u64]>); 3] = [
        Lent::finish,
        |x| drop(Finishes(Some(x))),
        |x| thread::spawn(|| LATE.with(|late| *late.borrow_mut() = Some(Finishes(Some(x))))).join().unwrap(),
    ];
    for (units, scheduler) in MIXES.into_iter().flat_map(|units| SCHEDULERS.map(|scheduler| (units, scheduler))) {
        watched(units, move || {
            let rt = Arc::new(Runtime::builder().compute_units(units).scheduler(scheduler).build().unwrap());
            let x = rt.scalar(0u64);
            for way in ways {
                let inner = rt.clone();
                rt.task("lend", (x.inout(),))
                    .host_detached_until_event(move |_, (mut x,): (Lent<[u64]>,)| {
                        x[0] += 1;
                        inner.task("finish", ()).cpu(move |_, ()| way(x)).submit().map(drop)
                    })
                    .submit()
                    .unwrap();
            }
            rt.wait().unwrap();
            assert_eq!(rt.read(&x).unwrap()[0], 3);
        });
    }
}

#[test]
fn stall_report_names_the_detached_task() {
    for (units, scheduler) in [("1:CPU:1", "stealing"), ("1:CPU:1,1:EMU:1", "eft")] {
        watched(units, move || {
            let (report, reports) = channel();
            let builder = Runtime::builder().compute_units(units).scheduler(scheduler);
            let builder = builder.report_stalls_after(Duration::from_millis(5));
            let rt = builder.on_stall(move |stall| report.send(stall.clone()).unwrap()).build().unwrap();
            let x = rt.data(vec![0u64; 5]).named("x");
            let guard = lend(&rt, &x).recv().unwrap();
            thread::scope(|scope| {
                scope.spawn(|| rt.wait().unwrap());
                let stall = reports.recv().unwrap();
                assert_eq!((stall.outside.len(), stall.running.len()), (1, 0));
                assert_eq!((&*stall.outside[0].name, stall.outside[0].unit), ("lend", UnitId(0)));
                let text = stall.to_string();
                assert!(text.contains("detached: task 0 `lend`, submitted at tests/waits/detached.rs:"), "{text}");
                assert!(text.contains("which holds data `x` [0..5] (inout)"), "{text}");
                guard.finish();
            });
        });
    }
}

#[test]
fn drop_of_a_runtime_waits_for_returned_guards() {
    for units in crate::common::MIXES {
        watched(units, move || {
            let rt = runtime(units);
            let x = rt.data(vec![1u64; 100]);
            let mut guard = lend(&rt, &x).recv().unwrap();
            let ended = Arc::new(AtomicUsize::new(0));
            let (open, opened) = gate();
            let (count, handle) = (ended.clone(), x.clone());
            let end = thread::spawn(move || {
                drop((x, handle)); // the memory stays valid
                open.send(()).unwrap();
                drop(rt);
                count.fetch_add(1, Ordering::SeqCst)
            });
            opened();
            guard.fill(7);
            assert_eq!(ended.load(Ordering::SeqCst), 0);
            assert_eq!(guard.iter().sum::<u64>(), 700);
            guard.finish();
            assert_eq!(end.join().unwrap(), 0);
        });
    }
}

#[test]
fn forgotten_guard_keeps_the_memory_of_a_forgotten_runtime() {
    watched("forgotten", || {
        let rt = std::mem::ManuallyDrop::new(runtime("1:CPU:1"));
        let x = rt.data(vec![3u64; 1000]);
        let guard = std::mem::ManuallyDrop::new(lend(&rt, &x).recv().unwrap());
        drop(x);
        assert!(guard.iter().all(|x| *x == 3));
    });
}

#[test]
fn detached_task_supports_handles_and_nested_submission() {
    watched("handles", || {
        let rt = Arc::new(runtime("2:CPU:1"));
        let (x, y) = (rt.scalar(1u64), rt.scalar(0u64));
        let (inner, target, held) = (rt.clone(), y.clone(), x.clone());
        let (send, lent) = channel();
        let task = rt.task("parent", (x.inout(),)).host_detached_until_event(move |_, (x,): (Lent<[u64]>,)| {
            inner.task("child", (target.output(),)).cpu(|_, (y,)| y[0] = 5).submit().unwrap();
            let refused = inner.task("child", (held.input(),)).cpu(|_, _| ()).submit();
            assert!(matches!(refused, Err(SubmitError::Nested { .. })), "{refused:?}");
            assert!(matches!(inner.wait(), Err(RunError::Refused(SubmitError::InsideTask { .. }))));
            send.send(x).unwrap();
        });
        let task = task.submit_handle().unwrap();
        let guard = lent.recv().unwrap();
        assert_eq!(rt.read(&y).unwrap()[0], 5);
        assert!(!task.is_finished());
        guard.finish();
        task.wait().unwrap();
        assert!(task.is_finished() && task.failure().is_none());
    });
}

#[test]
fn guards_may_be_returned_by_many_threads_at_once() {
    for_each_mix(|rt| {
        const TASKS: usize = 60;
        let x = rt.data(vec![0u64; 8]);
        let (send, guards) = channel::<(usize, Vec<Lent<[u64]>>)>();
        let workers: Vec<Sender<Lent<[u64]>>> = (0..3)
            .map(|_| {
                let (send, mine) = channel::<Lent<[u64]>>();
                thread::spawn(move || {
                    for mut part in mine {
                        part[0] += 1;
                        part.finish();
                    }
                });
                send
            })
            .collect();
        let spread = thread::spawn(move || {
            for (n, parts) in guards {
                for (i, part) in parts.into_iter().enumerate() {
                    workers[(i + n) % workers.len()].send(part).unwrap();
                }
            }
        });
        for n in 0..TASKS {
            let send = send.clone();
            let parts: Vec<_> =
                (0..8).filter(|i| (n >> (i % 3)) & 1 == 0 || *i > 5).map(|i| x.slice(i).inout()).collect();
            rt.task("spread", parts)
                .host_detached_until_event(move |_, parts| send.send((n, parts)).unwrap())
                .submit()
                .unwrap();
        }
        drop(send);
        let found = rt.read(&x).unwrap();
        let mut expected = HashMap::new();
        for n in 0..TASKS {
            (0..8).filter(|i| (n >> (i % 3)) & 1 == 0 || *i > 5).for_each(|i| *expected.entry(i).or_insert(0) += 1);
        }
        (0..8).for_each(|i| assert_eq!(found[i], expected[&i]));
        spread.join().unwrap();
    });
}

#[test]
fn values_and_results_can_be_lent_like_regions() {
    for_each_mix(|rt| {
        if rt.machine().num_cpu_units() == 0 {
            return;
        }
        let (list, log, order) = (rt.value(vec![1u64]), rt.value(Mutex::new(Vec::new())), rt.token());
        let x = rt.data(vec![0u64; 2]);
        let ten = rt.task("ten", ()).returns(|_, ()| 10u64).submit().unwrap();
        let (send, lent) = channel();
        for n in 0..3u64 {
            let send = send.clone();
            type Guards = (LentValue<Vec<u64>>, LentValue<u64, ReadOnly>, LentValue<Mutex<Vec<u64>>, ReadOnly>);
            rt.task("lend", ((list.commutative(), ten.input(), log.concurrent()), order.input(), x.after()))
                .host_detached_until_event(move |_, (guards, order, x): (Guards, Completion, Completion)| {
                    order.finish();
                    x.finish();
                    send.send((n, guards)).unwrap();
                })
                .submit()
                .unwrap();
        }
        drop(send);
        let waiting = rt.task("sum", list.input()).returns(|_, list| list.iter().sum::<u64>()).submit().unwrap();
        thread::scope(|scope| {
            scope.spawn(move || {
                for (n, (mut list, ten, log)) in lent {
                    list.push(*ten + n);
                    log.lock().unwrap().push(n);
                    log.finish();
                    ten.finish();
                    list.finish();
                }
            });
            assert_eq!(waiting.get().unwrap(), 1 + 10 + 11 + 12);
        });
        assert_eq!(ten.get().unwrap(), 10, "the result must have no readers left");
        let mut log = rt.take(log).unwrap().into_inner().unwrap();
        log.sort_unstable();
        assert_eq!(log, [0, 1, 2]);
    });
}

#[test]
fn detached_body_of_a_scope_borrows_until_its_guards_are_back() {
    for_each_mix(|rt| {
        let (send, guards) = channel::<Lent<[u64]>>();
        // The thread outlives the scope and receives guards of memory that the scope borrows.
        let transport = thread::spawn(move || {
            for mut guard in guards {
                guard[0] += 1;
                guard.finish();
            }
        });
        for round in 0..5 {
            let (mut ghosts, messages) = (vec![0u64; 12], [round, round + 1, round + 2]);
            let begun = AtomicUsize::new(0);
            rt.scope(|s| {
                let ghosts = s.borrow_mut(&mut ghosts);
                for (part, message) in blocks(12, 4).zip(&messages) {
                    let (send, begun) = (send.clone(), &begun);
                    s.task("receive", ghosts.slice(part).output())
                        .host_detached_until_event(move |_, mut ghost| {
                            begun.fetch_add(1, Ordering::Relaxed);
                            ghost.fill(*message);
                            send.send(ghost)
                        })
                        .submit()
                        .unwrap();
                }
            })
            .unwrap();
            assert_eq!(begun.into_inner(), 3);
            for (part, message) in blocks(12, 4).zip(messages) {
                let expected = [message + 1, message, message, message];
                assert_eq!(ghosts[part], expected, "the scope must wait for the guard");
            }
        }
        drop(send);
        transport.join().unwrap();
    });
}
