//! Timeline rows: the bodies, states and copies of a trace, each on the row of its unit, device, thread or link.
//!
//! All exporters that draw one bar per body use this module, so they agree on which bar belongs to which row.
//! Slices that overlap without nesting, such as two kernels on one device, go onto separate layers.
//!
//! Invariants:
//! 1. Slices of a layer are sorted by start; if two start at the same time, the longer one comes first.
//! 2. Any two slices of a layer are either nested or disjoint. Bodies on a device never nest, nor do copies. Bodies
//!    on a CPU nest if one of them waits and its thread runs the other one meanwhile.
//!
//! This module never drops, merges or shortens a slice.

use crate::ranks::Ranks;
use crate::{StateKind, Trace};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// The owner of one or more layers. Owners sort in the order in which their rows appear on screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Owner {
    /// The thread that leads a unit, or one of the unit's devices, or a stream of a device.
    Unit { unit: usize, device: Option<usize>, stream: Option<usize> },
    /// Bodies that were recorded without a unit.
    NoUnit,
    /// A thread that leads no unit.
    Thread(usize),
    /// Copies from one space to another.
    Link { from: usize, to: usize },
}

/// An entry of one of the trace's tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Entry {
    State(usize),
    Task(usize),
    Copy(usize),
}

/// A bar in the timeline. Times are in nanoseconds on the trace's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slice {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) entry: Entry,
}

/// A row: one layer of an owner.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) owner: Owner,
    /// Index of this layer among the owner's layers, counting from 0.
    pub(crate) layer: usize,
    pub(crate) slices: Vec<Slice>,
}

/// The start or end of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Edge {
    Begin,
    End,
}

impl Owner {
    /// Returns the owner that stands for the thread that leads a unit.
    pub(crate) fn unit(unit: usize) -> Self {
        Self::Unit { unit, device: None, stream: None }
    }

    /// Returns the name of the row.
    pub(crate) fn name(self, trace: &Trace) -> String {
        match self {
            Self::Unit { unit, device: None, .. } => match trace.units.get(unit) {
                Some(known) => format!("{} {}", unit_name(trace, unit), known.kind),
                None => format!("unit {unit}"),
            },
            Self::Unit { unit, device: Some(device), stream } => {
                let name = format!("{} device {device}", Self::unit(unit).name(trace));
                stream.map_or(name.clone(), |stream| format!("{name} stream {stream}"))
            }
            Self::NoUnit => "no unit".to_owned(),
            Self::Thread(thread) => match trace.threads.get(thread) {
                Some(name) if !name.is_empty() => format!("thread {thread} {name}"),
                _ => format!("thread {thread}"),
            },
            Self::Link { from, to } => format!("copies {} to {}", space_name(trace, from), space_name(trace, to)),
        }
    }

    /// Returns whether slices may nest. Only host threads run a body inside another body or inside a state.
    fn nests(self, trace: &Trace) -> bool {
        match self {
            Self::Unit { unit, device: None, .. } => trace.units.get(unit).is_none_or(|unit| unit.kind == "CPU"),
            Self::Unit { .. } | Self::Link { .. } => false,
            Self::NoUnit | Self::Thread(_) => true,
        }
    }
}

/// Returns the number of a unit; in a merged trace, with its rank.
pub(crate) fn unit_name(trace: &Trace, unit: usize) -> String {
    let ranks = Ranks::of(trace);
    let rank = ranks.of_unit(unit);
    match ranks.number(rank).filter(|_| unit < trace.units.len()) {
        Some(number) => format!("rank {number} unit {}", unit - ranks.first_unit(rank)),
        None => format!("unit {unit}"),
    }
}

/// Returns the name of a space, or its number if the trace does not name it.
pub(crate) fn space_name(trace: &Trace, space: usize) -> String {
    match trace.spaces.get(space) {
        Some(name) if !name.is_empty() => name.clone(),
        _ => format!("space {space}"),
    }
}

/// Returns the name of a state.
pub(crate) fn state_name(kind: StateKind) -> &'static str {
    match kind {
        StateKind::Search => "search",
        StateKind::Sleep => "sleep",
        StateKind::Throttle => "throttle",
        StateKind::Wait => "wait",
    }
}

/// Returns the program's name with its process ID and the name of the runtime, as far as these are known.
pub(crate) fn process_name(trace: &Trace) -> String {
    let fact = |key: &str| trace.facts.get(key).map_or("", String::as_str);
    let program = fact("program");
    let program = program.rsplit(['/', '\\']).next().filter(|name| !name.is_empty()).unwrap_or("thalweg");
    let mut name = program.to_owned();
    for (word, value) in [("process", fact("process")), ("runtime", fact("runtime"))] {
        if !value.is_empty() {
            name += &format!(", {word} {value}");
        }
    }
    name
}

