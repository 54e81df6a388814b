//! Future uses of regions by the tasks that are known but have not ended.
//!
//! The best replica to evict is the one whose next use is furthest in the future (L. A. Belady, "A Study of Replacement
//! Algorithms for a Virtual-Storage Computer", IBM Systems Journal 5(2), 1966). The future is known as far as tasks
//! were submitted, and their order is estimated: tasks that wait for the memory in question run first, in the order in
//! which they wait. Then ready tasks follow in the order in which they became ready, and the other tasks in the order
//! of submission. This is the part of DARTS (Gonthier, Marchal, Thibault 2023) that decides on evictions, for any
//! policy and any dependences. DARTS also chooses tasks for the data in memory, which is left to the policy here.
//!
//! Only the outlook's owner adds and ends tasks. The outlook never looks into memories or replicas.
//!
//! Invariant: `uses` contains exactly the regions of the tasks in `tasks`.

use crate::ids::{DataId, SpaceId, TaskId};
use crate::region::{Block, BoxIndex, Entry};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// How near a known task is to its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// The task waits for memory in its space, or is further.
    Assigned,
    Ready,
    Submitted,
}

/// A task's estimated position in the order of execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Turn(Stage, u64);

/// The future uses of regions; see the module documentation.
#[derive(Debug, Default)]
pub(crate) struct Outlook {
    uses: FxHashMap<DataId, BoxIndex<TaskId>>,
    tasks: FxHashMap<TaskId, Known>,
    /// Number of changes so far, which orders the tasks of a stage.
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
    /// Notes that a task has reached a stage, possibly in a certain space. `regions` visits the regions that the task
    /// will use; it is called only if the task was not known.
    pub(crate) fn reached(
        &mut self,
        task: TaskId,
        stage: Stage,
        space: Option<SpaceId>,
        regions: impl FnOnce(&mut dyn FnMut(DataId, &Block)),
    ) {
        self.changes += 1;
        let turn = Turn(stage, self.changes);
        if let Some(known) = self.tasks.get_mut(&task) {
            (known.turn, known.space) = (turn, space);
            return;
        }
        let mut uses = SmallVec::new();
        regions(&mut |data, block| {
            if !block.is_empty() {
                uses.push((data, self.uses.entry(data).or_default().insert(*block, task)));
            }
        });
        self.tasks.insert(task, Known { turn, space, uses });
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

    fn reach(outlook: &mut Outlook, task: u64, stage: Stage, space: Option<SpaceId>, range: std::ops::Range<usize>) {
        outlook.reached(TaskId(task), stage, space, |found| found(DATA, &Block::interval(range)));
    }

    #[test]
    fn next_use_is_the_first_in_the_estimated_order() {
        let mut outlook = Outlook::default();
        let next = |outlook: &Outlook, range| {
            outlook.next_use(DATA, &Block::interval(range), SPACE).map(|Turn(stage, _)| stage)
        };
        assert_eq!(next(&outlook, 0..10), None);
        reach(&mut outlook, 1, Stage::Submitted, None, 0..5);
        reach(&mut outlook, 2, Stage::Submitted, None, 5..10);
        assert_eq!(next(&outlook, 0..10), Some(Stage::Submitted));
        let ahead = |outlook: &Outlook| {
            let turn = |range| outlook.next_use(DATA, &Block::interval(range), SPACE);
            turn(0..5) < turn(5..10)
        };
        assert!(ahead(&outlook));
        reach(&mut outlook, 2, Stage::Ready, None, 0..0);
        assert!(!ahead(&outlook), "a ready task runs before one that is not");
        reach(&mut outlook, 1, Stage::Assigned, Some(SpaceId(2)), 0..0);
        assert_eq!(next(&outlook, 0..5), None, "the task will run in another memory");
        reach(&mut outlook, 1, Stage::Assigned, Some(SPACE), 0..0);
        assert!(ahead(&outlook));
        outlook.ended(TaskId(1));
        outlook.ended(TaskId(1));
        assert_eq!((next(&outlook, 0..5), next(&outlook, 4..6)), (None, Some(Stage::Ready)));
        outlook.ended(TaskId(2));
        assert!(outlook.uses.is_empty() && outlook.tasks.is_empty());
    }
}
