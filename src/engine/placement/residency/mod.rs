//! Residency: the devices' memories, the replicas in them, and their reservations.
//!
//! Keeps the [`crate::coherence`] tables of all data objects consistent with each other across all memories. A task's
//! working set is reserved in one step ([`reserve`]), or not at all.
//!
//! This module neither assigns tasks to units nor launches them. It only plans copies: the caller that orders a copy
//! ([`Residency::order`]) must report when the copy has ended.
//!
//! Invariants:
//! 1. A replica has one pin for each task that has reserved it, and one pin for each ordered copy from or to it.
//!    Exception: tasks do not pin homes that stay anyway; homes can leave only if host memory is limited ([`homes`]).
//! 2. `tenants` counts, for each space, the tasks that have reservations in that space.
//! 3. A *leaving* replica (evicted, or in the memory of a lost device) is released once its last pin is gone. Its
//!    bytes count as in use until the driver reports that they are free.
//! 4. The memory of a lost device keeps no replica, and no new replica is created in it.
//! 5. Foreign memory that a data object has imported is neither counted nor evicted, because evicting it would free no
//!    memory.
//! 6. All replicas of a data object in unified memory share the same bytes: the home, and an alias of the home on each
//!    device. Validity and ordering are tracked as for any other replicas; copies between the replicas are ordered,
//!    but move nothing. Where separate replicas would let a task write while another task still reads the old value,
//!    the writing task has to wait here ([`Residency::tasks_in_the_way`]).

mod homes;
mod issued;
mod losses;
mod outlook;
mod refused;
mod reserve;

pub(super) use issued::InTheWay;
pub(super) use reserve::Shortage;

use self::homes::Homes;
use super::stages::{Launched, Placed};
use crate::coherence::{AnyLoss, CopyId, Directory, Memories, Replica, ReplicaId, Transfer, Transfers};
use crate::depend::{AccessRecord, Datum, Mode, OwnedTask};
use crate::engine::command::{Command, CopyOrder, Release, ReplicaRef};
use crate::error::TaskFailure;
use crate::ids::{DataId, SpaceId, TaskId};
use crate::region::Block;
use crate::trace::Dropped;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::Arc;

pub(super) type Tasks = SmallVec<[TaskId; 2]>;
/// Ordered copies; each of them becomes a command.
type Orders = SmallVec<[Box<CopyOrder>; 4]>;

/// The state of all memories; see the module documentation.
pub(super) struct Residency {
    memories: Memories,
    directories: FxHashMap<DataId, Directory>,
    /// Number of unfinished tasks placed in each space.
    tenants: Vec<usize>,
    /// Memories of lost devices, each with the failure that revealed the loss.
    lost: Vec<(SpaceId, Arc<TaskFailure>)>,
    /// The homes that can leave, if host memory is limited.
    homes: Option<Homes>,
    next_replica: u64,
    next_copy: u64,
    /// Number of tasks that have ended so far; serves as the timestamp of a replica's last use.
    uses: u64,
    evictions: u64,
    /// Whether [`Self::bytes_missing`] may have changed since the last call of [`Self::take_moved`].
    has_moved: bool,
    any_loss: AnyLoss,
    /// Whether any task was ever issued.
    has_issued: bool,
    /// The replicas that were dropped since they were taken, if they are collected.
    drops: Option<Vec<DroppedReplica>>,
}

/// A replica that is dropped, for the trace.
pub(super) struct DroppedReplica {
    pub(super) data: DataId,
    pub(super) space: SpaceId,
    pub(super) bytes: u64,
    pub(super) why: Dropped,
}

impl Residency {
    /// Creates the state for one address space per given capacity.
    pub(super) fn new(capacities_bytes: &[u64]) -> Self {
        Self {
            memories: Memories::new(capacities_bytes),
            directories: FxHashMap::default(),
            tenants: vec![0; capacities_bytes.len()],
            lost: Vec::new(),
            homes: None,
            next_replica: 1,
            next_copy: 0,
            uses: 0,
            evictions: 0,
            has_moved: false,
            any_loss: AnyLoss::default(),
            has_issued: false,
            drops: None,
        }
    }

