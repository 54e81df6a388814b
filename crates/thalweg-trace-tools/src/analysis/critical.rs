//! The longest path through dependences, and the chain of causes that led to the end of the run.
//!
//! The longest path is a bound: with any number of units, the run takes at least that long. The chain is an
//! observation: starting at the task that ended last, it steps back from each task to the cause of that task's
//! start, so it covers the whole run.

use super::prepare::Prepared;
use crate::{Dependence, State, StateKind};

/// A task on a path, with the reason why the task did not start earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CriticalStep {
    /// The task.
    pub task: usize,
    /// The last event that the task waited for.
    pub reason: Reason,
    /// When that event happened, in nanoseconds. The task started after it, once the runtime had reacted. A task that
    /// receives a message may have started before, and ended after it.
    pub since: u64,
}

/// The last event that a task waited for before it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The end of a predecessor.
    Dependence {
        /// The predecessor.
        from: usize,
        /// The data object that both tasks access; `None` if the trace does not name one.
        data: Option<u64>,
    },
    /// The task's own submission, by its parent's body or by the program.
    Submission {
        /// The parent whose body submitted the task, or the task that the program waited for before submitting this
        /// one.
        after: Option<usize>,
    },
    /// Another body occupied the task's unit.
    Unit {
        /// The task whose end freed the unit.
        after: usize,
    },
    /// Copies of the task's data.
    Copy {
        /// The predecessor that ended last; `None` if all predecessors had ended before the task was submitted.
        after: Option<usize>,
    },
    /// A memory reservation for the task's data.
    Memory {
        /// The predecessor that ended last; `None` if all predecessors had ended before the task was submitted.
        after: Option<usize>,
    },
    /// The task did not start.
    NotRun,
}

impl Reason {
    /// Returns the reason as a word: `dependence`, `submission`, `unit`, `copy`, `memory`, `not run`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dependence { .. } => "dependence",
            Self::Submission { .. } => "submission",
            Self::Unit { .. } => "unit",
            Self::Copy { .. } => "copy",
            Self::Memory { .. } => "memory",
            Self::NotRun => "not run",
        }
    }

    /// Returns the task that caused the delay, if there is one.
    pub const fn task(self) -> Option<usize> {
        match self {
            Self::Dependence { from, .. } => Some(from),
            Self::Unit { after } => Some(after),
            Self::Submission { after } | Self::Copy { after } | Self::Memory { after } => after,
            Self::NotRun => None,
        }
    }
}

/// Returns the length of the longest path, its steps, and the chain of causes.
pub(super) fn paths(prepared: &Prepared<'_>) -> (u64, Vec<CriticalStep>, Vec<CriticalStep>) {
    let graph = Graph::new(&prepared.trace.dependences, prepared.trace.tasks.len());
    let (length, path) = longest(prepared, &graph);
    let causes = Causes::new(prepared, &graph);
    let critical = path.into_iter().map(|task| causes.step(task)).collect();
    (length, critical, causes.chain())
}

/// Dependences, grouped by successor.
struct Graph {
    dependences: Vec<Dependence>,
    /// Per task, the index of its first dependence; one extra entry marks the end of the last group.
    first: Vec<usize>,
}

impl Graph {
    fn new(dependences: &[Dependence], tasks: usize) -> Self {
        let mut dependences = dependences.to_vec();
        if !dependences.is_sorted_by_key(|dependence| dependence.to) {
            dependences.sort_by_key(|dependence| dependence.to);
        }
        let mut first = vec![0; tasks + 1];
        dependences.iter().for_each(|dependence| first[dependence.to + 1] += 1);
        for task in 0..tasks {
            first[task + 1] += first[task];
        }
        Self { dependences, first }
    }

    fn of(&self, task: usize) -> &[Dependence] {
        &self.dependences[self.first[task]..self.first[task + 1]]
    }

