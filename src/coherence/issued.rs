//! Which parts of a data object's replicas are used by tasks that are issued and have not ended.
//!
//! A task may use thousands of regions of one data object, and the next one the same: what it meets is found by place,
//! and what it used by the task.
//!
//! Invariant: a task's entries are exactly those of its uses.

use super::ReplicaId;
use crate::ids::TaskId;
use crate::region::{Block, BoxIndex, Entry};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// A task that uses a part of a replica and has not ended, though others may already come behind it.
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
    /// One more, of a block that is not empty.
    pub(super) fn add(&mut self, issued: IssuedUse) {
        let entry = self.uses.insert(issued.block, issued);
        self.of_task.entry(issued.task).or_default().push(entry);
    }

    /// Those that have places of `block`.
    pub(super) fn find<'a>(&'a self, block: &Block, found: impl FnMut(&'a IssuedUse)) {
        self.uses.find(block, found);
    }

    /// The tasks that use the data object, once for each use.
    pub(super) fn tasks(&self) -> impl Iterator<Item = TaskId> {
        self.uses.values().map(|issued| issued.task)
    }

    /// A task has ended; what it used.
    pub(super) fn end(&mut self, task: TaskId) -> impl Iterator<Item = IssuedUse> {
        let entries = self.of_task.remove(&task).unwrap_or_default();
        entries.into_iter().filter_map(|entry| self.uses.remove(entry))
    }
}
