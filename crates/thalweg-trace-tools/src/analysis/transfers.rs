//! Copies by link and by data object, and the decisions of work distributions.

use super::prepare::Prepared;
use super::spans::{covered, totals, union};
use crate::Trace;
use std::collections::{BTreeMap, HashMap};

/// The copies from one space to another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Transfer {
    /// The source space.
    pub from: usize,
    /// The destination space.
    pub to: usize,
    /// The number of copies.
    pub copies: u64,
    /// The number of bytes copied.
    pub bytes: u64,
    /// The sum of the copies' durations in nanoseconds, including the time spent waiting for the link.
    pub time: u64,
    /// The part of `time` spent waiting for other copies on the link, in nanoseconds.
    pub waited: u64,
    /// The number of bytes copied to make room for other data.
    pub evicted: u64,
}

/// The copies of one data object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DataTraffic {
    /// The ID of the data object: a key of [`Trace::data`] if the object's name is known.
    pub data: u64,
    /// The number of copies.
    pub copies: u64,
    /// The number of bytes copied.
    pub bytes: u64,
    /// The object's copies by link, most bytes first.
    pub links: Vec<Transfer>,
    /// How often the object was copied back: for each pair of spaces, the smaller of the two directions' copy
    /// counts, summed over all pairs.
    pub returns: u64,
}

/// A decision of a work distribution, with the units' computing time until the next decision for the same iteration
/// space.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InstanceUse {
    /// The iteration space.
    pub space: String,
    /// The instance.
    pub instance: u64,
    /// When the decision was made, in nanoseconds.
    pub at: u64,
    /// The state of the distribution.
    pub state: u8,
    /// The first index right of the pivot.
    pub pivot: u32,
    /// When the next decision for the same space was made, or the end of the run if there is none, in nanoseconds.
    pub until: u64,
    /// How long each unit ran bodies between `at` and `until`, in nanoseconds.
    pub computing: Vec<u64>,
}

/// Returns the copies per pair of spaces, most bytes first.
pub(super) fn by_link(trace: &Trace) -> Vec<Transfer> {
    let mut links: BTreeMap<(usize, usize), Transfer> = BTreeMap::new();
    for copy in &trace.copies {
        add(links.entry((copy.from, copy.to)).or_default(), copy);
    }
    sorted(links)
}

fn add(link: &mut Transfer, copy: &crate::Copy) {
    (link.from, link.to) = (copy.from, copy.to);
    link.copies += 1;
    link.bytes = link.bytes.saturating_add(copy.bytes);
    link.time = link.time.saturating_add(copy.end.saturating_sub(copy.start));
    link.waited = link.waited.saturating_add(copy.waited);
    if copy.evicts {
        link.evicted = link.evicted.saturating_add(copy.bytes);
    }
}

fn sorted(links: BTreeMap<(usize, usize), Transfer>) -> Vec<Transfer> {
    let mut links: Vec<Transfer> = links.into_values().collect();
    links.sort_by_key(|link| std::cmp::Reverse(link.bytes));
    links
}

/// Returns the copies per data object, most bytes first.
pub(super) fn by_data(trace: &Trace) -> Vec<DataTraffic> {
    let mut data: HashMap<u64, BTreeMap<(usize, usize), Transfer>> = HashMap::new();
    for copy in &trace.copies {
        add(data.entry(copy.data).or_default().entry((copy.from, copy.to)).or_default(), copy);
    }
    let traffic = |(data, links): (u64, BTreeMap<(usize, usize), Transfer>)| {
        let back = |link: &Transfer| links.get(&(link.to, link.from)).map_or(0, |back| back.copies.min(link.copies));
        let returns = links.values().filter(|link| link.from < link.to).map(back).sum();
        let links = sorted(links);
        let copies = links.iter().map(|link| link.copies).sum();
        let bytes = links.iter().fold(0, |bytes: u64, link| bytes.saturating_add(link.bytes));
        DataTraffic { data, copies, bytes, links, returns }
    };
    let mut data: Vec<DataTraffic> = data.into_iter().map(traffic).collect();
    data.sort_by_key(|traffic| (std::cmp::Reverse(traffic.bytes), traffic.data));
    data
}

/// Returns the decisions, by iteration space, then by time.
pub(super) fn by_instance(prepared: &Prepared<'_>) -> Vec<InstanceUse> {
    let trace = prepared.trace;
    if trace.decisions.is_empty() {
        return Vec::new();
    }
    let mut bodies = vec![Vec::new(); prepared.units];
    for task in &trace.tasks {
        if let (Some(unit), Some(start), Some(end)) = (task.unit, task.start, task.end) {
            bodies[unit].push((start, end));
        }
    }
    let bodies: Vec<_> = bodies.into_iter().map(union).map(|spans| (totals(&spans), spans)).collect();
    let mut decisions: Vec<_> = trace.decisions.iter().collect();
    decisions.sort_by(|one, other| (&one.space, one.at).cmp(&(&other.space, other.at)));
    let until = |number: usize| match decisions.get(number + 1) {
        Some(next) if next.space == decisions[number].space => next.at,
        _ => prepared.end.max(decisions[number].at),
    };
    let used = decisions.iter().enumerate().map(|(number, decision)| {
        let until = until(number);
        let in_unit =
            |(totals, spans): &(Vec<u64>, Vec<_>)| covered(spans, totals, until) - covered(spans, totals, decision.at);
        InstanceUse {
            space: decision.space.clone(),
            instance: decision.instance,
            at: decision.at,
            state: decision.state,
            pivot: decision.pivot,
            until,
            computing: bodies.iter().map(in_unit).collect(),
        }
    });
    used.collect()
}