    /// Returns the tasks in topological order. Tasks on cycles, which occur only in damaged traces, are left out.
    fn order(&self) -> Vec<usize> {
        let tasks = self.first.len() - 1;
        if self.dependences.iter().all(|dependence| dependence.from < dependence.to) {
            return (0..tasks).collect();
        }
        let mut successors: Vec<Vec<usize>> = vec![Vec::new(); tasks];
        self.dependences.iter().for_each(|dependence| successors[dependence.from].push(dependence.to));
        let mut left: Vec<usize> = (0..tasks).map(|task| self.of(task).len()).collect();
        let mut order: Vec<usize> = (0..tasks).filter(|task| left[*task] == 0).collect();
        let mut next = 0;
        while let Some(task) = order.get(next).copied() {
            next += 1;
            for successor in &successors[task] {
                left[*successor] -= 1;
                if left[*successor] == 0 {
                    order.push(*successor);
                }
            }
        }
        order
    }
}

/// Returns the duration of the longest path and the tasks on it, in order. Tasks that did not run count as taking
/// no time.
fn longest(prepared: &Prepared<'_>, graph: &Graph) -> (u64, Vec<usize>) {
    const NONE: usize = usize::MAX;
    let mut best = vec![(0_u64, NONE); prepared.trace.tasks.len()];
    let (mut length, mut last) = (0, NONE);
    for task in graph.order() {
        let before = graph.of(task).iter().map(|dependence| (best[dependence.from].0, dependence.from));
        let (before, from) = before.fold((0, NONE), |most, next| if next.0 > most.0 { next } else { most });
        best[task] = (before.saturating_add(prepared.duration(task)), from);
        if best[task].0 > length {
            (length, last) = (best[task].0, task);
        }
    }
    let mut path = Vec::new();
    while last != NONE {
        path.push(last);
        last = best[last].1;
    }
    path.reverse();
    (length, path)
}

/// Index of task ends, used to find what caused a task to start.
struct Causes<'a> {
    prepared: &'a Prepared<'a>,
    graph: &'a Graph,
    /// Per unit and device, the ends of bodies with their tasks, in order of time.
    ends: std::collections::HashMap<(usize, Option<usize>), Vec<(u64, usize)>>,
    /// Per rank, the ends of all tasks, in order of time.
    finished: Vec<Vec<(u64, usize)>>,
    /// Per rank, the waits and throttled submissions of the program, each with its end first, in order of time. In a
    /// simulation, one may begin when the one before has ended.
    pauses: Vec<Vec<(u64, u64)>>,
}

impl<'a> Causes<'a> {
    fn new(prepared: &'a Prepared<'a>, graph: &'a Graph) -> Self {
        let mut ends: std::collections::HashMap<_, Vec<(u64, usize)>> = std::collections::HashMap::new();
        let ranks = &prepared.ranks;
        let (mut finished, mut pauses) = (vec![Vec::new(); ranks.count()], vec![Vec::new(); ranks.count()]);
        for (number, task) in prepared.trace.tasks.iter().enumerate() {
            if let (Some(unit), Some(end), Some(_)) = (task.unit, task.end, task.start) {
                ends.entry((unit, task.device)).or_default().push((end, number));
            }
            finished[ranks.of_site(task.site)].extend(task.finished.map(|end| (end, number)));
        }
        ends.values_mut().for_each(|ends| ends.sort_unstable());
        finished.iter_mut().for_each(|finished| finished.sort_unstable());
        let is_pause = |state: &&State| matches!(state.kind, StateKind::Wait | StateKind::Throttle);
        for state in prepared.trace.states.iter().filter(is_pause) {
            pauses[ranks.of_thread(state.thread)].push((state.end, state.start));
        }
        pauses.iter_mut().for_each(|pauses| pauses.sort_unstable());
        Self { prepared, graph, ends, finished, pauses }
    }

    fn step(&self, task: usize) -> CriticalStep {
        let (reason, since) = self.cause(task);
        CriticalStep { task, reason, since }
    }

    /// Returns the last entry at or before `until`.
    fn last(ends: &[(u64, usize)], until: u64) -> Option<(u64, usize)> {
        ends[..ends.partition_point(|(end, _)| *end <= until)].last().copied()
    }

