//! Custom policies that break their contract: they are replaced, and every task still runs.

use super::own_policies::{MIXES, Own, check, first, reported, submit};
use crate::common::watched;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use thalweg::error::{RunError, SubmitError};
use thalweg::ids::{TaskId, UnitId};
use thalweg::prelude::*;
use thalweg::sched::{Policy, ReadyTask, Sample, View};

/// Runs a program on all machines under a policy that breaks its contract. The report must contain all of `words`.
fn breaks<P: Policy + 'static>(policy: fn() -> P, words: &[&str]) {
    for units in MIXES {
        let words: Vec<String> = words.iter().map(|words| (*words).to_owned()).collect();
        watched(units, move || {
            let rt = Runtime::builder().compute_units(units).policy(policy()).build().unwrap();
            let data = submit(&rt);
            let report = reported(rt.wait());
            assert!(report.starts_with("cannot continue with policy `own`: "), "{report}");
            for words in &words {
                assert!(report.contains(words), "{units}: `{words}` is not in: {report}");
            }
            assert!(report.contains("; try ") && report.ends_with(". `stealing` has replaced it"), "{report}");
            check(&rt, &data);
            submit(&rt);
            rt.wait().unwrap();
        });
    }
}

#[test]
fn policy_that_returns_an_unknown_task_is_replaced() {
    let policy = || Own::new(|_, _, _| Some(TaskId(1 << 40)));
    breaks(policy, &["it gave unit 0 task 1099511627776, which is not in its charge", "each ready task once"]);
}

#[test]
fn policy_that_returns_a_task_twice_is_replaced() {
    // Assign the task a second time as soon as the policy is asked again, whether or not the task is still running.
    let policy = || {
        let mut given = None;
        Own::new(move |tasks, unit, _| {
            given = given.take().or_else(|| first(tasks, unit));
            given
        })
    };
    breaks(policy, &["task 0, which is not in its charge"]);
}

#[test]
fn policy_that_picks_an_unsuitable_unit_is_replaced() {
    watched("wrong unit", || {
        let own = Own::new(|tasks, _, _| tasks.pop().map(|task| task.id));
        let rt = Runtime::builder().compute_units("1:CPU:1,1:EMU:1").policy(own).build().unwrap();
        let x = rt.scalar(1u64);
        // Unit 0 is asked first.
        rt.task("device", (x.inout(),)).emulated(|_, (x,)| x[0] += 1).submit().unwrap();
        let report = reported(rt.wait());
        let words = "it gave unit 0 task 0 `device` (submitted at tests/machine/own_policy_breaches.rs:";
        assert!(report.contains(words) && report.contains("which cannot run there; try tasks for which "), "{report}");
        assert_eq!(rt.read(&x).unwrap()[0], 2);
    });
}

#[test]
fn policy_that_holds_back_a_task_forever_is_replaced() {
    breaks(
        || Own::new(|_, _, _| None),
        &["it holds back task 0 `step` (submitted at tests/machine/own_policies.rs:", "is_idle"],
    );
    let not_the_fifth = || {
        Own::new(|tasks, unit, _| {
            let other = tasks.iter().position(|task| task.id.0 != 5 && task.runs_on(unit))?;
            Some(tasks.remove(other).id)
        })
    };
    breaks(not_the_fifth, &["it holds back task 5 `step`", "though no unit has anything to do"]);
}

/// A policy that panics in one of its methods.
struct Panics(&'static str, Vec<ReadyTask>);

impl Panics {
    fn at(&self, method: &str) {
        assert!(self.0 != method, "no idea");
    }
}

impl Policy for Panics {
    fn name(&self) -> &'static str {
        "own"
    }
    fn ready(&mut self, task: ReadyTask, _: &View<'_>) {
        self.at("ready");
        self.1.push(task);
    }
    fn next(&mut self, unit: UnitId, _: &View<'_>) -> Option<TaskId> {
        self.at("next");
        first(&mut self.1, unit)
    }
    fn in_flight(&mut self, _: UnitId, _: usize) {
        self.at("in_flight");
    }
    fn finished(&mut self, _: &Sample) {
        self.at("finished");
    }
}

#[test]
fn policy_that_panics_is_replaced() {
    breaks(|| Panics("ready", Vec::new()), &["it panicked when it was notified that task 0 `step` is ready: no idea"]);
    breaks(|| Panics("next", Vec::new()), &["it panicked when it was asked for a task for unit 0: no idea"]);
    breaks(
        || Panics("in_flight", Vec::new()),
        &["it panicked when it was notified how many tasks unit 0 has: no idea"],
    );
    breaks(
        || Panics("finished", Vec::new()),
        &["it panicked when it was notified that task ", "`step` has run: no idea"],
    );
}

