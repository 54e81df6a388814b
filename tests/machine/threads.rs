//! Many threads that use one runtime: they submit and wait from everywhere, including bodies, with and without a unit
//! hosted by the submitter.
//!
//! There must never be a hang, a lost task, or a call inside a body that waits although it should be refused.

use crate::common::{MIXES, SCHEDULERS, for_each_mix, gate, watched};
use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Mutex};
use thalweg::Context;
use thalweg::prelude::*;

fn hosted(units: &str, scheduler: &str, window: usize) -> Arc<Runtime> {
    let builder = Runtime::builder().compute_units(units).scheduler(scheduler).max_pending_tasks(window);
    Arc::new(builder.use_current_thread(true).build().unwrap())
}

/// Calls `test` with a runtime hosted by the calling thread, on every mix under every scheduler.
fn for_each_hosted(test: impl Fn(Arc<Runtime>) + Clone + Send + 'static) {
    for units in MIXES.into_iter().chain(["1:CPU:1"]) {
        for scheduler in SCHEDULERS {
            let test = test.clone();
            watched(&format!("{units} {scheduler}"), move || test(hosted(units, scheduler, 2000)));
        }
    }
}

#[test]
fn threads_may_submit_concurrently() {
    for_each_mix(|rt| {
        let sum = rt.scalar(0u64);
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let sum = &sum;
                scope.spawn(move || {
                    let own = rt.data(vec![0u64; 10]);
                    for i in 0..100 {
                        let body = move |_: &Context, (own,): (&mut [u64],)| own.iter_mut().for_each(|x| *x += i);
                        rt.task("own", (own.inout(),)).cpu(body).submit().unwrap();
                        let body = move |_: &Context, (sum,): (&mut [u64],)| sum[0] += thread;
                        rt.task("sum", (sum.commutative(),)).cpu(body).submit().unwrap();
                    }
                    assert_eq!(rt.take(own).unwrap(), [4950; 10]);
                });
            }
        });
        assert_eq!(rt.read(&sum).unwrap()[0], 600);
        rt.wait().unwrap();
    });
}

#[test]
fn body_may_submit_tasks() {
    fn grow(rt: &Arc<Runtime>, sum: &Data<u64>, depth: u32) {
        let (inner, total) = (rt.clone(), sum.clone());
        let body = move |_: &Context, ()| {
            inner.task("count", (total.commutative(),)).cpu(|_, (sum,)| sum[0] += 1).submit().unwrap();
            if depth > 0 {
                (0..3).for_each(|_| grow(&inner, &total, depth - 1));
            }
        };
        rt.task("grow", ()).cpu(body).submit().unwrap();
    }
    for units in MIXES {
        for hosts in [false, true] {
            watched(units, move || {
                let rt = Runtime::builder().compute_units(units).use_current_thread(hosts).build().unwrap();
                let rt = Arc::new(rt);
                let total = rt.scalar(0u64);
                grow(&rt, &total, 6);
                rt.wait().unwrap();
                assert_eq!(rt.read(&total).unwrap()[0], (3u64.pow(7) - 1) / 2);
            });
        }
    }
}

#[test]
fn waiting_thread_takes_the_place_of_an_absent_host() {
    for_each_hosted(|rt| {
        let x = rt.data(vec![0u64; 100]);
        for _ in 0..200 {
            rt.task("add", (x.inout(),)).cpu(|_, (x,)| x.iter_mut().for_each(|x| *x += 1)).submit().unwrap();
        }
        // The host neither waits for the runtime nor submits. Instead, it joins a thread that waits.
        let other = rt.clone();
        std::thread::spawn(move || {
            other.wait().unwrap();
            other.task("add", (x.inout(),)).cpu(|_, (x,)| x.iter_mut().for_each(|x| *x += 1)).submit().unwrap();
            assert_eq!(other.take(x).unwrap(), [201; 100]);
        })
        .join()
        .unwrap();
        rt.wait().unwrap();
    });
}

#[test]
fn many_threads_may_wait_at_once() {
    for_each_hosted(|rt| {
        let data: Vec<_> = (0..4).map(|_| rt.scalar(0u64)).collect();
        std::thread::scope(|scope| {
            for (i, x) in data.iter().enumerate() {
                let rt = &rt;
                scope.spawn(move || {
                    for round in 1..=50 {
                        rt.task("add", (x.inout(),)).cpu(|_, (x,)| x[0] += 1).submit().unwrap();
                        match i % 2 {
                            0 => assert_eq!(rt.read(x).unwrap()[0], round),
                            _ => rt.wait().unwrap(),
                        }
                    }
                });
            }
            rt.wait().unwrap();
        });
        data.iter().for_each(|x| assert_eq!(rt.read(x).unwrap()[0], 50));
    });
}

