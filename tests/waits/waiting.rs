//! Waits and wake-ups: which tasks a wait covers, which errors it returns, how endless waits are reported, and which
//! threads are woken.

use crate::common::{MIXES, again, builder, failed, gate, watched};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, OnceLock};
use std::time::Duration;
use thalweg::prelude::*;
use thalweg::{Context, RunningTask, Stall};

#[test]
fn wait_ends_while_other_threads_keep_submitting() {
    for units in MIXES {
        for hosts in [false, true] {
            watched(&format!("{units} hosts={hosts}"), move || {
                let rt = Arc::new(builder(units, hosts).max_pending_tasks(64).build().unwrap());
                let stop = Arc::new(AtomicBool::new(false));
                let submitters: Vec<_> = (0..2)
                    .map(|_| {
                        let (rt, stop) = (rt.clone(), stop.clone());
                        std::thread::spawn(move || {
                            let x = rt.scalar(0u64);
                            // An endless chain, so that something is always pending.
                            while !stop.load(Ordering::Relaxed) {
                                rt.task("endless", (x.inout(),)).cpu(|_, (x,)| x[0] += 1).submit().unwrap();
                            }
                        })
                    })
                    .collect();
                let count = Arc::new(AtomicUsize::new(0));
                for round in 1..=30 {
                    let counter = count.clone();
                    let body = move |_: &Context, ()| _ = counter.fetch_add(1, Ordering::Relaxed);
                    rt.task("counted", ()).cpu(body).submit().unwrap();
                    rt.wait().unwrap();
                    assert_eq!(count.load(Ordering::Relaxed), round, "tasks submitted before the wait must have ended");
                }
                stop.store(true, Ordering::Relaxed);
                submitters.into_iter().for_each(|submitter| submitter.join().unwrap());
                rt.wait().unwrap();
            });
        }
    }
}

/// Returns when `threads` threads are waiting for the runtime.
fn until_waiting(rt: &Runtime, threads: usize) {
    while !format!("{rt:?}").contains(&format!("waiting: {threads},")) {
        std::thread::yield_now();
    }
}

#[test]
fn wait_does_not_cover_tasks_submitted_later() {
    for units in ["2:CPU:1", "1:CPU:1,1:EMU:1"] {
        watched(units, move || {
            let rt = Arc::new(builder(units, false).build().unwrap());
            for _ in 0..20 {
                let ((open, opened), (open_later, opened_later)) = (gate(), gate());
                rt.task("gate", ()).cpu(move |_, ()| opened()).submit().unwrap();
                let other = rt.clone();
                let waiter = std::thread::spawn(move || other.wait());
                until_waiting(&rt, 1);
                rt.task("later", ()).cpu(move |_, ()| opened_later()).submit().unwrap();
                drop(open);
                waiter.join().unwrap().unwrap();
                drop(open_later);
            }
            rt.wait().unwrap();
        });
    }
}

#[test]
fn more_threads_than_open_epochs_may_wait() {
    watched("epochs", || {
        let rt = Arc::new(builder("2:CPU:1", false).build().unwrap());
        let (x, (open, opened)) = (rt.scalar(0u64), gate());
        rt.task("gate", (x.inout(),)).cpu(move |_, _| opened()).submit().unwrap();
        let count = Arc::new(AtomicUsize::new(0));
        let waiters: Vec<_> = (1..=9)
            .map(|submitted| {
                let counter = count.clone();
                let body = move |_: &Context, _: (&mut [u64],)| _ = counter.fetch_add(1, Ordering::SeqCst);
                rt.task("add", (x.inout(),)).cpu(body).submit().unwrap();
                let (other, count) = (rt.clone(), count.clone());
                let waiter = std::thread::spawn(move || {
                    other.wait().unwrap();
                    assert!(
                        count.load(Ordering::SeqCst) >= submitted,
                        "tasks submitted before the wait must have finished"
                    );
                });
                until_waiting(&rt, submitted);
                waiter
            })
            .collect();
        assert_eq!(count.load(Ordering::SeqCst), 0, "no task may run before the gate opens");
        drop(open);
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
    });
}

