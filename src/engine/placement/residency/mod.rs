//! Residency: the devices' memories, the replicas in them, and their reservations.
//!
//! It keeps the tables of [`crate::coherence`], for all data objects and all memories, consistent with each other. A
//! task's working set is reserved in one step ([`reserve`]), or not at all.
//!
//! No task is given to a unit or launched here, and nothing is known of copies but their plans: the caller that
//! orders one ([`Residency::order`]) reports when it has ended.
//!
//! Invariants:
//! 1. A replica has one pin for each task that has it reserved, and one for each copy from or to it that was ordered.
//!    Exception: tasks do not pin homes, which stay anyway.
//! 2. `tenants` counts the tasks that have something reserved in each space.
//! 3. A replica that leaves is released once its last pin is gone; its bytes are in use until the driver says
//!    otherwise.
//! 4. In the memory of a lost device no replica stays, and no new one is created.
//! 5. Foreign memory that a data object has imported is neither counted nor evicted: evicting it would make no room.
//! 6. All replicas of a data object in unified memory are the same bytes: the home, and an alias of it on each
//!    device. Validity and order are tracked as for any replicas; copies between them are ordered, but move nothing.
//!    If separate replicas would let a task write while another still reads the old value, the task waits
//!    ([`Residency::tasks_in_the_way`]).

mod losses;
mod refused;
mod reserve;

pub(super) use reserve::Shortage;

use super::needs::{forgotten_by, lends};
use super::stages::{Launched, Placed};
use crate::coherence::{AnyLoss, CopyId, Directory, Memories, Replica, ReplicaId, Transfer, Transfers};
use crate::depend::{AccessRecord, Datum, Mode, OwnedTask};
use crate::engine::command::{Command, CopyOrder, Release, ReplicaRef};
use crate::error::TaskFailure;
use crate::ids::{DataId, SpaceId, TaskId};
use crate::region::Block;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::Arc;

type Tasks = SmallVec<[TaskId; 2]>;
/// Ordered copies; each becomes a command.
type Orders = SmallVec<[Box<CopyOrder>; 4]>;

/// Issued tasks that conflict with a task.
#[derive(Default)]
pub(super) struct InTheWay {
    /// Tasks after which it is launched.
    pub(super) before: Tasks,
    /// Tasks whose end must come before its copies.
    pub(super) waited_for: Tasks,
}

/// The state of all memories; see the module documentation.
pub(super) struct Residency {
    memories: Memories,
    directories: FxHashMap<DataId, Directory>,
    /// The number of unfinished tasks placed in each space.
    tenants: Vec<usize>,
    /// The memories of lost devices, with the failures that revealed the losses.
    lost: Vec<(SpaceId, Arc<TaskFailure>)>,
    next_replica: u64,
    next_copy: u64,
    /// Counts the ends of tasks, to note when a replica was last used.
    uses: u64,
    evictions: u64,
    /// Whether [`Self::bytes_missing`] may have changed since the last call of [`Self::take_moved`].
    has_moved: bool,
    any_loss: AnyLoss,
    /// Whether a task was ever issued.
    has_issued: bool,
}

impl Residency {
    /// Creates the state for as many address spaces as there are capacities.
    pub(super) fn new(capacities_bytes: &[u64]) -> Self {
        Self {
            memories: Memories::new(capacities_bytes),
            directories: FxHashMap::default(),
            tenants: vec![0; capacities_bytes.len()],
            lost: Vec::new(),
            next_replica: 1,
            next_copy: 0,
            uses: 0,
            evictions: 0,
            has_moved: false,
            any_loss: AnyLoss::default(),
            has_issued: false,
        }
    }

    /// Creates a directory for each data object that a task accesses, if it has none.
    pub(super) fn register(&mut self, task: &OwnedTask) {
        task.body().accesses(&mut |AccessRecord { datum, .. }| {
            let directory = || Directory::new(datum.id, datum.whole(), datum.element_bytes);
            self.directories.entry(datum.id).or_insert_with(directory);
        });
    }

    /// Notes that a new data object is in foreign memory from the start: in a replica of this name on a device.
    pub(super) fn adopt(&mut self, datum: &Datum, replica: ReplicaId, space: SpaceId) {
        let mut directory = Directory::new(datum.id, datum.whole(), datum.element_bytes);
        directory.adopt(replica, space);
        self.directories.insert(datum.id, directory);
    }

