//! Failing bodies: the cause is reported, dependent tasks are skipped, and everything else continues.
//!
//! Every test runs on every mix of units under every scheduler, and no test depends on timing.

use crate::common::{failed, for_each_mix, poison};
use rayon::prelude::*;
use std::panic::panic_any;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use thalweg::error::FailureReason;
use thalweg::prelude::*;

const N: usize = 64;

/// A value whose destructor panics.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("the bomb went off");
        }
    }
}

#[derive(Debug, PartialEq, thiserror::Error)]
#[error("exit code {0}")]
struct ExitCode(i32);

fn fill(rt: &Runtime, region: Region<'_, f64>, value: f64) {
    rt.task("fill", (region.output(),)).cpu(move |_, (x,)| x.fill(value)).submit().unwrap();
}

fn fail(rt: &Runtime, name: &'static str, region: Region<'_, f64>) {
    rt.task(name, (region.inout(),)).cpu(move |_, _| -> () { panic!("{name} fails") }).submit().unwrap();
}

#[test]
fn failure_quotes_the_panic_message_of_the_body() {
    type Act = fn();
    const WAYS: [(Act, &str); 4] = [
        (|| panic!("plain words"), "panicked: plain words"),
        (|| panic!("number {}", 7), "panicked: number 7"),
        (|| panic_any(7), "panicked: a value that is not a message"),
        (|| panic_any(Bomb), "panicked: a value that is not a message"),
    ];
    for_each_mix(|rt| {
        for (act, reason) in WAYS {
            let x = rt.data(vec![0.0; N]);
            let id = rt.task("act", (x.inout(),)).cpu(move |_, _| act()).submit().unwrap();
            let line = line!() - 1;
            let Err(RunError::Failed(failures)) = rt.wait() else { panic!("{reason} was not reported") };
            let [failure] = &*failures else { panic!("{} causes instead of one", failures.len()) };
            assert_eq!((failure.task(), failure.name(), failure.skipped()), (id, "act", 0));
            assert_eq!((failure.submitted_at().file(), failure.submitted_at().line()), (file!(), line));
            assert_eq!(failure.reason().to_string(), reason);
            assert!(matches!(failure.reason(), FailureReason::Panicked(_)));
            assert_eq!(poison(rt.read(&x.all())), ("act".to_owned(), reason.to_owned()));
        }
    });
}

#[test]
fn returned_error_keeps_its_type() {
    for_each_mix(|rt| {
        let x = rt.data(vec![0.0; N]);
        rt.task("exit", (x.output(),)).cpu(|_, _| Err(ExitCode(3))).submit().unwrap();
        rt.task("fine", (x.input(),)).cpu(|_, _| Ok::<(), ExitCode>(())).submit().unwrap();
        let Err(RunError::Failed(failures)) = rt.wait() else { panic!("the error was not reported") };
        let FailureReason::Returned(error) = failures[0].reason() else { panic!("{failures}") };
        assert_eq!(error.downcast_ref(), Some(&ExitCode(3)));
        let text = RunError::Failed(failures).to_string();
        assert!(text.contains("`exit`") && text.contains("exit code 3") && text.contains("(1 task that "), "{text}");
    });
}

#[test]
fn panicking_destructor_of_a_capture_fails_its_task() {
    for_each_mix(|rt| {
        let x = rt.data(vec![1.0; N]);
        let bomb = Bomb;
        let body = move |_: &thalweg::Context, (_,): (&mut [f64],)| drop(bomb);
        rt.task("armed", (x.inout(),)).cpu(body).submit().unwrap();
        // This task is poisoned and never runs, so the runtime drops the value itself.
        let bomb = Bomb;
        let body = move |_: &thalweg::Context, (_,): (&mut [f64],)| drop(bomb);
        rt.task("unused", (x.inout(),)).cpu(body).submit().unwrap();
        assert_eq!(failed(rt.wait()), ["armed"]);
        assert_eq!(poison(rt.read(&x.all())).1, "panicked: the bomb went off");
    });
}