#[test]
fn failure_is_reported_to_every_thread_that_waits_for_the_task() {
    for units in ["2:CPU:1", "1:CPU:1,2:EMU:1"] {
        watched(units, move || {
            let rt = Arc::new(builder(units, false).build().unwrap());
            let (open, opened) = gate();
            rt.task("fails", ())
                .host(move |_, ()| -> Result<(), std::io::Error> {
                    opened();
                    Err(std::io::Error::other("on purpose"))
                })
                .submit()
                .unwrap();
            let together = Arc::new(Barrier::new(4));
            let waiters: Vec<_> = (0..3)
                .map(|_| {
                    let (rt, together) = (rt.clone(), together.clone());
                    std::thread::spawn(move || {
                        together.wait();
                        rt.wait()
                    })
                })
                .collect();
            together.wait();
            until_waiting(&rt, 3);
            drop(open);
            for waiter in waiters {
                assert_eq!(failed(waiter.join().unwrap()), ["fails"]);
            }
            rt.wait().unwrap(); // the failure has been reported
        });
    }
}

#[test]
fn failure_of_a_later_task_is_reported_by_a_later_wait() {
    watched("later", || {
        let rt = Arc::new(builder("2:CPU:1", false).build().unwrap());
        let (open, opened) = gate();
        rt.task("gate", ()).cpu(move |_, ()| opened()).submit().unwrap();
        let waiter = {
            let rt = rt.clone();
            std::thread::spawn(move || rt.wait())
        };
        until_waiting(&rt, 1);
        let x = rt.scalar(0u64);
        rt.task("later", (x.inout(),)).cpu(|_, (x,)| assert!(x.is_empty(), "on purpose")).submit().unwrap();
        rt.read(&x).unwrap_err();
        drop(open);
        waiter.join().unwrap().unwrap();
        assert_eq!(failed(rt.wait()), ["later"]);
        rt.wait().unwrap();
    });
}

#[test]
fn blocked_body_is_reported_as_a_stall() {
    for units in ["1:CPU:1", "1:EMU:1"] {
        watched(units, move || {
            let (report, reports) = channel();
            let builder = builder(units, false).name("mesh").report_stalls_after(Duration::from_millis(20));
            let rt = builder.on_stall(move |stall| report.send(stall.clone()).unwrap()).build().unwrap();
            let (open, opened) = gate();
            let unlock = open.clone();
            let (begun, begins) = channel();
            let body = move |_: &Context, ()| {
                begun.send(()).unwrap();
                opened();
            };
            let waits = rt.task("waits", ()).cpu(body).submit().unwrap();
            begins.recv().unwrap();
            rt.task("would open", ()).cpu(move |_, ()| _ = open.send(())).submit().unwrap();
            let helper = std::thread::spawn(move || {
                let stall = reports.recv().unwrap();
                unlock.send(()).unwrap();
                (stall, reports)
            });
            rt.wait().unwrap();
            drop(rt);
            let (stall, reports) = helper.join().unwrap();
            let running: Vec<_> = stall.running.iter().map(|task| (task.task, &*task.name)).collect();
            assert_eq!((running, stall.pending), (vec![(waits, "waits")], 2));
            let text = stall.to_string();
            assert!(
                text.contains(file!())
                    && text.contains("unit 0")
                    && text.starts_with("runtime `mesh`: 2 tasks are pending"),
                "{text}"
            );
            assert!(
                reports.try_iter().count() <= 1,
                "each stall is reported once; there may be another one at the end"
            );
        });
    }
}

/// Returns the stall that is reported while a body, which `submit` creates, waits for a gate. The gate opens when the
/// stall has been reported.
fn stall_of(hosts: bool, scheduler: &str, submit: impl FnOnce(&Arc<Runtime>, Box<dyn FnOnce() + Send>)) -> Stall {
    let (report, reports) = channel();
    let builder = builder("1:CPU:1", hosts).scheduler(scheduler).report_stalls_after(Duration::from_millis(20));
    let rt = Arc::new(builder.on_stall(move |stall| _ = report.send(stall.clone())).build().unwrap());
    let (open, opened) = gate();
    submit(&rt, Box::new(opened));
    let inner = rt.clone();
    let waiter = std::thread::spawn(move || inner.wait().unwrap()); // a waiting thread detects stalls
    let helper = std::thread::spawn(move || (reports.recv().unwrap(), open).0);
    rt.wait().unwrap();
    waiter.join().unwrap();
    helper.join().unwrap()
}

