//! `dynamic`: one queue; whoever is free takes the next task it can run (004 §4.2, with a chunk of one task).

use super::{Policy, ReadyTask, View};
use crate::ids::{CuId, TaskId};
use std::collections::VecDeque;

/// First come, first served, by priority.
#[derive(Debug, Default)]
pub struct Dynamic {
    queue: VecDeque<ReadyTask>,
}

impl Dynamic {
    /// An empty queue.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Policy for Dynamic {
    fn name(&self) -> &'static str {
        "dynamic"
    }

    fn ready(&mut self, task: ReadyTask, _: &View<'_>) {
        let position = self.queue.partition_point(|other| other.priority >= task.priority);
        self.queue.insert(position, task);
    }

    fn next(&mut self, unit: CuId, _: &View<'_>) -> Option<TaskId> {
        let position = self.queue.iter().position(|task| task.runs_on(unit))?;
        self.queue.remove(position).map(|task| task.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_takes_the_first_task_it_can_run() {
        let view = View { units: &[], missing_bytes: &|_, _| 0 };
        let mut policy = Dynamic::new();
        for (id, on) in [(0, [false, true]), (1, [true, true]), (2, [true, false])] {
            let units = on.to_vec().into();
            policy.ready(ReadyTask { id: TaskId(id), priority: 0, cost: None, place: None, units }, &view);
        }
        assert_eq!(policy.next(CuId(0), &view), Some(TaskId(1)));
        assert_eq!(policy.next(CuId(1), &view), Some(TaskId(0)));
        assert_eq!(policy.next(CuId(1), &view), None);
        assert_eq!(policy.next(CuId(0), &view), Some(TaskId(2)));
    }
}