#[test]
fn poison_follows_values_until_an_overwrite() {
    for_each_mix(|rt| {
        let (x, y) = (rt.data(vec![1.0; N]), rt.data(vec![2.0; N]));
        let ran = Arc::new(AtomicUsize::new(0));
        let count = || {
            let ran = ran.clone();
            move || _ = ran.fetch_add(1, Ordering::Relaxed)
        };
        fail(rt, "culprit", x.all());
        for _ in 0..3 {
            let count = count();
            rt.task("reader", (x.input(),)).cpu(move |_, _| count()).submit().unwrap();
        }
        let (a, b, c) = (count(), count(), count());
        rt.task("updater", (x.inout(),)).cpu(move |_, _| a()).submit().unwrap();
        rt.task("carrier", (x.input(), y.inout())).cpu(move |_, _| b()).submit().unwrap();
        rt.task("victim", (y.input(),)).cpu(move |_, _| c()).submit().unwrap();
        fill(rt, x.all(), 5.0);
        let d = count();
        rt.task("healthy", (x.input(),)).cpu(move |_, (x,)| (x == [5.0; N]).then(d).unwrap()).submit().unwrap();

        let Err(RunError::Failed(failures)) = rt.wait() else { panic!("the failure was not reported") };
        assert_eq!((failures.len(), failures[0].name(), failures[0].skipped()), (1, "culprit", 6));
        assert_eq!(ran.load(Ordering::Relaxed), 1, "only the reader after the overwrite runs");
        rt.wait().expect("a second wait has nothing to report");
        assert_eq!(poison(rt.fetch(&y.all(), SpaceId::HOST)).0, "culprit");
        assert_eq!(poison(rt.take(y.clone())).0, "culprit");
        fill(rt, y.all(), 6.0);
        assert_eq!(rt.take(y).unwrap(), [6.0; N]);
        assert_eq!(rt.take(x).unwrap(), [5.0; N]);
    });
}

#[test]
fn poison_passes_even_if_the_task_is_also_a_mere_predecessor() {
    for (held, swapped) in [(false, false), (false, true), (true, false), (true, true)] {
        let rt = Runtime::builder().compute_units("2:CPU:1").build().unwrap();
        let data = [rt.scalar(0u64), rt.scalar(0u64)];
        let [read, written] = if swapped { [&data[1], &data[0]] } else { [&data[0], &data[1]] };
        let (open, wait) = crate::common::gate();
        rt.task("fails", (read.input(), written.output()))
            .cpu(move |_, _| {
                wait();
                Err("as it was told")
            })
            .submit()
            .unwrap();
        let mut open = Some(open);
        if !held {
            open.take();
            rt.wait().unwrap_err();
        }
        // This task depends on the failed task twice: it overwrites the region that the failed task has read, and reads
        // the region that the failed task should have written.
        rt.task("user", (read.output(), written.input())).cpu(|_, (read, _)| read[0] = 7).submit().unwrap();
        drop(open);
        let _ = rt.wait();
        assert!(rt.read(read).is_err(), "held: {held}, swapped: {swapped}: it ran without its input");
    }
}

#[test]
fn writer_after_a_failed_reader_is_not_poisoned() {
    for_each_mix(|rt| {
        let (x, y) = (rt.data(vec![1.0; N]), rt.data(vec![2.0; N]));
        // The reader of `x` fails. The later writer of `x` has to wait for the reader but is not poisoned.
        rt.task("reader", (x.input(), y.inout())).cpu(|_, _| Err("no")).submit().unwrap();
        rt.task("writer", (x.inout(),)).cpu(|_, (x,)| x.fill(3.0)).submit().unwrap();
        assert_eq!(failed(rt.wait()), ["reader"]);
        assert_eq!(rt.take(x).unwrap(), [3.0; N]);
        assert_eq!(poison(rt.read(&y.slice(..1))).0, "reader");
    });
}

