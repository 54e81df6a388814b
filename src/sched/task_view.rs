//! Tasks as policies see them: submitted, ready, and measured after they have run.

use super::Neighbour;
use crate::ids::{DataId, TaskId, UnitId};
use crate::region::Block;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::sync::Arc;

/// A ready task, as seen by a policy.
///
/// ```
/// use thalweg::ids::{TaskId, UnitId};
/// use thalweg::sched::ReadyTask;
/// let mut task = ReadyTask::new(TaskId(7), "axpy", [true, false]);
/// task.priority = 3;
/// assert!(task.runs_on(UnitId(0)) && !task.runs_on(UnitId(1)));
/// ```
#[derive(Debug, Clone)]
pub struct ReadyTask {
    /// The task.
    pub id: TaskId,
    /// Its name.
    pub name: Cow<'static, str>,
    /// Total bytes of all its regions.
    pub bytes: u64,
    /// Larger values are more urgent.
    pub priority: i32,
    /// The user's estimate of the work, in any unit that is the same for all tasks.
    pub cost: Option<f64>,
    /// Its position in an iteration space, if it is a recurring task.
    pub position: Option<Position>,
    /// The index whose data it works on, without being counted when the indices are shared out.
    pub near: Option<Near>,
    /// Whether it became ready when another task ended, rather than when it was submitted. Such a task probably
    /// consumes the other task's output; if it runs first, that memory is freed before other tasks allocate more.
    pub follows: bool,
    pub(crate) units: Arc<[bool]>,
}

impl ReadyTask {
    /// Creates a task to test a policy with; `units` says for each unit whether the task runs there. It has no data,
    /// no hints and no position.
    pub fn new(id: TaskId, name: impl Into<Cow<'static, str>>, units: impl Into<Arc<[bool]>>) -> Self {
        let (name, units) = (name.into(), units.into());
        Self { id, name, bytes: 0, priority: 0, cost: None, position: None, near: None, follows: false, units }
    }

    /// Returns the sort key; smaller goes first: more urgent tasks and, of equals, tasks that follow others. Tasks
    /// with a position in an iteration space keep the order in which they became ready.
    pub(crate) fn order(&self) -> (Reverse<i32>, bool) {
        (Reverse(self.priority), !self.follows || self.position.is_some())
    }

    /// Returns whether the task has a body for this unit and its data fit into the unit's memory.
    pub fn runs_on(&self, unit: UnitId) -> bool {
        self.units.get(unit.index()).is_some_and(|runs| *runs)
    }

    /// Returns `wanted` if the task runs there, otherwise the next unit by id, wrapping around, on which it does.
    pub(crate) fn unit_from(&self, wanted: UnitId) -> Option<UnitId> {
        let units = self.units.len();
        (0..units).map(|step| UnitId(((wanted.index() + step) % units) as u16)).find(|unit| self.runs_on(*unit))
    }
}

/// A submitted task, as seen by a policy that looks ahead.
///
/// ```
/// use thalweg::ids::TaskId;
/// use thalweg::sched::SubmittedTask;
/// let name = "axpy".into();
/// let task = SubmittedTask { bytes: 8000, after: &[TaskId(5)], ..SubmittedTask::new(TaskId(7), &name) };
/// assert!(task.after.iter().all(|before| *before < task.id));
/// ```
#[derive(Debug, Clone, Copy)]
pub struct SubmittedTask<'a> {
    /// The task.
    pub id: TaskId,
    /// Its name.
    pub name: &'a Cow<'static, str>,
    /// Total bytes of all its regions.
    pub bytes: u64,
    /// The user's estimate of the work, in any unit that is the same for all tasks.
    pub cost: Option<f64>,
    /// Its position in an iteration space, if it is a recurring task.
    pub position: Option<&'a Position>,
    /// The index whose data it works on, without being counted when the indices are shared out.
    pub near: Option<Near>,
    /// The regions it works on.
    pub regions: &'a [RegionUse],
    /// Predecessors that had not finished. If there are very many, the list is incomplete.
    pub after: &'a [TaskId],
}

