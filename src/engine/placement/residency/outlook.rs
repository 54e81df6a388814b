//! Future uses of data by the known tasks, for evictions that depend on them.

use super::Residency;
use crate::depend::{AccessRecord, OwnedTask, Residence};
use crate::ids::{DataId, SpaceId, TaskId};
use crate::region::Block;
use crate::sched::RegionUse;

impl Residency {
    /// Makes evictions depend on future uses, which [`Self::expect`] and [`Self::expect_task`] announce.
    pub(in super::super) fn look_ahead(&mut self) {
        self.memories.look_ahead();
    }

    /// Returns whether evictions depend on future uses.
    pub(in super::super) fn looks_ahead(&self) -> bool {
        self.memories.looks_ahead()
    }

    /// Notes that a task was submitted that will use these regions.
    pub(in super::super) fn expect(&mut self, task: TaskId, regions: &[RegionUse]) {
        if let Some(outlook) = self.memories.outlook() {
            let visit = |found: &mut dyn FnMut(DataId, &Block)| regions.iter().for_each(|r| found(r.data, &r.block));
            outlook.expect(task, visit);
        }
    }

    /// Notes that a task is ready. Most tasks are known by then.
    pub(in super::super) fn expect_task(&mut self, task: &OwnedTask) {
        let Some(outlook) = self.memories.outlook() else { return };
        outlook.expect(task.shared().id, |found| {
            task.body().accesses(&mut |AccessRecord { datum, block, mode }| {
                if datum.residence == Residence::Anywhere && !mode.sees_nothing() {
                    found(datum.id, block);
                }
            });
        });
    }

    /// Notes that a task will run in this space.
    pub(in super::super) fn expect_in(&mut self, task: &OwnedTask, space: SpaceId) {
        self.memories.outlook().into_iter().for_each(|outlook| outlook.assigned(task.shared().id, space));
    }

    /// Notes that a task has ended, so that it uses nothing any more.
    pub(in super::super) fn expect_no_more(&mut self, task: TaskId) {
        self.memories.outlook().into_iter().for_each(|outlook| outlook.ended(task));
    }
}
