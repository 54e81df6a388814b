//! Explanations of all pending tasks: on request, in stall reports, and while a program runs at full speed.

use crate::common::{SCHEDULERS, builder, for_each_free_mix, watched};
use crate::explained::held;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;
use thalweg::PendingTask;
use thalweg::prelude::*;

#[test]
fn pending_tasks_are_written_below_the_tasks_that_they_wait_for() {
    watched("forest", || {
        let rt = builder("1:CPU:1", false).name("forest").build().unwrap();
        let [x, y] = ["x", "y"].map(|name| rt.data(vec![0.0; 10]).named(name));
        let (open, begun, body) = held();
        rt.task("load", x.output()).cpu(move |_, _| body()).submit().unwrap();
        begun.recv().unwrap();
        rt.task("scale", x.inout()).cpu(|_, _| ()).submit().unwrap();
        rt.task("sum", x.input()).cpu(|_, _| ()).submit().unwrap();
        rt.task("queued", y.output()).cpu(|_, _| ()).submit().unwrap();
        rt.task("then", y.input()).cpu(|_, _| ()).submit().unwrap();
        let all = rt.explain();
        let found: Vec<_> = all.tasks.iter().map(|task| (task.depth, task.step.name.as_str())).collect();
        assert_eq!(found, [(0, "load"), (1, "scale"), (2, "sum"), (0, "queued"), (1, "then")], "{all}");
        assert_eq!((all.pending, all.left_out, all.runtime.as_deref()), (5, 0, Some("forest")));
        let line = |task: &PendingTask| format!("{:2$}{}", "", task.step, 2 * task.depth + 2);
        let lines: Vec<_> = all.tasks.iter().map(line).collect();
        assert_eq!(all.to_string(), format!("runtime `forest`: 5 tasks are pending\n{}", lines.join("\n")));
        let because = |n: usize| all.tasks[n].step.because.as_str();
        assert!(because(0).starts_with("runs on unit 0 (CPU)"), "{all}");
        assert_eq!(because(2), "comes after task 1 `scale` by its access to [0..10] (in) of data `x`");
        assert!(because(3).starts_with("is ready and waits for a unit: unit 0 (CPU) runs task 0 `load`"), "{all}");
        drop(open);
        rt.wait().unwrap();
        assert_eq!(rt.explain().to_string(), "runtime `forest`: 0 tasks are pending");
    });
}

#[test]
fn many_pending_tasks_are_counted_rather_than_written() {
    watched("many", || {
        let rt = builder("1:CPU:1", false).max_pending_tasks(1 << 20).build().unwrap();
        let x = rt.data(vec![0.0; 4096]);
        let (open, begun, body) = held();
        rt.task("first", x.inout()).cpu(move |_, _| body()).submit().unwrap();
        begun.recv().unwrap();
        rt.for_each("next", x.blocks(8).inout()).cpu(|_, _| ()).submit().unwrap();
        (0..100).for_each(|_| _ = rt.task("free", ()).cpu(|_, ()| ()).submit().unwrap());
        let all = rt.explain();
        let alike: usize = all.tasks.iter().map(|task| task.alike).sum();
        assert_eq!((all.pending, all.tasks.len() + alike + all.left_out), (1 + 512 + 100, 1 + 512 + 100), "{all}");
        let free = all.tasks.iter().find(|task| task.step.name == "free").unwrap();
        assert_eq!((free.depth, free.alike), (0, 99), "{all}");
        let ends = format!(" (and 99 more tasks likewise)\n  and {} more tasks, which wait", all.left_out);
        assert!(all.tasks.len() < 10 && all.to_string().ends_with(&ends), "{all}");
        drop(open);
        rt.wait().unwrap();
    });
}

