//! A queue of ready tasks per unit: urgent tasks first, equals in the order in which they became ready.

use super::ReadyTask;
use crate::ids::UnitId;
use std::collections::VecDeque;

#[derive(Debug, Default)]
pub(crate) struct Queues {
    queues: Vec<VecDeque<ReadyTask>>,
    len: usize,
}

impl Queues {
    pub(crate) fn push(&mut self, unit: UnitId, task: ReadyTask) {
        if self.queues.len() <= unit.index() {
            self.queues.resize_with(unit.index() + 1, VecDeque::new);
        }
        insert(&mut self.queues[unit.index()], task);
        self.len += 1;
    }

    pub(crate) fn pop(&mut self, unit: UnitId) -> Option<ReadyTask> {
        let task = self.queues.get_mut(unit.index())?.pop_front()?;
        self.len -= 1;
        Some(task)
    }

    pub(crate) fn len(&self, unit: UnitId) -> usize {
        self.queues.get(unit.index()).map_or(0, VecDeque::len)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Puts a task behind all that are as urgent.
pub(crate) fn insert(queue: &mut VecDeque<ReadyTask>, task: ReadyTask) {
    let position = queue.partition_point(|other| other.priority >= task.priority);
    queue.insert(position, task);
}
