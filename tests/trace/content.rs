//! Contents of traces: tasks, dependences, copies, failures and times must match the run.

use super::{traced, two_cores};
use std::collections::BTreeSet;
use thalweg::prelude::*;
use thalweg_trace::{AccessMode, NoteKind, Outcome, StateKind, Trace};

fn cpu(units: &str) -> thalweg::Builder {
    Runtime::builder().compute_units(units)
}

/// Asserts that each dependence leads from a task to a task that began after the first had ended.
fn assert_in_order(trace: &Trace) {
    for dependence in &trace.dependences {
        let (from, to) = (&trace.tasks[dependence.from], &trace.tasks[dependence.to]);
        let (Some(finished), Some(start)) = (from.finished, to.start) else { continue };
        // The clocks of two cores may differ, but by less time than a message between the cores takes.
        assert!(finished <= start + 1000, "{from:?} ended after {to:?} began");
    }
}

#[test]
fn tasks_have_their_names_places_units_and_times() {
    let trace = traced(cpu("2:CPU:1"), |rt| {
        let x = rt.data(vec![0u64; 10]).named("x");
        rt.task("first", (x.output(),)).cpu(|_, (x,)| x.fill(1)).submit().unwrap();
        rt.task(String::from("second"), (x.inout(),)).cpu(|_, (x,)| x[0] += 1).submit().unwrap();
        rt.wait().unwrap();
    });
    assert_eq!((trace.tasks.len(), trace.units.len(), &trace.spaces[..]), (2, 2, &["host".to_owned()][..]));
    for (task, name) in trace.tasks.iter().zip(["first", "second"]) {
        let site = &trace.sites[task.site];
        assert_eq!((site.name.as_str(), task.outcome), (name, Some(Outcome::Done)));
        assert!(site.file.ends_with("content.rs") && site.line > 0);
        assert!(task.submitted <= task.start.unwrap() && task.start <= task.end && task.unit.unwrap() < 2);
    }
    let [dependence] = trace.dependences[..] else { panic!("one dependence: {:?}", trace.dependences) };
    assert_eq!((dependence.from, dependence.to, dependence.carries_value), (0, 1, true));
    let data = &trace.data[&dependence.data.unwrap()];
    assert_eq!((data.name.as_str(), data.bytes), ("data `x`", 80));
    assert_in_order(&trace);
    assert!(trace.states.iter().any(|state| state.kind == StateKind::Wait));
    assert_eq!((trace.facts["scheduler"].as_str(), trace.facts["simulated"].as_str()), ("stealing", "false"));
}

#[test]
fn dependences_are_those_of_the_recorded_graph() {
    let mut edges = BTreeSet::new();
    let trace = traced(cpu("2:CPU:1").record_graph(true), |rt| {
        let x = rt.data(vec![0u64; 64]);
        let mut random = 1u64;
        for _ in 0..300 {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let (from, len) = ((random >> 33) as usize % 60, 1 + (random >> 40) as usize % 4);
            let part = x.slice(from..from + len);
            match random >> 62 {
                0 => rt.task("read", (part.input(),)).cpu(|_, _| ()).submit().unwrap(),
                1 => rt.task("write", (part.output(),)).cpu(|_, (x,)| x.fill(1)).submit().unwrap(),
                _ => rt.task("update", (part.inout(),)).cpu(|_, (x,)| x[0] += 1).submit().unwrap(),
            };
        }
        rt.wait().unwrap();
        let graph = rt.graph().unwrap();
        let graph = graph.petgraph();
        for edge in graph.raw_edges() {
            let number = |node: petgraph::graph::NodeIndex| graph.node_weight(node).unwrap().id.0;
            edges.insert((number(edge.source()), number(edge.target())));
        }
    });
    let number = |task: usize| trace.tasks[task].number;
    let traced = trace.dependences.iter().map(|d| (number(d.from), number(d.to))).collect::<BTreeSet<_>>();
    assert!(edges.len() > 300);
    assert_eq!(traced, edges);
    assert_in_order(&trace);
}