/// Returns all rows of a trace, sorted by owner. Every unit has a row, even if nothing ran on it.
pub(crate) fn rows(trace: &Trace) -> Vec<Row> {
    let units = (0..trace.units.len()).map(|unit| (Owner::unit(unit), Vec::new()));
    let mut by_owner: BTreeMap<Owner, Vec<Slice>> = units.collect();
    let mut add = |owner, start, end: u64, entry| {
        by_owner.entry(owner).or_default().push(Slice { start, end: end.max(start), entry });
    };
    for (at, task) in trace.tasks.iter().enumerate() {
        let (Some(start), Some(end)) = (task.start, task.end) else { continue };
        let (device, stream) = (task.device, task.stream);
        let owner = task.unit.map_or(Owner::NoUnit, |unit| Owner::Unit { unit, device, stream });
        add(owner, start, end, Entry::Task(at));
    }
    for (at, state) in trace.states.iter().enumerate() {
        let owner = state.unit.map_or(Owner::Thread(state.thread), Owner::unit);
        add(owner, state.start, state.end, Entry::State(at));
    }
    for (at, copy) in trace.copies.iter().enumerate() {
        // A waiting copy does not occupy the link, because other copies do; so its slice begins after the wait.
        let begins = copy.start.saturating_add(copy.waited).min(copy.end);
        add(Owner::Link { from: copy.from, to: copy.to }, begins, copy.end, Entry::Copy(at));
    }
    let layers_of = |(owner, slices): (Owner, Vec<Slice>)| {
        let layers = layers(slices, owner.nests(trace));
        layers.into_iter().enumerate().map(move |(layer, slices)| Row { owner, layer, slices })
    };
    by_owner.into_iter().flat_map(layers_of).collect()
}

/// Distributes slices over as few layers as the invariants allow. Only the first layer may contain nested slices.
fn layers(mut slices: Vec<Slice>, nests: bool) -> Vec<Vec<Slice>> {
    slices.sort_unstable_by_key(|slice| (slice.start, Reverse(slice.end), slice.entry));
    let mut layers = vec![Vec::new()];
    // The ends of the slices that are currently open on the first layer, if slices may nest there.
    let mut open: Vec<u64> = Vec::new();
    let mut busy: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
    let mut free: BinaryHeap<Reverse<usize>> = BinaryHeap::new();
    if !nests {
        free.push(Reverse(0));
    }
    for slice in slices {
        if nests {
            while open.last().is_some_and(|end| *end <= slice.start) {
                open.pop();
            }
            if open.last().is_none_or(|end| slice.end <= *end) {
                open.push(slice.end);
                layers[0].push(slice);
                continue;
            }
        }
        while let Some(Reverse((end, layer))) = busy.peek().copied()
            && end <= slice.start
        {
            busy.pop();
            free.push(Reverse(layer));
        }
        let layer = free.pop().map_or(layers.len(), |Reverse(layer)| layer);
        if layer == layers.len() {
            layers.push(Vec::new());
        }
        busy.push(Reverse((slice.end, layer)));
        layers[layer].push(slice);
    }
    layers
}

/// Calls `visit(time, slice, edge)` for each edge of a layer's slices in order of time. At equal times, an end
/// comes before a start, unless it is the end of a slice without duration.
pub(crate) fn walk(slices: &[Slice], mut visit: impl FnMut(u64, usize, Edge)) {
    let mut open: Vec<usize> = Vec::new();
    for (at, slice) in slices.iter().enumerate() {
        while let Some(inner) = open.pop_if(|inner| slices[*inner].end <= slice.start) {
            visit(slices[inner].end, inner, Edge::End);
        }
        visit(slice.start, at, Edge::Begin);
        open.push(at);
    }
    while let Some(inner) = open.pop() {
        visit(slices[inner].end, inner, Edge::End);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slices(spans: &[(u64, u64)]) -> Vec<Slice> {
        spans.iter().enumerate().map(|(at, &(start, end))| Slice { start, end, entry: Entry::Task(at) }).collect()
    }

    fn spans(layers: &[Vec<Slice>]) -> Vec<Vec<(u64, u64)>> {
        layers.iter().map(|layer| layer.iter().map(|slice| (slice.start, slice.end)).collect()).collect()
    }

    #[test]
    fn contained_slices_share_a_lane_if_the_owner_nests() {
        let all = [(0, 10), (2, 5), (5, 10), (3, 4), (10, 12)];
        assert_eq!(spans(&layers(slices(&all), true)), [vec![(0, 10), (2, 5), (3, 4), (5, 10), (10, 12)]]);
        let apart = spans(&layers(slices(&all), false));
        assert_eq!(apart, [vec![(0, 10), (10, 12)], vec![(2, 5), (5, 10)], vec![(3, 4)]]);
    }

    #[test]
    fn partial_overlap_opens_another_lane() {
        let both = spans(&layers(slices(&[(0, 10), (5, 15), (15, 16), (20, 21)]), true));
        assert_eq!(both, [vec![(0, 10), (15, 16), (20, 21)], vec![(5, 15)]]);
    }

    #[test]
    fn edges_come_in_order_and_close_inner_slices_first() {
        let layer = slices(&[(0, 10), (2, 10), (4, 4), (10, 10), (10, 11)]);
        let mut seen = Vec::new();
        walk(&layer, |time, at, edge| seen.push((time, at, edge == Edge::Begin)));
        let expected = [(0, 0), (2, 1), (4, 2), (4, 2), (10, 1), (10, 0), (10, 3), (10, 3), (10, 4), (11, 4)];
        assert_eq!(seen.iter().map(|edge| (edge.0, edge.1)).collect::<Vec<_>>(), expected);
        let begins: Vec<bool> = seen.iter().map(|edge| edge.2).collect();
        assert_eq!(begins, [true, true, true, false, false, false, true, false, true, false]);
    }

    #[test]
    fn overlapping_slices_by_the_hundred_thousand_take_no_quadratic_time() {
        let all: Vec<(u64, u64)> = (0..100_000).map(|at| (at, at + 100_000)).collect();
        assert_eq!(layers(slices(&all), true).len(), 100_000);
    }
}
