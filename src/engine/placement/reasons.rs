//! Reasons why a placed task has not begun, as facts for people, determined while placement's lock is held.
//!
//! A caller that searches for predecessors visits all placed tasks ([`Placement::visit`]), and queries the whereabouts
//! of the task that it is interested in ([`Placement::whereabouts`]). Both functions traverse tables that grow with
//! the number of placed tasks, so they are meant for diagnosis and not for decisions.
//!
//! Nothing in this module affects what happens next.

use super::Placement;
use super::stages::{Assigned, Placed, UnderWay};
use crate::coherence::ReplicaId;
use crate::depend::{AccessRecord, OwnedTask};
use crate::ids::{SpaceId, TaskId, UnitId};

/// Stage of a placed task, with what the task waits for.
#[derive(Debug)]
pub(crate) enum Whereabouts {
    /// The policy has not given the task to a unit yet.
    WithPolicy {
        policy: &'static str,
        /// Units that can run the task, each with its number of tasks.
        units: Vec<(UnitId, usize)>,
    },
    /// The task waits for memory.
    ForMemory { unit: Option<UnitId>, memory: MemoryWait },
    /// The task waits for copies, and for the ends of tasks in a device's queue.
    ForData { unit: Option<UnitId>, space: SpaceId, copies: Vec<CopyWait>, tasks: Vec<TaskId> },
    /// The task is with its unit.
    Launched { unit: Option<UnitId>, space: SpaceId, is_issued: bool },
}

/// A memory in which a task waits for room.
#[derive(Debug)]
pub(crate) struct MemoryWait {
    pub(crate) space: SpaceId,
    /// Number of bytes that the task needs in addition to what is already there.
    pub(crate) needed: u64,
    pub(crate) free: u64,
    pub(crate) capacity: u64,
    /// Number of bytes held by replicas that are leaving the memory.
    pub(crate) leaving: u64,
    /// Tasks that have reserved replicas in the memory, with the sizes in bytes, largest first.
    pub(crate) holders: Vec<(TaskId, u64)>,
    /// Number of tasks that get memory in this space before the task does.
    pub(crate) before: usize,
}

/// A copy that a task waits for.
#[derive(Debug)]
pub(crate) struct CopyWait {
    pub(crate) region: String,
    pub(crate) between: (SpaceId, SpaceId),
    pub(crate) bytes: u64,
    /// Whether the copy is a write-back, which makes room in a memory.
    pub(crate) is_write_back: bool,
}

impl Placement {
    /// Calls `see` with each task that has not been given to a driver yet. None of these tasks can end while the
    /// caller holds placement's lock.
    pub(crate) fn visit(&self, see: &mut dyn FnMut(&OwnedTask)) {
        self.queue.queued().for_each(&mut *see);
        self.queue.waiting().for_each(|assigned| see(&assigned.task));
        self.flow.arriving().for_each(|placed| see(&placed.assigned.task));
    }

    /// Returns where a task is; `None` if it is not placed.
    pub(crate) fn whereabouts(&mut self, task: TaskId) -> Option<Whereabouts> {
        if let Some(units) = self.queue.units_for(task, &self.residency) {
            return Some(Whereabouts::WithPolicy { policy: self.queue.policy_name(), units });
        }
        if let Some((before, assigned)) = self.queue.waiting_as(task) {
            return Some(Whereabouts::ForMemory { unit: assigned.unit, memory: self.memory_wait(before, assigned) });
        }
        if let Some(Placed { assigned, .. }) = self.flow.arriving().find(|placed| is(task, &placed.assigned)) {
            let (copies, tasks) = self.flow.awaited_by(task);
            let copies = copies.map(|copy| describe(&assigned.task, copy)).collect();
            let (unit, space) = (assigned.unit, assigned.space);
            return Some(Whereabouts::ForData { unit, space, copies, tasks: tasks.collect() });
        }
        let launched = self.flow.launched(task)?;
        Some(Whereabouts::Launched { unit: launched.unit, space: launched.space, is_issued: launched.issued })
    }

    fn memory_wait(&self, before: usize, assigned: &Assigned) -> MemoryWait {
        let space = assigned.space;
        let mut holders: Vec<(TaskId, u64)> = Vec::new();
        let reserved = self.flow.arriving().map(|placed| (placed.assigned.task.shared().id, &placed.reserved));
        for (task, reserved) in reserved.chain(self.flow.all_launched().map(|(task, own)| (*task, &own.reserved))) {
            let mut own: Vec<_> = reserved.replicas.iter().filter(|position| position.space == space).collect();
            own.retain(|position| position.replica != ReplicaId::HOME);
            own.sort_unstable_by_key(|position| (position.data, position.replica));
            own.dedup_by_key(|position| (position.data, position.replica));
            let bytes: u64 = own.iter().map(|position| self.residency.bytes_of(position.data, position.replica)).sum();
            if bytes > 0 {
                holders.push((task, bytes));
            }
        }
        holders.sort_unstable_by_key(|(task, bytes)| (std::cmp::Reverse(*bytes), *task));
        let (free, capacity, leaving) = self.residency.room_in(space);
        MemoryWait { space, needed: self.residency.needed(assigned), free, capacity, leaving, holders, before }
    }
}

fn is(task: TaskId, assigned: &Assigned) -> bool {
    assigned.task.shared().id == task
}

/// Describes a copy made for a task that accesses the copied data object.
fn describe(task: &OwnedTask, copy: &UnderWay) -> CopyWait {
    let mut region = None;
    task.body().accesses(&mut |AccessRecord { datum, .. }| {
        if datum.id == copy.data && region.is_none() {
            region = Some(format!("{} of {datum}", datum.describe(&copy.transfer.block)));
        }
    });
    CopyWait {
        region: region.unwrap_or_else(|| copy.data.to_string()),
        between: copy.between,
        bytes: copy.bytes,
        is_write_back: copy.write_back.is_some(),
    }
}
