//! Traces of replays: a replay runs as it does without a trace, and its tasks are recorded as if they had been
//! submitted.

use super::traced;
use std::collections::BTreeSet;
use thalweg::Explanation;
use thalweg::prelude::*;
use thalweg_trace::{AccessMode, Outcome, Trace};

const ROUNDS: usize = 20;

fn cpu(units: &str) -> thalweg::Builder {
    Runtime::builder().compute_units(units)
}

/// Two blocks that are updated, and a task that reads both.
fn record(rt: &Runtime, x: &Data<u64>) -> Recording {
    rt.record(|r| {
        for block in x.blocks(5) {
            r.task("add", block.inout()).cpu(|_, x| x.iter_mut().for_each(|x| *x += 1)).submit()?;
        }
        r.task("sum", x.input()).cpu(|_, x| assert!(x[0] > 0)).submit()
    })
    .unwrap()
}

/// Asserts that these are the tasks of `rounds` replays, in order, and that each round ran after the one before.
fn assert_rounds(trace: &Trace, first: usize, rounds: usize) {
    let mut before = 0;
    for round in 0..rounds {
        let [add, other, sum] = &trace.tasks[first + 3 * round..][..3] else { panic!("three tasks") };
        let names = [add, other, sum].map(|task| trace.sites[task.site].name.as_str());
        assert_eq!(names, ["add", "add", "sum"]);
        for task in [add, other, sum] {
            assert_eq!(task.outcome, Some(Outcome::Done));
            assert!(task.submitted <= task.start.unwrap() && task.submitter.is_some());
        }
        // The clocks of two cores may differ, but by less time than a message between the cores takes.
        assert!(before <= add.start.unwrap().min(other.start.unwrap()) + 1000, "round {round}");
        assert!(add.end.max(other.end).unwrap() <= sum.start.unwrap() + 1000, "round {round}");
        assert!(add.ready.unwrap() <= add.start.unwrap() && add.ready.unwrap() + 1000 >= before);
        before = sum.end.unwrap();
    }
    assert_eq!(trace.tasks.len(), first + 3 * rounds);
}

#[test]
fn replay_is_frozen_and_each_of_its_tasks_is_recorded() {
    for units in ["1:CPU:1", "2:CPU:1"] {
        let trace = traced(cpu(units).trace_accesses(true), |rt| {
            let x = rt.data(vec![0u64; 10]).named("x");
            let mut step = record(rt, &x);
            for _ in 0..ROUNDS {
                step.replay().unwrap();
                assert_eq!(*step.explain(), Explanation::Frozen);
            }
            rt.wait().unwrap();
            drop(step);
            assert_eq!(rt.take(x).unwrap(), [ROUNDS as u64; 10]);
        });
        assert_rounds(&trace, 0, ROUNDS);
        let numbers: BTreeSet<_> = trace.tasks.iter().map(|task| task.number).collect();
        assert_eq!(numbers.len(), 3 * ROUNDS);
        for round in 0..ROUNDS {
            let of = |index: usize| {
                trace.dependences.iter().filter(move |edge| edge.to == 3 * round + index).map(|edge| {
                    let data = edge.data.map(|data| trace.data[&data].name.as_str());
                    (edge.from, data, edge.carries_value)
                })
            };
            let x = Some("data `x`");
            assert_eq!(of(2).collect::<Vec<_>>(), [(3 * round, x, true), (3 * round + 1, x, true)]);
            for index in 0..2 {
                let previous = |round: usize| [(3 * round + index, x, true), (3 * round + 2, x, false)];
                let expected = round.checked_sub(1).map_or_else(Vec::new, |round| previous(round).to_vec());
                assert_eq!(of(index).collect::<Vec<_>>(), expected, "round {round}");
            }
            let accesses = trace.accesses.iter().filter(|access| access.task / 3 == round);
            let accesses = accesses.map(|a| (a.task % 3, a.mode, trace.regions[a.region.unwrap()].text.as_str()));
            let expected = [
                (0, AccessMode::Update, "[0..5]"),
                (1, AccessMode::Update, "[5..10]"),
                (2, AccessMode::Read, "[0..10]"),
            ];
            assert_eq!(accesses.collect::<Vec<_>>(), expected);
        }
    }
}

