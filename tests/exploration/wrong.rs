//! Wrong programs. Each passes in the order of submission, and each is found within 1000 schedules.

use crate::common::again;
use crate::{on, task};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use thalweg::Runtime;
use thalweg::check::{Explorer, Failure, Strategy};
use thalweg::prelude::*;

const SCHEDULES: std::ops::Range<u64> = 0..1000;

/// Runs a wrong program under each strategy that draws its schedules. Each has to find the error, and the failing
/// schedule has to fail again when replayed, with the same steps.
fn found<T: PartialEq + std::fmt::Debug + Send>(
    units: &'static str,
    program: impl Fn(&Runtime) -> T + Sync,
) -> Failure {
    let strategies = [Strategy::Random, Strategy::Priorities { changes: 2 }, Strategy::Mixed];
    let failures = strategies.map(|strategy| {
        let explorer = on(units).strategy(strategy);
        let failure = explorer.run(SCHEDULES, &program).expect_err("the error is found");
        assert!(failure.schedule != "path:", "it passes in the order of submission: {failure}");
        let again = explorer.replay(&failure.schedule, &program).expect_err("a failing schedule fails again");
        assert_eq!(failure, again);
        failure
    });
    let [.., failure] = failures;
    failure
}

#[test]
fn captured_mutex_outside_of_all_regions_is_found() {
    let failure = found("2:CPU:1", |rt| {
        let words = Arc::new(Mutex::new(Vec::new()));
        for word in ["a", "b", "c"] {
            let words = words.clone();
            task(rt, "push", move || words.lock().unwrap().push(word));
        }
        rt.wait().unwrap();
        Arc::into_inner(words).unwrap().into_inner().unwrap()
    });
    assert!(failure.message.starts_with("the program returns ["), "{failure}");
    assert!(failure.message.ends_with("but [\"a\", \"b\", \"c\"] if the tasks run in the order of submission"));
    let text = failure.to_string();
    assert!(text.contains(&format!("try THALWEG_SCHEDULE={} to replay it", failure.schedule)), "{text}");
    assert!(text.contains("`push` on unit "), "{text}");
}

#[test]
fn region_that_is_not_declared_is_found() {
    // The reader goes through an atomic instead of declaring that it reads `y`.
    let failure = found("2:CPU:1", |rt| {
        let (x, cell) = (rt.data(vec![0u64]), Arc::new(AtomicU64::new(0)));
        let (written, read) = (cell.clone(), cell);
        rt.task("write", (x.output(),)).cpu(move |_, _| written.store(7, Ordering::SeqCst)).submit().unwrap();
        let y = rt.data(vec![0u64]);
        rt.task("read", (y.output(),)).cpu(move |_, (y,)| y[0] = read.load(Ordering::SeqCst)).submit().unwrap();
        assert_eq!(rt.take(y).unwrap(), [7], "the value was written before");
    });
    assert!(failure.message.contains("the value was written before"), "{failure}");
}

#[test]
fn error_that_needs_one_late_task_among_many_is_found() {
    // Only the order in which the first of 30 tasks runs after the last one is wrong.
    found("2:CPU:1", |rt| {
        let (last_ran, wrong) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        for n in 0..30 {
            let (last_ran, wrong) = (last_ran.clone(), wrong.clone());
            task(rt, "step", move || match n {
                0 => wrong.store(last_ran.load(Ordering::SeqCst), Ordering::SeqCst),
                29 => last_ran.store(1, Ordering::SeqCst),
                _ => {}
            });
        }
        rt.wait().unwrap();
        assert_eq!(wrong.load(Ordering::SeqCst), 0);
    });
}

#[test]
fn program_that_expects_tasks_not_to_run_before_its_wait_is_found() {
    found("1:CPU:1", |rt| {
        let begun = Arc::new(AtomicU64::new(0));
        let counted = begun.clone();
        task(rt, "count", move || _ = counted.fetch_add(1, Ordering::SeqCst));
        task(rt, "other", || ());
        let seen = begun.load(Ordering::SeqCst);
        rt.wait().unwrap();
        seen
    });
}

#[test]
fn panic_in_a_body_and_failure_without_notice_are_found() {
    let order = |rt: &Runtime| {
        let ran = Arc::new(Mutex::new(HashMap::new()));
        for n in 0..3 {
            let ran = ran.clone();
            task(rt, "insert", move || {
                let mut ran = ran.lock().unwrap_or_else(|error| error.into_inner());
                assert!(n != 2 || !ran.is_empty(), "nothing was inserted before");
                ran.insert(n, ());
            });
        }
    };
    let failure = found("1:CPU:1", |rt| {
        order(rt);
        rt.wait().unwrap();
    });
    assert!(failure.message.contains("nothing was inserted before"), "{failure}");
    let failure = found("1:CPU:1", order);
    assert!(failure.message.starts_with("the program has not noticed this: "), "{failure}");
}

