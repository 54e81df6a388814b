//! Uses of a data object's replicas by tasks that have been issued but have not ended.
//!
//! A task may use thousands of regions of one data object, and the next task may use the same regions. So uses are
//! indexed both by region, for tasks that look for overlapping uses, and by task, for removal when a task ends.
//!
//! Invariant: a task's index entries are exactly its uses.

use super::ReplicaId;
use crate::ids::TaskId;
use crate::region::{Block, BoxIndex, Entry};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// The use of part of a replica by a task that has not ended. Other tasks may already be queued after that task.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IssuedUse {
    pub(crate) task: TaskId,
    pub(crate) replica: ReplicaId,
    pub(crate) block: Block,
    pub(crate) writes: bool,
}

/// The uses of one data object.
#[derive(Debug, Default)]
pub(super) struct IssuedUses {
    uses: BoxIndex<IssuedUse>,
    of_task: FxHashMap<TaskId, SmallVec<[Entry; 2]>>,
}

impl IssuedUses {
    /// Adds a use of a non-empty block.
    pub(super) fn add(&mut self, issued: IssuedUse) {
        let entry = self.uses.insert(issued.block, issued);
        self.of_task.entry(issued.task).or_default().push(entry);
    }

    /// Visits the uses that overlap `block`.
    pub(super) fn find<'a>(&'a self, block: &Block, mut found: impl FnMut(&'a IssuedUse)) {
        self.uses.find(block, |_, issued| found(issued));
    }

    /// Visits the tasks that use the data object, once for each use.
    pub(super) fn tasks(&self) -> impl Iterator<Item = TaskId> {
        self.uses.values().map(|issued| issued.task)
    }

    /// Removes the uses of a task that has ended, and returns them.
    pub(super) fn end(&mut self, task: TaskId) -> impl Iterator<Item = IssuedUse> {
        let entries = self.of_task.remove(&task).unwrap_or_default();
        entries.into_iter().filter_map(|entry| self.uses.remove(entry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::region::LOOKED_AT;

    fn used(task: u64, part: usize) -> IssuedUse {
        let block = Block::interval(part * 4..part * 4 + 4);
        IssuedUse { task: TaskId(task), replica: ReplicaId(1), block, writes: true }
    }

    #[test]
    fn ending_a_task_removes_exactly_its_uses() {
        let mut uses = IssuedUses::default();
        [(1, 0), (2, 0), (1, 1), (2, 5)].into_iter().for_each(|(task, part)| uses.add(used(task, part)));
        assert_eq!(uses.end(TaskId(1)).map(|used| used.block.lo()[0]).collect::<Vec<_>>(), [0, 4]);
        assert_eq!(uses.end(TaskId(1)).count(), 0);
        let mut found = Vec::new();
        uses.find(&Block::interval(0..8), |used| found.push(used.task));
        assert_eq!((found, uses.tasks().count()), (vec![TaskId(2)], 2));
    }

    #[test]
    fn finding_a_use_has_logarithmic_cost() {
        let per_use = |n: usize| {
            let mut uses = IssuedUses::default();
            (0..n).for_each(|part| uses.add(used(1, part)));
            let (before, mut met) = (LOOKED_AT.get(), 0);
            (0..n).for_each(|part| uses.find(&used(2, part).block, |_| met += 1));
            assert_eq!(met, n);
            (LOOKED_AT.get() - before) as f64 / n as f64
        };
        let (few, many) = (per_use(256), per_use(16_384));
        assert!(many < 3.0 * few, "{few} nodes for each of 256, {many} of 16384");
    }
}
