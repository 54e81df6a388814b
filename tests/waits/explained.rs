//! Explanations of waits: the chain from a task to the task that blocks it, along edges and through waits in bodies.

use crate::common::{SCHEDULERS, builder, gate, watched};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use thalweg::prelude::*;
use thalweg::{Context, WaitReason};

/// Asserts that the steps name these tasks, that their reasons contain these words, and that `Display` prints both.
#[track_caller]
pub(crate) fn assert_chain(reason: &WaitReason, expected: &[(&str, &str)]) {
    let steps = &reason.steps;
    let is = |n: usize| steps[n].name == expected[n].0 && steps[n].because.contains(expected[n].1);
    assert!(steps.len() == expected.len() && (0..steps.len()).all(is), "{reason}\nis not {expected:#?}");
    for step in steps {
        assert!(step.submitted_at.file().contains("tests/waits/explained"), "{step}");
        assert!(reason.to_string().contains(&step.to_string()), "{reason}");
    }
}

/// Returns a body that reports that it has begun and ends when the sender is dropped.
pub(crate) fn held() -> (Sender<()>, Receiver<()>, impl FnOnce() + Send + 'static) {
    let ((open, opened), (begin, begun)) = (gate(), channel());
    let body = move || {
        begin.send(()).unwrap();
        opened();
    };
    (open, begun, body)
}

#[test]
fn chain_of_edges_is_explained_by_regions_down_to_the_running_task() {
    for (units, kind) in [("1:CPU:1", "CPU"), ("2:CPU:1", "CPU"), ("1:EMU:1", "EMU")] {
        watched(units, move || {
            let rt = builder(units, false).build().unwrap();
            let x = rt.data(vec![0.0; 100]).named("x");
            let (open, begun, body) = held();
            rt.task("load", x.slice(0..50).output()).cpu(move |_, _| body()).submit().unwrap();
            rt.task("scale", x.inout()).cpu(|_, _| ()).submit().unwrap();
            let sum = rt.task("sum", x.slice(90..95).input()).cpu(|_, _| ()).submit_handle().unwrap();
            begun.recv().unwrap();
            let runs = format!("({kind})");
            let expected = [
                ("sum", "comes after task 1 `scale` by its access to [90..95] (in) of data `x`"),
                ("scale", "comes after task 0 `load` by its access to [0..100] (inout) of data `x`"),
                ("load", runs.as_str()),
            ];
            assert_chain(&sum.explain(), &expected);
            drop(open);
            rt.wait().unwrap();
            assert_chain(&sum.explain(), &[("sum", "has ended")]);
        });
    }
}

#[test]
fn running_task_is_explained_with_the_time_since_it_was_seen() {
    watched("since", || {
        let rt = builder("1:CPU:1", false).build().unwrap();
        let (open, begun, body) = held();
        let task = rt.task("long", ()).cpu(move |_, ()| body()).submit_handle().unwrap();
        begun.recv().unwrap();
        assert_chain(&task.explain(), &[("long", "runs on unit 0 (CPU)")]);
        std::thread::sleep(Duration::from_millis(120));
        let because = task.explain().steps[0].because.clone();
        let since = because.strip_prefix("runs on unit 0 (CPU), for at least ").expect(&because);
        let seconds: f64 = since.strip_suffix(" s").expect(since).parse().unwrap();
        assert!((0.1..60.0).contains(&seconds), "{because}");
        drop(open);
        rt.wait().unwrap();
    });
}

#[test]
fn task_with_several_predecessors_is_explained_by_one_and_their_number() {
    watched("several", || {
        let rt = builder("1:CPU:1", false).build().unwrap();
        let (x, y) = (rt.data(vec![0.0; 40]).named("x"), rt.scalar(0.0));
        let (open, begun, body) = held();
        rt.task("first", (x.slice(0..10).inout(), y.inout())).cpu(move |_, _| body()).submit().unwrap();
        begun.recv().unwrap();
        for n in 1..4 {
            rt.task(format!("other{n}"), (x.slice(10 * n..10 * n + 10).inout(), y.input()))
                .cpu(|_, _| ())
                .submit()
                .unwrap();
        }
        let all = rt.task("all", x.inout()).cpu(|_, _| ()).submit_handle().unwrap();
        let reason = all.explain();
        assert!(reason.steps[0].because.ends_with(", and after 3 others"), "{reason}");
        assert_eq!(reason.steps.last().unwrap().name, "first", "{reason}");
        drop(open);
        rt.wait().unwrap();
    });
}