    fn cause(&self, number: usize) -> (Reason, u64) {
        let task = &self.prepared.trace.tasks[number];
        let Some(start) = task.start else { return (Reason::NotRun, task.submitted) };
        if let Some((sent, Dependence { from, data, .. })) = self.message(number).filter(|(sent, _)| *sent > start) {
            return (Reason::Dependence { from, data }, sent.min(task.finished.unwrap_or(sent)));
        }
        let predecessors = self.graph.of(number).iter();
        let ended = predecessors.filter_map(|dependence| {
            Some((self.prepared.trace.tasks[dependence.from].finished?.min(start), dependence))
        });
        let last = ended.max_by_key(|(end, _)| *end).filter(|(end, _)| *end > task.submitted);
        let ready = last.map_or(task.submitted, |(end, _)| end).min(start);
        let after = last.map(|(_, dependence)| dependence.from);
        let launched = task.launched.map(|launched| launched.clamp(ready, start));
        let on_unit = task.unit.and_then(|unit| self.ends.get(&(unit, task.device)));
        let before = on_unit.and_then(|ends| Self::last(ends, start)).filter(|(_, before)| *before != number);
        if let Some((end, before)) = before.filter(|(end, _)| *end > launched.unwrap_or(ready)) {
            return (Reason::Unit { after: before }, end);
        }
        if let (Some(launched), Some(placed), Some(reserved)) = (launched, task.placed, task.reserved) {
            let placed = placed.clamp(ready, launched);
            let reserved = reserved.clamp(placed, launched);
            let half = (start - ready) / 2;
            if launched - reserved > half {
                return (Reason::Copy { after }, launched);
            }
            if reserved - placed > half {
                return (Reason::Memory { after }, reserved);
            }
        }
        if let Some((end, before)) = before.filter(|(end, _)| *end > ready) {
            return (Reason::Unit { after: before }, end);
        }
        match last {
            Some((end, dependence)) => (Reason::Dependence { from: dependence.from, data: dependence.data }, end),
            None => (Reason::Submission { after: self.submitted_after(number) }, ready),
        }
    }

    /// Returns the message that a task receives from another rank, and when its bytes had left there.
    fn message(&self, number: usize) -> Option<(u64, Dependence)> {
        let (tasks, ranks) = (&self.prepared.trace.tasks, &self.prepared.ranks);
        let rank = |task: usize| ranks.of_site(tasks[task].site);
        let message = self.graph.of(number).iter().find(|dependence| rank(dependence.from) != rank(number))?;
        Some((tasks[message.from].finished?, *message))
    }

    /// Returns the task that a submission followed: its parent, or the task whose end the program waited for.
    fn submitted_after(&self, number: usize) -> Option<usize> {
        let task = &self.prepared.trace.tasks[number];
        if let Some(parent) = task.parent {
            return Some(parent);
        }
        let rank = self.prepared.ranks.of_site(task.site);
        let pauses = &self.pauses[rank];
        let past = pauses.partition_point(|(ended, _)| *ended <= task.submitted);
        let (ended, began) = pauses[past.checked_sub(1)?];
        let (_, last) = Self::last(&self.finished[rank], ended).filter(|(end, _)| *end >= began)?;
        Some(last)
    }

    /// Returns the chain of causes in order of time. The search runs backwards from the task that ended last.
    fn chain(&self) -> Vec<CriticalStep> {
        let mut chain = Vec::new();
        let mut is_in = vec![false; self.prepared.trace.tasks.len()];
        let has_started = |task: &usize| self.prepared.trace.tasks[*task].start.is_some();
        let last = |of_rank: &Vec<(u64, usize)>| of_rank.iter().rev().find(|(_, task)| has_started(task)).copied();
        let mut next = self.finished.iter().filter_map(last).max().map(|(_, task)| task);
        // If the cores' clocks disagree, following causes could loop forever, so the chain stops at the first
        // repeated task.
        while let Some(task) = next.filter(|task| !std::mem::replace(&mut is_in[*task], true)) {
            let step = self.step(task);
            next = step.reason.task();
            chain.push(step);
        }
        chain.reverse();
        chain
    }
}
