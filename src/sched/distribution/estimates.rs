//! Estimates of tasks for traces: the mean of the measured times of tasks with the same name, at the same index, on the
//! same unit.
//!
//! Distributions decide by the times of whole units, so these estimates influence nothing. They are kept only while a
//! trace is recorded.
//!
//! Invariant: there are at most [`MOST`] means. A program that names its tasks by their time steps would otherwise have
//! as many means as tasks. Once the table is full, all means are forgotten, because means of names that recur are
//! learned again within a time step.

use crate::ids::{TaskId, UnitId};
use crate::sched::{Position, ReadyTask, Sample};
use rustc_hash::FxHashMap;
use std::borrow::Cow;

/// Number of tasks over which the mean moves.
const RECENT: u32 = 8;

/// Largest number of means, which take about 5 MB then.
const MOST: usize = 1 << 16;

type Key = (u64, usize, UnitId, Cow<'static, str>);

#[derive(Debug, Default)]
pub(super) struct Estimates {
    /// The mean time and the number of measured tasks.
    means: FxHashMap<Key, (f64, u32)>,
    /// The task that was given last, with its estimate.
    given: Option<(TaskId, Option<f64>)>,
}

fn key(position: &Position, unit: UnitId, name: Cow<'static, str>) -> Key {
    (position.space, position.index, unit, name)
}

impl Estimates {
    /// Notes that a task was given to a unit.
    pub(super) fn give(&mut self, task: &ReadyTask, unit: UnitId) {
        let position = task.position.as_ref();
        let mean = position.and_then(|position| self.means.get(&key(position, unit, task.name.clone())));
        self.given = Some((task.id, mean.map(|(ns, _)| *ns)));
    }

    /// Returns the estimate of the task that was given last.
    pub(super) fn of(&self, task: TaskId) -> Option<f64> {
        self.given.filter(|(given, _)| *given == task).and_then(|(_, ns)| ns)
    }

    /// Notes that a task has run.
    pub(super) fn learn(&mut self, position: &Position, sample: &Sample) {
        let key = key(position, sample.unit, sample.name.clone());
        if self.means.len() >= MOST && !self.means.contains_key(&key) {
            self.means.clear();
        }
        let (mean, count) = self.means.entry(key).or_default();
        *count = (*count + 1).min(RECENT);
        *mean += (sample.elapsed_ns as f64 - *mean) / f64::from(*count);
    }
}

#[cfg(test)]
mod tests {
    use super::{Estimates, MOST, key};
    use crate::ids::{TaskId, UnitId};
    use crate::sched::{Position, Sample};

    #[test]
    fn names_that_never_recur_take_bounded_memory() {
        let position = Position { space: 0, index: 0, instance: 0, weights: [1.0].into(), neighbours: None };
        let mut estimates = Estimates::default();
        let mut learn = |name: String, elapsed_ns| {
            let unit = UnitId(0);
            let (bytes, ended_ns, energy_j) = (8, 0, None);
            let sample = Sample {
                task: TaskId(0),
                name: name.into(),
                bytes,
                unit,
                elapsed_ns,
                ended_ns,
                energy_j,
                position: None,
            };
            estimates.learn(&position, &sample);
            assert!(estimates.means.len() <= MOST);
            estimates.means[&key(&position, unit, sample.name)].0
        };
        for step in 0..=MOST {
            assert_eq!(learn(format!("step {step}"), 7), 7.0);
        }
        assert_eq!([learn("again".into(), 2), learn("again".into(), 4)], [2.0, 3.0]);
    }
}
