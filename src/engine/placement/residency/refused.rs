//! Handling of refused memory: which reservations are released and which replicas are evicted when a device refuses
//! memory that the tables count as free.

use super::Residency;
use crate::coherence::{ReplicaId, Transfer};
use crate::depend::{AccessRecord, Mode, OwnedTask};
use crate::engine::command::{Command, ReplicaRef};
use crate::engine::placement::stages::{Launched, Reserved};
use crate::ids::{DataId, SpaceId};
use crate::trace::Dropped;

impl Residency {
    /// Notes that the device with this memory has refused to allocate `bytes` bytes.
    pub(in super::super) fn refused(&mut self, space: SpaceId, bytes: u64) {
        self.memories.refused(space, bytes);
    }

    /// Notes that there was no memory for the destination of a copy. Returns false if the copied content is not
    /// available anywhere else.
    pub(in super::super) fn copy_refused(&mut self, data: DataId, transfer: &Transfer) -> bool {
        self.has_moved = true;
        self.directories.get_mut(&data).is_none_or(|directory| directory.refused(transfer))
    }

    /// Returns the number of bytes in use in a device's memory.
    pub(in super::super) fn in_use(&self, space: SpaceId) -> u64 {
        self.memories.in_use(space)
    }

    /// Returns whether a device's memory holds nothing but this task's reservations and these reservations are
    /// minimal.
    pub(in super::super) fn has_only(&self, task: &OwnedTask, reserved: &Reserved, space: SpaceId) -> bool {
        let places: Vec<_> = reserved.replicas.iter().map(|position| (position.data, position.replica)).collect();
        let mut regions = Vec::new();
        let parts = task.body().parts();
        task.body().accesses(&mut |access| {
            let block = parts.map_or(*access.block, |parts| parts.hull(regions.len()));
            regions.push((access.datum.id, block));
        });
        let counts = |position: &&ReplicaRef| {
            position.replica != ReplicaId::HOME
                && position.space == space
                && !self.is_adopted(position.data, position.replica)
        };
        let away = reserved.replicas.iter().filter(counts);
        let is_minimal = || away.clone().all(|position| regions.contains(&(position.data, position.holds)));
        let is_alone = self.tenants(space) == 1 && !self.memories.is_left(space);
        is_alone
            && self.memories.free(space) == 0
            && is_minimal()
            && self.memories.staying(space).all(|replica| places.contains(&replica))
    }

    /// Returns whether any replicas are leaving a memory.
    pub(in super::super) fn is_left(&self, space: SpaceId) -> bool {
        self.memories.is_left(space)
    }

    /// Returns the idle replicas that exceed a device's actual capacity.
    pub(in super::super) fn beyond_limit(&self, space: SpaceId) -> Vec<(DataId, ReplicaId)> {
        self.memories.beyond_limit(space, &self.directories)
    }

    /// Releases the reservations of a task that has not begun. The present content of the regions that the task was
    /// going to overwrite is no longer needed, wherever it is. A replica without content is dropped, because it may
    /// have no memory either.
    pub(in super::super) fn take_back(&mut self, task: &OwnedTask, launched: &Launched, out: &mut Vec<Command>) {
        self.has_moved = true;
        let mut places = launched.reserved.replicas.iter();
        task.body().accesses(&mut |AccessRecord { block, mode, .. }| {
            let directory = places.next().and_then(|position| self.directories.get_mut(&position.data));
            if let Some(directory) = directory.filter(|_| mode == Mode::Out && !block.is_empty()) {
                directory.written(ReplicaId::HOME, block);
            }
        });
        self.let_go(launched, out);
        for position in launched.reserved.replicas.iter().filter(|position| position.replica != ReplicaId::HOME) {
            let Some(directory) = self.directories.get(&position.data) else { continue };
            if directory.find(position.replica).is_some_and(|r| r.pins == 0 && !r.adopted)
                && directory.holds_nothing(position.replica)
            {
                self.send_away(position.data, position.replica, Dropped::Evicted);
                self.drop_if_leaving(position.data, position.replica, out);
            }
        }
    }
}