    /// Notes that devices use a new data object in its home memory, each through a replica of this name.
    pub(super) fn alias(&mut self, datum: &Datum, aliases: &[(ReplicaId, SpaceId)]) {
        let mut directory = Directory::new(datum.id, datum.whole(), datum.element_bytes);
        aliases.iter().for_each(|(replica, space)| directory.alias(*replica, *space));
        self.directories.insert(datum.id, directory);
    }

    /// Returns a name for a new replica.
    pub(super) fn new_replica(&mut self) -> ReplicaId {
        self.next_replica += 1;
        ReplicaId(self.next_replica - 1)
    }

    /// Forgets a data object that is gone.
    pub(super) fn forget(&mut self, data: DataId) {
        self.has_moved = true;
        self.directories.remove(&data);
    }

    /// Returns the address spaces, the host's first.
    pub(super) fn spaces(&self) -> impl Iterator<Item = SpaceId> + use<> {
        (0..self.tenants.len() as u16).map(SpaceId)
    }

    /// Returns how many tasks have something reserved in `space`.
    pub(super) fn tenants(&self, space: SpaceId) -> usize {
        self.tenants[space.index()]
    }

    /// Returns whether this many bytes fit into a space that holds nothing else.
    pub(super) fn fits(&self, bytes: u64, space: SpaceId) -> bool {
        bytes <= self.memories.capacity(space)
    }

    /// Returns whether this many bytes fit into every space.
    pub(super) fn fits_anywhere(&self, bytes: u64) -> bool {
        bytes <= self.memories.smallest()
    }

    /// Returns the bytes that would have to be copied to `space` for a task.
    pub(super) fn bytes_missing(&self, task: &OwnedTask, space: SpaceId) -> u64 {
        let mut missing = 0;
        task.body().accesses(&mut |AccessRecord { datum, block, mode }| {
            if mode.reads()
                && !matches!(mode, Mode::Reduction(_))
                && let Some(directory) = self.directories.get(&datum.id)
            {
                missing += directory.missing_bytes(space, block);
            }
        });
        missing
    }

    /// Returns whether those bytes may have changed since the last call.
    pub(super) fn take_moved(&mut self) -> bool {
        std::mem::take(&mut self.has_moved)
    }

    /// Returns the spaces in which all of a region is valid.
    pub(super) fn valid_in(&self, data: DataId, block: &Block) -> Vec<SpaceId> {
        let directory = self.directories.get(&data);
        directory.map_or_else(|| vec![SpaceId::HOST], |directory| directory.valid_in(self.spaces(), block))
    }

    /// Plans the copies that a task with memory still needs. Copies already under way that it needs are added to
    /// `pending`.
    pub(super) fn fill(&mut self, placed: &Placed, pending: &mut Vec<CopyId>) -> Orders {
        let (mut orders, mut transfers) = (Orders::new(), Transfers::new());
        let mut places = placed.reserved.replicas.iter().enumerate();
        let body = placed.assigned.task.body();
        body.accesses(&mut |AccessRecord { block, mode, .. }| {
            let Some((access, place)) = places.next() else { return };
            let Some(directory) = self.directories.get_mut(&place.data).filter(|_| !block.is_empty()) else { return };
            if mode == Mode::Out {
                // The region's present value is no longer needed: it must not be written back over the new one.
                directory.written(place.replica, block);
                self.has_moved = true;
                return;
            }
            if mode.sees_nothing() || mode == Mode::Outcome && body.is_spoiled(access) {
                return; // it does not read the region, wherever that is valid
            }
            directory.fill(place.replica, block, &mut self.next_copy, pending, &mut transfers);
            orders.extend(transfers.drain(..).map(|transfer| Self::order(directory, &transfer)));
        });
        self.has_moved |= !orders.is_empty();
        orders
    }

    /// Orders a planned copy; both of its ends stay until it has ended.
    fn order(directory: &mut Directory, transfer: &Transfer) -> Box<CopyOrder> {
        let (data, element_bytes) = (directory.data, directory.element_bytes);
        let mut end = |id| {
            let replica = directory.replica_mut(id);
            replica.pins += 1;
            ReplicaRef { data, replica: id, space: replica.space, holds: replica.block }
        };
        let (from, to) = (end(transfer.from), end(transfer.to));
        let (copy, block, unified) = (transfer.copy, transfer.block, directory.is_unified());
        Box::new(CopyOrder { copy, from, to, block, element_bytes, unified })
    }