#[test]
fn stall_report_says_what_waits_for_what() {
    for units in ["1:CPU:1", "1:CPU:1,1:EMU:1"] {
        watched(units, move || {
            let (tell, told) = channel();
            let rt = builder(units, false)
                .report_stalls_after(Duration::from_millis(1))
                .on_stall(move |stall| tell.send(stall.clone()).unwrap())
                .build()
                .unwrap();
            let x = rt.data(vec![0.0; 10]).named("x");
            let (open, begun, body) = held();
            rt.task("stuck", x.inout()).host(move |_, _| body()).submit().unwrap();
            rt.task("waits", x.inout()).cpu(|_, _| ()).submit().unwrap();
            begun.recv().unwrap();
            std::thread::scope(|scope| {
                scope.spawn(|| rt.wait().unwrap());
                let stall = told.recv().unwrap();
                let words = "comes after task 0 `stuck` by its access to [0..10] (inout) of data `x`";
                assert_eq!(stall.reasons.tasks[1].step.because, words, "{stall}");
                assert!(
                    stall.to_string().contains(". What waits, and for what:\n  task 0 `stuck`, submitted at "),
                    "{stall}"
                );
                drop(open);
            });
        });
    }
}

#[test]
fn explaining_changes_no_result_and_loses_no_task() {
    for_each_free_mix(|rt| {
        let (x, sum) = (rt.data(vec![1u64; 64]), rt.scalar(0u64));
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let explaining = [(); 2].map(|()| {
                scope.spawn(|| {
                    let mut explained = 0;
                    while !done.load(Ordering::Relaxed) {
                        let all = rt.explain();
                        explained += all.tasks.len();
                        assert!(all.tasks.iter().all(|task| !task.step.because.is_empty()), "{all}");
                    }
                    explained
                })
            });
            for round in 0..40 {
                for block in x.blocks(8) {
                    rt.task("add", block.inout()).cpu(|_, x| x.iter_mut().for_each(|x| *x += 1)).submit().unwrap();
                    rt.task("any", sum.commutative()).cpu(|_, sum| sum[0] += 1).submit().unwrap();
                }
                let last = rt.task("shift", x.inout()).cpu(|_, x| x.rotate_left(1)).submit_handle().unwrap();
                let reason = last.explain();
                assert_eq!(reason.steps[0].name, "shift", "{reason}");
                for pair in reason.steps.windows(2) {
                    let names_next = pair[0].because.contains(&format!("{} `", pair[1].task));
                    assert!(names_next || pair[0].because.contains("waits at"), "round {round}: {reason}");
                }
            }
            rt.wait().unwrap();
            done.store(true, Ordering::Relaxed);
            explaining.into_iter().for_each(|explaining| _ = explaining.join().unwrap());
        });
        assert_eq!(rt.read(&x).unwrap(), [41; 64]);
        assert_eq!(rt.read(&sum).unwrap()[0], 320);
    });
}

#[test]
fn bodies_that_fork_children_are_explained_while_they_run() {
    /// Counts to `n` with nested children.
    fn count(cx: &thalweg::Context, n: u64, hits: &Arc<std::sync::atomic::AtomicU64>) -> Result<(), RunError> {
        hits.fetch_add(1, Ordering::Relaxed);
        for _ in 0..if n > 0 { 3 } else { 0 } {
            let hits = hits.clone();
            cx.task("child", ()).host(move |cx: &thalweg::Context, ()| count(cx, n - 1, &hits)).submit()?;
        }
        cx.wait()
    }
    for scheduler in SCHEDULERS {
        watched(scheduler, move || {
            let rt = builder("2:CPU:1", false).scheduler(scheduler).build().unwrap();
            let hits = Arc::new(std::sync::atomic::AtomicU64::new(0));
            let inner = hits.clone();
            let root = rt
                .task("root", ())
                .host(move |cx: &thalweg::Context, ()| count(cx, 6, &inner))
                .submit_handle()
                .unwrap();
            while !root.is_finished() {
                let reason = root.explain();
                assert_eq!(reason.steps[0].name, "root", "{reason}");
            }
            rt.wait().unwrap();
            assert_eq!(hits.load(Ordering::Relaxed), (0..=6).map(|n| 3u64.pow(n)).sum());
        });
    }
}
