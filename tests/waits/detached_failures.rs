//! Detached tasks that fail: failing bodies, dropped or failed guards, and tasks that are skipped.

use super::detached::lend;
use crate::common::{failed, for_each_mix, poison, runtime, watched};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use thalweg::error::FailureReason;
use thalweg::ids::{TaskId, UnitId};
use thalweg::prelude::*;
use thalweg::sched::{Policy, ReadyTask, View};

#[test]
fn failure_or_drop_of_a_guard_fails_the_task_once_all_are_returned() {
    for_each_mix(|rt| {
        let ways: [(&str, fn(Lent<[u64]>, Completion)); 5] = [
            ("failed: lost", |x, done| {
                done.finish();
                x.fail("lost");
            }),
            ("failed: late", |x, done| {
                x.finish();
                done.fail("late");
            }),
            ("abandoned: a guard was dropped unfinished", |x, done| {
                drop(x);
                done.finish();
            }),
            ("failed: a better reason", |x, done| {
                drop(x);
                done.fail("a better reason");
            }),
            ("failed: the first", |x, done| {
                x.fail("the first");
                done.fail("the second");
            }),
        ];
        for (reason, way) in ways {
            let x = rt.data(vec![0u64; 3]);
            let (send, lent) = channel();
            let body = move |cx: &thalweg::memory::Lending<'_>, (x,): (Lent<[u64]>,)| {
                send.send((x, cx.completion())).unwrap();
            };
            rt.task("outside", (x.inout(),)).host_detached_until_event(body).submit().unwrap();
            rt.task("skipped", (x.inout(),)).cpu(|_, _| ()).submit().unwrap();
            thread::scope(|scope| {
                scope.spawn(move || {
                    let (x, done) = lent.recv().unwrap();
                    way(x, done);
                });
                assert_eq!(failed(rt.wait()), ["outside"], "{reason}");
            });
            let (task, said) = poison(rt.read(&x));
            assert_eq!(task, "outside");
            assert!(said.starts_with(reason), "{said}");
        }
    });
}

#[test]
fn failing_body_keeps_its_task_open_until_its_guards_are_returned() {
    for_each_mix(|rt| {
        for panics in [false, true] {
            let x = rt.data(vec![7u64; 2]);
            let (send, lent) = channel();
            rt.task("fails", (x.inout(),))
                .host_detached_until_event(move |_, (x,): (Lent<[u64]>,)| {
                    send.send(x).unwrap();
                    assert!(!panics, "on purpose");
                    Err::<(), _>("an error")
                })
                .submit()
                .unwrap();
            let ended = Arc::new(AtomicUsize::new(0));
            let behind = ended.clone();
            rt.task("behind", (x.output(),))
                .cpu(move |_, (x,)| {
                    assert_eq!(behind.load(Ordering::SeqCst), 1, "the guard must have been returned");
                    x.fill(1);
                })
                .submit()
                .unwrap();
            thread::scope(|scope| {
                scope.spawn(move || {
                    let mut lent = lent.recv().unwrap();
                    lent[0] = 3; // the guard is still valid
                    ended.fetch_add(1, Ordering::SeqCst);
                    lent.finish();
                });
                let reason = match rt.wait() {
                    Err(RunError::Failed(failures)) => failures[0].reason().to_string(),
                    other => panic!("{other:?}"),
                };
                assert_eq!(reason, if panics { "panicked: on purpose" } else { "failed: an error" });
            });
            assert_eq!(rt.read(&x).unwrap(), [1, 1]);
        }
    });
}

#[test]
fn guard_may_be_dropped_in_a_policy() {
    /// Drops the guards that it was given before it returns a task.
    struct Drops(Vec<ReadyTask>, Arc<Mutex<Vec<Lent<[u64]>>>>);
    impl Policy for Drops {
        fn name(&self) -> &'static str {
            "drops"
        }
        fn ready(&mut self, task: ReadyTask, _: &View<'_>) {
            self.0.push(task);
        }
        fn next(&mut self, unit: UnitId, _: &View<'_>) -> Option<TaskId> {
            drop(std::mem::take(&mut *self.1.lock().unwrap()));
            let first = self.0.iter().position(|task| task.runs_on(unit))?;
            Some(self.0.remove(first).id)
        }
    }
    watched("policy", || {
        let held = Arc::default();
        let policy = Drops(Vec::new(), Arc::clone(&held));
        let rt = Runtime::builder().compute_units("2:CPU:1").policy(policy).build().unwrap();
        let x = rt.scalar(1u64);
        let guard = lend(&rt, &x).recv().unwrap();
        held.lock().unwrap().push(guard);
        rt.task("more", ()).cpu(|_, ()| ()).submit().unwrap();
        assert_eq!(failed(rt.wait()), ["lend"]);
    });
}

#[test]
fn skipped_task_does_not_lend_and_drops_its_body() {
    for_each_mix(|rt| {
        let x = rt.scalar(0u64);
        let lent = Arc::new(AtomicUsize::new(0));
        rt.task("fails", (x.inout(),)).cpu(|_, _| Err("no")).submit().unwrap();
        let count = lent.clone();
        rt.task("skipped", (x.inout(),))
            .host_detached_until_event(move |_, (x,): (Lent<[u64]>,)| {
                count.fetch_add(1, Ordering::SeqCst);
                x.finish();
            })
            .submit()
            .unwrap();
        assert_eq!(failed(rt.wait()), ["fails"]);
        assert_eq!(
            (lent.load(Ordering::SeqCst), Arc::strong_count(&lent)),
            (0, 1),
            "the body must be dropped without running"
        );
    });
}

#[test]
fn dropped_guard_fails_the_task_as_abandoned() {
    let rt = runtime("1:CPU:1");
    rt.task("drops", ()).host_detached_until_event(|cx, ()| drop(cx.completion())).submit().unwrap();
    let Err(RunError::Failed(failures)) = rt.wait() else { panic!("the task should have failed") };
    assert!(matches!(failures[0].reason(), FailureReason::Abandoned));
    assert!(failures.to_string().contains("try `finish` or `fail` on each"), "{failures}");
}

#[test]
fn dropped_or_failed_guard_of_a_value_poisons_it() {
    for_each_mix(|rt| {
        if rt.machine().num_cpu_units() == 0 {
            return;
        }
        let (one, two) = (rt.value(String::new()), rt.value(String::new()));
        rt.task("dropped", one.inout())
            .host_detached_until_event(|_, one: LentValue<String>| drop(one))
            .submit()
            .unwrap();
        rt.task("failed", two.output())
            .host_detached_until_event(|_, two: LentValue<String>| two.fail("no"))
            .submit()
            .unwrap();
        let skipped = rt.task("skipped", (one.input(), two.input())).cpu(|_, _| panic!("the task ran")).submit_handle();
        let mut failures = failed(skipped.unwrap().wait()); // the failure that happened first
        rt.task("mends", (one.output(), two.output())).cpu(|_, (one, two)| one.push_str(two)).submit().unwrap();
        failures.extend(failed(rt.wait())); // and the other one
        failures.sort_unstable(); // they ran concurrently
        assert_eq!(failures, ["dropped", "failed"]);
        assert_eq!(rt.take(one).unwrap(), "");
    });
}
