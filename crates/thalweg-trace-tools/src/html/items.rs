//! The items that the timeline shows, in rows: one per unit, copy link, and thread that leads no unit.
//!
//! A row has lanes. Each item goes into the first lane that is free when it begins, so overlapping items (nested
//! bodies, kernels on several devices, copies that share a link) are drawn below each other.
//!
//! Every unit of the machine has a row, even if it was not used; any other owner has a row only if it owns an item.

use crate::{Trace, Unit};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Maximum number of lanes per row. Items that would need more lanes share the last lane.
const LANES: usize = 24;

/// A timeline row.
pub(super) struct Row {
    /// The row's owner, in the form that the report's script reads.
    pub(super) head: Value,
    /// The row's items as positions in the trace's table, sorted by start.
    pub(super) items: Vec<usize>,
    /// The lane of each item.
    pub(super) lanes: Vec<u64>,
}

impl Row {
    /// Creates a row from items, each given as its start, end and position in its table.
    fn new(head: Value, mut items: Vec<(u64, u64, usize)>) -> Self {
        // If several items begin at the same time, the longest encloses the others.
        items.sort_unstable_by_key(|(begin, end, at)| (*begin, u64::MAX - end, *at));
        let mut ends: Vec<u64> = Vec::new();
        let lane_of = |(begin, end, _): &(u64, u64, usize)| {
            let free = ends.iter().position(|busy_until| busy_until <= begin);
            let lane = free.unwrap_or(ends.len()).min(LANES - 1);
            if lane == ends.len() {
                ends.push(*end);
            }
            ends[lane] = ends[lane].max(*end);
            lane as u64
        };
        let lanes = items.iter().map(lane_of).collect();
        Self { head, items: items.into_iter().map(|(_, _, at)| at).collect(), lanes }
    }
}

/// Returns the rows of bodies: first the machine's units, then units that the trace does not list and bodies
/// without a unit.
pub(super) fn of_tasks(trace: &Trace) -> Vec<Row> {
    let mut items: BTreeMap<usize, Vec<(u64, u64, usize)>> =
        (0..trace.units.len()).map(|unit| (unit, Vec::new())).collect();
    for (at, task) in trace.tasks.iter().enumerate() {
        let Some(start) = task.start else { continue };
        let end = task.end.unwrap_or(trace.end).max(start);
        items.entry(task.unit.unwrap_or(usize::MAX)).or_default().push((start, end, at));
    }
    let row = |(unit, items): (usize, _)| {
        let known = trace.units.get(unit);
        let kind = known.map_or("", |Unit { kind, .. }| kind.as_str());
        let number = (unit != usize::MAX).then_some(unit);
        Row::new(json!({ "unit": number, "kind": kind, "width": known.map_or(1, |unit| unit.width) }), items)
    };
    items.into_iter().map(row).collect()
}

/// Returns the rows of copies, one per pair of spaces. An item begins when the copy gets its link.
pub(super) fn of_copies(trace: &Trace) -> Vec<Row> {
    let mut items: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (at, copy) in trace.copies.iter().enumerate() {
        let begin = copy.start.saturating_add(copy.waited).min(copy.end);
        items.entry((copy.from, copy.to)).or_default().push((begin, copy.end, at));
    }
    items.into_iter().map(|((from, to), items)| Row::new(json!({ "from": from, "to": to }), items)).collect()
}

/// Returns the rows of states: one for each unit, and one for each thread that leads no unit, if it has states.
pub(super) fn of_states(trace: &Trace) -> Vec<Row> {
    let mut items: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (at, state) in trace.states.iter().enumerate() {
        let owner = state.unit.map_or((1, state.thread), |unit| (0, unit));
        items.entry(owner).or_default().push((state.start, state.end, at));
    }
    let head = |owner| match owner {
        (0, unit) => json!({ "unit": unit }),
        (_, thread) => json!({ "thread": thread }),
    };
    items.into_iter().map(|(owner, items)| Row::new(head(owner), items)).collect()
}