    /// Creates a directory for each data object that a task accesses, unless the object already has a directory.
    pub(super) fn register(&mut self, task: &OwnedTask) {
        task.body().accesses(&mut |AccessRecord { datum, .. }| {
            let directory = || Directory::new(datum.id, datum.whole(), datum.element_bytes);
            self.directories.entry(datum.id).or_insert_with(directory);
        });
    }

    /// Notes that a new data object starts out in foreign memory, as the given replica in a device's space.
    pub(super) fn adopt(&mut self, datum: &Datum, replica: ReplicaId, space: SpaceId) {
        let mut directory = Directory::new(datum.id, datum.whole(), datum.element_bytes);
        directory.adopt(replica, space);
        self.directories.insert(datum.id, directory);
    }

    /// Notes that devices use a new data object directly in its home memory, each device through the given replica.
    pub(super) fn alias(&mut self, datum: &Datum, aliases: &[(ReplicaId, SpaceId)]) {
        let mut directory = Directory::new(datum.id, datum.whole(), datum.element_bytes);
        aliases.iter().for_each(|(replica, space)| directory.alias(*replica, *space));
        self.directories.insert(datum.id, directory);
    }

    /// Returns an ID for a new replica.
    pub(super) fn new_replica(&mut self) -> ReplicaId {
        self.next_replica += 1;
        ReplicaId(self.next_replica - 1)
    }

    /// Forgets a data object that is gone.
    pub(super) fn forget(&mut self, data: DataId) {
        self.has_moved = true;
        self.forget_home(data);
        self.directories.remove(&data);
    }

    /// Starts to collect dropped replicas for [`Self::take_drops`].
    pub(super) fn collect_drops(&mut self) {
        self.drops.get_or_insert_default();
    }

