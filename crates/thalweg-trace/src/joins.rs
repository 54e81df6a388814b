//! Joins: nodes of a trace that represent several tasks. So n tasks and m tasks after them need n + m records.
//!
//! In the tables, joins are replaced by dependences between tasks. A join at the border of a recording, a *gate*,
//! represents tasks of its replays.

use crate::events::{Edge, data_of};
use crate::frame::{BorderPart, Recording};
use crate::record::{FIRST_JOIN, GateRole};
use crate::rounds::Rounds;
use std::collections::{BTreeMap, HashMap};

/// With more dependences than this, a join represents only the task that ended last, because the others delayed
/// nothing.
const MOST_DEPENDENCES: usize = 1 << 22;

/// A join at a part of a recording's border.
pub(crate) struct Gate {
    pub(crate) role: GateRole,
    pub(crate) recording: u64,
    /// The first task of one of the replays.
    pub(crate) replay: u64,
    pub(crate) part: usize,
}

/// A task that a join represents.
#[derive(Clone, Copy)]
struct Source {
    task: u64,
    data: Option<u64>,
    carries_value: bool,
}

/// Replaces joins by the tasks that they represent, and adds the dependences between consecutive replays. `end` returns
/// when a task has ended.
pub(crate) fn resolve(
    edges: Vec<Edge>,
    gates: &HashMap<u64, Gate>,
    rounds: &Rounds,
    end: impl Fn(u64) -> Option<u64>,
) -> Vec<Edge> {
    let runs = rounds.runs();
    if runs.is_empty() && !edges.iter().any(|edge| edge.from >= FIRST_JOIN || edge.to >= FIRST_JOIN) {
        return edges;
    }
    let mut resolver = Resolver { gates, rounds, run_of: HashMap::new(), runs: &runs, sources: HashMap::new() };
    for (number, (_, replays)) in runs.iter().enumerate() {
        resolver.run_of.extend(replays.iter().map(|replay| (*replay, number)));
    }
    resolver.join(&edges, false, &end);
    if edges.iter().map(|edge| resolver.count(edge)).sum::<usize>() > MOST_DEPENDENCES {
        resolver.join(&edges, true, &end);
    }
    let mut all: Vec<Edge> = edges.iter().flat_map(|edge| resolver.resolved(edge)).collect();
    for (recording, replays) in &runs {
        let Some(recording) = rounds.recording(*recording) else { continue };
        replays.windows(2).for_each(|pair| between(recording, pair[0], pair[1], &mut all));
    }
    all.sort_unstable_by_key(|edge| (edge.to, edge.from, !edge.carries_value, edge.data));
    all.dedup_by_key(|edge| (edge.to, edge.from));
    all
}

/// Adds the dependences between the tasks of two consecutive replays, whose first tasks are given.
fn between(recording: &Recording, before: u64, after: u64, all: &mut Vec<Edge>) {
    for BorderPart { data, readers, first_writers, writers, last_readers } in &recording.border {
        let mut add = |from: &[u32], to: &[u32], carries_value| {
            for (from, to) in to.iter().flat_map(|to| from.iter().map(move |from| (*from, *to))) {
                let (from, to) = (before.wrapping_add(from.into()), after.wrapping_add(to.into()));
                all.push(Edge { from, to, data: data_of(*data), carries_value });
            }
        };
        add(writers, readers, true);
        add(last_readers, first_writers, false);
        if last_readers.is_empty() && readers.is_empty() {
            add(writers, first_writers, false);
        }
    }
}

struct Resolver<'a> {
    gates: &'a HashMap<u64, Gate>,
    rounds: &'a Rounds,
    runs: &'a [(u64, Vec<u64>)],
    /// The run of each replay, by the replay's first task.
    run_of: HashMap<u64, usize>,
    /// The tasks that each join other than a gate represents.
    sources: HashMap<u64, Vec<Source>>,
}

