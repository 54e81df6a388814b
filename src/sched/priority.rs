//! `priority`: the most urgent ready task goes first, to any free unit.
//!
//! The user specifies urgency ([`TaskBuilder::priority`](crate::TaskBuilder::priority)), because only the user knows
//! the critical path of a graph that is still being submitted. Among equally urgent tasks, the task with the larger
//! estimated cost goes first (longest processing time first: Graham 1969), then the older task.

use super::{Policy, ReadyTask, View};
use crate::ids::{TaskId, UnitId};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The `priority` policy; see the module documentation.
///
/// ```
/// use thalweg::prelude::*;
/// use thalweg::sched::{Policy, Priority, ReadyTask, UnitView, View};
/// let units = [0, 1].map(|id| UnitView { id: UnitId(id), kind: UnitKind::Cpu, spaces: vec![SpaceId::HOST], in_flight: 0 });
/// let view = View::new(&units, &|_, _| 0);
/// let mut policy = Priority::new();
/// for (id, priority) in [(0, 1), (1, 5)] {
///     let mut task = ReadyTask::new(TaskId(id), "t", [true, true]);
///     task.priority = priority;
///     policy.ready(task, &view);
/// }
/// assert_eq!(policy.next(UnitId(0), &view), Some(TaskId(1)));
/// ```
#[derive(Debug, Default)]
pub struct Priority {
    tasks: BTreeMap<Rank, ReadyTask>,
}

type Rank = (Reverse<i32>, Reverse<u64>, TaskId);

/// Returns a task's sort key. Larger costs have larger bit patterns; invalid costs count as 0.
fn rank(task: &ReadyTask) -> Rank {
    let cost = task.cost.filter(|cost| *cost > 0.0).map_or(0, f64::to_bits);
    (Reverse(task.priority), Reverse(cost), task.id)
}

impl Priority {
    /// Creates the policy without ready tasks.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Policy for Priority {
    fn name(&self) -> &'static str {
        "priority"
    }

    fn ready(&mut self, task: ReadyTask, _: &View<'_>) {
        self.tasks.insert(rank(&task), task);
    }

    fn next(&mut self, unit: UnitId, _: &View<'_>) -> Option<TaskId> {
        let rank = *self.tasks.iter().find(|(_, task)| task.runs_on(unit))?.0;
        self.tasks.remove(&rank).map(|task| task.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_go_by_priority_then_cost_then_age() {
        let view = View { units: &[], missing_bytes: &|_, _| 0 };
        let mut policy = Priority::new();
        let tasks = [
            (0, 0, Some(1.0), true),
            (1, 0, Some(9.5), true),
            (2, 0, None, true),
            (3, 5, None, true),
            (4, 7, None, false),
            (5, 0, Some(1.0), true),
            (6, -1, Some(f64::NAN), true),
        ];
        for (id, priority, cost, on) in tasks {
            policy.ready(ReadyTask { priority, cost, ..ReadyTask::of(id, &[on, true]) }, &view);
        }
        let order: Vec<_> = std::iter::from_fn(|| policy.next(UnitId(0), &view)).map(|task| task.0).collect();
        assert_eq!(order, [3, 1, 0, 5, 2, 6]);
        assert_eq!(policy.next(UnitId(1), &view), Some(TaskId(4)));
    }
}
