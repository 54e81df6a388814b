//! Facts about a trace that several parts of the analysis need: its bounds, the times when tasks were ready, and the
//! threads that lead units.

use super::spans::{Span, union};
use crate::ranks::Ranks;
use crate::{NoteKind, StateKind, Trace};

/// A trace with the facts derived from it.
pub(super) struct Prepared<'a> {
    pub(super) trace: &'a Trace,
    pub(super) begin: u64,
    pub(super) end: u64,
    /// The number of units. This exceeds the length of the trace's unit list if other tables refer to unlisted
    /// units.
    pub(super) units: usize,
    /// Per task, when it could start; `u64::MAX` if a predecessor never ended.
    pub(super) ready: Vec<u64>,
    /// Per task, when it stopped waiting: when it started or was given up; `u64::MAX` if it was still waiting at
    /// the end.
    pub(super) gone: Vec<u64>,
    /// Whether the run was simulated, in which case time passes only in bodies and copies.
    pub(super) is_simulated: bool,
    /// The ranks. Each rank is a program with its own units.
    pub(super) ranks: Ranks,
    /// Per rank, spans in which program threads wait for tasks, outside of bodies.
    pub(super) waits: Vec<Vec<Span>>,
    /// Per rank, spans in which program threads are throttled because too many tasks are pending.
    pub(super) throttles: Vec<Vec<Span>>,
    /// Per unit, whether a runtime thread leads it. Otherwise program threads lead the unit while they wait.
    pub(super) has_thread: Vec<bool>,
    /// Per rank, the submission times of all tasks, in ascending order.
    pub(super) submissions: Vec<Vec<u64>>,
}

impl<'a> Prepared<'a> {
    pub(super) fn new(trace: &'a Trace) -> Self {
        let (begin, end) = bounds(trace);
        let (ready, gone) = waiting(trace);
        let of_tasks = trace.tasks.iter().filter_map(|task| task.unit);
        let of_states = trace.states.iter().filter_map(|state| state.unit);
        let named = of_tasks.chain(of_states).max().map_or(0, |most| most + 1);
        let units = trace.units.len().max(named);
        let mut has_thread = vec![false; units];
        let ranks = Ranks::of(trace);
        for (thread, name) in trace.threads.iter().enumerate() {
            let led = unit_led_by(name).map(|unit| ranks.first_unit(ranks.of_thread(thread)) + unit);
            if let Some(has_thread) = led.and_then(|unit| has_thread.get_mut(unit)) {
                *has_thread = true;
            }
        }
        let of_program = |kind| {
            let mut spans = vec![Vec::new(); ranks.count()];
            for state in trace.states.iter().filter(|state| state.kind == kind) {
                spans[ranks.of_thread(state.thread)].push((state.start, state.end));
            }
            spans.into_iter().map(union).collect()
        };
        let mut submissions = vec![Vec::new(); ranks.count()];
        trace.tasks.iter().for_each(|task| submissions[ranks.of_site(task.site)].push(task.submitted));
        submissions.iter_mut().for_each(|times| times.sort_unstable());
        Self {
            trace,
            begin,
            end,
            units,
            ready,
            gone,
            is_simulated: trace.facts.get("simulated").is_some_and(|value| value == "true"),
            waits: of_program(StateKind::Wait),
            throttles: of_program(StateKind::Throttle),
            has_thread,
            submissions,
            ranks,
        }
    }

    /// Returns, for a task placed by a policy, the ascending times at which it was placed, had its memory, had its
    /// data, and began to run.
    pub(super) fn stages(&self, task: usize) -> Option<[u64; 4]> {
        let (ready, task) = (self.ready[task], &self.trace.tasks[task]);
        let (start, placed) = (task.start?, task.placed?);
        let placed = placed.max(ready).min(start);
        let reserved = task.reserved.unwrap_or(placed).clamp(placed, start);
        let launched = task.launched.unwrap_or(start).clamp(reserved, start);
        Some([placed, reserved, launched, start])
    }

    /// Returns the duration of a task's body in nanoseconds; 0 if it did not run.
    pub(super) fn duration(&self, task: usize) -> u64 {
        let task = &self.trace.tasks[task];
        task.start.zip(task.end).map_or(0, |(start, end)| end.saturating_sub(start))
    }
}

/// Returns the unit in a name such as `thalweg-unit3`.
fn unit_led_by(thread: &str) -> Option<usize> {
    thread.rsplit_once("-unit")?.1.parse().ok()
}

/// Returns the beginning and the end of a run, in nanoseconds.
fn bounds(trace: &Trace) -> (u64, u64) {
    let of_tasks = trace.tasks.iter().map(|task| task.submitted.min(task.start.unwrap_or(u64::MAX)));
    let begin = of_tasks.min().unwrap_or_else(|| {
        let copies = trace.copies.iter().map(|copy| copy.start);
        copies.chain(trace.states.iter().map(|state| state.start)).min().unwrap_or(0)
    });
    let task_ends = trace.tasks.iter().map(|task| task.end.max(task.finished).unwrap_or(task.submitted));
    let Some(mut end) = task_ends.max().map(|end| end.max(begin)) else {
        let copies = trace.copies.iter().map(|copy| copy.end);
        return (begin, copies.chain(trace.states.iter().map(|state| state.end)).fold(begin, u64::max));
    };
    let near = (end - begin) / 100;
    let mut copies: Vec<(u64, u64)> = trace.copies.iter().map(|copy| (copy.start, copy.end)).collect();
    copies.sort_unstable();
    for (start, copied) in copies {
        if start <= end.saturating_add(near) {
            end = end.max(copied);
        }
    }
    let waits = trace.states.iter().filter(|state| state.kind == StateKind::Wait && state.start <= end);
    let end = waits.map(|wait| wait.end).fold(end, u64::max);
    (begin, end)
}

/// Returns two lists with one entry per task: when it became ready, and when it stopped waiting.
fn waiting(trace: &Trace) -> (Vec<u64>, Vec<u64>) {
    let mut gone: Vec<u64> = trace.tasks.iter().map(|task| task.start.unwrap_or(u64::MAX)).collect();
    for note in &trace.notes {
        if matches!(note.kind, NoteKind::Poisoned | NoteKind::Cancelled) && trace.tasks[note.task].start.is_none() {
            gone[note.task] = gone[note.task].min(note.at);
        }
    }
    let mut ready = trace.ready();
    for dependence in &trace.dependences {
        let (from, to) = (&trace.tasks[dependence.from], &trace.tasks[dependence.to]);
        if to.start.is_none() && from.finished.is_none() {
            ready[dependence.to] = u64::MAX;
        }
    }
    (ready, gone)
}
