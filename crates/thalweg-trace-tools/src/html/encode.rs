//! The trace's tables as columns: one block for the timeline, one for dependences and accesses.
//!
//! Dependences and accesses have a separate block because nothing needs them before a task is selected.
//!
//! Times are chained: each is stored as its distance from a time that is usually shortly before it.
//! `assets/data.js` reverses exactly what this module does, so the two files must change together.

use super::columns::Columns;
use super::items::Row;
use crate::analysis::CriticalStep;
use crate::{Outcome, Task, Trace};
use std::borrow::Cow;
use std::collections::HashMap;

/// Encodes an optional number: 0 for `None`, otherwise the number plus one.
fn option(number: Option<usize>) -> u64 {
    number.map_or(0, |number| number as u64 + 1)
}

/// Returns how much later `time` is than `reference`. Both must be below 2⁶³.
fn after(reference: u64, time: u64) -> i64 {
    time.wrapping_sub(reference) as i64
}

/// Encodes an optional time relative to a reference: 0 for `None`, otherwise the folded distance plus one.
fn option_after(reference: u64, time: Option<u64>) -> u64 {
    let Some(time) = time else { return 0 };
    let distance = after(reference, time);
    ((distance << 1 ^ distance >> 63) as u64).saturating_add(1)
}

/// Appends the task columns. `ready` is the result of [`Trace::ready`].
pub(super) fn tasks(columns: &mut Columns, trace: &Trace, ready: &[u64]) {
    let tasks = &trace.tasks;
    let each = |f: fn(&Task) -> u64| tasks.iter().map(f);
    columns.deltas("number", each(|task| task.number));
    columns.plain("site", each(|task| task.site as u64));
    columns.plain("unit", each(|task| option(task.unit)));
    columns.deltas("submitted", each(|task| task.submitted));
    let with_ready = || tasks.iter().zip(ready.iter().copied());
    columns.signed("ready", with_ready().map(|(task, ready)| after(task.submitted, ready)));
    columns.plain("start", with_ready().map(|(task, ready)| option_after(ready, task.start)));
    columns.plain("end", with_ready().map(|(task, ready)| option_after(task.start.unwrap_or(ready), task.end)));
    columns.plain("finished", with_ready().map(|(task, ready)| option_after(task.end.unwrap_or(ready), task.finished)));
    columns.plain("placed", with_ready().map(|(task, ready)| option_after(ready, task.placed)));
    columns.plain("policy", each(|task| option(task.policy)));
    let time = |time: Option<u64>| time.map_or(0, |time| time.saturating_add(1));
    columns.plain("expected", tasks.iter().map(|task| time(task.expected)));
    columns.plain("expected_end", tasks.iter().map(|task| time(task.expected_end)));
    columns
        .plain("reserved", with_ready().map(|(task, ready)| option_after(task.placed.unwrap_or(ready), task.reserved)));
    columns.plain(
        "launched",
        with_ready().map(|(task, ready)| option_after(task.reserved.or(task.placed).unwrap_or(ready), task.launched)),
    );
    columns.plain("parent", each(|task| option(task.parent)));
    columns.plain("device", each(|task| option(task.device)));
    columns.plain("stream", each(|task| option(task.stream)));
    // 0: not run, 1: done, 2: failed, 3: detached.
    columns.plain("outcome", each(|task| task.outcome.map_or(0, |outcome: Outcome| outcome as u64 + 1)));
}

/// The reasons why a task on a path started when it did. Columns store the index into this list.
const REASONS: [&str; 6] = ["dependence", "submission", "unit", "copy", "memory", "not run"];

/// Appends the columns of a path, with names that begin with `prefix`: its tasks, the reason why each started, and
/// the time of that reason.
pub(super) fn path(columns: &mut Columns, prefix: &str, steps: &[CriticalStep]) {
    let reason = |step: &CriticalStep| REASONS.iter().position(|name| *name == step.reason.name());
    columns.deltas(&format!("{prefix}.task"), steps.iter().map(|step| step.task as u64));
    columns.plain(&format!("{prefix}.reason"), steps.iter().map(|step| option(reason(step))));
    columns.deltas(&format!("{prefix}.since"), steps.iter().map(|step| step.since));
}