    /// Notes that a copy has arrived.
    pub(super) fn arrived(&mut self, data: DataId, transfer: &Transfer) {
        if let Some(directory) = self.directories.get_mut(&data) {
            directory.arrived(transfer);
        }
    }

    /// Notes that a copy could not be made.
    pub(super) fn failed(&mut self, data: DataId, transfer: &Transfer, cause: &Arc<TaskFailure>) {
        self.has_moved = true;
        if let Some(directory) = self.directories.get_mut(&data) {
            directory.failed(transfer, cause, &mut self.any_loss);
        }
    }

    /// Unpins the ends of an ordered copy that has ended, one way or the other.
    pub(super) fn unpin(&mut self, data: DataId, transfer: &Transfer, out: &mut Vec<Command>) {
        for id in [transfer.from, transfer.to] {
            let Some(directory) = self.directories.get_mut(&data) else { return };
            let replica = directory.replica_mut(id);
            replica.pins -= 1;
            if replica.leaving {
                self.drop_if_leaving(data, id, out);
            }
        }
    }

    /// The bytes of a device's memory that are in use, or promised.
    pub(super) fn bytes_in_use(&self, space: SpaceId) -> u64 {
        self.memories.in_use(space)
    }

    /// Returns the free bytes of a device's memory, its capacity, and the bytes of replicas on their way out.
    pub(super) fn room_in(&self, space: SpaceId) -> (u64, u64, u64) {
        (self.memories.free(space), self.memories.capacity(space), self.memories.leaving(space))
    }

    /// Returns the bytes that a replica takes of its memory.
    pub(super) fn bytes_of(&self, data: DataId, id: ReplicaId) -> u64 {
        let directory = self.directories.get(&data);
        directory.and_then(|all| Some(all.bytes_of(all.find(id)?))).unwrap_or(0)
    }

    /// Notes that a replica's memory was given back.
    pub(super) fn released(&mut self, space: SpaceId, bytes: u64) {
        self.memories.left(space, bytes);
    }

    /// Evicts a replica to make room; returns the orders to write its unique contents back home. The driver reports
    /// when its memory is free, which may be at once, or after the write-backs.
    pub(super) fn evict(&mut self, data: DataId, id: ReplicaId) -> Orders {
        self.evictions += 1;
        self.send_away(data, id);
        self.write_back(data, &[id])
    }

    /// Returns the orders to write back home the parts that these replicas of a data object hold and no other replica
    /// that stays.
    fn write_back(&mut self, data: DataId, replicas: &[ReplicaId]) -> Orders {
        let Some(directory) = self.directories.get_mut(&data) else { return Orders::new() };
        let mut transfers = Transfers::new();
        for id in replicas {
            directory.write_back(*id, &mut self.next_copy, &mut transfers);
        }
        self.has_moved |= !transfers.is_empty();
        transfers.iter().map(|transfer| Self::order(directory, transfer)).collect()
    }

    /// Makes a replica leave as soon as it is unused: no task finds it any more.
    fn send_away(&mut self, data: DataId, id: ReplicaId) {
        let Some(directory) = self.directories.get_mut(&data) else { return };
        if let Some(replica) = directory.find(id).filter(|replica| !replica.leaving) {
            self.memories.leaves(replica.space, data, id, directory.bytes_of(replica));
            directory.leave(id);
        }
    }

    /// Drops a replica that was to leave, if its last user is gone.
    pub(super) fn drop_if_leaving(&mut self, data: DataId, id: ReplicaId, out: &mut Vec<Command>) {
        let Some(directory) = self.directories.get_mut(&data) else { return };
        let idle = directory.find(id).filter(|replica| replica.leaving && replica.pins == 0);
        let Some(replica) = idle.copied() else { return };
        directory.remove(id);
        self.has_moved = true;
        let (space, bytes) = (replica.space, directory.bytes_of(&replica));
        out.push(Command::Release(Box::new(Release { replica: id, space, bytes })));
    }

