//! Dependences in traces equal those of the recorded graph, although a trace contains joins instead of long lists, and
//! replays of frozen recordings instead of their tasks.

use super::traced;
use std::collections::BTreeMap;
use std::sync::mpsc::channel;
use thalweg::prelude::*;
use thalweg::{Builder, Explanation};

/// The dependences as positions of tasks in the order of submission, each with whether it carries a value.
type Edges = BTreeMap<(usize, usize), bool>;

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % limit
    }
}

/// The access of a task to a part of the data.
#[derive(Debug, Clone)]
enum Access {
    Read,
    Write,
    Update,
    Commutative,
    Concurrent,
}

#[derive(Debug, Clone)]
enum Step {
    Task(Access, std::ops::Range<usize>),
    /// Replays of the recording with this index.
    Replays(usize, usize),
}

/// A program over one array.
#[derive(Debug)]
struct Program {
    elements: usize,
    recordings: Vec<Vec<(Access, std::ops::Range<usize>)>>,
    steps: Vec<Step>,
}

impl Program {
    /// Draws a program in which `reads` of 10 tasks read.
    fn random(seed: u64, elements: usize, recordings: usize, reads: usize) -> Self {
        let random = &mut Random(seed);
        let part = |random: &mut Random| {
            let from = random.below(elements);
            from..(from + 1 + random.below(3)).min(elements)
        };
        let access = |random: &mut Random, groups: bool| match random.below(10) {
            drawn if drawn < reads => Access::Read,
            drawn => match (drawn + random.below(10)) % if groups { 4 } else { 2 } {
                0 => Access::Write,
                1 => Access::Update,
                2 => Access::Commutative,
                _ => Access::Concurrent,
            },
        };
        let recording = |random: &mut Random| {
            (0..2 + random.below(6)).map(|_| (access(random, false), part(random))).collect::<Vec<_>>()
        };
        let recordings: Vec<_> = (0..recordings).map(|_| recording(random)).collect();
        let step = |random: &mut Random| match random.below(4) {
            0 if !recordings.is_empty() => Step::Replays(random.below(recordings.len()), 1 + random.below(3)),
            _ => Step::Task(access(random, true), part(random)),
        };
        let steps = (0..80).map(|_| step(random)).collect();
        Self { elements, recordings, steps }
    }

    /// Submits everything before anything runs.
    fn run(&self, rt: &Runtime) {
        let (go, wait) = channel::<()>();
        rt.task("hold", ()).cpu(move |_, ()| wait.recv().unwrap()).submit().unwrap();
        let x = rt.data(vec![0u64; self.elements]);
        let record = |tasks: &Vec<(Access, std::ops::Range<usize>)>| {
            rt.record(|r| {
                for (access, part) in tasks {
                    let part = x.slice(part.clone());
                    match access {
                        Access::Read => r.task("read", part.input()).cpu(|_, _| ()).submit()?,
                        Access::Write => r.task("write", part.output()).cpu(|_, x| x.fill(1)).submit()?,
                        _ => r.task("update", part.inout()).cpu(|_, x| x[0] += 1).submit()?,
                    };
                }
                Ok(())
            })
            .unwrap()
        };
        let mut recordings: Vec<_> = self.recordings.iter().map(record).collect();
        for step in &self.steps {
            match step {
                Step::Replays(recording, times) => {
                    (0..*times).for_each(|_| recordings[*recording].replay().unwrap());
                }
                Step::Task(access, part) => {
                    let part = x.slice(part.clone());
                    match access {
                        Access::Read => rt.task("read", part.input()).cpu(|_, _| ()).submit().unwrap(),
                        Access::Write => rt.task("write", part.output()).cpu(|_, x| x.fill(1)).submit().unwrap(),
                        Access::Update => rt.task("update", part.inout()).cpu(|_, x| x[0] += 1).submit().unwrap(),
                        Access::Commutative => {
                            rt.task("turn", part.commutative()).cpu(|_, x| x[0] += 1).submit().unwrap()
                        }
                        Access::Concurrent => {
                            rt.task("both", part.concurrent()).cpu(|_, x| x.update(0, |x| x + 1)).submit().unwrap()
                        }
                    };
                }
            }
        }
        go.send(()).unwrap();
        rt.wait().unwrap();
    }