fn names(tasks: &[RunningTask]) -> Vec<&str> {
    tasks.iter().map(|task| &*task.name).collect()
}

#[test]
fn stall_report_names_waiting_bodies_and_their_calls() {
    for (scheduler, hosts) in ["stealing", "dynamic"].into_iter().flat_map(|name| [(name, false), (name, true)]) {
        watched(&format!("{scheduler} hosts={hosts}"), move || {
            let calls = line!() + 6;
            let stall = stall_of(hosts, scheduler, |rt, opened| {
                let y = rt.scalar(0u64);
                let (last, first) = (Arc::new(OnceLock::<TaskHandle>::new()), rt.token());
                for name in ["holder", "other"] {
                    let last = last.clone();
                    let body = move |_: &Context, ()| -> Result<(), RunError> { last.wait().wait() };
                    rt.task(name, first.input()).host(body).submit().unwrap();
                }
                let blocks = move |_: &Context, _: &mut [u64]| opened();
                rt.task("blocks", (first.input(), y.inout())).host(move |at, ((), y)| blocks(at, y)).submit().unwrap();
                last.set(rt.task("last", y.inout()).host(|_, _| ()).submit_handle().unwrap()).unwrap();
            });
            assert_eq!((names(&stall.running), names(&stall.waiting)), (vec!["blocks"], vec!["holder", "other"]));
            for task in &stall.waiting {
                let place = task.waits_at.unwrap();
                assert_eq!((place.file(), place.line()), (file!(), calls), "{stall}");
            }
            assert_eq!(stall.running[0].waits_at, None);
            let text = stall.to_string();
            assert!(text.contains(&format!("`holder`, submitted at {}", file!())), "{text}");
            assert!(text.contains(&format!("waits at {}:{calls}", file!())), "{text}");
        });
    }
}

#[test]
fn stall_report_names_a_parent_whose_child_blocks_on_top_of_it() {
    for hosts in [false, true] {
        watched(&format!("hosts={hosts}"), move || {
            let stall = stall_of(hosts, "stealing", |rt, opened| {
                let body = move |cx: &Context, ()| {
                    cx.task("child", ()).host(move |_, ()| opened()).submit()?;
                    cx.wait()
                };
                rt.task("parent", ()).host(body).submit().unwrap();
            });
            assert_eq!((names(&stall.running), names(&stall.waiting)), (vec!["child"], vec!["parent"]), "{stall}");
        });
    }
}

#[test]
fn wait_on_a_thread_joined_by_a_body_is_reported_as_a_stall() {
    watched("joined", || {
        let (report, reports) = channel();
        let builder = builder("2:CPU:1", false).report_stalls_after(Duration::from_millis(20));
        let rt = Arc::new(builder.on_stall(move |stall| _ = report.send(stall.to_string())).build().unwrap());
        let (inner, (begun, begins)) = (rt.clone(), channel());
        let body = move |_: &Context, ()| {
            // The thread waits for the same task that joins the thread.
            let waiter = std::thread::spawn(move || inner.wait());
            begun.send(waiter).unwrap();
            let () = reports.iter().take(1).for_each(|text| assert!(text.contains("`joins`"), "{text}"));
        };
        rt.task("joins", ()).cpu(body).submit().unwrap();
        begins.recv().unwrap().join().unwrap().unwrap();
        rt.wait().unwrap();
    });
}

#[test]
fn stall_reports_can_be_turned_off_and_may_panic() {
    watched("off", || {
        let off = builder("1:CPU:1", false).report_stalls_after(None).on_stall(|stall| panic!("{stall}"));
        let rt = off.build().unwrap();
        rt.task("short", ()).cpu(|_, ()| ()).submit().unwrap();
        rt.wait().unwrap();

        let (told, tells) = channel();
        let builder = builder("1:CPU:1", false).report_stalls_after(Duration::from_millis(1));
        let tell = move |_: &thalweg::Stall| {
            let _ = told.send(());
            panic!("on purpose");
        };
        let rt = builder.on_stall(tell).build().unwrap();
        rt.task("told", ()).cpu(move |_, ()| tells.recv().unwrap()).submit().unwrap();
        rt.wait().unwrap();
    });
}