/// Returns the sorted IDs of data objects, and the index of each ID in that order.
pub(super) fn data(trace: &Trace) -> (Vec<u64>, HashMap<u64, usize>) {
    let mut numbers: Vec<u64> = trace.data.keys().copied().collect();
    numbers.sort_unstable();
    let places = numbers.iter().enumerate().map(|(at, number)| (*number, at)).collect();
    (numbers, places)
}

/// Appends the columns of rows, with names that begin with `prefix`: the number of items in each row, their
/// positions in the table, and their lanes.
pub(super) fn rows(columns: &mut Columns, prefix: &str, rows: &[Row]) {
    columns.plain(&format!("{prefix}.rows"), rows.iter().map(|row| row.items.len() as u64));
    columns.deltas(&format!("{prefix}.items"), rows.iter().flat_map(|row| &row.items).map(|item| *item as u64));
    columns.plain(&format!("{prefix}.lanes"), rows.iter().flat_map(|row| &row.lanes).copied());
}

/// Appends the columns of copies, states, memory and notes, in the order of their tables. `data` maps the ID of a
/// data object to its index in the ID column.
pub(super) fn others(columns: &mut Columns, trace: &Trace, data: &HashMap<u64, usize>) {
    let copies = &trace.copies;
    columns.deltas("copy.end", copies.iter().map(|copy| copy.end));
    columns.signed("copy.duration", copies.iter().map(|copy| after(copy.start, copy.end)));
    columns.plain("copy.waited", copies.iter().map(|copy| copy.waited));
    columns.plain("copy.bytes", copies.iter().map(|copy| copy.bytes));
    columns.plain("copy.data", copies.iter().map(|copy| option(data.get(&copy.data).copied())));
    columns.plain("copy.evicts", copies.iter().map(|copy| u64::from(copy.evicts)));

    let states = &trace.states;
    columns.deltas("state.end", states.iter().map(|state| state.end));
    columns.signed("state.duration", states.iter().map(|state| after(state.start, state.end)));
    columns.plain("state.kind", states.iter().map(|state| state.kind as u64));

    columns.deltas("memory.at", trace.memory.iter().map(|memory| memory.at));
    columns.plain("memory.space", trace.memory.iter().map(|memory| memory.space as u64));
    columns.plain("memory.bytes", trace.memory.iter().map(|memory| memory.bytes));

    columns.deltas("note.at", trace.notes.iter().map(|note| note.at));
    columns.plain("note.task", trace.notes.iter().map(|note| note.task as u64));
    columns.plain("note.kind", trace.notes.iter().map(|note| note.kind as u64));
}

/// Appends the dependence columns, grouped by successor: the number of dependences of each task, how far back the
/// predecessors are, and twice the index of the data object, plus one if the dependence carries a value.
pub(super) fn dependences(columns: &mut Columns, trace: &Trace, data: &HashMap<u64, usize>) {
    let mut edges = Cow::Borrowed(&trace.dependences);
    if !edges.is_sorted_by_key(|edge| edge.to) {
        edges.to_mut().sort_by_key(|edge| edge.to);
    }
    let mut counts = vec![0_u64; trace.tasks.len()];
    for edge in edges.iter() {
        counts[edge.to] += 1;
    }
    columns.plain("edges", counts);
    columns.signed("edge.back", edges.iter().map(|edge| edge.to as i64 - edge.from as i64));
    let object = |edge: &crate::Dependence| option(edge.data.and_then(|number| data.get(&number).copied()));
    columns.plain("edge.data", edges.iter().map(|edge| object(edge) * 2 + u64::from(edge.carries_value)));
}

/// Appends the access columns, grouped by task: the number of accesses of each task, then the region and mode of
/// each access. The region columns hold the indices of their data objects.
pub(super) fn accesses(columns: &mut Columns, trace: &Trace, data: &HashMap<u64, usize>) {
    let mut accesses = Cow::Borrowed(&trace.accesses);
    if !accesses.is_sorted_by_key(|access| access.task) {
        accesses.to_mut().sort_by_key(|access| access.task);
    }
    let mut counts = vec![0_u64; trace.tasks.len()];
    for access in accesses.iter() {
        counts[access.task] += 1;
    }
    columns.plain("accesses", counts);
    columns.deltas("access.region", accesses.iter().map(|access| option(access.region)));
    columns.plain("access.mode", accesses.iter().map(|access| access.mode as u64));
    columns.plain("region.data", trace.regions.iter().map(|region| option(data.get(&region.data).copied())));
    columns.plain("region.bytes", trace.regions.iter().map(|region| region.bytes));
}