#[test]
fn each_of_many_tasks_of_many_threads_is_there_once() {
    const THREADS: usize = 4;
    const TASKS: usize = 10_000;
    let trace = traced(cpu("2:CPU:1"), |rt| {
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    let x = rt.scalar(0u64);
                    for _ in 0..TASKS {
                        rt.task("add", (x.inout(),)).cpu(|_, (x,)| x[0] += 1).submit().unwrap();
                    }
                    assert_eq!(rt.take(x).unwrap(), [TASKS as u64]);
                });
            }
        });
    });
    assert_eq!(trace.tasks.len(), THREADS * TASKS);
    let submitters: BTreeSet<_> = trace.tasks.iter().map(|task| task.submitter.unwrap()).collect();
    assert_eq!(submitters.len(), THREADS);
    assert!(trace.tasks.iter().all(|task| task.outcome == Some(Outcome::Done)));
    assert!(trace.dependences.len() >= THREADS * (TASKS - 1));
    assert_in_order(&trace);
}

#[test]
fn accesses_are_recorded_with_regions_and_modes_on_request() {
    let program = |rt: &Runtime| {
        let (x, y) = (rt.data(vec![0u64; 10]).named("x"), rt.scalar(0u64));
        rt.task("first", (x.slice(2..5).input(), y.reduction(Sum))).cpu(|_, _| ()).submit().unwrap();
        rt.task("second", (x.inout(), y.output())).cpu(|_, (_, y)| y[0] = 1).submit().unwrap();
        rt.for_each("third", x.blocks(5).output()).cpu(|_, x| x.fill(0)).submit().unwrap();
        rt.task("last", y.concurrent()).cpu(|_, y| y.update(0, |y| y + 1)).submit().unwrap();
        rt.wait().unwrap();
    };
    assert!(traced(cpu("1:CPU:1"), program).accesses.is_empty());
    let trace = traced(cpu("1:CPU:1").trace_accesses(true), program);
    let accesses = trace.accesses.iter().map(|access| {
        let region = &trace.regions[access.region.unwrap()];
        (access.task, access.mode, region.text.as_str(), region.bytes, trace.data[&region.data].bytes)
    });
    let expected = [
        (0, AccessMode::Read, "[2..5]", 24, 80),
        (0, AccessMode::Reduction, "[0..1]", 8, 8),
        (1, AccessMode::Update, "[0..10]", 80, 80),
        (1, AccessMode::Write, "[0..1]", 8, 8),
        (2, AccessMode::Write, "[0..5]", 40, 80),
        (3, AccessMode::Write, "[5..10]", 40, 80),
        (4, AccessMode::Concurrent, "[0..1]", 8, 8),
    ];
    assert_eq!(accesses.collect::<Vec<_>>(), expected);
}

#[test]
fn copies_add_up_to_the_statistics() {
    let mut links = Vec::new();
    let trace = traced(cpu("1:CPU:1,1:EMU:1").scheduler("dynamic"), |rt| {
        let x = rt.data(vec![1.0f64; 4096]).named("x");
        for part in x.blocks(1024) {
            rt.task("double", (part.inout(),))
                .emulated(|_, (x,)| x.iter_mut().for_each(|x| *x *= 2.0))
                .submit()
                .unwrap();
        }
        rt.wait().unwrap();
        assert_eq!(rt.read(&x).unwrap(), [2.0; 4096]);
        links = rt.statistics().links;
    });
    assert_eq!(trace.spaces, ["host", "EMU 0"]);
    for link in &links {
        let of_link = trace.copies.iter().filter(|copy| (copy.from, copy.to) == (link.from.index(), link.to.index()));
        let (copies, bytes) = of_link.fold((0, 0), |(copies, bytes), copy| (copies + 1, bytes + copy.bytes));
        assert_eq!((copies, bytes), (link.copies, link.bytes));
    }
    assert!(!links.is_empty());
    for task in &trace.tasks {
        assert_eq!((task.unit, task.device), (Some(1), Some(0)));
        let stages = [task.ready, task.placed, task.reserved, task.launched, task.start, task.end];
        assert!(stages.iter().all(Option::is_some) && stages.is_sorted(), "{task:?}");
    }
    assert!(trace.memory.iter().any(|memory| memory.space == 1 && memory.bytes >= 8192));
    assert!(trace.copies.iter().all(|copy| trace.data[&copy.data].name == "data `x`"));
    let into = |copy: &&thalweg_trace::Copy| copy.to == 1;
    let mut served: Vec<_> = trace.copies.iter().filter(into).map(|copy| copy.task).collect();
    served.sort_unstable();
    assert_eq!(served, [Some(0), Some(1), Some(2), Some(3)]);
}