    /// Returns the dependences in the graph, for which replays are submitted task by task.
    fn graph(&self) -> Edges {
        let rt = cpu().record_graph(true).build().unwrap();
        self.run(&rt);
        let graph = rt.graph().unwrap();
        let graph = graph.petgraph();
        let edge = |edge: &petgraph::graph::Edge<thalweg::Dependence>| {
            ((edge.source().index(), edge.target().index()), edge.weight.carries_value)
        };
        graph.raw_edges().iter().map(edge).collect()
    }

    /// Returns the dependences in the trace.
    fn trace(&self) -> Edges {
        let trace = traced(cpu(), |rt| self.run(rt));
        trace.dependences.iter().map(|edge| ((edge.from, edge.to), edge.carries_value)).collect()
    }
}

fn cpu() -> Builder {
    Runtime::builder().compute_units("1:CPU:1")
}

fn assert_equal(program: &Program) {
    let (graph, trace) = (program.graph(), program.trace());
    let missing: Vec<_> = graph.iter().filter(|(edge, value)| trace.get(edge) != Some(value)).collect();
    let added: Vec<_> = trace.iter().filter(|(edge, _)| !graph.contains_key(edge)).collect();
    assert!(missing.is_empty() && added.is_empty(), "missing {missing:?}, added {added:?} in {program:#?}");
    assert!(graph.len() > 80);
}

#[test]
fn dependences_through_joins_equal_those_of_the_graph() {
    for seed in 0..30 {
        assert_equal(&Program::random(seed, 3, 0, 8));
        assert_equal(&Program::random(seed, 3, 0, 2));
    }
}

#[test]
fn dependences_of_replays_equal_those_of_the_graph() {
    for seed in 0..40 {
        assert_equal(&Program::random(seed, 12, 2, 4));
        assert_equal(&Program::random(seed, 5, 3, 6));
    }
}

/// Replays that follow each other without other submissions are not entered into the histories.
#[test]
fn dependences_between_consecutive_replays_equal_those_of_the_graph() {
    const ROUNDS: usize = 10;
    let program = |rt: &Runtime| {
        let (x, y) = (rt.data(vec![0u64; 8]), rt.data(vec![0u64; 8]));
        let mut step = rt
            .record(|r| {
                for part in x.blocks(4) {
                    r.task("update", part.inout()).cpu(|_, x| x[0] += 1).submit()?;
                }
                r.task("copy", (x.input(), y.output())).cpu(|_, (x, y)| y.copy_from_slice(x)).submit()?;
                r.task("look", y.slice(0..2).input()).cpu(|_, _| ()).submit()
            })
            .unwrap();
        for _ in 0..ROUNDS {
            step.replay().unwrap();
        }
        rt.wait().unwrap();
        *step.explain() == Explanation::Frozen
    };
    let rt = cpu().record_graph(true).build().unwrap();
    assert!(!program(&rt), "a recorded graph contains each task");
    let graph = rt.graph().unwrap();
    let edge = |edge: &petgraph::graph::Edge<thalweg::Dependence>| {
        ((edge.source().index(), edge.target().index()), edge.weight.carries_value)
    };
    let graph: Edges = graph.petgraph().raw_edges().iter().map(edge).collect();
    let trace = traced(cpu(), |rt| assert!(program(rt)));
    let trace: Edges = trace.dependences.iter().map(|edge| ((edge.from, edge.to), edge.carries_value)).collect();
    assert_eq!(trace, graph);
    assert_eq!(trace.len(), ROUNDS * 3 + (ROUNDS - 1) * 6);
}
