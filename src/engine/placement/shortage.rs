//! Memory shortage: a device has less memory than assumed. Idle replicas there are evicted, and the task whose
//! allocation was refused is placed again.
//!
//! A device reports its capacity, but others may use it too: an allocation can be refused although the tables say
//! that it fits. Then the memory counts as limited ([`crate::coherence`]'s `capacity`), the task gives back its
//! reservations and waits for memory again, first in the queue; room is made for it as for any other. A task fails
//! only if it was refused while the memory held nothing but its own reservations, and those were minimal. A body that
//! requests memory while it is enqueued, for scratch or for the buffers of a kernel, cannot begin again: for it,
//! [`Placement::make_room`] evicts idle replicas, and its thread waits and retries until no more memory can become
//! free (`driver/threads/memory_pressure.rs`).
//!
//! Invariants:
//! 1. Each refusal makes the limit lower than the bytes that were in use, until a task is alone: so no task is
//!    refused forever.
//! 2. The outputs of a task that is placed again count as valid at home, where nothing reads them before they are
//!    written.

use super::Placement;
use super::stages::{Assigned, Launched, Placed};
use crate::coherence::CopyId;
use crate::depend::OwnedTask;
use crate::engine::command::{Command, ReplicaRef};
use crate::error::TaskFailure;
use crate::ids::{SpaceId, TaskId};
use std::sync::Arc;

/// The prospects of room in a memory that is too full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hope {
    /// Whether replicas are leaving, or copies that use replicas are under way.
    pub(crate) more_to_come: bool,
    /// Bytes in use by replicas, including the private ones of reductions.
    pub(crate) in_use_bytes: u64,
}

/// Fails a task that was refused memory; the second argument is the number of bytes in use.
pub(crate) type FailRefused<'a> = dyn Fn(&OwnedTask, u64) -> Arc<TaskFailure> + 'a;

impl Placement {
    /// Handles a copy whose destination had no memory. The tasks for which it was made give back their reservations
    /// and wait for memory again, after their other copies have ended.
    ///
    /// Returns false if the content of the copy is available nowhere else: then the copy has failed.
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
                continue; // it waits for a copy made for others, and will search again
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

    /// Handles a launched task for which there was no memory or, without a refusal, whose memory others need: it has
    /// not begun, and waits for memory again.
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

    /// Lets a task wait for memory again whose copies have ended, and for which there was no memory.
    pub(super) fn retreat(&mut self, placed: Placed, out: &mut Vec<Command>) {
        let (task, launched) = Launched::of(placed, false);
        self.wait_again(task, launched, out);
    }

    /// Releases the reservations of a task that has not begun, and lets it wait for memory; returns the tasks that
    /// waited for its end.
    fn wait_again(&mut self, task: OwnedTask, launched: Launched, out: &mut Vec<Command>) -> Vec<TaskId> {
        self.residency.take_back(&task, &launched, out);
        let Launched { unit, space, across, waiters, .. } = launched;
        self.queue.wait_first(Assigned { task, unit, space, across });
        waiters
    }

    /// Evicts idle replicas after this many bytes were refused in addition to those in use.
    pub(in crate::engine) fn make_room(&mut self, space: SpaceId, bytes: u64, out: &mut Vec<Command>) -> Hope {
        self.residency.refused(space, bytes);
        let leaving = self.residency.beyond_limit(space);
        self.evict(&leaving, out);
        let more_to_come = self.residency.is_left(space) || self.flow.copies_use(space);
        Hope { more_to_come, in_use_bytes: self.residency.in_use(space) }
    }
}