impl<'a> SubmittedTask<'a> {
    /// Creates a task to test a policy with. It has no data, hints, position or predecessors.
    #[allow(clippy::ptr_arg)] // same type as the field
    pub fn new(id: TaskId, name: &'a Cow<'static, str>) -> Self {
        Self { id, name, bytes: 0, cost: None, position: None, near: None, regions: &[], after: &[] }
    }
}

/// A region that a task works on.
///
/// ```
/// use thalweg::ids::DataId;
/// use thalweg::region::Block;
/// use thalweg::sched::RegionUse;
/// let block = Block::interval(0..100);
/// let used = RegionUse { data: DataId(3), block, bytes: 800, reads: true, writes: false };
/// assert_eq!(used.block.volume() as u64 * 8, used.bytes);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegionUse {
    /// The data object.
    pub data: DataId,
    /// The part of it.
    pub block: Block,
    /// Size in bytes.
    pub bytes: u64,
    /// Whether the task uses the present contents.
    pub reads: bool,
    /// Whether the task changes them.
    pub writes: bool,
}

/// Position of a recurring task in its iteration space.
///
/// ```
/// use thalweg::sched::Position;
/// let position = Position { space: 0, index: 2, instance: 5, weights: vec![1.0; 8].into(), neighbours: None };
/// assert!(position.index < position.weights.len());
/// ```
#[derive(Debug, Clone)]
pub struct Position {
    /// The iteration space.
    pub space: u64,
    /// The index in it.
    pub index: usize,
    /// The instance, counted from 0.
    pub instance: u64,
    /// The work at every index, as the user estimates it.
    pub weights: Arc<[f64]>,
    /// The indices that every index exchanges data with, if the user has declared them.
    pub neighbours: Option<Arc<[Vec<Neighbour>]>>,
}

/// An index that a task follows without being one of its tasks ([`TaskBuilder::near`](crate::TaskBuilder::near)).
///
/// ```
/// use thalweg::sched::Near;
/// assert_eq!(Near { space: 0, index: 2 }.index, 2);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Near {
    /// The iteration space.
    pub space: u64,
    /// The index in it.
    pub index: usize,
}

/// Measurements of a task that has run.
///
/// ```
/// use thalweg::ids::{TaskId, UnitId};
/// use thalweg::sched::Sample;
/// let (task, unit) = (TaskId(7), UnitId(0));
/// let sample =
///     Sample { task, name: "axpy".into(), bytes: 8000, unit, elapsed_ns: 2000, ended_ns: 9000, energy_j: None, position: None };
/// assert_eq!(sample.bytes / sample.elapsed_ns, 4); // gigabytes per second
/// ```
#[derive(Debug, Clone)]
pub struct Sample {
    /// The task.
    pub task: TaskId,
    /// Its name.
    pub name: Cow<'static, str>,
    /// Total bytes of all its regions.
    pub bytes: u64,
    /// The unit it ran on.
    pub unit: UnitId,
    /// The time its body took.
    pub elapsed_ns: u64,
    /// When it ended, on the runtime's clock ([`Runtime::now`](crate::Runtime::now)).
    pub ended_ns: u64,
    /// The dynamic energy it consumed on that unit in joules, if the unit's power is known.
    pub energy_j: Option<f64>,
    /// Its position in an iteration space, if it is a recurring task.
    pub position: Option<Position>,
}

#[cfg(test)]
impl Sample {
    /// Creates the sample of a task of [`ReadyTask::of`] for tests.
    pub(crate) fn of(task: TaskId, unit: UnitId, elapsed_ns: u64) -> Self {
        Self { task, name: "t".into(), bytes: 0, unit, elapsed_ns, ended_ns: 0, energy_j: None, position: None }
    }
}

#[cfg(test)]
impl ReadyTask {
    /// Creates a task for tests, with bodies for these units.
    pub(crate) fn of(id: u64, on: &[bool]) -> Self {
        Self::new(TaskId(id), "t", on)
    }
}
