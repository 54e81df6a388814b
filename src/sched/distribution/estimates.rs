//! Estimates of tasks for traces: the mean of the measured times of tasks with the same name, at the same index, on the
//! same unit.
//!
//! Distributions decide by the times of whole units, so these estimates influence nothing. They are kept only while a
//! trace is recorded.

use crate::ids::{TaskId, UnitId};
use crate::sched::{Position, ReadyTask, Sample};
use rustc_hash::FxHashMap;
use std::borrow::Cow;

/// Number of tasks over which the mean moves.
const RECENT: u32 = 8;

type Key = (u64, usize, UnitId, Cow<'static, str>);

#[derive(Debug, Default)]
pub(super) struct Estimates {
    /// The mean time and the number of measured tasks.
    means: FxHashMap<Key, (f64, u32)>,
    /// The task that was given last, with its estimate.
    given: Option<(TaskId, Option<f64>)>,
}

fn key(position: &Position, unit: UnitId, name: &Cow<'static, str>) -> Key {
    (position.space, position.index, unit, name.clone())
}

impl Estimates {
    /// Notes that a task was given to a unit.
    pub(super) fn give(&mut self, task: &ReadyTask, unit: UnitId) {
        let position = task.position.as_ref();
        let mean = position.and_then(|position| self.means.get(&key(position, unit, &task.name)));
        self.given = Some((task.id, mean.map(|(ns, _)| *ns)));
    }

    /// Returns the estimate of the task that was given last.
    pub(super) fn of(&self, task: TaskId) -> Option<f64> {
        self.given.filter(|(given, _)| *given == task).and_then(|(_, ns)| ns)
    }

    /// Notes that a task has run.
    pub(super) fn learn(&mut self, position: &Position, sample: &Sample) {
        let (mean, count) = self.means.entry(key(position, sample.unit, &sample.name)).or_default();
        *count = (*count + 1).min(RECENT);
        *mean += (sample.elapsed_ns as f64 - *mean) / f64::from(*count);
    }
}
