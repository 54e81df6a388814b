//! The analysis of a run that summary and report share: shares of the units' time, the critical path, figures by task
//! name, copies by link, and a verdict.
//!
//! [`Analysis::of`] computes everything at once, in time that grows as the number of records times its logarithm.
//! [`timeline`] gives the same division of time stretch by stretch. Times are nanoseconds on the trace's clock.
//!
//! Invariants:
//! 1. Each moment of a unit between [`Analysis::begin`] and [`Analysis::end`] belongs to exactly one [`Activity`], so
//!    the
//!    shares of a unit add up to the makespan.
//! 2. A table that is inconsistent (clocks of cores that differ, records that are missing) changes figures, and never
//!    invariant 1.
//!
//! The analysis never reads files and never formats more than the verdict.

mod critical;
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
pub use names::{KindUse, NameUse};
pub use shares::{Shares, UnitUse};
pub use timeline::{Activity, Program, Stretch};
pub use transfers::{DataTraffic, InstanceUse, Transfer};
pub use verdict::{Limit, Verdict};

use crate::Trace;
use prepare::Prepared;
use std::cmp::Reverse;
use std::collections::HashMap;

/// Where the time of a run went. Times in nanoseconds.
#[derive(Debug, Clone)]
pub struct Analysis {
    /// The first submission; in a trace without tasks, the first event.
    pub begin: u64,
    /// The last end of a task, of copies that follow it within 1 % of the run, or of the program's wait that covers it.
    /// Copies that the program has made later, such as of results that it takes, belong to the program.
    pub end: u64,
    /// Per unit, by number.
    pub units: Vec<UnitUse>,
    /// The sum over units; adds up to units × (end − begin).
    pub shares: Shares,
    /// Per task name, the largest total first.
    pub names: Vec<NameUse>,
    /// The median duration of all bodies.
    pub body_p50: u64,
    /// The median delay from ready to start, over all tasks.
    pub wait_p50: u64,
    /// The delay from ready to start that 99 of 100 tasks did not exceed.
    pub wait_p99: u64,
    /// Per pair of spaces with copies between them, the most bytes first.
    pub transfers: Vec<Transfer>,
    /// Per data object that was copied, the most bytes first.
    pub traffic: Vec<DataTraffic>,
    /// The tasks of the longest path through dependences, in order, each with the reason for its start.
    pub critical: Vec<CriticalStep>,
    /// The duration of that path: the sum of its bodies' durations.
    pub critical_ns: u64,
    /// The chain of causes that led to the end, in order of time: from the task that ended last backwards, always to
    /// the cause of the start.
    pub chain: Vec<CriticalStep>,
    /// Decisions of work distributions, by iteration space and instance.
    pub decisions: Vec<InstanceUse>,
    /// The limit of the run, and a remedy.
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
        let (critical_ns, critical, chain) = critical::paths(&prepared);
        let decisions = transfers::by_instance(&prepared);
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
            critical,
            critical_ns,
            chain,
            decisions,
            verdict,
        };
        analysis.verdict = verdict::of(trace, &analysis, &lost);
        analysis
    }

    /// Returns the time from begin to end.
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

    /// Returns the sum of all bodies' durations: more than the time in which units compute, if bodies run in bodies.
    pub fn in_bodies(&self) -> u64 {
        self.names.iter().map(|name| name.total).sum()
    }

    /// Returns the mean duration of a body; 0 if none ran.
    pub fn mean_body(&self) -> u64 {
        self.in_bodies().checked_div(self.bodies()).unwrap_or(0)
    }

    /// Returns the number of bytes that were copied, and of those among them that made room for others.
    pub fn copied(&self) -> (u64, u64) {
        let sum = |of: fn(&Transfer) -> u64| self.transfers.iter().map(of).fold(0, u64::saturating_add);
        (sum(|link| link.bytes), sum(|link| link.evicted))
    }

    /// Returns the task name with the most time on the critical path, and that time; `None` if the path is empty.
    pub fn dominating<'a>(&self, trace: &'a Trace) -> Option<(&'a str, u64)> {
        let mut times: HashMap<&str, u64> = HashMap::new();
        for step in &self.critical {
            let task = &trace.tasks[step.task];
            let time = task.start.zip(task.end).map_or(0, |(start, end)| end.saturating_sub(start));
            *times.entry(trace.name(step.task)).or_default() += time;
        }
        times.into_iter().max_by_key(|(name, time)| (*time, Reverse(*name)))
    }

    /// Returns the time of all units: their number times the makespan.
    pub fn unit_time(&self) -> u64 {
        self.units.len() as u64 * self.makespan()
    }
}

/// Calls `visit` for each stretch of each unit: unit by unit, in order of time, without gaps from begin to end.
///
/// Neighbours differ in more than their times.
pub fn timeline(trace: &Trace, visit: impl FnMut(&Stretch)) {
    timeline::walk(&Prepared::new(trace), visit);
}
