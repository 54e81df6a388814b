//! The oracle: the order of conflicting tasks, the edges between them, and the final memory.

use crate::program::Program;
use crate::steps::{End, Kind, Part, Step, hash, mix, updated};
use petgraph::graph::NodeIndex;
use std::collections::HashMap;
use thalweg::TaskGraph;

/// The index of a thread and the index of one of its steps.
pub(crate) type Number = (usize, usize);

/// All memory, as computed by the oracle.
pub(crate) struct Memory {
    pub(crate) values: Vec<Vec<u64>>,
    pub(crate) poisoned: Vec<Vec<bool>>,
    pub(crate) failures: usize,
}

impl Step {
    /// Returns all accesses, each as a part and a kind (`None` for reads). The kinds decide whether two accesses may
    /// run concurrently.
    fn accesses(&self) -> [(&Part, Option<Kind>); 4] {
        let [a, b] = &self.reads;
        [(a, None), (b, None), (&self.target, Some(self.kind)), (&self.update, Some(Kind::Inout))]
    }

    pub(crate) fn working_set_bytes(&self) -> u64 {
        self.accesses().iter().map(|(part, _)| part.volume() as u64 * 8).sum()
    }
}

/// Returns whether the order of two accesses matters.
fn ordered(a: (&Part, Option<Kind>), b: (&Part, Option<Kind>)) -> bool {
    let together = match (a.1, b.1) {
        (None, None) => true,
        (Some(a), Some(b)) => a == b && !matches!(a, Kind::Out | Kind::Inout),
        _ => false,
    };
    !together && a.0.overlaps(b.0)
}

/// Returns a seed that makes the hashes of a step differ from those of all other steps.
pub(crate) fn seed((thread, step): Number) -> u64 {
    mix(thread as u64 + 1, step as u64 + 1)
}

impl Memory {
    /// Applies one step, after all earlier steps. Returns whether it succeeds.
    pub(crate) fn apply(&mut self, step: &Step, extents: [usize; 3]) -> bool {
        let Self { values: memory, poisoned, failures } = self;
        let fails = step.end != End::Returns;
        let is_lost = |part: &Part| part.elements(extents).into_iter().any(|e| poisoned[part.data][e]);
        let reads = step.accesses().into_iter().filter(|(_, kind)| *kind != Some(Kind::Out));
        let skipped = reads.into_iter().any(|(part, _)| is_lost(part));
        *failures += usize::from(fails && !skipped);
        for part in [&step.target, &step.update] {
            let lost = skipped || fails;
            part.elements(extents).into_iter().for_each(|e| poisoned[part.data][e] = lost);
        }
        if skipped {
            return false;
        }
        let values = |part: &Part| part.elements(extents).into_iter().map(|e| memory[part.data][e]).collect::<Vec<_>>();
        let [a, b] = &step.reads;
        let h = hash(hash(step.seed, &values(a)), &values(b));
        for (n, e) in step.target.elements(extents).into_iter().enumerate() {
            let x = &mut memory[step.target.data][e];
            *x = step.kind.value(*x, h, n);
        }
        for e in step.update.elements(extents) {
            let x = &mut memory[step.update.data][e];
            *x = updated(*x, h);
        }
        !fails
    }
}

/// Returns an order of all steps that must explain the final memory. If threads share data, this is the order in which
/// bodies began, which must in turn agree with the submission order of each thread.
pub(crate) fn order(program: &Program, log: &[Number]) -> Vec<Number> {
    if !program.shared {
        let steps =
            |(thread, steps): (usize, &Vec<Step>)| (0..steps.len()).map(move |n| (thread, n)).collect::<Vec<_>>();
        return program.threads.iter().enumerate().flat_map(steps).collect();
    }
    let place: HashMap<Number, usize> = log.iter().copied().zip(0..).collect();
    assert_eq!(place.len(), program.threads.iter().map(Vec::len).sum::<usize>(), "every body must have run once");
    for (thread, steps) in program.threads.iter().enumerate() {
        for (i, j) in (0..steps.len()).flat_map(|j| (0..j).map(move |i| (i, j))) {
            let conflict = steps[i].accesses().iter().any(|a| steps[j].accesses().iter().any(|b| ordered(*a, *b)));
            assert!(
                !conflict || place[&(thread, i)] < place[&(thread, j)],
                "thread {thread}: step {j} ran before step {i}"
            );
        }
    }
    log.to_vec()
}

/// Checks the graph. No edge may be missing: a path must connect any two conflicting tasks. No edge may be superfluous:
/// every edge must connect tasks that conflict directly or through one task in between.
pub(crate) fn check_graph(graph: &TaskGraph, steps: &[Step]) {
    let graph = graph.petgraph();
    assert_eq!(graph.node_count(), steps.len());
    let conflict =
        |i: usize, j: usize| steps[i].accesses().iter().any(|a| steps[j].accesses().iter().any(|b| ordered(*a, *b)));
    let mut before = vec![vec![false; steps.len()]; steps.len()];
    for j in 0..steps.len() {
        for i in graph.neighbors_directed(NodeIndex::new(j), petgraph::Incoming).map(NodeIndex::index) {
            assert!(i < j, "an edge leads backwards: {i} -> {j}");
            let between = || (i + 1..j).any(|k| conflict(i, k) && conflict(k, j));
            assert!(conflict(i, j) || between(), "nothing implies the edge {i} -> {j}");
            before[j][i] = true;
            let (earlier, later) = before.split_at_mut(j);
            later[0].iter_mut().zip(&earlier[i]).for_each(|(reached, through)| *reached |= through);
        }
        for i in (0..j).filter(|&i| conflict(i, j)) {
            assert!(before[j][i], "{i} and {j} conflict, and no path joins them");
        }
    }
}