#[test]
fn submission_and_wait_inside_a_policy_are_refused() {
    for units in MIXES {
        watched(units, move || {
            let runtime: Arc<OnceLock<Weak<Runtime>>> = Arc::default();
            let (used, said) = (runtime.clone(), Arc::new(Mutex::new(Vec::new())));
            let saying = said.clone();
            let own = Own::new(move |tasks, unit, _| {
                if let Some(rt) = used.get().and_then(Weak::upgrade)
                    && saying.lock().unwrap().is_empty()
                {
                    let submitted = rt.task("more", ()).cpu(|_, ()| ()).submit().map(|_| ());
                    let waited = rt.wait().map_err(|error| match error {
                        RunError::Refused(error) => error,
                        other => panic!("{other}"),
                    });
                    *saying.lock().unwrap() = vec![submitted, waited];
                }
                first(tasks, unit)
            });
            let rt = Arc::new(Runtime::builder().compute_units(units).policy(own).build().unwrap());
            runtime.set(Arc::downgrade(&rt)).unwrap();
            let data = submit(&rt);
            rt.wait().unwrap();
            check(&rt, &data);
            let refused = |call| Err(SubmitError::InsidePolicy { call });
            assert_eq!(*said.lock().unwrap(), [refused("submit"), refused("wait")]);
        });
    }
}

#[test]
fn policy_that_queries_its_runtime_is_replaced() {
    watched("statistics", || {
        let runtime: Arc<OnceLock<Weak<Runtime>>> = Arc::default();
        let used = runtime.clone();
        let own = Own::new(move |tasks, unit, _| {
            if let Some(rt) = used.get().and_then(Weak::upgrade) {
                rt.statistics();
            }
            first(tasks, unit)
        });
        let rt = Arc::new(Runtime::builder().compute_units("1:CPU:1").policy(own).build().unwrap());
        runtime.set(Arc::downgrade(&rt)).unwrap();
        let data = submit(&rt);
        let report = reported(rt.wait());
        assert!(report.contains("unit 0: cannot use the runtime in a call of its policy; try "), "{report}");
        check(&rt, &data);
    });
}

#[test]
fn data_dropped_by_a_policy_does_not_deadlock() {
    watched("drops data", || {
        let held: Arc<Mutex<Vec<Data<u64>>>> = Arc::default();
        let dropped = held.clone();
        let own = Own::new(move |tasks, unit, _| {
            drop(std::mem::take(&mut *dropped.lock().unwrap()));
            first(tasks, unit)
        });
        let rt = Runtime::builder().compute_units("1:CPU:1,1:EMU:1").policy(own).build().unwrap();
        held.lock().unwrap().push(rt.scalar(7));
        let data = submit(&rt);
        rt.wait().unwrap();
        check(&rt, &data);
        assert!(held.lock().unwrap().is_empty());
    });
}

#[test]
fn panicking_destructor_of_a_policy_or_stall_callback_is_contained() {
    struct Panics(Arc<AtomicUsize>);
    impl Drop for Panics {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
            panic!("on purpose");
        }
    }
    for breaks in [false, true] {
        let dropped = Arc::new(AtomicUsize::new(0));
        let counted = dropped.clone();
        watched(&format!("breaks={breaks}"), move || {
            let [of_policy, of_report] = [(); 2].map(|()| Panics(dropped.clone()));
            let policy = Own::new(move |tasks: &mut Vec<_>, unit, _: &View<'_>| {
                let _ = &of_policy;
                assert!(!breaks, "on purpose");
                first(tasks, unit)
            });
            let builder = Runtime::builder().compute_units("1:CPU:1").policy(policy);
            let rt = builder.on_stall(move |_| _ = &of_report).build().unwrap();
            rt.task("task", ()).cpu(|_, ()| ()).submit().unwrap();
            let _ = rt.wait();
            drop(rt);
        });
        assert_eq!(counted.load(Ordering::Relaxed), 2);
    }
}

#[cfg(feature = "sim")]
mod simulated {
    use super::*;
    use crate::simulation::plain;

    fn simulate(policy: impl Policy + 'static) -> (Runtime, Result<(), RunError>) {
        let rt = Runtime::builder().simulate(plain(false)).compute_units("2:CPU:1").policy(policy).build().unwrap();
        for _ in 0..10 {
            rt.task("work", ()).cpu(|_, ()| ()).submit().unwrap();
        }
        let waited = rt.wait();
        (rt, waited)
    }

    #[test]
    fn policy_decides_in_a_simulation() {
        watched("simulated", || {
            let (rt, waited) = simulate(Own::new(|tasks, unit, _| first(tasks, unit)));
            waited.unwrap();
            assert_eq!(rt.now().as_nanos(), 500);
            let only_one = Own::new(|tasks, unit, _| if unit == UnitId(1) { first(tasks, unit) } else { None });
            let (rt, waited) = simulate(only_one);
            waited.unwrap();
            assert_eq!(rt.now().as_nanos(), 1000);
        });
    }

    #[test]
    fn simulation_ends_under_a_broken_policy() {
        watched("simulated", || {
            for policy in [Panics("ready", Vec::new()), Panics("next", Vec::new()), Panics("finished", Vec::new())] {
                let (rt, waited) = simulate(policy);
                assert!(reported(waited).contains("no idea"));
                assert_eq!(rt.now().as_nanos(), 500);
            }
            let (rt, waited) = simulate(Own::new(|_, _, _| None));
            assert!(reported(waited).contains("it holds back task 0 `work`"));
            assert_eq!(rt.now().as_nanos(), 500);
        });
    }
}
