//! Messages between the ranks of a merged trace, and how much of their time the receiver's units have computed.
//!
//! A message is a dependence of a task on a task of another rank: the receive on its send, as [`merge`](crate::merge)
//! joins them. It is under way from the start of the send, when its region has been written, until the receive has
//! ended. Of this time, the part in which the receiving rank's units run bodies of the program is *hidden*, as a mean
//! over the units. The rest is time in which a unit could not go on, or had nothing else to do.

use super::prepare::Prepared;
use super::spans::{covered, totals, union};
use std::collections::BTreeMap;

/// The messages from one rank to another.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MessageUse {
    /// The number of the sending rank.
    pub from: String,
    /// The number of the receiving rank.
    pub to: String,
    /// The number of messages that have arrived.
    pub messages: u64,
    /// The sum of the times in which they were under way, in nanoseconds.
    pub time: u64,
    /// The part of `time` in which the receiver's units computed, as a mean over these units.
    pub hidden: u64,
}

/// Returns the messages per pair of ranks, in the order of the ranks.
pub(super) fn by_ranks(prepared: &Prepared<'_>) -> Vec<MessageUse> {
    let (trace, ranks) = (prepared.trace, &prepared.ranks);
    let rank = |task: usize| ranks.of_site(trace.tasks[task].site);
    let mut arrived = Vec::new();
    for dependence in &trace.dependences {
        let ends = (rank(dependence.from), rank(dependence.to));
        let times = (trace.tasks[dependence.from].start, trace.tasks[dependence.to].finished);
        if let (true, (Some(start), Some(end))) = (ends.0 != ends.1, times) {
            arrived.push((ends, dependence, (start, end.max(start))));
        }
    }
    if arrived.is_empty() {
        return Vec::new();
    }
    let mut is_message = vec![false; trace.tasks.len()];
    for (_, dependence, _) in &arrived {
        (is_message[dependence.from], is_message[dependence.to]) = (true, true);
    }
    let mut bodies = vec![Vec::new(); prepared.units];
    for (task, _) in trace.tasks.iter().zip(is_message).filter(|(_, is_message)| !is_message) {
        if let (Some(unit), Some(start), Some(end)) = (task.unit, task.start, task.end) {
            bodies[unit].push((start, end));
        }
    }
    let bodies: Vec<_> = bodies.into_iter().map(union).map(|spans| (totals(&spans), spans)).collect();
    let mut units = vec![Vec::new(); ranks.count()];
    (0..trace.units.len()).for_each(|unit| units[ranks.of_unit(unit)].push(&bodies[unit]));
    let mut links: BTreeMap<(usize, usize), MessageUse> = BTreeMap::new();
    for ((from, to), _, (start, end)) in arrived {
        let number = |rank: usize| ranks.number(rank).unwrap_or("?").to_owned();
        let new = || MessageUse { from: number(from), to: number(to), ..MessageUse::default() };
        let link = links.entry((from, to)).or_insert_with(new);
        let computed =
            |(totals, spans): &&(Vec<u64>, Vec<_>)| covered(spans, totals, end) - covered(spans, totals, start);
        let computed: u64 = units[to].iter().map(computed).sum();
        link.messages += 1;
        link.time = link.time.saturating_add(end - start);
        link.hidden = link.hidden.saturating_add(computed.checked_div(units[to].len() as u64).unwrap_or(0));
    }
    links.into_values().collect()
}
