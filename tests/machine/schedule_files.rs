//! Schedules: recorded, kept as text, and followed by another run.

use crate::common::{MIXES, SCHEDULERS, watched};
use std::sync::{Arc, Mutex};
use thalweg::Builder;
use thalweg::prelude::*;
use thalweg::sched::Schedule;

const TASKS: usize = 40;

/// Chains on four data objects; `more` tasks without data behind them.
fn program(rt: &Runtime, more: usize) -> Vec<u64> {
    let data: Vec<_> = (0..4).map(|n| rt.scalar(n as u64)).collect();
    for n in 0..TASKS {
        let name = if n % 3 == 0 { "triple" } else { "add \"one\"\n" };
        let body = move |x: &mut u64| *x = if n % 3 == 0 { *x * 3 } else { *x + 1 };
        rt.task(name, (data[n % 4].inout(),)).cpu(move |_, (x,)| body(&mut x[0])).submit().unwrap();
    }
    (0..more).for_each(|_| _ = rt.task("more", ()).cpu(|_, ()| ()).submit().unwrap());
    rt.wait().unwrap();
    data.iter().map(|x| rt.read_scalar(x).unwrap()).collect()
}

fn builder(units: &str) -> Builder {
    Runtime::builder().compute_units(units).record_schedule(true)
}

fn placement(schedule: &Schedule) -> Vec<Option<UnitId>> {
    (0..TASKS as u64).map(|n| schedule.unit(TaskId(n))).collect()
}

#[test]
fn a_replay_places_every_task_as_recorded() {
    for (units, scheduler) in MIXES.into_iter().flat_map(|units| SCHEDULERS.map(|scheduler| (units, scheduler))) {
        watched(&format!("{units} {scheduler}"), move || {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("schedule.txt");
            let rt = builder(units).scheduler(scheduler).build().unwrap();
            let values = program(&rt, 0);
            let recorded = rt.schedule().unwrap();
            assert!(recorded.len() == TASKS && !recorded.is_empty());
            std::fs::write(&path, recorded.to_text()).unwrap();
            assert_eq!(Schedule::from_text(&std::fs::read_to_string(&path).unwrap()).unwrap(), recorded);

            let replay = builder(units).scheduler(format!("replay:file={}", path.display())).build().unwrap();
            assert_eq!(program(&replay, 0), values);
            assert_eq!(placement(&replay.schedule().unwrap()), placement(&recorded));
            assert_eq!(replay.statistics().deviations, None);
            assert_eq!(replay.statistics().tasks, rt.statistics().tasks);
        });
    }
}

#[test]
fn what_a_schedule_does_not_know_runs_and_is_reported() {
    watched("deviations", || {
        let mut schedule = Schedule::default();
        for n in 0..TASKS as u64 {
            let name = if n % 3 == 0 { "triple" } else { "add \"one\"\n" };
            match n {
                5 => schedule.push(TaskId(n), "another name", UnitId(0)),
                6 => schedule.push(TaskId(n), name, UnitId(9)),
                7 => {}
                _ => schedule.push(TaskId(n), name, UnitId(1)),
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("schedule.txt");
        std::fs::write(&path, schedule.to_text()).unwrap();
        let rt = builder("2:CPU:1").scheduler(format!("replay:file={}", path.display())).build().unwrap();
        let plain = Runtime::builder().compute_units("1:CPU:1").build().unwrap();
        assert_eq!(program(&rt, 3), program(&plain, 3));
        let deviations = rt.statistics().deviations.unwrap();
        assert_eq!(deviations.tasks, 6);
        assert!(rt.statistics().to_string().contains("6 tasks did not go by the schedule; the first, task "));
        let ran = rt.schedule().unwrap();
        let known = (0..TASKS as u64).filter(|n| !(5..8).contains(n));
        known.for_each(|n| assert_eq!(ran.unit(TaskId(n)), Some(UnitId(1)), "{n}"));
    });
}

#[test]
fn failed_tasks_are_recorded_and_skipped_ones_are_not() {
    watched("failed", || {
        let rt = builder("1:CPU:1").build().unwrap();
        let x = rt.scalar(0u64);
        rt.task("fails", (x.inout(),)).cpu(|_, _| Err("no")).submit().unwrap();
        rt.task("skipped", (x.inout(),)).cpu(|_, _| ()).submit().unwrap();
        rt.wait().unwrap_err();
        let schedule = rt.schedule().unwrap();
        assert_eq!((schedule.unit(TaskId(0)), schedule.unit(TaskId(1))), (Some(UnitId(0)), None));
        assert!(Runtime::builder().compute_units("1:CPU:1").build().unwrap().schedule().is_none());
    });
}

#[test]
fn bad_texts_say_where_they_are_bad() {
    for (text, words) in [
        ("", "line 1: `` is not `thalweg schedule 1`"),
        ("nonsense", "line 1: `nonsense`"),
        ("thalweg schedule 1\nx 0 t", "line 2: `x` is not a task's number"),
        ("thalweg schedule 1\n\n0 -1 t", "line 3: `-1` is not a unit's number"),
        ("thalweg schedule 1\n0", "line 2: `` is not a unit's number"),
        ("thalweg schedule 1\n3 0 t\n3 1 t", "line 3: task 3 stands there twice"),
    ] {
        let error = Schedule::from_text(text).unwrap_err().to_string();
        assert!(error.starts_with("not a schedule: ") && error.contains(words), "{text:?}: {error}");
    }
    for name in ["", " two  words ", "a\nb\r\t\0\u{1}", "back\\slash \"quoted\" 'it' \u{e9} \\u{41}", "\u{202e}"] {
        let mut schedule = Schedule::default();
        schedule.push(TaskId(7), name, UnitId(2));
        assert_eq!(Schedule::from_text(&schedule.to_text()).unwrap(), schedule, "{name:?}");
    }
}

#[test]
fn a_policy_of_ones_own_is_recorded_too() {
    watched("own", || {
        let names = Arc::new(Mutex::new(Vec::new()));
        let rt = builder("2:CPU:1").policy(thalweg::sched::Priority::new()).build().unwrap();
        for n in 0..6 {
            let names = names.clone();
            rt.task("urgent", ()).cpu(move |_, ()| names.lock().unwrap().push(n)).priority(n).submit().unwrap();
        }
        rt.wait().unwrap();
        assert_eq!((rt.schedule().unwrap().len(), names.lock().unwrap().len()), (6, 6));
    });
}
