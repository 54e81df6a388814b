//! A queue of ready tasks for each unit. Urgent tasks come first, then tasks that follow others; equal tasks stay in
//! the order in which they became ready.

use super::{ReadyTask, UnitSet};
use crate::ids::UnitId;
use std::collections::VecDeque;

#[derive(Debug, Default)]
pub(crate) struct Queues {
    queues: Vec<VecDeque<ReadyTask>>,
    len: usize,
    /// The units with non-empty queues.
    filled: UnitSet,
}

impl Queues {
    pub(crate) fn push(&mut self, unit: UnitId, task: ReadyTask) {
        if self.queues.len() <= unit.index() {
            self.queues.resize_with(unit.index() + 1, VecDeque::new);
        }
        insert(&mut self.queues[unit.index()], task);
        self.len += 1;
        self.filled.insert(unit);
    }

    pub(crate) fn pop(&mut self, unit: UnitId) -> Option<ReadyTask> {
        self.take(unit, VecDeque::pop_front)
    }

    pub(crate) fn pop_last(&mut self, unit: UnitId) -> Option<ReadyTask> {
        self.take(unit, VecDeque::pop_back)
    }

    /// Returns the last task of a unit.
    pub(crate) fn last(&self, unit: UnitId) -> Option<&ReadyTask> {
        self.queues.get(unit.index())?.back()
    }

    fn take(
        &mut self,
        unit: UnitId,
        take: impl FnOnce(&mut VecDeque<ReadyTask>) -> Option<ReadyTask>,
    ) -> Option<ReadyTask> {
        let queue = self.queues.get_mut(unit.index())?;
        let task = take(queue)?;
        self.len -= 1;
        if queue.is_empty() {
            self.filled.remove(unit);
        }
        Some(task)
    }

    pub(crate) fn len(&self, unit: UnitId) -> usize {
        self.queues.get(unit.index()).map_or(0, VecDeque::len)
    }

    /// Returns the units with non-empty queues.
    pub(crate) fn filled(&self) -> &UnitSet {
        &self.filled
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Inserts a task after all tasks that precede it or are equal to it by [`ReadyTask::order`].
pub(crate) fn insert(queue: &mut VecDeque<ReadyTask>, task: ReadyTask) {
    if queue.back().is_none_or(|last| last.order() <= task.order()) {
        return queue.push_back(task);
    }
    let position = queue.partition_point(|other| other.order() <= task.order());
    queue.insert(position, task);
}
