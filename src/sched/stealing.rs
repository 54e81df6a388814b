//! `stealing`: a queue per unit, tasks queued where their data are, idle units help themselves from the longest queue.
//!
//! On a machine of CPU units alone this policy is never asked: every core reaches every data equally, and the runtime's
//! own deques do the same without a lock (the short way). With devices, data that have to move decide.

use super::{Policy, ReadyTask, View};
use crate::ids::{CuId, TaskId};
use std::cmp::Reverse;
use std::collections::VecDeque;

/// Locality first, then work stealing.
#[derive(Debug)]
pub struct Stealing {
    queues: Vec<VecDeque<ReadyTask>>,
}

impl Stealing {
    /// For this many units.
    pub fn new(units: usize) -> Self {
        Self { queues: vec![VecDeque::new(); units] }
    }
}

impl Policy for Stealing {
    fn name(&self) -> &'static str {
        "stealing"
    }

    fn ready(&mut self, task: ReadyTask, view: &View<'_>) {
        let cost = |unit: &&super::UnitView| {
            let missing = unit.spaces.iter().map(|space| view.missing_bytes(task.id, *space)).min();
            (missing, unit.in_flight + self.queues[unit.id.index()].len(), unit.id)
        };
        let Some(unit) = view.units.iter().filter(|unit| task.runs_on(unit.id)).min_by_key(cost) else { return };
        let queue = &mut self.queues[unit.id.index()];
        let position = queue.partition_point(|other| other.priority >= task.priority);
        queue.insert(position, task);
    }

    fn next(&mut self, unit: CuId, view: &View<'_>) -> Option<TaskId> {
        if let Some(task) = self.queues[unit.index()].pop_front() {
            return Some(task.id);
        }
        // A device takes foreign work only when it has nothing at all: what it queues ahead, others could run now.
        if view.units[unit.index()].in_flight > 0 {
            return None;
        }
        let victim = (0..self.queues.len())
            .filter(|&other| self.queues[other].iter().any(|task| task.runs_on(unit)))
            .max_by_key(|&other| (self.queues[other].len(), Reverse(other)))?;
        // From the far end: the task that its own unit would come to last.
        let position = self.queues[victim].iter().rposition(|task| task.runs_on(unit))?;
        self.queues[victim].remove(position).map(|task| task.id)
    }

    fn short_way(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::SpaceId;
    use crate::machine::UnitKind;
    use crate::sched::UnitView;

    fn units() -> Vec<UnitView> {
        let unit = |id, kind, space| UnitView { id: CuId(id), kind, spaces: vec![SpaceId(space)], in_flight: 0 };
        vec![unit(0, UnitKind::Cpu, 0), unit(1, UnitKind::Emulated, 1), unit(2, UnitKind::Emulated, 2)]
    }

    fn task(id: u64, on: [bool; 3]) -> ReadyTask {
        ReadyTask::of(id, &on)
    }

    #[test]
    fn tasks_go_where_their_data_are_and_are_stolen_only_by_units_that_can_run_them() {
        let units = units();
        let missing = |task: TaskId, space: SpaceId| if task.0 % 3 == u64::from(space.0) { 0 } else { 100 };
        let view = View { units: &units, missing_bytes: &missing };
        let mut policy = Stealing::new(3);
        for id in [2, 5, 8] {
            policy.ready(task(id, [id != 8, true, true]), &view);
        }
        assert_eq!(policy.next(CuId(2), &view), Some(TaskId(2)), "its own, the first");
        assert_eq!(policy.next(CuId(0), &view), Some(TaskId(5)), "stolen: task 8 has no body for a CPU unit");
        assert_eq!(policy.next(CuId(0), &view), None);
        assert_eq!(policy.next(CuId(1), &view), Some(TaskId(8)));
    }

    #[test]
    fn urgent_tasks_come_first_and_equals_in_order() {
        let units = units();
        let view = View { units: &units, missing_bytes: &|_, space| u64::from(space.0) };
        let mut policy = Stealing::new(3);
        for (id, priority) in [(0, 0), (1, 5), (2, 0), (3, 5)] {
            policy.ready(ReadyTask { priority, ..task(id, [true; 3]) }, &view);
        }
        let order: Vec<_> = std::iter::from_fn(|| policy.next(CuId(0), &view)).map(|task| task.0).collect();
        assert_eq!(order, [1, 3, 0, 2]);
    }
}
