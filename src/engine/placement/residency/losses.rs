//! Lost regions and regions that could not be copied, and the failures that tasks and their outcomes get because of
//! them.

use super::Residency;
use crate::depend::{AccessRecord, Mode, OwnedTask, Parts};
use crate::engine::command::ReplicaRef;
use crate::error::TaskFailure;
use crate::ids::DataId;
use crate::region::Block;
use smallvec::SmallVec;
use std::sync::Arc;

impl Residency {
    /// Informs a task that stands for several tasks which of its inputs are lost.
    pub(in super::super) fn tell_losses(&self, task: &OwnedTask, parts: &dyn Parts) {
        task.body().accesses(&mut |AccessRecord { datum, block, mode }| {
            if let Some(directory) = self.directories.get(&datum.id).filter(|_| mode.relies_on_value()) {
                directory.losses(block, |part, cause| parts.is_lost(datum.id, &part, cause));
            }
        });
    }

    /// If data that a task relies on are lost, returns the cause. Outcomes whose data are lost are spoiled instead.
    pub(in super::super) fn cause_of_loss(&self, task: &OwnedTask, places: &[ReplicaRef]) -> Option<Arc<TaskFailure>> {
        let mut cause = None;
        if !self.any_loss.is_there() {
            return cause;
        }
        let mut places = places.iter().enumerate();
        task.body().accesses(&mut |AccessRecord { block, mode, .. }| {
            let Some((access, position)) = places.next() else { return };
            let directory = self.directories.get(&position.data);
            if mode == Mode::Outcome
                && let Some(loss) = directory.and_then(|directory| directory.cause_of_loss(block))
            {
                task.body().spoil(access, &loss);
            } else if let Some(directory) = directory.filter(|_| mode.relies_on_value() && cause.is_none()) {
                cause = directory.cause_of_loss(block);
            }
        });
        cause
    }

    /// Spoils those outcomes of a task whose block could not be copied. Returns false if the task also relies on the
    /// block in another way.
    pub(in super::super) fn spoil(
        &self,
        task: &OwnedTask,
        data: DataId,
        block: &Block,
        cause: &Arc<TaskFailure>,
    ) -> bool {
        let (mut access, mut outcomes, mut relies) = (0, SmallVec::<[usize; 2]>::new(), false);
        task.body().accesses(&mut |record| {
            if record.datum.id == data && record.block.overlaps(block) {
                match record.mode {
                    Mode::Outcome => outcomes.push(access),
                    _ => relies = true,
                }
            }
            access += 1;
        });
        if !relies {
            outcomes.iter().for_each(|access| task.body().spoil(*access, cause));
        }
        !relies && !outcomes.is_empty()
    }
}