#[test]
fn read_returns_before_an_unrelated_chain_ends() {
    for hosts in [1, 2] {
        watched("chain", move || {
            let rt = builder(&format!("{hosts}:CPU:1"), true).build().unwrap();
            let (a, b) = (rt.scalar(0u64), rt.scalar(0u64));
            rt.task("b", (b.inout(),)).cpu(|_, (b,)| b[0] = 1).submit().unwrap();
            let (open, opened) = gate();
            let ran = Arc::new(AtomicUsize::new(0));
            // Early in the chain there is a gate that opens when `b` has been read. If another thread can run `b`, the
            // waiting thread may run the chain in the meantime. It must not block at the gate then, because nothing
            // else would open the gate.
            let waiter = std::thread::current().id();
            let mut opened = Some(opened);
            for link in 0..100 {
                let (ran, opened) = (ran.clone(), if link == 3 { opened.take() } else { None });
                let body = move |_: &Context, (a,): (&mut [u64],)| {
                    if let Some(opened) = opened.filter(|_| hosts == 1 || std::thread::current().id() != waiter) {
                        opened();
                    }
                    ran.fetch_add(1, Ordering::Relaxed);
                    a[0] += 1;
                };
                rt.task("a", (a.inout(),)).cpu(body).submit().unwrap();
            }
            assert_eq!(rt.read(&b).unwrap()[0], 1);
            drop(open);
            assert_eq!(rt.read(&a).unwrap()[0], 100);
        });
    }
}

/// Runs one of these tests again, alone in a separate process. Returns whether this is that process.
fn is_alone(test: &str) -> bool {
    const ALONE: &str = "THALWEG_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    again(&format!("waiting::{test}"), &[(ALONE, "1")]);
    false
}

/// Returns how often the units' threads fell asleep.
#[cfg(target_os = "linux")]
fn sleeps() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let of_thread = |path: std::path::PathBuf| {
        let status = std::fs::read_to_string(path.join("status")).ok()?;
        let field = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
        (field("Name:")?.starts_with("thalweg-")).then(|| field("voluntary_ctxt_switches:")?.parse::<u64>().ok())?
    };
    tasks.filter_map(|task| of_thread(task.path())).sum()
}

#[test]
#[cfg(target_os = "linux")]
fn launch_and_release_wake_only_few_threads() {
    if !is_alone("launch_and_release_wake_only_few_threads") {
        return;
    }
    const N: u64 = 300;
    let pause = || std::thread::sleep(Duration::from_micros(500)); // so that idle threads fall asleep
    for (units, scheduler) in [("16:CPU:1", "stealing"), ("16:CPU:1", "dynamic"), ("12:CPU:1,4:EMU:1", "dynamic")] {
        watched(&format!("{units} {scheduler}"), move || {
            let rt = Runtime::builder().compute_units(units).scheduler(scheduler).build().unwrap();
            let x = rt.scalar(0u64);
            rt.read(&x).unwrap();
            let before = sleeps();
            for _ in 0..N {
                let body = move |_: &Context, (x,): (&mut [u64],)| {
                    x[0] += 1;
                    pause();
                };
                rt.task("chain", (x.inout(),)).cpu(body).submit().unwrap();
            }
            rt.wait().unwrap();
            // The body sleeps once. One or two threads may be woken for the task, and a few more for copies to and from
            // devices.
            let per_task = (sleeps() - before) as f64 / N as f64;
            assert!(per_task < 8.0, "{per_task} sleeps for a task");
            let before = sleeps();
            for _ in 0..N {
                drop(rt.scalar(0u64));
                pause();
            }
            rt.wait().unwrap();
            let per_release = (sleeps() - before) as f64 / N as f64;
            assert!(per_release < 4.0, "{per_release} sleeps for a release");
        });
    }
}