    /// Releases all other replicas before the task that is launched next frees a data object's home. Otherwise one
    /// could still be evicted, and written back to a home that no longer exists. They are unused: the ends of all
    /// their users were waited for.
    pub(super) fn abandon(&mut self, data: DataId, out: &mut Vec<Command>) {
        self.has_moved = true;
        let Some(directory) = self.directories.get_mut(&data) else { return };
        debug_assert!(directory.issued_tasks().next().is_none(), "a task in flight uses a released data object");
        let replicas: SmallVec<[Replica; 2]> = directory.abandon().collect();
        for replica in &replicas {
            let (Replica { id, space, leaving, pins, .. }, bytes) = (*replica, directory.bytes_of(replica));
            debug_assert!(pins == 0, "a replica of a released data object is in use");
            if !leaving {
                self.memories.leaves(space, data, id, bytes);
            }
            out.push(Command::Release(Box::new(Release { replica: id, space, bytes })));
        }
        out.push(Command::Unregister { data });
    }

    /// Notes that a task is in its device's queue. If the device is gone, which another thread may have found
    /// meanwhile, the regions that the task writes are lost.
    pub(super) fn issued(&mut self, task: &OwnedTask, replicas: &[ReplicaRef]) {
        self.has_issued = true;
        let mut places = replicas.iter();
        task.body().accesses(&mut |access| {
            let Some(place) = places.next() else { return };
            let loss = self.lost.iter().find(|(lost, _)| *lost == place.space);
            if let Some(directory) = self.directories.get_mut(&place.data)
                && !access.block.is_empty()
            {
                let writes = access.mode.writes();
                directory.issued(task.shared().id, place.replica, access.block, writes);
                self.has_moved |= writes;
                if let Some((_, cause)) = loss.filter(|_| writes) {
                    directory.written_and_lost(access.block, cause, &mut self.any_loss);
                }
            }
        });
        self.lose_missing(task);
    }

    /// Notes the losses of a task that stands for several: regions that it did not write as it should have.
    fn lose_missing(&mut self, task: &OwnedTask) {
        let Some(parts) = task.body().parts() else { return };
        parts.missing(&mut |data, block, cause| {
            if let Some(directory) = self.directories.get_mut(&data) {
                directory.written_and_lost(block, cause, &mut self.any_loss);
                self.has_moved = true;
            }
        });
    }

    /// Notes that the regions a task wrote are valid where it wrote them or, if the device is gone, nowhere. A task
    /// that was skipped before it `began` wrote nothing: its replica may never have been filled.
    pub(super) fn ended(&mut self, task: &OwnedTask, began: bool, launched: &Launched) {
        self.has_moved = true;
        let (id, failure) = (task.shared().id, task.poison().filter(|_| launched.issued));
        let mut places = launched.reserved.replicas.iter();
        task.body().accesses(&mut |access| {
            let Some(place) = places.next() else { return };
            let loss = self.lost.iter().find(|(lost, _)| *lost == place.space);
            let Some(directory) = self.directories.get_mut(&place.data) else { return };
            match loss {
                _ if launched.issued => directory.ended(id, failure.as_ref(), &mut self.any_loss),
                _ if !began || access.block.is_empty() || !access.mode.writes() || access.mode.is_weak() => {}
                Some((_, cause)) => directory.written_and_lost(access.block, cause, &mut self.any_loss),
                None => directory.written(place.replica, access.block),
            }
        });
        if began && !launched.issued {
            self.lose_missing(task);
        }
    }

    /// Releases the reservations of a launched task.
    pub(super) fn let_go(&mut self, launched: &Launched, out: &mut Vec<Command>) {
        let Launched { space, reserved, .. } = launched;
        self.uses += 1;
        let away = || reserved.replicas.iter().filter(|place| place.replica != ReplicaId::HOME);
        for place in away() {
            let Some(directory) = self.directories.get_mut(&place.data) else { continue };
            let replica = directory.replica_mut(place.replica);
            replica.pins -= 1;
            if !replica.leaving && !replica.adopted {
                self.memories.used(place.space, place.data, place.replica, self.uses);
            }
        }
        for place in away() {
            self.drop_if_leaving(place.data, place.replica, out);
        }
        for space in launched.spaces() {
            self.tenants[space.index()] -= 1;
            self.memories.task_ended(space);
        }
        if reserved.private_bytes > 0 {
            self.memories.release(*space, reserved.private_bytes);
        }
    }