impl Resolver<'_> {
    /// Finds the tasks that joins represent. A join that waits for another one has a higher number.
    fn join(&mut self, edges: &[Edge], last_only: bool, end: &impl Fn(u64) -> Option<u64>) {
        self.sources.clear();
        let mut incoming: BTreeMap<u64, Vec<&Edge>> = BTreeMap::new();
        for edge in edges.iter().filter(|edge| edge.to >= FIRST_JOIN && !self.gates.contains_key(&edge.to)) {
            incoming.entry(edge.to).or_default().push(edge);
        }
        for (join, edges) in incoming {
            let mut sources: Vec<Source> = edges.into_iter().flat_map(|edge| self.before(edge)).collect();
            if last_only {
                sources = sources.into_iter().max_by_key(|source| end(source.task)).into_iter().collect();
            }
            self.sources.insert(join, sources);
        }
    }

    /// Returns the tasks that come before an edge.
    fn before(&self, edge: &Edge) -> Vec<Source> {
        let Edge { from, data, carries_value, .. } = *edge;
        if from < FIRST_JOIN {
            return vec![Source { task: from, data, carries_value }];
        }
        if let Some(gate) = self.gates.get(&from) {
            let tasks = self.tasks(gate, false);
            return tasks.into_iter().map(|task| Source { task, data, carries_value }).collect();
        }
        let passed = |source: &Source| Source {
            task: source.task,
            data: data.or(source.data),
            carries_value: carries_value && source.carries_value,
        };
        self.sources.get(&from).into_iter().flatten().map(passed).collect()
    }

    /// Returns the tasks that come after an edge.
    fn after(&self, edge: &Edge) -> Vec<u64> {
        match self.gates.get(&edge.to) {
            Some(gate) => self.tasks(gate, true),
            None if edge.to >= FIRST_JOIN => Vec::new(),
            None => vec![edge.to],
        }
    }

    /// Returns the tasks that a gate represents, either to earlier or to later tasks.
    fn tasks(&self, gate: &Gate, to_earlier: bool) -> Vec<u64> {
        let part = self.rounds.recording(gate.recording).and_then(|recording| recording.border.get(gate.part));
        let (Some(part), Some(run)) = (part, self.run_of.get(&gate.replay)) else { return Vec::new() };
        let replays = &self.runs[*run].1;
        let (first, last) = (&replays[..1], &replays[replays.len() - 1..]);
        let (indices, replays) = match (gate.role, to_earlier) {
            (GateRole::Border, _) if part.writers.is_empty() => (&part.last_readers, &replays[..]),
            (GateRole::Border, true) => (&part.first_writers, first),
            (GateRole::Border, false) => (&part.writers, last),
            (GateRole::Entry, true) => (&part.readers, first),
            (GateRole::LastReaders, false) => (&part.last_readers, last),
            (GateRole::Entry, false) | (GateRole::LastReaders, true) => return Vec::new(),
        };
        let task = |replay: &u64, index: &u32| replay.wrapping_add(u64::from(*index));
        replays.iter().flat_map(|replay| indices.iter().map(move |index| task(replay, index))).collect()
    }

    fn count(&self, edge: &Edge) -> usize {
        match (edge.from < FIRST_JOIN, edge.to < FIRST_JOIN) {
            (true, true) => 1,
            _ => self.before(edge).len() * self.after(edge).len(),
        }
    }

    fn resolved(&self, edge: &Edge) -> Vec<Edge> {
        if edge.from < FIRST_JOIN && edge.to < FIRST_JOIN {
            return vec![*edge];
        }
        let before = self.before(edge);
        let edges = |to: u64| {
            let edge = move |Source { task, data, carries_value }: &Source| Edge {
                from: *task,
                to,
                data: *data,
                carries_value: *carries_value,
            };
            before.iter().map(edge).collect::<Vec<_>>()
        };
        self.after(edge).into_iter().flat_map(edges).filter(|edge| edge.from != edge.to).collect()
    }
}