#[test]
fn failed_and_skipped_tasks_are_told_apart() {
    let trace = traced(cpu("1:CPU:1"), |rt| {
        let x = rt.scalar(0u64);
        rt.task("fails", (x.output(),)).cpu(|_, _| Err("no")).submit().unwrap();
        rt.task("skipped", (x.input(),)).cpu(|_, _| ()).submit().unwrap();
        rt.wait().unwrap_err();
    });
    assert_eq!((trace.tasks[0].outcome, trace.tasks[1].outcome), (Some(Outcome::Failed), None));
    let [note] = trace.notes[..] else { panic!("one note: {:?}", trace.notes) };
    assert_eq!((note.task, note.kind), (1, NoteKind::Poisoned));
}

#[test]
fn children_know_their_parents() {
    let trace = traced(cpu("2:CPU:1"), |rt| {
        rt.task("parent", ())
            .cpu(|cx, ()| cx.task("child", ()).cpu(|_, ()| ()).submit().map(|_| ()).map_err(|error| error.to_string()))
            .submit()
            .unwrap();
        rt.wait().unwrap();
    });
    let parents: Vec<_> = trace.tasks.iter().map(|task| task.parent).collect();
    assert_eq!(parents, [None, Some(0)]);
}

#[test]
fn detached_task_ends_later_than_its_body() {
    let trace = traced(cpu("1:CPU:1"), |rt| {
        let x = rt.scalar(0u64);
        let (send, receive) = std::sync::mpsc::channel();
        rt.task("lend", (x.inout(),)).host_detached_until_event(move |_, (x,)| send.send(x).unwrap()).submit().unwrap();
        rt.task("after", (x.input(),)).cpu(|_, (x,)| assert_eq!(x[0], 7)).submit().unwrap();
        let mut lent = receive.recv().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(5));
        lent[0] = 7;
        lent.finish();
        rt.wait().unwrap();
    });
    let [lend, after] = &trace.tasks[..] else { panic!("two tasks") };
    assert_eq!(lend.outcome, Some(Outcome::Detached));
    assert!(lend.finished.unwrap() > lend.end.unwrap() + 4_000_000, "{lend:?}");
    assert!(after.start.unwrap() + 1000 >= lend.finished.unwrap());
}

#[test]
fn simulated_times_are_those_of_the_virtual_clock() {
    let mut now = 0;
    let trace = traced(two_cores(), |rt| {
        let x = rt.zeros::<f64, _>(10);
        for _ in 0..5 {
            rt.task("work", (x.inout(),)).cpu(|_, _| ()).submit().unwrap();
        }
        rt.wait().unwrap();
        now = rt.now().as_nanos() as u64;
    });
    assert_eq!((now, trace.facts["simulated"].as_str()), (5000, "true"));
    let ends: Vec<_> = trace.tasks.iter().map(|task| (task.start.unwrap(), task.end.unwrap())).collect();
    assert_eq!(ends, [(0, 1000), (1000, 2000), (2000, 3000), (3000, 4000), (4000, 5000)]);
}

#[test]
fn decisions_of_a_work_distribution_are_recorded_until_it_is_steady() {
    const INSTANCES: u64 = 40;
    // No change of a unit's speed is large enough to begin another search.
    let trace = traced(cpu("1:CPU:1,1:EMU:1").scheduler("clustered-guided:threshold=1e9"), |rt| {
        let data: Vec<_> = (0..8).map(|_| rt.scalar(1.0f64)).collect();
        let space = IterationSpace::new("zones", vec![1.0; 8]);
        for _ in 0..INSTANCES {
            space.begin();
            for (index, x) in data.iter().enumerate() {
                let task = rt.task("step", (x.inout(),));
                task.cpu(|_, (x,)| x[0] += 1.0).emulated(|_, (x,)| x[0] += 1.0).at(&space, index).submit().unwrap();
            }
        }
        rt.wait().unwrap();
    });
    let instances: Vec<_> = trace.decisions.iter().map(|decision| decision.instance).collect();
    assert_eq!(instances, (0..INSTANCES).collect::<Vec<_>>());
    assert!(trace.decisions.iter().all(|decision| decision.pivot <= 8 && decision.space == "space 0"));
    assert_eq!((trace.decisions[0].state, trace.decisions.last().unwrap().state), (0, 4));
}