    /// Returns the issued tasks that use regions a task will use. If both use the same replica, the task is launched
    /// after them. If bytes have to be copied first, or all replicas will be released with the data, their ends are
    /// waited for. That also applies to another replica if all are the same bytes and one of the two tasks writes
    /// them: no stream of one device runs after those of another, nor does the host.
    pub(super) fn tasks_in_the_way(&self, placed: &Placed) -> InTheWay {
        let mut found = InTheWay::default();
        if !self.has_issued {
            return found;
        }
        let forgotten = forgotten_by(&placed.assigned.task);
        let mut places = placed.reserved.replicas.iter();
        placed.assigned.task.body().accesses(&mut |AccessRecord { block, mode, .. }| {
            let Some(place) = places.next().filter(|_| !mode.is_weak()) else { return };
            let Some(directory) = self.directories.get(&place.data) else { return };
            if forgotten == Some(place.data) {
                found.waited_for.extend(directory.issued_tasks());
                return;
            }
            let mut is_there = None;
            directory.issued_uses(block, |issued| {
                let here = issued.replica == place.replica;
                if !here && directory.is_unified() && (issued.writes || mode.writes()) {
                    found.waited_for.push(issued.task);
                    return;
                }
                let there = || directory.is_valid_in(place.replica, block);
                if mode != Mode::Out && !*is_there.get_or_insert_with(there) {
                    if here || issued.writes {
                        found.waited_for.push(issued.task);
                    }
                } else if here && (issued.writes || mode.writes()) {
                    found.before.push(issued.task);
                }
            });
        });
        // No stream runs after those of all devices of a task, and no foreign stream after exported data.
        if placed.assigned.across.is_some() || lends(&placed.assigned.task) {
            found.waited_for.append(&mut found.before);
        }
        for tasks in [&mut found.before, &mut found.waited_for] {
            tasks.sort_unstable();
            tasks.dedup();
        }
        found
    }

    /// Records the loss of the device with this memory, which `cause` was the first to reveal; returns false if it is
    /// already known.
    pub(super) fn lose(&mut self, space: SpaceId, cause: &Arc<TaskFailure>) -> bool {
        let news = !space.is_host() && !self.is_lost(space);
        if news {
            self.lost.push((space, cause.clone()));
        }
        news
    }

    /// Returns all data objects that have a directory.
    pub(super) fn all_data(&self) -> Vec<DataId> {
        self.directories.keys().copied().collect()
    }

    /// Makes a data object's replicas in the memory of a lost device leave. Returns the orders to write back home the
    /// parts of other leaving replicas that now no replica that stays holds.
    pub(super) fn lose_replicas(
        &mut self,
        data: DataId,
        space: SpaceId,
        cause: &Arc<TaskFailure>,
        out: &mut Vec<Command>,
    ) -> Orders {
        self.has_moved = true;
        let Some(directory) = self.directories.get_mut(&data) else { return Orders::new() };
        for id in directory.space_lost(space, cause, &mut self.any_loss) {
            self.send_away(data, id);
            self.drop_if_leaving(data, id, out);
        }
        let Some(directory) = self.directories.get(&data) else { return Orders::new() };
        // Leaving replicas are not written back if others hold the same. If those others are gone, they still have to
        // be.
        let leaving: Vec<_> = directory.away().filter(|replica| replica.leaving).map(|replica| replica.id).collect();
        self.write_back(data, &leaving)
    }

    /// Returns whether the device with this memory is gone.
    pub(super) fn is_lost(&self, space: SpaceId) -> bool {
        self.lost.iter().any(|(lost, _)| *lost == space)
    }

    /// Returns the failure that revealed the loss of the device with this memory.
    pub(super) fn cause_of_device_loss(&self, space: SpaceId) -> Option<Arc<TaskFailure>> {
        self.lost.iter().find(|(lost, _)| *lost == space).map(|(_, cause)| cause.clone())
    }

    /// Returns the failure that revealed the latest loss of a device, if there was one.
    pub(super) fn last_loss(&self) -> Option<&Arc<TaskFailure>> {
        self.lost.last().map(|(_, cause)| cause)
    }

    /// Returns how many replicas were evicted to make room.
    pub(super) fn evictions(&self) -> u64 {
        self.evictions
    }

    /// Describes the replicas in use or on their way out in words.
    pub(super) fn describe(&self, lines: &mut Vec<String>) {
        for directory in self.directories.values() {
            for r in directory.away().filter(|replica| replica.pins > 0 || replica.leaving) {
                let leaving = if r.leaving { ", leaving" } else { "" };
                lines.push(format!("{} {:?} in {}: {} users{leaving}", directory.data, r.block, r.space, r.pins));
            }
        }
    }
}