#[test]
fn failure_loses_only_the_regions_it_would_have_written() {
    for_each_mix(|rt| {
        let x = rt.data(vec![1.0; N]);
        let (left, right) = (x.slice(..N / 2), x.slice(N / 2..));
        fail(rt, "left", left);
        fill(rt, right, 2.0);
        rt.task("across", (x.slice(N / 2 - 1..N / 2 + 1).inout(),)).cpu(|_, (x,)| x.fill(9.0)).submit().unwrap();
        assert_eq!(failed(rt.wait()), ["left"]);
        assert_eq!(poison(rt.read(&left)).0, "left");
        assert_eq!(poison(rt.take(x.clone())).0, "left");
        assert_eq!(poison(rt.read(&x.slice(N / 2..N / 2 + 1))).0, "left", "a skipped task should have written it");
        assert_eq!(rt.read(&x.slice(N / 2 + 1..)).unwrap(), [2.0; N / 2 - 1], "nothing else is lost");
        fill(rt, x.slice(..N / 2 + 1), 4.0);
        assert_eq!(rt.take(x).unwrap()[N / 2 - 1..N / 2 + 2], [4.0, 4.0, 2.0]);
    });
}

#[test]
fn unrelated_tasks_continue_and_wait_returns_every_cause() {
    for_each_mix(|rt| {
        let data: Vec<_> = (0..40).map(|i| rt.data(vec![i as f64; N])).collect();
        for (i, x) in data.iter().enumerate() {
            for step in 0..5 {
                let body = move |_: &thalweg::Context, (x,): (&mut [f64],)| match (i % 4, step) {
                    (0, 3) => Err(ExitCode(i as i32)),
                    (1, 2) => panic!("{i}"),
                    _ => {
                        x.iter_mut().for_each(|x| *x += 1.0);
                        Ok(())
                    }
                };
                rt.task(format!("{i}.{step}"), (x.inout(),)).cpu(body).submit().unwrap();
            }
        }
        let mut causes = failed(rt.wait());
        causes.sort();
        let mut expected: Vec<_> = (0..10).flat_map(|k| [format!("{}.3", 4 * k), format!("{}.2", 4 * k + 1)]).collect();
        expected.sort();
        assert_eq!(causes, expected);
        rt.wait().unwrap();
        for (i, x) in data.into_iter().enumerate() {
            match i % 4 {
                0 | 1 => assert!(poison(rt.take(x)).0.starts_with(&format!("{i}."))),
                _ => assert_eq!(rt.take(x).unwrap(), [i as f64 + 5.0; N]),
            }
        }
    });
}

#[test]
fn panic_in_nested_rayon_call_fails_the_task() {
    type Act = fn();
    const WAYS: [(Act, &str); 4] = [
        (|| _ = rayon::join(|| (), || panic!("second half")), "second half"),
        (|| _ = rayon::join(|| panic!("first half"), || ()), "first half"),
        (|| (0..1000).into_par_iter().for_each(|i| assert!(i != 617, "item 617")), "item 617"),
        (|| rayon::scope(|s| s.spawn(|_| panic!("in a scope"))), "in a scope"),
    ];
    for_each_mix(|rt| {
        for (act, message) in WAYS {
            let x = rt.data(vec![0.0; N]);
            rt.task("nested", (x.inout(),)).cpu(move |_, _| act()).submit().unwrap();
            assert_eq!(failed(rt.wait()), ["nested"]);
            assert_eq!(poison(rt.read(&x.all())).1, format!("panicked: {message}"));
            // The pool must still work.
            let sum = |_: &thalweg::Context, (x,): (&mut [f64],)| x.par_iter_mut().for_each(|x| *x = 1.0);
            rt.task("after", (x.output(),)).cpu(sum).submit().unwrap();
            assert_eq!(rt.take(x).unwrap(), [1.0; N]);
        }
    });
}

