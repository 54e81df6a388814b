//! Homes in limited host memory, and their way to the disk and back.
//!
//! If host memory is limited, homes are reserved like replicas on a device: all of a task's data objects at once, or
//! none. A home that no task uses may leave for a replica on the disk. It leaves as a whole, and comes back as a
//! whole: at a time it is valid either everywhere or nowhere. A home that was not written since it came back is still
//! valid on the disk, so it leaves without a copy.
//!
//! Bytes count as in use from the reservation until the driver has given the pages back to the system. The home of an
//! array of zeros takes no memory before its first task.
//!
//! The limit gives way rather than stop the program: to a task that nothing else is in memory with, and if the bodies
//! of all tasks in memory wait, possibly for this very task.
//!
//! Invariants:
//! 1. `homes` contains the data objects whose homes can leave, and whether they are in memory. Others are not counted.
//! 2. A home that is leaving is found by no task, like a leaving replica. A home that a task frees does not leave.
//! 3. The host combines reductions after the task has given up its reservations, so the home of a data object stays
//!    from the first task on that has such a reduction.

use super::{Orders, Residency, Shortage};
use crate::coherence::{CopyId, Directory, Replica, ReplicaId, Room, Transfer};
use crate::depend::{AccessRecord, Datum, Mode, OwnedTask, Residence};
use crate::engine::command::{Command, Release};
use crate::engine::placement::needs::forgotten_by;
use crate::engine::placement::stages::{Assigned, Launched, Reserved};
use crate::ids::{DataId, SpaceId};
use crate::trace::Dropped;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

/// The state of limited host memory.
#[derive(Debug)]
pub(super) struct Homes {
    disk: SpaceId,
    /// For each data object whose home can leave, whether the home is in memory.
    resident: FxHashMap<DataId, bool>,
    /// Data objects whose homes stay.
    kept: FxHashSet<DataId>,
}

impl Residency {
    /// Limits host memory to its capacity, with a disk as the last space.
    pub(in super::super) fn add_disk(&mut self) {
        let disk = SpaceId(self.tenants.len() as u16);
        self.memories.add_space(u64::MAX);
        self.tenants.push(0);
        self.homes = Some(Homes { disk, resident: FxHashMap::default(), kept: FxHashSet::default() });
    }

    /// Returns the space of the disk, if host memory is limited.
    pub(in super::super) fn disk(&self) -> Option<SpaceId> {
        self.homes.as_ref().map(|homes| homes.disk)
    }

    /// Notes that a new data object has a home that can leave. Returns the homes that exceed the limit now.
    pub(in super::super) fn add_home(&mut self, datum: &Datum, is_resident: bool) -> Vec<(DataId, ReplicaId)> {
        let Some(homes) = &mut self.homes else { return Vec::new() };
        homes.resident.insert(datum.id, is_resident);
        let directory = Directory::new(datum.id, datum.whole(), datum.element_bytes);
        if is_resident {
            self.memories.reserve(SpaceId::HOST, directory.bytes(&directory.whole()));
            self.memories.used(SpaceId::HOST, datum.id, ReplicaId::HOME, self.uses);
        }
        self.directories.insert(datum.id, directory);
        self.memories.beyond_limit(SpaceId::HOST, &self.directories)
    }

    /// Returns the data objects that a task needs in host memory and whose homes can leave.
    fn needed_at_home(&self, task: &OwnedTask) -> SmallVec<[DataId; 4]> {
        let mut needed = SmallVec::<[DataId; 4]>::new();
        let Some(homes) = &self.homes else { return needed };
        let forgotten = forgotten_by(task);
        task.body().accesses(&mut |AccessRecord { datum, block, mode }| {
            let is_freed = mode == Mode::Out && forgotten == Some(datum.id);
            let is_seen = !mode.sees_nothing() && !block.is_empty() && datum.residence == Residence::Anywhere;
            if is_seen && !is_freed && homes.resident.contains_key(&datum.id) && !needed.contains(&datum.id) {
                needed.push(datum.id);
            }
        });
        needed
    }

