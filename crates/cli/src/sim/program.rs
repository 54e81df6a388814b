//! The recorded program: its tasks, in the order in which they will be resubmitted, and the waits between them.
//!
//! - Tasks that did not run are left out.
//! - Children follow immediately after their parents, before any task that the program submitted later, so that
//!   later tasks are ordered after both. A child begins once its parent's body has ended. Accesses that the parent
//!   declared only for its children are ignored.
//! - A thread's wait is kept if it ended after it began. If all tasks submitted before the wait had ended by its
//!   end, and none was submitted meanwhile, it becomes a wait for all tasks. Otherwise it becomes a wait for the
//!   earlier task that ended last.
//! - Accesses are reproduced unchanged. A dependence that does not result from a data object accessed by both tasks
//!   becomes a token.
//!
//! This module neither submits tasks nor simulates.

use super::measured::Measured;
use super::regions::Layout;
use std::collections::HashSet;
use thalweg_trace::{Access, AccessMode, State, StateKind, Trace};

/// Maximum difference between the clocks of two cores, in nanoseconds.
const SKEW_NS: u64 = 1000;

/// A step of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Submits this task.
    Submit(usize),
    /// Waits for all tasks.
    WaitForAll,
    /// Waits for this task.
    WaitFor(usize),
}

/// The recorded program.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) steps: Vec<Step>,
    pub(super) layout: Layout,
    /// The accesses of each task, without accesses to zero bytes.
    pub(super) accesses: Vec<Vec<Access>>,
    /// For each task, the tasks that it must follow for reasons other than its accesses.
    pub(super) after: Vec<Vec<usize>>,
    /// Remarks on differences from the recorded run.
    pub(super) remarks: Vec<String>,
}

impl Program {
    pub(super) fn of(trace: &Trace, measured: &Measured) -> Self {
        let mut remarks = Vec::new();
        let layout = match Layout::of(trace) {
            _ if trace.accesses.is_empty() => {
                remarks.push(
                    "The trace has no accesses, so tasks are ordered by the recorded dependences alone. Copies are not \
                     modelled, nor are dependences on tasks that had ended before. To record accesses, run the program \
                     with THALWEG_TRACE_ACCESSES=1."
                        .to_owned(),
                );
                None
            }
            Ok(layout) => Some(layout),
            Err(reason) => {
                remarks.push(format!(
                    "The accesses cannot be simulated: {reason}. Tasks are ordered by the recorded dependences alone; \
                     copies are not modelled."
                ));
                None
            }
        };
        let children = children(trace);
        let mut accesses = vec![Vec::new(); trace.tasks.len()];
        if layout.is_some() {
            for access in &trace.accesses {
                // Accesses declared only for children are redundant, because the children declare them too.
                let is_for_children = access.mode == AccessMode::Order && !children[access.task].is_empty();
                let region = access.region.map(|region| &trace.regions[region]);
                let is_empty = region.is_none_or(|region| region.bytes == 0 && region.text != "all");
                if measured.ran[access.task].is_some() && !is_empty && !is_for_children {
                    accesses[access.task].push(*access);
                }
            }
        }
        let mut program =
            Self { steps: Vec::new(), layout: layout.unwrap_or_default(), accesses, after: Vec::new(), remarks };
        program.order(trace, measured, &children);
        program.after = program.uncovered(trace);
        program.remark_on_tasks(trace, measured);
        program
    }

    /// Sets the steps.
    fn order(&mut self, trace: &Trace, measured: &Measured, children: &[Vec<usize>]) {
        let roots: Vec<usize> = (0..trace.tasks.len()).filter(|task| trace.tasks[*task].parent.is_none()).collect();
        let mut waits = waits(trace, &roots).into_iter().peekable();
        for (position, root) in roots.iter().enumerate() {
            while let Some((_, wait)) = waits.next_if(|(at, _)| *at <= position) {
                self.steps.push(wait);
            }
            let mut open = vec![*root];
            while let Some(task) = open.pop() {
                if measured.ran[task].is_some() {
                    self.steps.push(Step::Submit(task));
                }
                open.extend(children[task].iter().rev());
            }
        }
        let submitted: HashSet<_> = self.steps.iter().filter_map(Step::task).collect();
        self.steps.retain(|step| !matches!(step, Step::WaitFor(task) if !submitted.contains(task)));
        self.steps.dedup_by(|next, step| step == next && *next == Step::WaitForAll);
    }

