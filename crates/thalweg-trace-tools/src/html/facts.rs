//! The report's small figures as JSON: facts of the run, names, shares of time, copies by link, and the verdict.
//!
//! Everything that grows with the number of tasks is in columns instead (`encode.rs`), except the names of sites and
//! data objects.

use super::items::Row;
use crate::analysis::{Activity, Analysis, DataTraffic, InstanceUse, MessageUse, NameUse, Shares, Stretch, Transfer};
use crate::rows::Owner;
use crate::{Site, Trace};
use serde_json::{Value, json};

/// The number of time intervals in the chart of unit utilization.
const BINS: usize = 720;

/// Maximum number of data objects listed with their copies.
const OBJECTS: usize = 10;

/// Returns the names of data objects by ID, leaving out default names of the form `data N`.
pub(super) fn data_names(trace: &Trace) -> Value {
    let mut names: Vec<_> = trace.data.iter().filter(|(number, data)| data.name != format!("data {number}")).collect();
    names.sort_unstable_by_key(|(number, _)| **number);
    names.iter().map(|(number, data)| json!([number, data.name])).collect()
}

/// Returns the figures of a run.
pub(super) fn of(trace: &Trace, analysis: &Analysis) -> Value {
    let mut facts: Vec<_> = trace.facts.iter().collect();
    facts.sort();
    let site = |Site { name, file, line, column }: &Site| json!([name, file, line, column]);
    let unit_name = |unit: usize| Owner::unit(unit).name(trace);
    let activity = |activity: &Activity| json!([activity.name(), activity.title(), activity.is_idle()]);
    json!({
        "facts": facts,
        "problem": trace.problem,
        "begin": analysis.begin,
        "end": analysis.end,
        "last": trace.end.max(analysis.end),
        "units": trace.units.iter().map(|unit| json!({ "kind": unit.kind, "width": unit.width })).collect::<Value>(),
        "unit_names": (0..trace.units.len()).map(unit_name).collect::<Vec<_>>(),
        "spaces": trace.spaces,
        "threads": trace.threads,
        "policies": trace.policies,
        "data_names": data_names(trace),
        "regions": trace.regions.iter().map(|region| region.text.as_str()).collect::<Value>(),
        "sites": trace.sites.iter().map(site).collect::<Value>(),
        "names": analysis.names.iter().map(name).collect::<Value>(),
        "activities": Activity::ALL.iter().map(activity).collect::<Value>(),
        "shares": shares(&analysis.shares),
        "units_use": analysis.units.iter().map(|unit| json!([unit.tasks, shares(&unit.shares)])).collect::<Value>(),
        "verdict": { "limit": analysis.verdict.limit.name(), "sentence": analysis.verdict.sentence },
        "critical_ns": analysis.critical_ns,
        "messages": analysis.messages.iter().map(messages).collect::<Value>(),
        "transfers": analysis.transfers.iter().map(transfer).collect::<Value>(),
        "traffic": analysis.traffic.iter().take(OBJECTS).map(traffic).collect::<Value>(),
        "decisions": decisions(&analysis.decisions),
    })
}

fn shares(shares: &Shares) -> Value {
    shares.parts().iter().map(|(_, time)| *time).collect()
}

fn name(of: &NameUse) -> Value {
    let kinds: Value = of.kinds.iter().map(|kind| json!([kind.kind, kind.count, kind.total])).collect();
    json!({
        "name": of.name, "site": of.site, "count": of.count, "failed": of.failed, "unrun": of.unrun, "total": of.total,
        "mean": of.mean, "p50": of.p50, "p99": of.p99, "max": of.max, "wait_p50": of.wait_p50, "wait_p99": of.wait_p99,
        "histogram": of.histogram, "kinds": kinds,
    })
}

fn transfer(of: &Transfer) -> Value {
    json!({
        "from": of.from, "to": of.to, "copies": of.copies, "bytes": of.bytes, "time": of.time, "waited": of.waited,
        "evicted": of.evicted,
    })
}

fn messages(of: &MessageUse) -> Value {
    json!({ "from": of.from, "to": of.to, "messages": of.messages, "time": of.time, "hidden": of.hidden })
}

fn traffic(of: &DataTraffic) -> Value {
    json!({ "data": of.data, "copies": of.copies, "bytes": of.bytes, "returns": of.returns })
}

/// Returns the decisions by iteration space and then by instance, in order of time. Each consists of its time,
/// state, pivot, duration, and the computing time of each unit.
fn decisions(all: &[InstanceUse]) -> Value {
    let mut spaces: Vec<(&str, Vec<Value>)> = Vec::new();
    for of in all {
        let entry = json!([of.instance, of.at, of.state, of.pivot, of.until.saturating_sub(of.at), of.computing]);
        match spaces.iter_mut().find(|(space, _)| *space == of.space) {
            Some((_, entries)) => entries.push(entry),
            None => spaces.push((&of.space, vec![entry])),
        }
    }
    spaces.into_iter().map(|(space, entries)| json!({ "space": space, "entries": entries })).collect()
}

/// Returns the owners of rows, in row order.
pub(super) fn heads(rows: &[Row]) -> Value {
    rows.iter().map(|row| row.head.clone()).collect()
}

/// Utilization of all units over time: for each activity, its share of each time interval, in thousandths.
pub(super) struct Use {
    begin: u64,
    span: u64,
    units: u64,
    /// Per interval, the nanoseconds spent on each activity.
    bins: Vec<[u64; BINS]>,
}

impl Use {
    pub(super) fn new(analysis: &Analysis) -> Self {
        let (span, units) = (analysis.makespan(), analysis.units.len() as u64);
        Self { begin: analysis.begin, span, units, bins: vec![[0; BINS]; Activity::ALL.len()] }
    }

    /// Returns the time at which an interval begins.
    fn edge(&self, bin: usize) -> u64 {
        self.begin + (u128::from(self.span) * bin as u128 / BINS as u128) as u64
    }

    /// Adds a stretch of a unit's time.
    pub(super) fn add(&mut self, stretch: &Stretch) {
        let Some(activity) = Activity::ALL.iter().position(|activity| *activity == stretch.activity) else { return };
        let elapsed = u128::from(stretch.start.saturating_sub(self.begin));
        let mut bin = (elapsed * BINS as u128 / u128::from(self.span.max(1))) as usize;
        // Rounding may have overshot by one interval, so start one interval earlier.
        bin = bin.min(BINS - 1).saturating_sub(1);
        while bin < BINS && self.edge(bin) < stretch.end {
            let (from, to) = (self.edge(bin).max(stretch.start), self.edge(bin + 1).min(stretch.end));
            self.bins[activity][bin] += to.saturating_sub(from);
            bin += 1;
        }
    }

    pub(super) fn finish(&self) -> Value {
        let share = |bin: usize, time: u64| {
            let whole = u128::from(self.units) * u128::from(self.edge(bin + 1) - self.edge(bin));
            (u128::from(time) * 1000).checked_div(whole).unwrap_or(0) as u64
        };
        let shares =
            |bins: &[u64; BINS]| bins.iter().enumerate().map(|(bin, time)| share(bin, *time)).collect::<Value>();
        let entry = |(activity, bins): (&Activity, _)| json!({ "activity": activity.name(), "values": shares(bins) });
        Activity::ALL.iter().zip(&self.bins).map(entry).collect()
    }
}