#[test]
fn task_behind_a_queued_one_is_explained_by_it_and_by_what_the_units_run() {
    for hosts in [false, true] {
        watched(&format!("hosts={hosts}"), move || {
            let rt = builder("2:CPU:1", hosts).build().unwrap();
            let x = rt.data(vec![0.0; 10]).named("x");
            // If this thread hosts unit 0, this unit runs nothing until the thread waits.
            let held: Vec<_> = (0..if hosts { 1 } else { 2 })
                .map(|_| {
                    let (open, begun, body) = held();
                    rt.task("busy", ()).cpu(move |_, ()| body()).submit().unwrap();
                    begun.recv().unwrap();
                    open
                })
                .collect();
            rt.task("queued", x.output()).cpu(|_, _| ()).submit().unwrap();
            rt.task("urgent", x.input()).cpu(|_, _| ()).priority(3).submit().unwrap();
            let last = rt.task("last", x.inout()).cpu(|_, _| ()).submit_handle().unwrap();
            let reason = last.explain();
            let ready = "is ready and waits for a unit: unit ";
            let queued = ("queued", ready);
            match reason.steps.len() {
                // Either predecessor is a correct answer.
                2 => assert_chain(&reason, &[("last", "comes after task "), queued]),
                _ => assert_chain(&reason, &[("last", "comes after task "), ("urgent", "comes after task "), queued]),
            }
            assert!(reason.to_string().contains("(CPU) runs task 0 `busy`"), "{reason}");
            drop(held);
            rt.wait().unwrap();
            assert_chain(&last.explain(), &[("last", "has ended")]);
        });
    }
}

#[test]
fn queued_task_with_a_priority_is_explained_without_moving_it() {
    watched("urgent", || {
        let rt = builder("1:CPU:1", false).build().unwrap();
        let (open, begun, body) = held();
        rt.task("busy", ()).cpu(move |_, ()| body()).submit().unwrap();
        begun.recv().unwrap();
        let urgent = rt.task("urgent", ()).cpu(|_, ()| ()).priority(1).submit_handle().unwrap();
        let patient = rt.task("patient", ()).cpu(|_, ()| ()).priority(-1).submit_handle().unwrap();
        for task in [urgent, patient] {
            let words = "is ready and waits for a unit: unit 0 (CPU) runs task 0 `busy`";
            assert_chain(&task.explain(), &[(task.name(), words)]);
        }
        drop(open);
        rt.wait().unwrap();
    });
}

#[test]
fn failed_task_and_its_successors_are_explained_by_the_failure() {
    watched("failed", || {
        let rt = builder("1:CPU:1", false).build().unwrap();
        let x = rt.scalar(0.0);
        let fails = rt.task("fails", x.inout()).cpu(|_, _| Err("no luck")).submit_handle().unwrap();
        let skipped = rt.task("skipped", x.inout()).cpu(|_, _| ()).submit_handle().unwrap();
        rt.wait().unwrap_err();
        for task in [fails, skipped] {
            assert_chain(&task.explain(), &[(task.name(), "has ended without success: task 0 `fails`, submitted at ")]);
        }
    });
}

#[test]
fn task_of_an_ended_runtime_is_explained_by_the_end() {
    let rt = builder("1:CPU:1", false).build().unwrap();
    let task = rt.task("last", ()).cpu(|_, ()| ()).submit_handle().unwrap();
    drop(rt);
    task.wait().unwrap();
    assert_chain(&task.explain(), &[("last", "was submitted to a runtime that has ended")]);
}

#[test]
fn body_that_waits_is_explained_by_what_it_waits_for() {
    for scheduler in SCHEDULERS {
        watched(scheduler, move || {
            let rt = Arc::new(builder("2:CPU:1", false).scheduler(scheduler).build().unwrap());
            let x = rt.data(vec![0.0; 10]).named("x");
            let (open, begun, body) = held();
            let slow = rt.task("slow", ()).cpu(move |_, ()| body()).submit_handle().unwrap();
            begun.recv().unwrap();
            let waits = move |_: &Context, _: &mut [f64]| slow.wait();
            rt.task("waits", x.inout()).host(waits).submit().unwrap();
            let after = rt.task("after", x.input()).cpu(|_, _| ()).submit_handle().unwrap();
            // The body reports its wait only when it has nothing else to do.
            let expected = [
                ("after", "comes after task 1 `waits` by its access to [0..10] (in) of data `x`"),
                ("waits", ", and its body waits at tests/waits/explained.rs:"),
                ("slow", "runs on unit "),
            ];
            while after.explain().steps.len() < 3 {
                std::thread::yield_now();
            }
            assert_chain(&after.explain(), &expected);
            drop(open);
            rt.wait().unwrap();
        });
    }
}

