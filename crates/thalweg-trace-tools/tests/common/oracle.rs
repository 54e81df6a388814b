//! Figures about a run, computed directly from their definitions without regard to speed.

use thalweg_trace_tools::analysis::Activity;
use thalweg_trace_tools::{NoteKind, StateKind, Task, Trace};

/// Returns a unit's activity at a moment, directly from the definitions of [`Activity`].
pub(crate) fn activity(trace: &Trace, unit: usize, at: u64) -> Activity {
    let is_in = |start: u64, end: u64| start <= at && at < end;
    let states = |kinds: &[StateKind], unit: Option<usize>| {
        let of_kind = trace.states.iter().filter(|state| kinds.contains(&state.kind));
        of_kind.filter(|state| unit.is_none() || state.unit == unit).any(|state| is_in(state.start, state.end))
    };
    let own = || trace.tasks.iter().filter(|task| task.unit == Some(unit));
    let runs = |task: &&Task| task.start.zip(task.end).is_some_and(|(start, end)| is_in(start, end));
    let is_idle = states(&[StateKind::Search, StateKind::Sleep], Some(unit));
    if own().any(|task| runs(&task) && (task.device.is_some() || !is_idle)) {
        return Activity::Computing;
    }
    let stage = |from: fn(&Task) -> Option<u64>, to: fn(&Task) -> Option<u64>| {
        own().any(|task| from(task).zip(to(task)).is_some_and(|(from, to)| is_in(from, to)))
    };
    let copies = stage(|task| task.reserved, |task| task.launched);
    let is_simulated = trace.facts["simulated"] == "true";
    if !is_simulated && !is_idle {
        if copies && trace.copies.iter().any(|copy| is_in(copy.start, copy.end)) {
            return Activity::Copy;
        }
        match is_led(trace, unit, at) {
            true => return Activity::Runtime,
            false if unit == 0 => return Activity::Program,
            false => {}
        }
    }
    let placed = stage(|task| task.placed, |task| task.reserved);
    match () {
        () if stage(|task| task.launched, |task| task.start) => Activity::Runtime,
        () if copies => Activity::Copy,
        () if placed => Activity::Memory,
        () => why_idle(trace, unit, at),
    }
}

/// Returns whether a thread leads a unit: either a runtime thread between its first and last record, or the
/// program's thread while it waits.
fn is_led(trace: &Trace, unit: usize, at: u64) -> bool {
    let bodies =
        trace.tasks.iter().filter(|task| task.unit == Some(unit)).map(|task| (task.start.unwrap(), task.end.unwrap()));
    let idle = trace
        .states
        .iter()
        .filter(|state| state.unit == Some(unit) && matches!(state.kind, StateKind::Search | StateKind::Sleep));
    let own: Vec<(u64, u64)> = bodies.chain(idle.map(|state| (state.start, state.end))).collect();
    let last = own.iter().map(|(_, end)| *end).max().unwrap_or(0);
    if unit > 0 {
        return own.iter().any(|(start, _)| *start <= at) && at < last;
    }
    let waits = || trace.states.iter().filter(|state| matches!(state.kind, StateKind::Wait | StateKind::Throttle));
    let waited = waits().filter(|state| state.start < state.end).map(|state| state.end).max().unwrap_or(0);
    let later = own.iter().map(|(start, _)| *start).filter(|start| *start > waited).min();
    !own.is_empty()
        && (waits().any(|state| state.start <= at && at < state.end)
            || later.is_some_and(|later| later <= at && at < last))
}

/// Returns the reason why a unit is idle that no task is placed on.
fn why_idle(trace: &Trace, unit: usize, at: u64) -> Activity {
    let kind = |unit: usize| trace.units[unit].kind.as_str();
    let ran = |site: Option<usize>, on: &str| {
        let of_site = trace.tasks.iter().filter(|task| site.is_none_or(|site| task.site == site));
        of_site.filter_map(|task| task.unit).any(|unit| kind(unit) == on)
    };
    let any_kind_ran = |site: usize| trace.tasks.iter().any(|task| task.site == site && task.unit.is_some());
    let can_run = |task: &Task| ran(Some(task.site), kind(unit)) || !ran(None, kind(unit)) || !any_kind_ran(task.site);
    let (mut is_ready, mut is_waiting) = (false, false);
    for (number, task) in trace.tasks.iter().enumerate().filter(|(_, task)| can_run(task)) {
        let note = trace.notes.iter().find(|note| note.task == number && note.kind != NoteKind::Refused);
        let gone = task.start.or(note.map(|note| note.at)).unwrap_or(u64::MAX);
        let mut ready = task.submitted.max(task.ready.unwrap_or(0));
        for dependence in trace.dependences.iter().filter(|dependence| dependence.to == number) {
            let finished = trace.tasks[dependence.from].finished;
            ready = ready.max(finished.unwrap_or(if task.start.is_none() { u64::MAX } else { 0 }));
        }
        let ready = ready.min(gone);
        is_waiting |= task.submitted <= at && at < ready;
        is_ready |= ready <= at && at < gone;
    }
    match () {
        () if is_ready => Activity::Unit,
        () if is_waiting => Activity::Dependence,
        () => Activity::Submission,
    }
}

/// Returns the length of the longest path that ends with a task, by trying all paths.
pub(crate) fn longest_to(trace: &Trace, task: usize) -> u64 {
    let ended = trace.tasks[task].start.zip(trace.tasks[task].end).map_or(0, |(start, end)| end - start);
    let before = trace.dependences.iter().filter(|dependence| dependence.to == task);
    ended + before.map(|dependence| longest_to(trace, dependence.from)).max().unwrap_or(0)
}
