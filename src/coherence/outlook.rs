//! Future uses of regions by the tasks that are known but have not ended.
//!
//! The best replica to evict is the one whose next use is furthest in the future (L. A. Belady, "A Study of Replacement
//! Algorithms for a Virtual-Storage Computer", IBM Systems Journal 5(2), 1966). The future is known as far as tasks
//! were submitted, and their order is estimated: tasks that wait for the memory in question run first, in the order in
//! which they wait, then all others in the order of submission. DARTS (Gonthier, Marchal, Thibault 2023) also evicts
//! by future uses, and chooses tasks for the data in memory. The choice of tasks is left to the policy here.
//!
//! Only the outlook's owner adds and ends tasks. The outlook never looks into memories or replicas.
//!
//! Invariant: `uses` contains exactly the regions of the tasks in `tasks`.

use crate::ids::{DataId, SpaceId, TaskId};
use crate::region::{Block, BoxIndex, Entry};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// A task's estimated position in the order of execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Turn {
    /// The task waits for memory in its space, or has it.
    Assigned(u64),
    Submitted(u64),
}

/// The future uses of regions; see the module documentation.
#[derive(Debug, Default)]
pub(crate) struct Outlook {
    uses: FxHashMap<DataId, BoxIndex<TaskId>>,
    tasks: FxHashMap<TaskId, Known>,
    /// Number of changes so far, which orders the tasks.
    changes: u64,
}

/// A known task.
#[derive(Debug)]
struct Known {
    turn: Turn,
    /// The only space in which the task will run, if that is decided.
    space: Option<SpaceId>,
    uses: SmallVec<[(DataId, Entry); 4]>,
}

impl Outlook {
    /// Notes that a task was submitted, unless it is known. `regions` visits the regions that the task will use.
    pub(crate) fn expect(&mut self, task: TaskId, regions: impl FnOnce(&mut dyn FnMut(DataId, &Block))) {
        if self.tasks.contains_key(&task) {
            return;
        }
        self.changes += 1;
        let mut uses = SmallVec::new();
        regions(&mut |data, block| {
            if !block.is_empty() {
                uses.push((data, self.uses.entry(data).or_default().insert(*block, task)));
            }
        });
        self.tasks.insert(task, Known { turn: Turn::Submitted(self.changes), space: None, uses });
    }

    /// Notes that a task will run in this space, after all others that have been assigned to it.
    pub(crate) fn assigned(&mut self, task: TaskId, space: SpaceId) {
        self.changes += 1;
        if let Some(known) = self.tasks.get_mut(&task) {
            (known.turn, known.space) = (Turn::Assigned(self.changes), Some(space));
        }
    }

    /// Forgets a task that has ended.
    pub(crate) fn ended(&mut self, task: TaskId) {
        let Some(Known { uses, .. }) = self.tasks.remove(&task) else { return };
        for (data, entry) in uses {
            let Some(of_data) = self.uses.get_mut(&data) else { continue };
            of_data.remove(entry);
            if of_data.is_empty() {
                self.uses.remove(&data);
            }
        }
    }

    /// Returns when a region will next be used in a space; `None` if no known task uses it there.
    pub(super) fn next_use(&self, data: DataId, block: &Block, space: SpaceId) -> Option<Turn> {
        let mut next = None;
        self.uses.get(&data)?.find(block, |_, task| {
            let known = &self.tasks[task];
            if known.space.is_none_or(|there| there == space) {
                next = Some(next.map_or(known.turn, |next: Turn| next.min(known.turn)));
            }
        });
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA: DataId = DataId(1);
    const SPACE: SpaceId = SpaceId(1);

    fn next(outlook: &Outlook, range: std::ops::Range<usize>) -> Option<Turn> {
        outlook.next_use(DATA, &Block::interval(range), SPACE)
    }

    #[test]
    fn next_use_is_the_first_in_the_estimated_order() {
        let mut outlook = Outlook::default();
        assert_eq!(next(&outlook, 0..10), None);
        for (task, range) in [(1, 0..5), (2, 5..10), (2, 0..5)] {
            outlook.expect(TaskId(task), |found| found(DATA, &Block::interval(range)));
        }
        assert_eq!(next(&outlook, 0..10), next(&outlook, 0..5));
        assert!(next(&outlook, 0..5) < next(&outlook, 5..10), "in the order of submission");
        outlook.assigned(TaskId(2), SPACE);
        assert!(next(&outlook, 5..10) < next(&outlook, 0..5), "an assigned task runs before one that is not");
        outlook.assigned(TaskId(1), SpaceId(2));
        assert_eq!(next(&outlook, 0..5), None, "the task will run in another memory");
        outlook.assigned(TaskId(1), SPACE);
        assert!(next(&outlook, 5..10) < next(&outlook, 0..5), "in the order of assignment");
        (0..2).for_each(|_| outlook.ended(TaskId(2)));
        assert_eq!((next(&outlook, 5..10), next(&outlook, 4..6)), (None, next(&outlook, 0..5)));
        outlook.ended(TaskId(1));
        outlook.assigned(TaskId(1), SPACE);
        assert!(outlook.uses.is_empty() && outlook.tasks.is_empty());
    }
}
