//! Blocks that tasks read from partially read tiles. They are needed only when a write does not consist of whole tiles.
//!
//! Invariant: as long as a newcomer may have to wait for a task, the task's strips are kept here. Other strips are
//! discarded from time to time.

use crate::depend::TaskRef;
use crate::ids::TaskId;
use crate::region::{Block, NarrowBlock};
use rustc_hash::{FxHashMap, FxHashSet};

/// Number of strips that are always kept before some are forgotten.
pub(super) const FEW: usize = if cfg!(test) { 8 } else { 1024 };

/// Parts of tiles that tasks have read, in the order of submission.
pub(super) struct Strips {
    all: Vec<Strip>,
    /// Number of strips that triggers the next clean-up.
    look_through_at: usize,
}

/// A part of one or several tiles, and the task that has read it.
struct Strip {
    /// ID of the task. Not sufficient as a key, because a join may have the same ID as the task that it was made for.
    task: TaskId,
    /// Address of the task. Not sufficient as a key either, because a later task may have the same address.
    address: usize,
    block: NarrowBlock,
}

/// The strips of each task, by its id and its address. A join of tasks that have read a tile has no strips, and counts
/// as having read the whole tile.
pub(super) struct OfTasks(FxHashMap<(TaskId, usize), Vec<Block>>);

impl Default for Strips {
    fn default() -> Self {
        Self { all: Vec::new(), look_through_at: FEW }
    }
}

impl Strips {
    /// Keeps a non-empty block, provided that its indices are narrow.
    #[inline]
    pub(super) fn keep(&mut self, task: TaskId, address: usize, block: &Block) {
        self.all.extend(NarrowBlock::new(block).map(|block| Strip { task, address, block }));
    }

    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.all.len() >= self.look_through_at
    }

    /// Forgets the strips of tasks that are no longer readers. This compares only addresses, because the tasks
    /// themselves are unlikely to be cached and would be slower to examine. `tiles` is the number of tiles from which
    /// the addresses were collected.
    #[cold]
    pub(super) fn look_through(&mut self, readers: &FxHashSet<usize>, tiles: usize) {
        self.all.retain(|strip| readers.contains(&strip.address));
        // Wait for several times as many new strips as there were tiles to scan, so that the cost per strip does not
        // grow with the array.
        self.look_through_at = 2 * self.all.len() + 4 * tiles + FEW;
    }

    pub(super) fn clear(&mut self) {
        self.all.clear();
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn of_tasks(&self) -> OfTasks {
        let mut strips: FxHashMap<_, Vec<Block>> = FxHashMap::default();
        for Strip { task, address, block } in &self.all {
            strips.entry((*task, *address)).or_default().push(block.widen());
        }
        OfTasks(strips)
    }
}

impl OfTasks {
    /// Visits what each reader of a tile has read there: strips that overlap the tile, or the whole tile.
    ///
    /// A task is listed as a reader once for each of its accesses that reads the tile. So it has read only strips if it
    /// has that many strips there.
    pub(super) fn for_each_reader(&self, readers: &[TaskRef], tile: &Block, mut found: impl FnMut(&TaskRef, Block)) {
        for (n, task) in readers.iter().enumerate() {
            let is_same = |other: &&TaskRef| other.address() == task.address();
            if readers[..n].iter().any(|other| is_same(&other)) {
                continue; // already visited
            }
            let of_task = self.0.get(&(task.shared().id, task.address()));
            let of_task = of_task.into_iter().flatten().filter(|strip| strip.overlaps(tile));
            match of_task.clone().count() == readers.iter().filter(is_same).count() {
                true => of_task.for_each(|strip| found(task, *strip)),
                false => found(task, *tile),
            }
        }
    }
}