    /// Returns the replicas that were dropped since the last call, in order.
    pub(super) fn take_drops(&mut self) -> Vec<DroppedReplica> {
        self.drops.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Returns the address spaces, the host's first.
    pub(super) fn spaces(&self) -> impl Iterator<Item = SpaceId> + use<> {
        (0..self.tenants.len() as u16).map(SpaceId)
    }

    /// Returns the number of tasks that have reservations in `space`.
    pub(super) fn tenants(&self, space: SpaceId) -> usize {
        self.tenants[space.index()]
    }

    /// Returns whether `bytes` bytes fit into `space` when it holds nothing else.
    pub(super) fn fits(&self, bytes: u64, space: SpaceId) -> bool {
        bytes <= self.memories.capacity(space)
    }

    /// Returns whether `bytes` bytes fit into every space.
    pub(super) fn fits_anywhere(&self, bytes: u64) -> bool {
        bytes <= self.memories.smallest()
    }

    /// Returns the number of bytes that would have to be copied to `space` for a task.
    pub(super) fn bytes_missing(&self, task: &OwnedTask, space: SpaceId) -> u64 {
        let mut missing = 0;
        task.body().accesses(&mut |access| {
            let AccessRecord { datum, block, mode } = access;
            if mode.reads()
                && (!matches!(mode, Mode::Reduction(_)) || access.is_reduced_in_place())
                && let Some(directory) = self.directories.get(&datum.id)
            {
                missing += directory.missing_bytes(space, block);
            }
        });
        missing
    }

    /// Returns whether [`Self::bytes_missing`] may have changed for any task since the last call.
    pub(super) fn take_moved(&mut self) -> bool {
        std::mem::take(&mut self.has_moved)
    }

    /// Returns the spaces that hold valid data for the whole region.
    pub(super) fn valid_in(&self, data: DataId, block: &Block) -> Vec<SpaceId> {
        let directory = self.directories.get(&data);
        directory.map_or_else(|| vec![SpaceId::HOST], |directory| directory.valid_in(self.spaces(), block))
    }

    /// Plans the copies that are still missing for a task with reserved memory. If the task needs a copy that is
    /// already under way, that copy is added to `pending`.
    pub(super) fn fill(&mut self, placed: &Placed, pending: &mut Vec<CopyId>) -> Orders {
        let (mut orders, mut transfers) = (Orders::new(), Transfers::new());
        let mut places = placed.reserved.replicas.iter().enumerate();
        let body = placed.assigned.task.body();
        body.accesses(&mut |AccessRecord { block, mode, .. }| {
            let Some((access, position)) = places.next() else { return };
            let Some(directory) = self.directories.get_mut(&position.data).filter(|_| !block.is_empty()) else {
                return;
            };
            let (data, whole) = (position.data, directory.whole());
            let is_brought = self.homes.is_some() && !mode.sees_nothing() && (mode, *block) != (Mode::Out, whole);
            if is_brought && position.replica == ReplicaId::HOME && self.has_leavable_home(data) {
                let before = (pending.len(), orders.len());
                self.bring_home(data, pending, &mut orders);
                if before != (pending.len(), orders.len()) {
                    return; // the caller comes back when the home has its content
                }
            }
            let Some(directory) = self.directories.get_mut(&data) else { return };
            if mode == Mode::Out {
                // The region's present value is no longer needed, so it must not be written back over the new value.
                directory.written(position.replica, block);
                self.has_moved = true;
                return;
            }
            if mode.sees_nothing() || mode == Mode::Outcome && body.is_spoiled(access) {
                return; // the task does not read the region, so nothing has to be copied
            }
            directory.fill(position.replica, block, &mut self.next_copy, pending, &mut transfers);
            orders.extend(transfers.drain(..).map(|transfer| Self::order(directory, &transfer)));
        });
        self.has_moved |= !orders.is_empty();
        orders
    }

    /// Orders a planned copy. Pins its source and target replicas until the copy has ended.
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

    /// Notes that a copy has completed.
    pub(super) fn arrived(&mut self, data: DataId, transfer: &Transfer) {
        if let Some(directory) = self.directories.get_mut(&data) {
            directory.arrived(transfer);
        }
    }

    /// Notes that a copy has failed.
    pub(super) fn failed(&mut self, data: DataId, transfer: &Transfer, cause: &Arc<TaskFailure>) {
        self.has_moved = true;
        if let Some(directory) = self.directories.get_mut(&data) {
            directory.failed(transfer, cause, &mut self.any_loss);
        }
    }

    /// Unpins the source and target replicas of an ordered copy that has completed or failed.
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

    /// Returns the number of bytes of a device's memory that are in use or reserved.
    pub(super) fn bytes_in_use(&self, space: SpaceId) -> u64 {
        self.memories.in_use(space)
    }

    /// Returns three byte counts for a device's memory: free, capacity, and held by leaving replicas.
    pub(super) fn room_in(&self, space: SpaceId) -> (u64, u64, u64) {
        (self.memories.free(space), self.memories.capacity(space), self.memories.leaving(space))
    }

    /// Returns the number of bytes that a replica occupies in its memory.
    pub(super) fn bytes_of(&self, data: DataId, id: ReplicaId) -> u64 {
        let directory = self.directories.get(&data);
        directory.and_then(|all| Some(all.bytes_of(all.find(id)?))).unwrap_or(0)
    }

    /// Notes that a replica's memory was freed.
    pub(super) fn released(&mut self, &Release { data, replica, space, bytes }: &Release) {
        self.memories.left(space, bytes);
        if replica == ReplicaId::HOME {
            self.home_released(data);
        }
    }

    /// Evicts a replica to free memory. Returns write-back orders for all data that only this replica holds. The driver
    /// reports when the memory is free, which may be immediately or after the write-backs.
    pub(super) fn evict(&mut self, data: DataId, id: ReplicaId) -> Orders {
        self.evictions += 1;
        if id == ReplicaId::HOME {
            return self.spill(data);
        }
        self.send_away(data, id, Dropped::Evicted);
        let orders = self.write_back(data, &[id]);
        if let Some(drop) = self.drops.as_mut().and_then(|drops| drops.last_mut()).filter(|_| !orders.is_empty()) {
            drop.why = Dropped::WrittenBack;
        }
        orders
    }

    /// Returns write-back orders for the parts of a data object that are valid in these replicas but in no other
    /// replica that stays.
    fn write_back(&mut self, data: DataId, replicas: &[ReplicaId]) -> Orders {
        let Some(directory) = self.directories.get_mut(&data) else { return Orders::new() };
        let mut transfers = Transfers::new();
        for id in replicas {
            directory.write_back(*id, &mut self.next_copy, &mut transfers);
        }
        self.has_moved |= !transfers.is_empty();
        transfers.iter().map(|transfer| Self::order(directory, transfer)).collect()
    }

    /// Marks a replica for release as soon as it is unused. From now on, no task can find the replica.
    fn send_away(&mut self, data: DataId, id: ReplicaId, why: Dropped) {
        let Some(directory) = self.directories.get_mut(&data) else { return };
        if let Some(replica) = directory.find(id).filter(|replica| !replica.leaving) {
            let (space, bytes) = (replica.space, directory.bytes_of(replica));
            self.memories.leaves(space, data, id, bytes);
            self.drops.iter_mut().for_each(|drops| drops.push(DroppedReplica { data, space, bytes, why }));
            directory.leave(id);
        }
    }

    /// Drops a leaving replica if it has no more users.
    pub(super) fn drop_if_leaving(&mut self, data: DataId, id: ReplicaId, out: &mut Vec<Command>) {
        let Some(directory) = self.directories.get_mut(&data) else { return };
        let idle = directory.find(id).filter(|replica| replica.leaving && replica.pins == 0);
        let Some(replica) = idle.copied() else { return };
        if id == ReplicaId::HOME {
            return self.home_left(data, &replica, out);
        }
        directory.remove(id);
        self.has_moved = true;
        let (space, bytes) = (replica.space, directory.bytes_of(&replica));
        out.push(Command::Release(Box::new(Release { data, replica: id, space, bytes })));
    }

    /// Releases all replicas except the home, before the task launched next frees the home. Otherwise a remaining
    /// replica could still be evicted and written back to a home that no longer exists. These replicas are unused
    /// because the caller has waited for the end of all their users.
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
                self.drops
                    .iter_mut()
                    .for_each(|drops| drops.push(DroppedReplica { data, space, bytes, why: Dropped::Released }));
            }
            out.push(Command::Release(Box::new(Release { data, replica: id, space, bytes })));
        }
        out.push(Command::Unregister { data });
    }

    /// Releases the reservations of a launched task.
    pub(super) fn let_go(&mut self, launched: &Launched, out: &mut Vec<Command>) {
        let Launched { space, reserved, .. } = launched;
        self.uses += 1;
        self.let_go_of_homes(launched);
        let away = || reserved.replicas.iter().filter(|position| position.replica != ReplicaId::HOME);
        for position in away() {
            let Some(directory) = self.directories.get_mut(&position.data) else { continue };
            let replica = directory.replica_mut(position.replica);
            replica.pins -= 1;
            if !replica.leaving && !replica.adopted {
                self.memories.used(position.space, position.data, position.replica, self.uses);
            }
        }
        for position in away() {
            self.drop_if_leaving(position.data, position.replica, out);
        }
        for space in launched.spaces() {
            self.tenants[space.index()] -= 1;
            self.memories.task_ended(space);
        }
        if reserved.private_bytes > 0 {
            self.memories.release(*space, reserved.private_bytes);
        }
    }

    /// Records the loss of the device with this memory, as revealed by `cause`. Returns false if the loss is already
    /// known.
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

    /// Makes a data object's replicas in the memory of a lost device leave. Returns write-back orders for the parts of
    /// other leaving replicas that no staying replica holds any more.
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
            self.send_away(data, id, Dropped::Lost);
            self.drop_if_leaving(data, id, out);
        }
        let Some(directory) = self.directories.get(&data) else { return Orders::new() };
        // Leaving replicas are not written back while other replicas hold the same data. If those other replicas are
        // lost, the leaving replicas do have to be written back.
        let leaving: Vec<_> = directory.away().filter(|replica| replica.leaving).map(|replica| replica.id).collect();
        self.write_back(data, &leaving)
    }

    /// Returns whether the device with this memory is lost.
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

    /// Appends a textual description of the replicas that are in use or leaving.
    pub(super) fn describe(&self, lines: &mut Vec<String>) {
        for directory in self.directories.values() {
            for r in directory.away().filter(|replica| replica.pins > 0 || replica.leaving) {
                let leaving = if r.leaving { ", leaving" } else { "" };
                lines.push(format!("{} {:?} in {}: {} users{leaving}", directory.data, r.block, r.space, r.pins));
            }
        }
    }
}