    /// Returns, for each task, its parent and the tasks that it depends on other than through data objects that both
    /// access.
    fn uncovered(&self, trace: &Trace) -> Vec<Vec<usize>> {
        let mut places = vec![usize::MAX; trace.tasks.len()];
        for (place, task) in self.steps.iter().filter_map(Step::task).enumerate() {
            places[task] = place;
        }
        let mut after = vec![Vec::new(); trace.tasks.len()];
        let has = |task: usize, data: u64| {
            let region = |access: &Access| access.region.map(|region| trace.regions[region].data);
            self.accesses[task].iter().any(|access| region(access) == Some(data))
        };
        for dependence in &trace.dependences {
            let (from, to) = (dependence.from, dependence.to);
            let is_covered = dependence.data.is_some_and(|data| has(from, data) && has(to, data));
            if !is_covered && places[from] < places[to] && places[to] != usize::MAX {
                after[to].push(from);
            }
        }
        for (child, task) in trace.tasks.iter().enumerate() {
            let parent = task.parent.filter(|parent| places[*parent] < places[child] && places[child] != usize::MAX);
            after[child].extend(parent);
        }
        after.iter_mut().for_each(|after| {
            after.sort_unstable();
            after.dedup();
        });
        after
    }

    fn remark_on_tasks(&mut self, trace: &Trace, measured: &Measured) {
        let absent = measured.ran.iter().filter(|ran| ran.is_none()).count();
        if absent > 0 {
            self.remarks.push(format!("{absent} tasks did not run when they were recorded, and are left out."));
        }
        let nested = trace.tasks.iter().filter(|task| task.parent.is_some()).count();
        if nested > 0 {
            self.remarks
                .push(format!("{nested} tasks are children; they begin after their parents' bodies have ended."));
        }
        let later = |task: &&thalweg_trace::Task| task.end.zip(task.finished).is_some_and(|(end, last)| last > end);
        let detached = trace.tasks.iter().filter(later).count();
        if detached > 0 {
            self.remarks
                .push(format!("{detached} tasks ended later than their bodies; only the bodies are simulated."));
        }
        if let Some(problem) = &trace.problem {
            self.remarks.push(format!("The trace is incomplete: {problem}"));
        }
    }
}

impl Step {
    fn task(&self) -> Option<usize> {
        if let Self::Submit(task) = self { Some(*task) } else { None }
    }
}

/// Returns the children of each task.
fn children(trace: &Trace) -> Vec<Vec<usize>> {
    let mut children = vec![Vec::new(); trace.tasks.len()];
    for (number, task) in trace.tasks.iter().enumerate() {
        if let Some(parent) = task.parent {
            children[parent].push(number);
        }
    }
    children
}

/// Returns the waits of threads, in order, each with the number of tasks among `roots` that are submitted before it.
fn waits(trace: &Trace, roots: &[usize]) -> Vec<(usize, Step)> {
    // For each root, the task that ended last among the root and its descendants, and the time of its end.
    let mut last: Vec<(u64, usize)> =
        trace.tasks.iter().enumerate().map(|(number, task)| (task.finished.unwrap_or(0), number)).collect();
    for (number, task) in trace.tasks.iter().enumerate().rev() {
        if let Some(parent) = task.parent.filter(|parent| *parent < number) {
            last[parent] = last[parent].max(last[number]);
        }
    }
    // For each position in `roots`, the time by which all earlier roots had been submitted, and the time by which
    // they had ended.
    let (mut submitted, mut ended) = (Vec::new(), vec![0]);
    for root in roots {
        let before = submitted.last().copied().unwrap_or(0);
        submitted.push(trace.tasks[*root].submitted.max(before));
        ended.push(last[*root].0.max(*ended.last().expect("it has one more")));
    }
    let mut by_end: Vec<usize> = (0..roots.len()).collect();
    by_end.sort_unstable_by_key(|position| last[roots[*position]]);
    let wait = |state: &State| {
        let before = submitted.partition_point(|time| *time <= state.start);
        let until = submitted.partition_point(|time| *time < state.end).max(before);
        let end = state.end.saturating_add(SKEW_NS);
        if before == until && ended[before] <= end {
            return Some((until, Step::WaitForAll));
        }
        let ended = by_end.partition_point(|position| last[roots[*position]].0 <= end);
        let (at, task) = by_end[..ended].iter().rev().find(|position| **position < before).map(|p| last[roots[*p]])?;
        (at > state.start).then_some((until, Step::WaitFor(task)))
    };
    let is_wait = |state: &&State| state.kind == StateKind::Wait && state.end > state.start;
    let mut waits: Vec<_> = trace.states.iter().filter(is_wait).filter_map(wait).collect();
    waits.sort_by_key(|(position, _)| *position);
    waits
}