#[test]
fn replays_of_two_recordings_and_other_tasks_are_told_apart() {
    let trace = traced(cpu("2:CPU:1"), |rt| {
        let (x, y) = (rt.data(vec![0u64; 10]), rt.scalar(0u64));
        let mut step = record(rt, &x);
        let mut other = rt.record(|r| r.task("other", y.inout()).cpu(|_, y| y[0] += 1).submit()).unwrap();
        for _ in 0..ROUNDS {
            step.replay().unwrap();
            other.replay().unwrap();
            rt.task("between", y.inout()).cpu(|_, y| y[0] += 1).submit().unwrap();
        }
        rt.wait().unwrap();
        assert_eq!((rt.read(&x).unwrap()[0], rt.read(&y).unwrap()[0]), (ROUNDS as u64, 2 * ROUNDS as u64));
    });
    let names: Vec<_> = (0..trace.tasks.len()).map(|task| trace.name(task)).collect();
    assert_eq!(names, ["add", "add", "sum", "other", "between"].repeat(ROUNDS));
    assert!(trace.tasks.iter().all(|task| task.outcome == Some(Outcome::Done)));
    let starts: Vec<_> = trace.tasks.iter().skip(3).step_by(5).map(|task| task.start).collect();
    assert!(starts.is_sorted());
}

#[test]
fn children_and_failures_belong_to_their_replay() {
    let trace = traced(cpu("1:CPU:1"), |rt| {
        let (x, y) = (rt.scalar(0u64), rt.scalar(0u64));
        let mut step = rt
            .record(|r| {
                let fails = r.parameter("fails", false);
                r.task("parent", (fails.input(), x.inout()))
                    .cpu(|cx, (fails, x)| {
                        x[0] += 1;
                        cx.task("child", ()).cpu(|_, ()| ()).submit().map_err(|error| error.to_string())?;
                        if *fails { Err("no".to_owned()) } else { Ok(()) }
                    })
                    .submit()?;
                r.task("after", (x.input(), y.output())).cpu(|_, (x, y)| y[0] = x[0]).submit()
            })
            .unwrap();
        for fails in [false, true, false] {
            step.set_by_name("fails", fails).unwrap();
            step.replay().unwrap();
            let _ = rt.wait();
            rt.task("clear", x.output()).cpu(|_, x| x[0] = 0).submit().unwrap();
        }
    });
    let of = |name: &str| (0..trace.tasks.len()).filter(|task| trace.name(*task) == name).collect::<Vec<_>>();
    let outcomes = of("parent").into_iter().map(|task| trace.tasks[task].outcome);
    assert_eq!(outcomes.collect::<Vec<_>>(), [Some(Outcome::Done), Some(Outcome::Failed), Some(Outcome::Done)]);
    let after = of("after");
    assert_eq!(trace.notes.iter().map(|note| note.task).collect::<Vec<_>>(), [after[1]]);
    assert!(trace.tasks[after[1]].start.is_none() && trace.tasks[after[2]].start.is_some());
    let parents: Vec<_> = of("child").into_iter().map(|task| trace.tasks[task].parent.unwrap()).collect();
    assert_eq!(parents, of("parent"));
}

#[test]
fn recording_that_is_never_replayed_is_not_in_the_trace() {
    let trace = traced(cpu("1:CPU:1"), |rt| {
        let x = rt.data(vec![0u64; 10]);
        let mut step = record(rt, &x);
        drop(rt.take(x));
        step.replay().unwrap_err();
    });
    assert_eq!(trace.tasks.len(), 0, "{:?}", trace.tasks);
}