#[test]
fn panic_spawned_into_the_units_pool_is_contained() {
    // The submitter must not host a unit, so that each body runs in the pool of its unit.
    for units in crate::common::MIXES {
        crate::common::watched(units, move || {
            let rt = crate::common::runtime(units);
            let x = rt.data(vec![0.0; N]);
            let body = |_: &thalweg::Context, (x,): (&mut [f64],)| {
                rayon::spawn(|| panic!("no task waits for this"));
                x.fill(1.0);
            };
            rt.task("careless", (x.inout(),)).cpu(body).submit().unwrap();
            for _ in 0..100 {
                let body = |_: &thalweg::Context, (x,): (&mut [f64],)| x.par_iter_mut().for_each(|x| *x += 1.0);
                rt.task("par", (x.inout(),)).cpu(body).submit().unwrap();
            }
            rt.wait().unwrap();
            assert_eq!(rt.take(x).unwrap(), [101.0; N]);
        });
    }
}

#[test]
fn panicking_reduction_operation_fails_the_contribution_alone() {
    for_each_mix(|rt| {
        let picky = Reduction::new("picky", 0u64, |a: &mut u64, b| {
            assert!(b != 13, "thirteen");
            *a += b;
        });
        let (x, y) = (rt.scalar(0u64), rt.scalar(0u64));
        for i in 10..16 {
            rt.task("contribute", (x.reduction(picky.clone()),)).cpu(move |_, (x,)| x[0] = i).submit().unwrap();
            rt.task("beside", (y.reduction(picky.clone()),)).cpu(|_, (y,)| y[0] = 1).submit().unwrap();
        }
        assert_eq!(failed(rt.wait()), ["contribute"]);
        assert_eq!(poison(rt.read(&x)).1, "panicked: thirteen");
        assert_eq!(rt.read(&y).unwrap()[0], 6);
    });
}

#[test]
fn failing_member_does_not_stop_its_group() {
    for_each_mix(|rt| {
        let (sum, turns) = (rt.scalar(0u64), rt.data(vec![0u64; 2]));
        let ran = Arc::new(AtomicUsize::new(0));
        for i in 0..20 {
            let (a, b) = (ran.clone(), ran.clone());
            let body = move |_: &thalweg::Context, (s,): (&mut [u64],)| {
                a.fetch_add(1, Ordering::Relaxed);
                assert!(i != 7, "seven");
                s[0] += 1;
            };
            rt.task("reduce", (sum.reduction(Sum),)).cpu(body).submit().unwrap();
            let body = move |_: &thalweg::Context, (t,): (&mut [u64],)| {
                b.fetch_add(1, Ordering::Relaxed);
                t[0] += 1;
                if i == 9 { Err(ExitCode(9)) } else { Ok(()) }
            };
            rt.task("turn", (turns.slice(i % 2..2).commutative(),)).cpu(body).submit().unwrap();
        }
        let mut causes = failed(rt.wait());
        causes.sort();
        assert_eq!((causes, ran.load(Ordering::Relaxed)), (vec!["reduce".to_owned(), "turn".to_owned()], 40));
        assert_eq!(poison(rt.read(&sum)).0, "reduce");
        assert_eq!(poison(rt.read(&turns.slice(1..))).0, "turn", "the failed member should have written it");
        assert_eq!(rt.read(&turns.slice(..1)).unwrap(), [10], "only tasks that succeeded wrote here");
    });
}

#[test]
fn failing_concurrent_task_does_not_stop_the_others() {
    for units in ["2:CPU:1", "1:CPU:2", "1:CPU:1,2:EMU:1"] {
        crate::common::watched(units, move || {
            let rt = crate::common::runtime(units);
            let bins = rt.data(vec![0u32; 8]);
            let count = Arc::new(AtomicUsize::new(0));
            for i in 0..32 {
                let count = count.clone();
                let body = move |_: &thalweg::Context, (bins,): (thalweg::memory::Shared<'_, u32>,)| {
                    count.fetch_add(1, Ordering::Relaxed);
                    bins.update(if i == 5 { 8 } else { i % 8 }, |n| n + 1);
                };
                rt.task("count", (bins.concurrent(),)).cpu(body).submit().unwrap();
            }
            assert_eq!((failed(rt.wait()).len(), count.load(Ordering::Relaxed)), (1, 32));
            assert_eq!(poison(rt.read(&bins.all())).1, "panicked: index 8 of a shared region of 8");
        });
    }
}

