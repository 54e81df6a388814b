//! Memory shortage: a device has less memory than assumed. Its idle replicas are evicted, and the task whose
//! allocation was refused is placed again.
//!
//! A device reports its capacity, but other programs may use it too, so an allocation can be refused although the
//! tables say that it fits. In that case the memory is treated as limited ([`crate::coherence`]'s `capacity`). The
//! task releases its reservations and waits for memory again, first in the queue, and room is made for it as for any
//! other task. A task fails only if it was refused while the memory held nothing but the task's own reservations, and
//! those were minimal. A body that requests memory while it is being enqueued, for scratch or for a kernel's buffers,
//! cannot start again. For such a body, [`Placement::make_room`] evicts idle replicas, and its thread waits and
//! retries until no more memory can become free (`driver/threads/memory_pressure.rs`).
//!
//! Invariants:
//! 1. Until a task is alone, each refusal lowers the limit below the number of bytes that were in use. So no task is
//!    refused forever.
//! 2. The outputs of a task that is placed again count as valid at home, because nothing reads them there before they
//!    are written.

use super::Placement;
use super::stages::{Assigned, Launched, Placed};
use crate::coherence::CopyId;
use crate::depend::OwnedTask;
use crate::engine::command::{Command, ReplicaRef};
use crate::error::TaskFailure;
use crate::ids::{SpaceId, TaskId};
use std::sync::Arc;

/// Prospects of free memory in an overfull memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hope {
    /// Whether replicas are leaving the memory, or copies that use replicas are under way.
    pub(crate) more_to_come: bool,
    /// Number of bytes in use by replicas, including the private replicas of reductions.
    pub(crate) in_use_bytes: u64,
}

/// Callback that fails a task that was refused memory. The second argument is the number of bytes in use.
pub(crate) type FailRefused<'a> = dyn Fn(&OwnedTask, u64) -> Arc<TaskFailure> + 'a;

impl Placement {
    /// Handles a copy whose destination memory could not be allocated. The tasks for which the copy was made release
    /// their reservations, and wait for memory again after their other copies have ended.
    ///
    /// Returns false if the copy's content is not available anywhere else, in which case the copy has failed.
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
            let uses_it = |position: &ReplicaRef| (position.data, position.replica) == (data, transfer.to);
            if !reserved.replicas.iter().any(uses_it) {
                continue; // the task waits for a copy made for others, and will search again
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

    /// Handles a launched task for which there was no memory or, if nothing was refused, whose memory other tasks
    /// need. The task has not begun, and waits for memory again.
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

    /// Makes a task wait for memory again after its memory was refused and all of its copies have ended.
    pub(super) fn retreat(&mut self, placed: Placed, out: &mut Vec<Command>) {
        let (task, launched) = Launched::of(placed, false);
        self.wait_again(task, launched, out);
    }

    /// Releases the reservations of a task that has not begun, and makes the task wait for memory. Returns the tasks
    /// that waited for its end.
    fn wait_again(&mut self, task: OwnedTask, launched: Launched, out: &mut Vec<Command>) -> Vec<TaskId> {
        self.residency.take_back(&task, &launched, out);
        let Launched { unit, space, across, waiters, .. } = launched;
        self.queue.wait_first(Assigned { task, unit, space, across });
        waiters
    }

    /// Evicts idle replicas after the device has refused `bytes` bytes beyond those in use.
    pub(in crate::engine) fn make_room(&mut self, space: SpaceId, bytes: u64, out: &mut Vec<Command>) -> Hope {
        self.residency.refused(space, bytes);
        let leaving = self.residency.beyond_limit(space);
        self.evict(&leaving, out);
        let more_to_come = self.residency.is_left(space) || self.flow.copies_use(space);
        Hope { more_to_come, in_use_bytes: self.residency.in_use(space) }
    }
}