    /// Pins the homes of a task's data objects in host memory, or changes nothing. With `gives_way`, the limit is
    /// exceeded if necessary.
    pub(super) fn reserve_homes(&mut self, task: &OwnedTask, gives_way: bool) -> Result<Reserved, Shortage> {
        if self.touches_leaving_home(task) {
            return Err(Shortage::InUse);
        }
        let needed = self.needed_at_home(task);
        let places: Vec<_> = needed.iter().map(|data| (*data, ReplicaId::HOME)).collect();
        let (mut bytes, mut absent) = (0, SmallVec::<[DataId; 4]>::new());
        for data in &needed {
            let directory = &self.directories[data];
            if !self.is_at_home(*data) {
                bytes += directory.bytes(&directory.whole());
                absent.push(*data);
            }
        }
        let alone = gives_way || self.tenants[SpaceId::HOST.index()] == 0 && !self.memories.is_left(SpaceId::HOST);
        self.pin(&places, 1);
        let room = match bytes {
            0 => Room::Free,
            bytes => self.memories.room(SpaceId::HOST, bytes, &self.directories),
        };
        match room {
            Room::Free => {}
            Room::Never if alone => {}
            Room::Soon | Room::Never => {
                self.pin(&places, -1);
                return Err(Shortage::InUse);
            }
            Room::After(leaving) => {
                self.pin(&places, -1);
                return Err(Shortage::Evict(leaving));
            }
        }
        for data in absent {
            let directory = &self.directories[&data];
            self.memories.reserve(SpaceId::HOST, directory.bytes(&directory.whole()));
            self.memories.used(SpaceId::HOST, data, ReplicaId::HOME, self.uses);
            self.homes.iter_mut().for_each(|homes| _ = homes.resident.insert(data, true));
        }
        self.keep_reduced(task);
        let mut pinned = needed;
        if let Some(data) = self.freed_by(task).filter(|data| !pinned.contains(data)) {
            self.pin(&[(data, ReplicaId::HOME)], 1);
            pinned.push(data);
        }
        Ok(Reserved { homes: pinned, ..self.at_home(task) })
    }

    /// Returns the data object whose home in memory a task frees. The task needs no content, but the home must not
    /// leave once the driver may have freed it.
    fn freed_by(&self, task: &OwnedTask) -> Option<DataId> {
        forgotten_by(task).filter(|data| self.has_leavable_home(*data) && self.is_at_home(*data))
    }

    /// Like [`Self::reserve`], but beyond the limit, unless one of the homes is leaving.
    pub(in super::super) fn reserve_beyond_limit(&mut self, assigned: &Assigned) -> Option<Reserved> {
        self.reserve_homes(&assigned.task, true).ok()
    }

    /// Whether a home that is leaving belongs to one of a task's data objects. Such a task waits, even if it only
    /// frees the home, until the driver no longer touches the home's pages.
    fn touches_leaving_home(&self, task: &OwnedTask) -> bool {
        let mut touches = false;
        task.body().accesses(&mut |AccessRecord { datum, .. }| {
            let directory = self.directories.get(&datum.id);
            touches |= directory.is_some_and(|directory| directory.replica(ReplicaId::HOME).leaving);
        });
        touches
    }