#[test]
fn waiting_guest_and_helping_submitter_lose_no_task() {
    // While one thread waits instead of the host, the host also executes tasks, because its window is small.
    for units in ["1:CPU:1", "2:CPU:1", "1:CPU:1,1:EMU:1"] {
        watched(units, move || {
            let rt = hosted(units, "stealing", 8);
            for _ in 0..20 {
                let (stop, stopped) = gate();
                let count = Arc::new(AtomicUsize::new(0));
                let waiter = rt.clone();
                // The guest waits the whole time for a task that ends only when the host has submitted all tasks.
                let (begun, begins) = channel();
                let guest = std::thread::spawn(move || {
                    begun.send(()).unwrap();
                    waiter.wait().unwrap();
                });
                begins.recv().unwrap();
                for _ in 0..5000 {
                    let count = count.clone();
                    let body = move |_: &Context, ()| _ = count.fetch_add(1, Ordering::Relaxed);
                    rt.task("count", ()).cpu(body).submit().unwrap();
                }
                drop(stop);
                stopped();
                rt.wait().unwrap();
                guest.join().unwrap();
                assert_eq!(count.load(Ordering::Relaxed), 5000);
            }
            assert_eq!(rt.statistics().tasks.iter().map(|(_, n)| n).sum::<u64>(), 100_000);
        });
    }
}

#[test]
fn helping_submitter_wakes_waiting_threads() {
    watched("helper", || {
        for _ in 0..20 {
            let rt = hosted("1:CPU:1", "stealing", 1);
            let (waiter, start) = (rt.clone(), Arc::new(Barrier::new(2)));
            let started = start.clone();
            rt.task("first", ()).cpu(|_, ()| ()).submit().unwrap();
            let guest = std::thread::spawn(move || {
                started.wait();
                waiter.wait().unwrap();
            });
            start.wait();
            // The submitter itself may execute the last of these tasks while the other thread sleeps.
            for _ in 0..64 {
                let body = |_: &Context, ()| std::thread::sleep(std::time::Duration::from_micros(200));
                rt.task("short", ()).cpu(body).submit().unwrap();
            }
            guest.join().unwrap();
        }
    });
}

#[test]
fn body_cannot_wait_for_itself_on_any_thread() {
    type Place = fn(&(dyn Fn() + Sync));
    const PLACES: [Place; 3] = [
        |call| call(),
        |call| _ = rayon::join(call, call),
        |call| rayon::scope(|s| (0..4).for_each(|_| s.spawn(|_| call()))),
    ];
    for hosts in [false, true] {
        for units in MIXES {
            for guest in [false, true] {
                watched(&format!("{units} hosts={hosts} guest={guest}"), move || {
                    let builder = Runtime::builder().compute_units(units).use_current_thread(hosts);
                    let rt = Arc::new(builder.build().unwrap());
                    let x = rt.data(vec![0u64; 10]);
                    // A hosted unit of one core has no pool, so rayon's threads do not belong to it.
                    let strangers = hosts && units.contains("CPU:1");
                    for place in &PLACES[..if strangers { 1 } else { PLACES.len() }] {
                        let (inner, y) = (rt.clone(), x.clone());
                        let refused = move || {
                            let calls = [
                                ("wait", inner.wait()),
                                ("read", inner.read(&y.all()).map(drop)),
                                ("take", inner.take(y.clone()).map(drop).map_err(RunError::from)),
                                ("fetch", inner.fetch(&y.all(), SpaceId::HOST)),
                            ];
                            for (name, result) in calls {
                                match result {
                                    Err(RunError::Refused(SubmitError::InsideTask { call })) if name == "wait" => {
                                        assert_eq!(call, name);
                                    }
                                    Err(RunError::Refused(SubmitError::Unsuspended { call })) => assert_eq!(call, name),
                                    // This is the body's own thread, which may wait, but not for data that its task
                                    // holds.
                                    Err(RunError::Refused(SubmitError::Nested { task, .. })) if name != "wait" => {
                                        assert_eq!(task, name);
                                    }
                                    other => panic!("{name} in a body: {other:?}"),
                                }
                            }
                        };
                        let body = move |_: &Context, (x,): (&mut [u64],)| {
                            place(&refused);
                            x[0] += 1;
                        };
                        rt.task("waits", (x.inout(),)).cpu(body).submit().unwrap();
                    }
                    if guest {
                        let rt = rt.clone();
                        std::thread::spawn(move || rt.wait().unwrap()).join().unwrap();
                    }
                    rt.wait().unwrap();
                    assert_eq!(rt.take(x).unwrap()[0], if strangers { 1 } else { 3 });
                });
            }
        }
    }
}

