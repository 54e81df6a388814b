//! Schedules: which unit ran which task, as a value and as text.
//!
//! A task is known by its number, the order in which a program submits: so what was recorded in one run fits another of the
//! same program with one submitting thread. The name tells whether it does.

use super::{
    AffinityStatistics, Choice, CopySample, LowerBound, Model, Policy, ReadyTask, Sample, SubmittedTask, UnitSet, View,
};
use crate::ids::{TaskId, UnitId};
use parking_lot::Mutex;
use std::fmt::Write;
use std::sync::Arc;

/// How the text begins.
const HEAD: &str = "thalweg schedule 1";

/// Which unit ran which task, in the order in which they ended: what
/// [`Builder::record_schedule`](crate::Builder::record_schedule) records, and [`Replay`](super::Replay) follows.
///
/// ```
/// use thalweg::ids::{TaskId, UnitId};
/// use thalweg::sched::Schedule;
/// let mut schedule = Schedule::default();
/// schedule.push(TaskId(0), "first", UnitId(1));
/// schedule.push(TaskId(1), "of two words", UnitId(0));
/// assert_eq!(schedule.to_text(), "thalweg schedule 1\n0 1 first\n1 0 of two words\n");
/// assert_eq!(Schedule::from_text(&schedule.to_text())?, schedule);
/// # Ok::<(), thalweg::sched::ScheduleError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Schedule {
    pub(super) entries: Vec<Scheduled>,
}

/// A task and the unit that ran it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Scheduled {
    pub(super) task: TaskId,
    pub(super) name: String,
    pub(super) unit: UnitId,
}

/// What is wrong with the text of a schedule.
///
/// ```
/// use thalweg::sched::Schedule;
/// let error = Schedule::from_text("thalweg schedule 1\n0 one first").unwrap_err();
/// assert_eq!(error.to_string(), "not a schedule: line 2: `one` is not a unit's number");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a schedule: {problem}")]
pub struct ScheduleError {
    /// What and where.
    pub problem: String,
}

impl Schedule {
    /// Adds a task that a unit ran.
    pub fn push(&mut self, task: TaskId, name: impl Into<String>, unit: UnitId) {
        self.entries.push(Scheduled { task, name: name.into(), unit });
    }

    /// The unit that ran a task.
    pub fn unit(&self, task: TaskId) -> Option<UnitId> {
        self.entries.iter().find(|entry| entry.task == task).map(|entry| entry.unit)
    }

    /// How many tasks there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// As text: a line for each task, with its number, its unit's number and its name.
    pub fn to_text(&self) -> String {
        let mut text = format!("{HEAD}\n");
        for Scheduled { task, name, unit } in &self.entries {
            let name = name.escape_debug();
            let _ = writeln!(text, "{} {} {name}", task.0, unit.0); // a string takes all that is written
        }
        text
    }

    /// Reads what [`to_text`](Self::to_text) wrote.
    ///
    /// # Errors
    /// If it is not that, with the line; or if a task stands there twice.
    pub fn from_text(text: &str) -> Result<Self, ScheduleError> {
        let error = |line: usize, problem: String| ScheduleError { problem: format!("line {}: {problem}", line + 1) };
        let mut lines = text.lines().enumerate();
        match lines.next() {
            Some((_, HEAD)) => {}
            first => {
                let found = first.map_or("", |(_, line)| line);
                return Err(error(0, format!("`{found}` is not `{HEAD}`")));
            }
        }
        let (mut schedule, mut known) = (Self::default(), std::collections::BTreeSet::new());
        for (at, line) in lines.filter(|(_, line)| !line.is_empty()) {
            let mut words = line.splitn(3, ' ');
            let mut word = || words.next().unwrap_or_default();
            let (task, unit, name) = (word(), word(), word());
            let task = task.parse().map_err(|_| error(at, format!("`{task}` is not a task's number")))?;
            let unit = unit.parse().map_err(|_| error(at, format!("`{unit}` is not a unit's number")))?;
            if !known.insert(task) {
                return Err(error(at, format!("task {task} stands there twice")));
            }
            schedule.push(TaskId(task), unescape(name), UnitId(unit));
        }
        Ok(schedule)
    }
}

/// The name that was written by `escape_debug`; what is no escape stays.
fn unescape(text: &str) -> String {
    let mut name = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        name.push_str(before);
        let mut chars = after.chars();
        let (escaped, end) = match chars.next() {
            Some('n') => (Some('\n'), 1),
            Some('r') => (Some('\r'), 1),
            Some('t') => (Some('\t'), 1),
            Some('0') => (Some('\0'), 1),
            Some('u') => {
                let code = after.get(2..).and_then(|digits| digits.split_once('}')).map(|(digits, _)| digits);
                let char = code.and_then(|digits| u32::from_str_radix(digits, 16).ok()).and_then(char::from_u32);
                (char, code.map_or(1, |digits| digits.len() + 3))
            }
            Some(other) => (Some(other), other.len_utf8()),
            None => (None, 0),
        };
        name.extend(escaped);
        rest = &after[end..];
    }
    name + rest
}

/// A policy whose decisions are recorded.
pub(crate) struct Recording {
    policy: Box<dyn Policy>,
    schedule: Arc<Mutex<Schedule>>,
}

impl Recording {
    /// Records what this policy decides.
    pub(crate) fn new(policy: Box<dyn Policy>, schedule: Arc<Mutex<Schedule>>) -> Self {
        Self { policy, schedule }
    }

    fn record(&self, sample: &Sample) {
        self.schedule.lock().push(sample.task, sample.name.clone(), sample.unit);
    }
}

impl Policy for Recording {
    fn name(&self) -> &'static str {
        self.policy.name()
    }

    fn ready(&mut self, task: ReadyTask, view: &View<'_>) {
        self.policy.ready(task, view);
    }

    fn next(&mut self, unit: UnitId, view: &View<'_>) -> Option<TaskId> {
        self.policy.next(unit, view)
    }

    fn wanted(&self) -> Option<UnitSet> {
        self.policy.wanted()
    }

    fn in_flight(&mut self, unit: UnitId, tasks: usize) {
        self.policy.in_flight(unit, tasks);
    }

    fn looks_ahead(&self) -> bool {
        self.policy.looks_ahead()
    }

    fn submitted(&mut self, task: &SubmittedTask<'_>) {
        self.policy.submitted(task);
    }

    fn skipped(&mut self, task: TaskId) {
        self.policy.skipped(task);
    }

    fn copied(&mut self, copy: &CopySample) {
        self.policy.copied(copy);
    }

    fn data_moved(&mut self) {
        self.policy.data_moved();
    }

    fn finished(&mut self, sample: &Sample) {
        self.record(sample);
        self.policy.finished(sample);
    }

    fn failed(&mut self, sample: &Sample) {
        self.record(sample);
        self.policy.failed(sample);
    }

    fn affinity(&self) -> Option<AffinityStatistics> {
        self.policy.affinity()
    }

    fn bound(&self) -> Option<LowerBound> {
        self.policy.bound()
    }

    fn choice(&self) -> Option<&Choice> {
        self.policy.choice()
    }

    fn model(&self) -> Option<&Model> {
        self.policy.model()
    }

    fn shares(&self) -> Option<&super::fpm::SharesInUse> {
        self.policy.shares()
    }

    fn profiles(&self) -> Option<super::fpm::Known> {
        self.policy.profiles()
    }

    fn deviations(&self) -> Option<&super::Deviations> {
        self.policy.deviations()
    }
}
