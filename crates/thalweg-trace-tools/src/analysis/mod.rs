//! The analysis that the summary and the report share: shares of the units' time, the critical path, figures by
//! task name, copies by link, and a verdict.
//!
//! [`Analysis::of`] computes everything at once, in O(n log n) time for n records. [`timeline`] yields the same
//! division of time, stretch by stretch. Times are nanoseconds on the trace's clock.
//!
//! Invariants:
//! 1. Each moment of a unit between [`Analysis::begin`] and [`Analysis::end`] belongs to exactly one [`Activity`],
//!    so the shares of a unit add up to the makespan.
//! 2. Inconsistent tables (cores whose clocks differ, missing records) may distort figures, but never violate
//!    invariant 1.
//!
//! The analysis never reads files, and the only text it formats is the verdict.

mod critical;
mod estimates;
mod messages;
mod names;
mod prepare;
mod sentences;
mod shares;
mod spans;
mod steps;
mod sums;
mod timeline;
mod transfers;
mod unit;
mod verdict;

pub use critical::{CriticalStep, Reason};
pub use estimates::PolicyUse;
pub use messages::MessageUse;
pub use names::{KindUse, NameUse};
pub use shares::{Shares, UnitUse};
pub use timeline::{Activity, Program, Stretch};
pub use transfers::{DataTraffic, InstanceUse, Transfer};
pub use verdict::{Limit, Verdict};

use crate::Trace;
use prepare::Prepared;
use spans::sum;
use std::cmp::Reverse;
use std::collections::HashMap;

/// A breakdown of where a run's time went. Times are in nanoseconds.
#[derive(Debug, Clone)]
pub struct Analysis {
    /// When the first task was submitted; in a trace without tasks, when the first event occurred.
    pub begin: u64,
    /// When the run ended: the end of the last task, extended by copies that follow it within 1 % of the run and by
    /// the program's wait that covers it. Later copies, such as those the program makes to fetch results, count as
    /// the program's own work.
    pub end: u64,
    /// The use of each unit, by unit index.
    pub units: Vec<UnitUse>,
    /// The sum over all units, which equals units × (end − begin).
    pub shares: Shares,
    /// Figures per task name, largest total first.
    pub names: Vec<NameUse>,
    /// The median duration of all bodies.
    pub body_p50: u64,
    /// The median delay from ready to start, over all tasks.
    pub wait_p50: u64,
    /// The delay from ready to start that 99 of 100 tasks did not exceed.
    pub wait_p99: u64,
    /// Copies per link, that is per pair of spaces, most bytes first.
    pub transfers: Vec<Transfer>,
    /// Copies per data object, most bytes first.
    pub traffic: Vec<DataTraffic>,
    /// Messages per pair of ranks, if the trace is merged from those of several.
    pub messages: Vec<MessageUse>,
    /// The tasks on the longest path through dependences, in order, each with the reason for its start.
    pub critical: Vec<CriticalStep>,
    /// The length of the critical path: the sum of its bodies' durations.
    pub critical_ns: u64,
    /// The chain of causes that led to the end of the run, in order of time. It is found by stepping back from the
    /// task that ended last, each time to the cause of the task's start.
    pub chain: Vec<CriticalStep>,
    /// The policies that placed tasks, with the quality of their estimates, most tasks first.
    pub policies: Vec<PolicyUse>,
    /// Decisions of work distributions, by iteration space and instance.
    pub decisions: Vec<InstanceUse>,
    /// What limits the run, with a suggested remedy.
    pub verdict: Verdict,
}

impl Analysis {
    /// Analyses a run.
    pub fn of(trace: &Trace) -> Self {
        let prepared = Prepared::new(trace);
        let (units, lost) = shares::of_units(&prepared);
        let mut shares = Shares::default();
        units.iter().for_each(|unit| shares.add(&unit.shares));
        let (names, body_p50, [wait_p50, wait_p99]) = names::by_name(&prepared);
        let (transfers, traffic) = (transfers::by_link(trace), transfers::by_data(trace));
        let messages = messages::by_ranks(&prepared);
        let (critical_ns, critical, chain) = critical::paths(&prepared);
        let (decisions, policies) = (transfers::by_instance(&prepared), estimates::by_policy(&prepared));
        let (begin, end) = (prepared.begin, prepared.end);
        let verdict = Verdict::default();
        let mut analysis = Self {
            begin,
            end,
            units,
            shares,
            names,
            body_p50,
            wait_p50,
            wait_p99,
            transfers,
            traffic,
            messages,
            critical,
            critical_ns,
            chain,
            policies,
            decisions,
            verdict,
        };
        analysis.verdict = verdict::of(trace, &analysis, &lost);
        analysis
    }

    /// Returns the time from [`begin`](Self::begin) to [`end`](Self::end).
    pub fn makespan(&self) -> u64 {
        self.end - self.begin
    }

    /// Returns the number of bodies that ran.
    pub fn bodies(&self) -> u64 {
        self.names.iter().map(|name| name.count).sum()
    }

    /// Returns the number of bodies that failed.
    pub fn failed(&self) -> u64 {
        self.names.iter().map(|name| name.failed).sum()
    }

    /// Returns the number of tasks that did not run.
    pub fn unrun(&self) -> u64 {
        self.names.iter().map(|name| name.unrun).sum()
    }

    /// Returns the sum of all bodies' durations. This exceeds the units' computing time if bodies run inside other
    /// bodies.
    pub fn in_bodies(&self) -> u64 {
        sum(self.names.iter().map(|name| name.total))
    }

    /// Returns the mean duration of a body; 0 if none ran.
    pub fn mean_body(&self) -> u64 {
        self.in_bodies().checked_div(self.bodies()).unwrap_or(0)
    }

    /// Returns the number of bytes copied, and how many of them were copied to make room for other data.
    pub fn copied(&self) -> (u64, u64) {
        let links = |of: fn(&Transfer) -> u64| sum(self.transfers.iter().map(of));
        (links(|link| link.bytes), links(|link| link.evicted))
    }

    /// Returns the task name with the most time on the critical path, and the time it takes there; `None` if the
    /// path is empty.
    pub fn dominating<'a>(&self, trace: &'a Trace) -> Option<(&'a str, u64)> {
        let mut times: HashMap<&str, u64> = HashMap::new();
        for step in &self.critical {
            let task = &trace.tasks[step.task];
            let time = task.start.zip(task.end).map_or(0, |(start, end)| end.saturating_sub(start));
            let sum: &mut u64 = times.entry(trace.name(step.task)).or_default();
            *sum = sum.saturating_add(time);
        }
        times.into_iter().max_by_key(|(name, time)| (*time, Reverse(*name)))
    }

    /// Returns the total unit time: the number of units times the makespan.
    pub fn unit_time(&self) -> u64 {
        self.makespan().saturating_mul(self.units.len() as u64)
    }
}

/// Calls `visit` for each stretch of each unit: unit by unit, in order of time, leaving no gaps between begin and
/// end.
///
/// Adjacent stretches of a unit always differ in something other than their times.
pub fn timeline(trace: &Trace, visit: impl FnMut(&Stretch)) {
    timeline::walk(&Prepared::new(trace), visit);
}