#[test]
fn body_may_hold_the_last_handle_of_the_runtime() {
    for units in MIXES {
        for panics in [false, true] {
            watched(&format!("{units} panics={panics}"), move || {
                let rt = Arc::new(Runtime::builder().compute_units(units).build().unwrap());
                let (x, (open, wait)) = (rt.data(vec![0u64; 1000]), gate());
                let (ran, order) = channel();
                let (last, report) = (rt.clone(), ran.clone());
                let body = move |_: &Context, (x,): (&mut [u64],)| {
                    wait();
                    x.fill(1);
                    report.send(0).unwrap();
                    let _last = last;
                    assert!(!panics, "panics while holding the runtime");
                };
                rt.task("last", (x.inout(),)).cpu(body).submit().unwrap();
                for step in 1..100 {
                    let ran = ran.clone();
                    let body = move |_: &Context, (x,): (&mut [u64],)| {
                        assert_eq!(x, [step; 1000]);
                        x.fill(step + 1);
                        ran.send(step).unwrap();
                    };
                    rt.task("next", (x.inout(),)).cpu(body).submit().unwrap();
                }
                drop((rt, x, ran, open));
                // The runtime continues even if no thread waits for it. After a panic, all other tasks are skipped or
                // cancelled.
                let ran: Vec<u64> = order.iter().collect();
                assert_eq!(ran, (0..if panics { 1 } else { 100 }).collect::<Vec<_>>());
            });
        }
    }
}

#[test]
fn no_task_is_accepted_after_a_take() {
    for units in ["2:CPU:1", "1:CPU:1,1:EMU:1"] {
        watched(units, move || {
            for round in 0..100 {
                let rt = Arc::new(crate::common::runtime(units));
                let x = rt.data(vec![0u64; 1000]);
                let (clone, other) = (x.clone(), rt.clone());
                let submitter = std::thread::spawn(move || {
                    let mut submitted = 0;
                    loop {
                        let body = |_: &Context, (x,): (&mut [u64],)| x.iter_mut().for_each(|x| *x += 1);
                        match other.task("add", (clone.inout(),)).cpu(body).submit() {
                            Ok(_) => submitted += 1,
                            Err(error) => return (submitted, error),
                        }
                    }
                });
                let taken = rt.take(x).unwrap();
                let (submitted, error) = submitter.join().unwrap();
                rt.wait().unwrap();
                assert!(matches!(error, SubmitError::Taken { .. }), "{error}");
                assert_eq!(taken, [submitted; 1000], "round {round}: an accepted task ran after the take");
            }
        });
    }
}

