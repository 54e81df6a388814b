//! The rows of the timeline: one per unit, copy link, and thread that leads no unit, with the items drawn in each.
//!
//! A row has lanes. An item is in the first lane that is free when it begins, so items that overlap, such as nested
//! bodies, kernels on several devices and copies that share a link, are drawn below each other.
//!
//! Rows exist for all units of the machine, used or not, and for other owners only if they own an item.

use crate::{Trace, Unit};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The most lanes of a row; items that would need more share the last one.
const LANES: usize = 24;

/// A row.
pub(super) struct Row {
    /// The row's owner, in the form that the report's script reads.
    pub(super) head: Value,
    /// Positions of its items in the trace's table, by their beginnings.
    pub(super) items: Vec<usize>,
    /// The lane of each item.
    pub(super) lanes: Vec<u64>,
}

impl Row {
    /// A row of items, each with beginning, end and position in its table.
    fn new(head: Value, mut items: Vec<(u64, u64, usize)>) -> Self {
        // Of items that begin together, the longest is the outer one.
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

/// The rows of bodies: each unit of the machine, then units and bodies that the machine does not list.
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

/// The rows of copies: one per pair of spaces. An item begins when the link takes it.
pub(super) fn of_copies(trace: &Trace) -> Vec<Row> {
    let mut items: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (at, copy) in trace.copies.iter().enumerate() {
        let begin = copy.start.saturating_add(copy.waited).min(copy.end);
        items.entry((copy.from, copy.to)).or_default().push((begin, copy.end, at));
    }
    items.into_iter().map(|((from, to), items)| Row::new(json!({ "from": from, "to": to }), items)).collect()
}

/// The rows of states: one per unit with states, and one per thread with states that leads no unit.
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