#[test]
fn long_chain_of_skipped_tasks_ends() {
    for_each_mix(|rt| {
        let x = rt.data(vec![0.0; N]);
        let (open, wait) = crate::common::gate();
        let body = move |_: &thalweg::Context, _: (&mut [f64],)| -> Result<(), ExitCode> {
            wait();
            Err(ExitCode(1))
        };
        rt.task("first", (x.inout(),)).cpu(body).submit().unwrap();
        // Submit fewer tasks than the window allows. Otherwise, a hosting submitter would execute the first task itself
        // and deadlock.
        for _ in 0..900 {
            rt.task("next", (x.inout(),)).cpu(|_, _| ()).submit().unwrap();
        }
        drop(open);
        let Err(RunError::Failed(failures)) = rt.wait() else { panic!("the failure was not reported") };
        assert_eq!((failures.len(), failures[0].skipped()), (1, 900));
    });
}

#[test]
fn wait_covers_tasks_skipped_by_a_copy_engine() {
    // The last event is the arrival of a slow copy whose successors are poisoned, so a thread that executes no tasks
    // has to end all of them.
    crate::common::watched("copy engine", || {
        let slow = EmulatedDevice::new().copy_delay(std::time::Duration::from_millis(30), f64::INFINITY);
        let rt = Runtime::builder().compute_units("1:EMU:1").emulated_devices(move |_| slow.clone());
        let rt = rt.build().unwrap();
        let (x, y) = (rt.data(vec![1.0; N]), rt.data(vec![0.0; N]));
        rt.task("culprit", (y.output(),)).cpu(|_, _| Err("no")).submit().unwrap();
        assert_eq!(failed(rt.wait()), ["culprit"]);
        rt.prefetch(&x.all(), SpaceId(1)).unwrap();
        rt.task("first", (x.output(), y.inout())).cpu(|_, _| ()).submit().unwrap();
        for _ in 0..5000 {
            rt.task("next", (x.inout(),)).cpu(|_, _| ()).submit().unwrap();
        }
        rt.wait().unwrap();
        assert_eq!(poison(rt.read(&x.all())).0, "culprit");
    });
}

/// Submits a child that does the same in turn, `levels` levels deep, and returns the error of the level below.
fn descend(cx: &Context, levels: usize) -> Result<(), RunError> {
    match levels {
        0 => cx.task("leaf", ()).cpu(|_, ()| Err("deep down")).submit()?,
        _ => cx.task("level", ()).cpu(move |cx, ()| descend(cx, levels - 1)).submit()?,
    };
    cx.wait()
}

/// Each level fails with the error of the level below. All failures are reported, but the text of a failure must not
/// contain the texts of all levels below it.
#[test]
fn text_of_nested_failures_stays_short() {
    let text_of = |levels: usize| {
        let rt = Runtime::builder().compute_units("2:CPU:1").build().unwrap();
        rt.task("root", ()).cpu(move |cx, ()| descend(cx, levels)).submit().unwrap();
        let error = rt.wait().unwrap_err();
        let RunError::Failed(failures) = &error else { panic!("{error}") };
        assert_eq!(failures.len(), levels + 2);
        let last = failures.iter().next_back().unwrap();
        assert!(last.to_string().contains("deep down"), "{last}");
        assert!(format!("{last:?}").contains("deep down"), "{last:?}");
        (error.to_string().len(), format!("{error:?}").len())
    };
    let (few, many) = (text_of(100), text_of(800));
    assert!(many.0 < 10 * few.0 && many.1 < 10 * few.1, "{few:?} bytes, {many:?} at eight times the depth");
    text_of(20_000);
}