    /// Lets the homes stay whose data objects have a reduction that the host combines.
    fn keep_reduced(&mut self, task: &OwnedTask) {
        let Some(homes) = &mut self.homes else { return };
        task.body().accesses(&mut |record: AccessRecord<'_>| {
            let data = record.datum.id;
            if matches!(record.mode, Mode::Reduction(_))
                && homes.resident.contains_key(&data)
                && homes.kept.insert(data)
                && let Some(directory) = self.directories.get_mut(&data)
            {
                directory.replica_mut(ReplicaId::HOME).pins += 1;
            }
        });
    }

    /// Whether a data object has its home in memory, or a home that never leaves.
    fn is_at_home(&self, data: DataId) -> bool {
        self.homes.as_ref().and_then(|homes| homes.resident.get(&data).copied()).unwrap_or(true)
    }

    /// Whether a data object has a home that can leave.
    pub(super) fn has_leavable_home(&self, data: DataId) -> bool {
        self.homes.as_ref().is_some_and(|homes| homes.resident.contains_key(&data))
    }

    /// Plans the copy from the disk for a home that is in use by a task. If the copy is already under way, adds it to
    /// `pending`.
    pub(super) fn bring_home(&mut self, data: DataId, pending: &mut Vec<CopyId>, orders: &mut Orders) {
        let Some(directory) = self.directories.get_mut(&data) else { return };
        if let Some(transfer) = directory.bring_home(&mut self.next_copy, pending) {
            orders.push(Self::order(directory, &transfer));
        }
    }

    /// Lets a home leave for the disk. Returns the order of the copy, unless the disk has the content already.
    pub(super) fn spill(&mut self, data: DataId) -> Orders {
        let mut orders = Orders::new();
        let Some(disk) = self.disk() else { return orders };
        self.send_away(data, ReplicaId::HOME, Dropped::Evicted);
        let new = ReplicaId(self.next_replica);
        let Some(directory) = self.directories.get_mut(&data) else { return orders };
        let there = directory.away().find(|replica| replica.space == disk).map(|replica| replica.id);
        let to = there.unwrap_or_else(|| {
            self.next_replica += 1;
            let whole = directory.whole();
            directory.add(new, disk, whole);
            self.memories.reserve(disk, directory.bytes(&whole));
            new
        });
        if let Some(transfer) = directory.write_out(to, &mut self.next_copy) {
            orders.push(Self::order(directory, &transfer));
        }
        orders
    }

    /// Notes that a home could not be written to the disk, so it stays.
    pub(in super::super) fn spill_failed(&mut self, data: DataId, transfer: &Transfer) {
        let Some(directory) = self.directories.get_mut(&data) else { return };
        let is_elsewhere = directory.refused(transfer);
        debug_assert!(is_elsewhere, "the home is valid until it has left");
        directory.stay_home();
        let bytes = directory.bytes(&directory.whole());
        self.memories.stays(SpaceId::HOST, data, ReplicaId::HOME, bytes, self.uses);
    }

    /// Frees the memory of a leaving home whose content is on the disk. The home counts as leaving until the driver has
    /// freed it.
    pub(super) fn home_left(&mut self, data: DataId, home: &Replica, out: &mut Vec<Command>) {
        let Some(directory) = self.directories.get_mut(&data) else { return };
        directory.leave_home();
        let bytes = directory.bytes(&home.block);
        self.homes.iter_mut().for_each(|homes| _ = homes.resident.insert(data, false));
        self.has_moved = true;
        out.push(Command::Release(Box::new(Release { data, replica: ReplicaId::HOME, space: SpaceId::HOST, bytes })));
    }

    /// Notes that the memory of a home was freed.
    pub(super) fn home_released(&mut self, data: DataId) {
        self.directories.get_mut(&data).into_iter().for_each(Directory::stay_home);
    }

    /// Unpins the homes of a task that no longer uses them.
    pub(super) fn let_go_of_homes(&mut self, launched: &Launched) {
        for data in &launched.reserved.homes {
            let Some(directory) = self.directories.get_mut(data) else { continue };
            directory.replica_mut(ReplicaId::HOME).pins -= 1;
            self.memories.used(SpaceId::HOST, *data, ReplicaId::HOME, self.uses);
        }
    }

    /// Forgets the home of a data object that is gone.
    pub(super) fn forget_home(&mut self, data: DataId) {
        let Some(homes) = &mut self.homes else { return };
        homes.kept.remove(&data);
        if homes.resident.remove(&data) == Some(true)
            && let Some(directory) = self.directories.get(&data)
        {
            self.memories.forget(SpaceId::HOST, data, ReplicaId::HOME);
            self.memories.release(SpaceId::HOST, directory.bytes(&directory.whole()));
        }
    }
}