#[test]
fn body_that_waits_for_children_is_explained_by_a_child() {
    for scheduler in SCHEDULERS {
        watched(scheduler, move || {
            let rt = builder("2:CPU:1", false).scheduler(scheduler).build().unwrap();
            let x = rt.data(vec![0.0; 10]).named("x");
            let (open, begun, body) = held();
            let parent = move |cx: &Context, _: ()| -> Result<(), RunError> {
                cx.task("child", ()).host(move |_, ()| body()).submit()?;
                cx.wait()
            };
            rt.task("parent", x.weak_inout()).host(parent).submit().unwrap();
            let after = rt.task("after", x.input()).cpu(|_, _| ()).submit_handle().unwrap();
            begun.recv().unwrap();
            while !after.explain().steps.last().unwrap().name.contains("child") {
                std::thread::yield_now();
            }
            let reason = after.explain();
            let waits = ", and its body waits at tests/waits/explained.rs:";
            assert_chain(
                &reason,
                &[("after", "comes after task 0 `parent`"), ("parent", waits), ("child", "runs on unit ")],
            );
            drop(open);
            rt.wait().unwrap();
        });
    }
}

#[test]
fn task_after_a_parent_whose_body_has_ended_is_explained_by_the_child() {
    watched("child", || {
        let rt = builder("1:CPU:1", false).build().unwrap();
        let x = rt.data(vec![0.0; 10]).named("x");
        let (open, begun, body) = held();
        let inner = x.clone();
        let parent = move |cx: &Context, _: ()| -> Result<(), SubmitError> {
            cx.task("child", inner.slice(2..4).inout()).host(move |_, _| body()).submit().map(|_| ())
        };
        rt.task("parent", x.weak_inout()).host(parent).submit().unwrap();
        let after = rt.task("after", x.input()).cpu(|_, _| ()).submit_handle().unwrap();
        begun.recv().unwrap();
        let by = "comes after task 2 `child` by its access to [0..10] (in) of data `x`";
        assert_chain(&after.explain(), &[("after", by), ("child", "runs on unit 0 (CPU)")]);
        drop(open);
        rt.wait().unwrap();
    });
}

#[test]
fn task_behind_one_that_lent_a_region_is_explained_by_the_missing_return() {
    for units in ["1:CPU:1", "1:CPU:1,1:EMU:1"] {
        watched(units, move || {
            let rt = builder(units, false).build().unwrap();
            let x = rt.data(vec![0u64; 3]).named("x");
            let (send, lent) = channel();
            let lend = rt.task("lend", (x.inout(),));
            lend.host_detached_until_event(move |_, (x,)| send.send(x).unwrap()).submit().unwrap();
            let after = rt.task("after", (x.input(),)).cpu(|_, _| ()).submit_handle().unwrap();
            let guard: Lent<[u64]> = lent.recv().unwrap();
            while !after.explain().to_string().contains("continues without a thread") {
                std::thread::yield_now();
            }
            let lends = "a region that it lent out has not been given back";
            assert_chain(&after.explain(), &[("after", "comes after task 0 `lend`"), ("lend", lends)]);
            guard.finish();
            rt.wait().unwrap();
        });
    }
}

#[test]
fn long_chain_is_found_and_written_in_part() {
    watched("long", || {
        let rt = builder("1:CPU:1", false).max_pending_tasks(1 << 20).build().unwrap();
        let x = rt.scalar(0.0);
        let (open, begun, body) = held();
        rt.task("first", x.inout()).cpu(move |_, _| body()).submit().unwrap();
        begun.recv().unwrap();
        for _ in 0..20_000 {
            rt.task("next", x.inout()).cpu(|_, _| ()).submit().unwrap();
        }
        let last = rt.task("last", x.inout()).cpu(|_, _| ()).submit_handle().unwrap();
        let reason = last.explain();
        assert_eq!((reason.steps.len(), reason.steps[20_001].name.as_str()), (20_002, "first"));
        let text = reason.to_string();
        assert!(text.contains("\n  (and so on, by 19978 more tasks)\n") && text.lines().count() == 25, "{text}");
        drop(open);
        rt.wait().unwrap();
    });
}

#[test]
fn task_behind_a_replay_is_explained_by_a_task_of_the_replay() {
    watched("replay", || {
        let rt = builder("1:CPU:1", false).build().unwrap();
        let x = rt.scalar(0.0f64).named("x");
        let (begin, begun) = channel();
        let (open, opened) = channel::<()>();
        let opened = std::sync::Mutex::new(opened);
        let body = move |_: &Context, _: &mut [f64]| {
            begin.send(()).unwrap();
            _ = opened.lock().unwrap().recv();
        };
        let mut step = rt
            .record(|r| {
                r.task("before", x.inout()).cpu(|_, _| ()).submit()?;
                r.task("recorded", x.inout()).cpu(body).submit()
            })
            .unwrap();
        for _ in 0..4 {
            step.replay().unwrap();
        }
        let after = rt.task("after", x.input()).cpu(|_, _| ()).submit_handle().unwrap();
        begun.recv().unwrap();
        let reason = after.explain();
        assert_eq!(
            (reason.steps[0].name.as_str(), reason.steps.last().unwrap().name.as_str()),
            ("after", "recorded"),
            "{reason}"
        );
        assert!(reason.steps.last().unwrap().because.starts_with("runs on unit 0"), "{reason}");
        drop(open);
        rt.wait().unwrap();
    });
}