#[test]
fn concurrent_submitters_agree_on_one_order() {
    const THREADS: usize = 4;
    const TASKS: usize = 1500;
    for units in ["2:CPU:1", "1:CPU:1,1:EMU:1"] {
        watched(units, move || {
            let rt = crate::common::runtime(units);
            let data: Vec<_> = (0..3).map(|_| rt.scalar(0u64)).collect();
            let logs: Arc<Vec<Mutex<Vec<usize>>>> = Arc::new(data.iter().map(|_| Mutex::default()).collect());
            // No task ends before all tasks are submitted, so every task waits for others, and a cycle would cause a
            // deadlock.
            let (open, wait) = gate();
            let all = (data[0].inout(), data[1].inout(), data[2].inout());
            rt.task("gate", all).cpu(move |_, _| wait()).submit().unwrap();
            let start = Barrier::new(THREADS);
            std::thread::scope(|scope| {
                for thread in 0..THREADS {
                    let (rt, data, logs, start) = (&rt, &data, &logs, &start);
                    scope.spawn(move || {
                        start.wait();
                        for n in 0..TASKS {
                            let number = n * THREADS + thread;
                            let first = number * 7 % 3;
                            let second = (first + 1 + n % 2) % 3;
                            let logs = logs.clone();
                            let body = move |_: &Context, _: (&mut [u64], &mut [u64])| {
                                [first, second].into_iter().for_each(|x| logs[x].lock().unwrap().push(number));
                            };
                            let accesses = (data[first].inout(), data[second].inout());
                            rt.task("both", accesses).cpu(body).submit().unwrap();
                        }
                    });
                }
            });
            drop(open);
            rt.wait().unwrap();
            let logs: Vec<Vec<usize>> = logs.iter().map(|log| log.lock().unwrap().clone()).collect();
            assert_eq!(logs.iter().map(Vec::len).sum::<usize>(), 2 * THREADS * TASKS);
            for (one, other) in [(0, 1), (0, 2), (1, 2)] {
                let common = |log: &[usize], of: &[usize]| {
                    let of: HashSet<_> = of.iter().copied().collect();
                    log.iter().copied().filter(|number| of.contains(number)).collect::<Vec<_>>()
                };
                assert_eq!(
                    common(&logs[one], &logs[other]),
                    common(&logs[other], &logs[one]),
                    "two data objects must have seen their common tasks in the same order"
                );
            }
        });
    }
}

/// Reduces by composing maps from x to a x + b, stored as pairs. Composition is associative but not commutative.
#[test]
fn reductions_are_combined_in_order_of_submission() {
    const TASKS: u64 = 24;
    fn then(first: &mut [u64; 2], second: [u64; 2]) {
        let [a, b] = *first;
        *first = [second[0].wrapping_mul(a), second[0].wrapping_mul(b).wrapping_add(second[1])];
    }
    let expected = (0..TASKS).fold([1, 0], |mut all, n| {
        then(&mut all, [2 * n + 3, n]);
        all
    });
    for units in MIXES.into_iter().chain(["4:CPU:1"]) {
        for hosts in [false, true] {
            watched(&format!("{units} hosts={hosts}"), move || {
                let rt = Runtime::builder().compute_units(units).use_current_thread(hosts).build().unwrap();
                let operation = Reduction::new("then", [1u64, 0], then);
                let (x, others) = (rt.scalar([1u64, 0]), (0..TASKS).map(|_| rt.scalar(0u64)).collect::<Vec<_>>());
                // Each member depends on a separate task, and these tasks run in the opposite order of the members.
                for at in (1..others.len()).rev() {
                    let accesses = (others[at].input(), others[at - 1].output());
                    rt.task("before", accesses).cpu(|_, _| ()).submit().unwrap();
                }
                for (n, own) in (0..).zip(&others) {
                    let body = move |_: &Context, (x, _): (&mut [[u64; 2]], &[u64])| x[0] = [2 * n + 3, n];
                    rt.task("map", (x.reduction(operation.clone()), own.input())).cpu(body).submit().unwrap();
                }
                assert_eq!(rt.read(&x).unwrap()[0], expected);
                rt.wait().unwrap();
            });
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn thread_names_contain_the_runtimes_name() {
    let seen = || -> HashSet<String> {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        tasks
            .filter_map(|task| Some(std::fs::read_to_string(task.path().join("comm")).ok()?.trim().to_owned()))
            .collect()
    };
    // A name that is too long is cut at a character boundary, so that the unit's index remains visible.
    for (name, parts) in [
        ("mesh", ["mesh-unit0", "mesh-0.1", "mesh-unit1", "mesh-copy0in"]),
        ("größenordnung", ["größeno-unit0", "größenord-0.1", "größeno-unit1", "größ-copy0out"]),
    ] {
        watched(name, move || {
            let rt = Runtime::builder().name(name).compute_units("1:CPU:2,1:EMU:1").build().unwrap();
            while !parts.iter().all(|part| seen().contains(*part)) {
                std::thread::yield_now(); // a thread sets its name only when it begins to run
            }
            rt.wait().unwrap();
        });
    }
}

#[test]
fn runtime_name_that_is_empty_or_has_nul_bytes_is_refused() {
    for name in ["", "a\0b"] {
        let refused = Runtime::builder().name(name).compute_units("1:CPU:1").build().unwrap_err();
        assert!(matches!(refused, BuildError::Argument { argument: "name", .. }), "{refused}");
    }
}
