//! When a device has less memory than it was thought to have: what is idle there goes, and who was refused is placed again.
//!
//! How much a device holds is known only from what it says, and others may use it: an allocation can be refused though the
//! tables say that it fits. Then the memory counts as limited ([`crate::coherence`]'s `capacity`), the task gives back what it
//! has and waits for memory again, first in line; room is made for it as for any other. A task fails only if it was refused
//! while the memory had nothing but its own, and was asked for no more than that. What a body asks for while it is enqueued
//! can't be placed again: for that, [`Placement::make_room`] sends away what is idle, and the driver tries until nothing is
//! left to come.
//!
//! Invariants:
//! 1. Each refusal makes the limit lower than what was in use, until a task is alone: so nobody is refused for ever.
//! 2. What a task that comes back was to overwrite counts as valid at home, where nobody reads it before it is written.

use super::Placement;
use super::stages::{Assigned, Launched, Placed};
use crate::coherence::CopyId;
use crate::depend::OwnedTask;
use crate::engine::command::{Command, ReplicaRef};
use crate::error::TaskFailure;
use crate::ids::{SpaceId, TaskId};
use std::sync::Arc;

/// What is to be hoped for when a memory is too full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hope {
    /// Replicas are leaving, or copies under way that use some.
    pub(crate) more_to_come: bool,
    /// By replicas, and by the private ones of reductions.
    pub(crate) in_use_bytes: u64,
}

/// Fails a task that was refused memory, of which so many bytes are in use.
pub(crate) type FailRefused<'a> = dyn Fn(&OwnedTask, u64) -> Arc<TaskFailure> + 'a;

impl Placement {
    /// There was no memory for what a copy was to fill: the tasks that it was made for give back what they have and wait
    /// for memory again, when their other copies have ended.
    ///
    /// False if what the copy was to bring is to be had nowhere else: then it has failed.
    pub(in crate::engine) fn copy_refused(
        &mut self,
        copy: CopyId,
        bytes: u64,
        fail: &FailRefused<'_>,
        out: &mut Vec<Command>,
    ) -> bool {
        let Some(under_way) = self.flow.copy(copy) else { return true };
        let (data, transfer, (_, space)) = (under_way.data, under_way.transfer, under_way.between);
        if space.is_host() || !self.residency.copy_refused(data, &transfer) {
            return false;
        }
        let Some(ended) = self.flow.end_copy(copy) else { return true };
        let in_use = self.residency.in_use(space);
        for Placed { assigned, reserved } in self.flow.placed_waiting_for(&ended.waiters) {
            let uses_it = |place: &ReplicaRef| (place.data, place.replica) == (data, transfer.to);
            if !reserved.replicas.iter().any(uses_it) {
                continue; // it waits for what others bring, and looks for it again
            }
            if self.residency.has_only(&assigned.task, reserved, space) {
                assigned.task.set_poison(fail(&assigned.task, in_use));
            } else {
                reserved.refused = true;
            }
        }
        self.residency.refused(space, bytes);
        self.let_go_of_copy(ended, out);
        true
    }

    /// There was no memory for a task that was launched, or, without a refusal, somebody else needs what it has: it
    /// has not begun, and waits for memory again.
    pub(in crate::engine) fn refused(
        &mut self,
        task: OwnedTask,
        refusal: Option<(SpaceId, u64)>,
        fail: &FailRefused<'_>,
        out: &mut Vec<Command>,
    ) {
        let Some(launched) = self.flow.launched(task.shared().id) else { return };
        if let Some((space, bytes)) = refusal {
            let is_alone = self.residency.has_only(&task, &launched.reserved, space);
            let in_use = self.residency.in_use(space);
            self.residency.refused(space, bytes);
            if is_alone {
                task.set_poison(fail(&task, in_use));
                return out.push(Command::Skip(task));
            }
        }
        let Some(launched) = self.flow.end(task.shared().id) else { return };
        let waiters = self.wait_again(task, launched, out);
        self.one_less(waiters, out);
        self.dispatch(out);
    }

    /// A task whose copies have ended, and for which there was no memory.
    pub(super) fn retreat(&mut self, placed: Placed, out: &mut Vec<Command>) {
        let (task, launched) = Launched::of(placed, false);
        self.wait_again(task, launched, out);
    }

    /// Takes from a task that has not begun what it has, and lets it wait for memory; who waited for its end.
    fn wait_again(&mut self, task: OwnedTask, launched: Launched, out: &mut Vec<Command>) -> Vec<TaskId> {
        self.residency.take_back(&task, &launched, out);
        let Launched { unit, space, across, waiters, .. } = launched;
        self.queue.wait_first(Assigned { task, unit, space, across });
        waiters
    }

    /// Somebody needs so many bytes beside those that are in use, and was refused: sends away what is idle.
    pub(in crate::engine) fn make_room(&mut self, space: SpaceId, bytes: u64, out: &mut Vec<Command>) -> Hope {
        self.residency.refused(space, bytes);
        let leaving = self.residency.beyond_limit(space);
        self.evict(&leaving, out);
        let more_to_come = self.residency.is_left(space) || self.flow.copies_use(space);
        Hope { more_to_come, in_use_bytes: self.residency.in_use(space) }
    }
}
