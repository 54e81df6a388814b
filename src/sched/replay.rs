//! `replay`: every task goes to the unit that a schedule names, and there in the schedule's order, as far as it is ready.
//!
//! What the schedule does not know goes where `stealing` puts it: a task without an entry, with another name than its entry,
//! or whose unit cannot run it. Each of these is a deviation, and counted.

use super::schedule::Scheduled;
use super::{Policy, ReadyTask, Sample, Schedule, Stealing, View};
use crate::ids::{TaskId, UnitId};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::fmt;

/// See the module.
///
/// ```
/// use thalweg::prelude::*;
/// use thalweg::sched::{Replay, Schedule};
/// let mut schedule = Schedule::default();
/// for n in 0..8 {
///     schedule.push(TaskId(n), "t", UnitId((n % 2) as u16));
/// }
/// let rt = Runtime::builder().compute_units("2:CPU:1").policy(Replay::new(schedule, 2)).build()?;
/// for n in 0..9 {
///     rt.task("t", ()).cpu(move |at, ()| assert!(n == 8 || at.unit() == UnitId(n % 2))).submit()?;
/// }
/// rt.wait()?;
/// let deviations = rt.statistics().deviations.unwrap();
/// assert_eq!(deviations.to_string(), "1 task did not go by the schedule; the first, task 8 `t`, is not in it");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Replay {
    /// The entries' names and units, with their places in the schedule.
    known: FxHashMap<TaskId, (usize, Scheduled)>,
    /// What is ready for each unit, by its place in the schedule.
    queues: Vec<BTreeMap<usize, TaskId>>,
    others: Stealing,
    deviations: Option<Deviations>,
}

/// How a run differed from the schedule that it was to follow.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Deviations {
    /// How many tasks went elsewhere.
    pub tasks: u64,
    /// The first of them, and why.
    pub first: String,
}

impl fmt::Display for Deviations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tasks = if self.tasks == 1 { "1 task" } else { &format!("{} tasks", self.tasks) };
        write!(f, "{tasks} did not go by the schedule; the first, {}", self.first)
    }
}

impl Replay {
    /// Follows a schedule on a machine of so many units.
    pub fn new(schedule: Schedule, units: usize) -> Self {
        let known = schedule.entries.into_iter().enumerate().map(|(rank, entry)| (entry.task, (rank, entry))).collect();
        Self { known, queues: vec![BTreeMap::new(); units], others: Stealing::new(units), deviations: None }
    }

    /// The place of a task in the schedule, and its unit; or why it has none.
    fn find(&self, task: &ReadyTask) -> Result<(usize, usize), String> {
        let Some((rank, entry)) = self.known.get(&task.id) else { return Err("is not in it".to_owned()) };
        if entry.name != task.name {
            return Err(format!("is `{}` there", entry.name));
        }
        if entry.unit.index() >= self.queues.len() || !task.runs_on(entry.unit) {
            return Err(format!("cannot run on {}", entry.unit));
        }
        Ok((*rank, entry.unit.index()))
    }
}

impl Policy for Replay {
    fn name(&self) -> &'static str {
        "replay"
    }

    fn ready(&mut self, task: ReadyTask, view: &View<'_>) {
        match self.find(&task) {
            Ok((rank, unit)) => _ = self.queues[unit].insert(rank, task.id),
            Err(problem) => {
                let first = || Deviations { tasks: 0, first: format!("{} `{}`, {problem}", task.id, task.name) };
                self.deviations.get_or_insert_with(first).tasks += 1;
                self.others.ready(task, view);
            }
        }
    }

    fn next(&mut self, unit: UnitId, view: &View<'_>) -> Option<TaskId> {
        let scheduled = self.queues[unit.index()].pop_first().map(|(_, task)| task);
        scheduled.or_else(|| self.others.next(unit, view))
    }

    fn in_flight(&mut self, unit: UnitId, tasks: usize) {
        self.others.in_flight(unit, tasks);
    }

    fn finished(&mut self, sample: &Sample) {
        self.others.finished(sample);
    }

    fn deviations(&self) -> Option<&Deviations> {
        self.deviations.as_ref()
    }
}