#[test]
fn body_that_continues_too_late_is_found() {
    // After its wait, the parent expects that no other task has run meanwhile.
    found("2:CPU:1", |rt| {
        let turn = Arc::new(AtomicU64::new(0));
        let (parent, other) = (turn.clone(), turn);
        let body = move |at: &thalweg::Context, ()| {
            let before = parent.load(Ordering::SeqCst);
            at.task("child", ()).cpu(|_, ()| ()).submit().unwrap();
            at.wait().unwrap();
            assert_eq!(parent.load(Ordering::SeqCst), before, "something ran during the wait");
        };
        rt.task("parent", ()).host(body).submit().unwrap();
        task(rt, "other", move || _ = other.fetch_add(1, Ordering::SeqCst));
        rt.wait().unwrap_or_else(|error| panic!("{error}"));
    });
}

#[test]
fn state_per_unit_that_counts_on_one_unit_is_found() {
    let program = |rt: &Runtime| {
        let units = Arc::new(Mutex::new(Vec::new()));
        for _ in 0..2 {
            let (units, x) = (units.clone(), rt.data(vec![0u64; 4]));
            let body = move |at: &thalweg::Context, _: (&mut [u64],)| units.lock().unwrap().push(at.unit());
            rt.task("note", (x.inout(),)).cpu(body).submit().unwrap();
        }
        rt.wait().unwrap();
        let mut units = Arc::into_inner(units).unwrap().into_inner().unwrap();
        units.dedup();
        assert_eq!(units.len(), 1);
    };
    found("2:CPU:1", program);
    found("2:EMU:1", program);
}

#[test]
fn program_that_waits_forever_under_some_schedules_is_found() {
    // The second task ends the first one, unless it runs before it.
    let program = |rt: &Runtime| {
        let slot = Arc::new(Mutex::new(None));
        let (put, taken) = (slot.clone(), slot.clone());
        let begin = move |at: &thalweg::memory::Lending<'_>, ()| *put.lock().unwrap() = Some(at.completion());
        rt.task("begin", ()).host_detached_until_event(begin).submit().unwrap();
        task(rt, "end", move || {
            let completion: Option<Completion> = taken.lock().unwrap().take();
            completion.into_iter().for_each(Completion::finish);
        });
        rt.wait().unwrap();
    };
    let explorer = on("1:CPU:1").strategy(Strategy::Random);
    let failure = explorer.run(SCHEDULES, program).expect_err("the error is found");
    assert!(failure.message.contains("the program waits forever: "), "{failure}");
    assert!(failure.message.contains("`begin`"), "{failure}");
    assert_eq!(explorer.replay(&failure.schedule, program).unwrap_err().trace, failure.trace);
}

#[test]
#[should_panic(expected = "cannot replay `soon`: it is neither a seed nor a path; try the name from the report")]
fn name_that_is_no_schedule_is_refused() {
    let _ = Explorer::new().replay("soon", |_| ());
}

#[cfg(feature = "sim")]
#[test]
fn simulations_are_refused() {
    let laptop = || thalweg::SimulatedMachine::from_file("machines/laptop.toml").unwrap();
    let simulated = Explorer::new().runtime(move |_| Runtime::builder().simulate(laptop()));
    let error = simulated.run(0..1, |_| ()).unwrap_err();
    assert!(error.message.contains("a simulation runs no bodies, so its schedules cannot be explored"), "{error}");
}

#[test]
fn accelerators_and_wrong_units_are_refused() {
    let error = on("1:CUDA:1,1:CPU:1").run(0..1, |_| ()).unwrap_err();
    assert!(error.message.contains("CUDA"), "{error}");
    let error = on("1:NOTHING:1").run(0..1, |_| ()).unwrap_err();
    assert!(error.message.contains("NOTHING"), "{error}");
}

#[test]
fn changes_beyond_the_number_of_decisions_are_no_error() {
    let explorer = Explorer::new().strategy(Strategy::Priorities { changes: usize::MAX });
    let explored = explorer.run(0..10, |rt| {
        task(rt, "first", || ());
        task(rt, "second", || ());
        rt.wait().unwrap();
    });
    assert_eq!(explored.unwrap().schedules, 10);
}

#[test]
fn variable_selects_one_schedule_unless_it_is_empty() {
    const IN_CHILD: &str = "THALWEG_TEST_SCHEDULE";
    if std::env::var_os(IN_CHILD).is_some() {
        let program = |rt: &Runtime| {
            task(rt, "task", || ());
            rt.wait().unwrap();
        };
        let ran = std::panic::catch_unwind(|| thalweg::check::explore(0..3, program).schedules);
        return ran.into_iter().for_each(|schedules| eprintln!("{schedules} schedules ran"));
    }
    let cases = [
        ("", "3 schedules ran"),
        (" ", "3 schedules ran"),
        ("7", "1 schedules ran"),
        ("seven", "cannot replay THALWEG_SCHEDULE=`seven`: it is neither a seed nor a path; try the name"),
    ];
    for (value, expected) in cases {
        let variables = [(IN_CHILD, "1"), ("THALWEG_SCHEDULE", value)];
        let said = again("wrong::variable_selects_one_schedule_unless_it_is_empty", &variables);
        assert!(said.contains(expected), "{value}: {said}");
    }
}
