//! What lies where: the devices' memories, the replicas in them, and what they were promised to.
//!
//! The tables of [`crate::coherence`], of all data objects and all memories together, kept in step with each other. A
//! task's working set is reserved in one step ([`reserve`]), or not at all.
//!
//! What never happens here: no task is given to a unit or launched, and nothing is known of copies but what was planned:
//! who orders one ([`Residency::order`]) says so when it has ended.
//!
//! Invariants:
//! 1. A replica has one pin for each task that has it reserved, and one for each copy from or to it that was ordered; but for
//!    homes, which stay anyway, tasks have none.
//! 2. `tenants` counts the tasks that have something reserved in each space.
//! 3. A replica that leaves is released once its last pin is gone; its bytes are in use until the driver says otherwise.
//! 4. In the memory of a device that is gone no replica stays, and nobody is given a new one there.
//! 5. Memory of others that a data object has adopted is not counted, nor sent away to make room: that would make none.
//! 6. All replicas of a data object in unified memory are the same bytes: the home, and an alias of it on each device. What is
//!    valid where is kept as ever, and orders as ever; copies between them are ordered and move nothing. Where replicas of their
//!    own would let a task write while another still reads what it replaces, it waits ([`Residency::tasks_in_the_way`]).

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
/// Copies to be made; each goes on as a command.
type Orders = SmallVec<[Box<CopyOrder>; 4]>;

/// Issued tasks that a task meets.
#[derive(Default)]
pub(super) struct InTheWay {
    /// It is launched behind them.
    pub(super) before: Tasks,
    /// Their end comes before its copies.
    pub(super) waited_for: Tasks,
}

/// See the module.
pub(super) struct Residency {
    memories: Memories,
    directories: FxHashMap<DataId, Directory>,
    /// Tasks placed in each space and not finished.
    tenants: Vec<usize>,
    /// The memories of devices that are gone, and what found out.
    lost: Vec<(SpaceId, Arc<TaskFailure>)>,
    next_replica: u64,
    next_copy: u64,
    /// Counts the ends of tasks: when a replica was used last.
    uses: u64,
    evictions: u64,
    /// What [`Self::bytes_missing`] says may be another since somebody looked.
    has_moved: bool,
    any_loss: AnyLoss,
    /// A task was issued, ever.
    has_issued: bool,
}

impl Residency {
    /// Of so many address spaces as there are capacities.
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

    /// All that a task accesses gets a directory, if it has none.
    pub(super) fn register(&mut self, task: &OwnedTask) {
        task.body().accesses(&mut |AccessRecord { datum, .. }| {
            let directory = || Directory::new(datum.id, datum.whole(), datum.element_bytes);
            self.directories.entry(datum.id).or_insert_with(directory);
        });
    }

    /// A new data object is in memory of others from the beginning: a device's, in a replica of this name.
    pub(super) fn adopt(&mut self, datum: &Datum, replica: ReplicaId, space: SpaceId) {
        let mut directory = Directory::new(datum.id, datum.whole(), datum.element_bytes);
        directory.adopt(replica, space);
        self.directories.insert(datum.id, directory);
    }

    /// Devices use a new data object where it is at home: in a replica of this name each.
    pub(super) fn alias(&mut self, datum: &Datum, aliases: &[(ReplicaId, SpaceId)]) {
        let mut directory = Directory::new(datum.id, datum.whole(), datum.element_bytes);
        aliases.iter().for_each(|(replica, space)| directory.alias(*replica, *space));
        self.directories.insert(datum.id, directory);
    }

    /// A name for a new replica.
    pub(super) fn new_replica(&mut self) -> ReplicaId {
        self.next_replica += 1;
        ReplicaId(self.next_replica - 1)
    }

    /// A data object is gone.
    pub(super) fn forget(&mut self, data: DataId) {
        self.has_moved = true;
        self.directories.remove(&data);
    }

    /// The address spaces, that of the host first.
    pub(super) fn spaces(&self) -> impl Iterator<Item = SpaceId> + use<> {
        (0..self.tenants.len() as u16).map(SpaceId)
    }

    /// How many tasks have something reserved in `space`.
    pub(super) fn tenants(&self, space: SpaceId) -> usize {
        self.tenants[space.index()]
    }

    /// Whether so many bytes fit into a space with nothing else in it.
    pub(super) fn fits(&self, bytes: u64, space: SpaceId) -> bool {
        bytes <= self.memories.capacity(space)
    }

    /// Whether they fit into any space.
    pub(super) fn fits_anywhere(&self, bytes: u64) -> bool {
        bytes <= self.memories.smallest()
    }

    /// What would have to be copied to `space` for a task.
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

    /// Whether that may be another than at the last call of this.
    pub(super) fn take_moved(&mut self) -> bool {
        std::mem::take(&mut self.has_moved)
    }

    /// The spaces where all of a region is valid.
    pub(super) fn valid_in(&self, data: DataId, block: &Block) -> Vec<SpaceId> {
        let directory = self.directories.get(&data);
        directory.map_or_else(|| vec![SpaceId::HOST], |directory| directory.valid_in(self.spaces(), block))
    }

    /// Plans the copies that a task with memory still needs. Copies under way already that it needs go to `pending`.
    pub(super) fn fill(&mut self, placed: &Placed, pending: &mut Vec<CopyId>) -> Orders {
        let (mut orders, mut transfers) = (Orders::new(), Transfers::new());
        let mut places = placed.reserved.replicas.iter().enumerate();
        let body = placed.assigned.task.body();
        body.accesses(&mut |AccessRecord { block, mode, .. }| {
            let Some((access, place)) = places.next() else { return };
            let Some(directory) = self.directories.get_mut(&place.data).filter(|_| !block.is_empty()) else { return };
            if mode == Mode::Out {
                // What the region holds now is of no use to anybody: it must not be written back over the new value.
                directory.written(place.replica, block);
                self.has_moved = true;
                return;
            }
            if mode.sees_nothing() || mode == Mode::Outcome && body.is_spoiled(access) {
                return; // it does not look at the region, wherever that is valid
            }
            directory.fill(place.replica, block, &mut self.next_copy, pending, &mut transfers);
            orders.extend(transfers.drain(..).map(|transfer| Self::order(directory, &transfer)));
        });
        self.has_moved |= !orders.is_empty();
        orders
    }

    /// The order to make a copy that was planned; both of its ends stay until it has ended.
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

    /// A copy has arrived.
    pub(super) fn arrived(&mut self, data: DataId, transfer: &Transfer) {
        if let Some(directory) = self.directories.get_mut(&data) {
            directory.arrived(transfer);
        }
    }

    /// A copy could not be made.
    pub(super) fn failed(&mut self, data: DataId, transfer: &Transfer, cause: &Arc<TaskFailure>) {
        self.has_moved = true;
        if let Some(directory) = self.directories.get_mut(&data) {
            directory.failed(transfer, cause, &mut self.any_loss);
        }
    }

    /// A copy that was ordered has ended, one way or the other: its ends may go.
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

    /// A replica's memory was given back.
    pub(super) fn released(&mut self, space: SpaceId, bytes: u64) {
        self.memories.left(space, bytes);
    }

    /// Sends a replica away to make room; the orders to write back home what it alone holds. The driver reports when its
    /// memory is free, which may be at once, or after they were carried out.
    pub(super) fn evict(&mut self, data: DataId, id: ReplicaId) -> Orders {
        self.evictions += 1;
        self.send_away(data, id);
        self.write_back(data, &[id])
    }

    /// The orders to write back home what these replicas of a data object hold and no other that stays.
    fn write_back(&mut self, data: DataId, replicas: &[ReplicaId]) -> Orders {
        let Some(directory) = self.directories.get_mut(&data) else { return Orders::new() };
        let mut transfers = Transfers::new();
        for id in replicas {
            directory.write_back(*id, &mut self.next_copy, &mut transfers);
        }
        self.has_moved |= !transfers.is_empty();
        transfers.iter().map(|transfer| Self::order(directory, transfer)).collect()
    }

    /// A replica is to leave, as soon as nobody uses it: no task finds it any more.
    fn send_away(&mut self, data: DataId, id: ReplicaId) {
        let Some(directory) = self.directories.get_mut(&data) else { return };
        if let Some(replica) = directory.find(id).filter(|replica| !replica.leaving) {
            self.memories.leaves(replica.space, data, id, directory.bytes_of(replica));
            directory.leave(id);
        }
    }

    /// Drops a replica that was to leave, when its last user is gone.
    pub(super) fn drop_if_leaving(&mut self, data: DataId, id: ReplicaId, out: &mut Vec<Command>) {
        let Some(directory) = self.directories.get_mut(&data) else { return };
        let idle = directory.find(id).filter(|replica| replica.leaving && replica.pins == 0);
        let Some(replica) = idle.copied() else { return };
        directory.remove(id);
        self.has_moved = true;
        let (space, bytes) = (replica.space, directory.bytes_of(&replica));
        out.push(Command::Release(Box::new(Release { replica: id, space, bytes })));
    }

    /// The task that is launched next frees a data object's home: whatever is elsewhere goes first, or else it might
    /// yet be evicted, and written back to where nothing is any more. Nobody uses it: all who did were waited for.
    pub(super) fn abandon(&mut self, data: DataId, out: &mut Vec<Command>) {
        self.has_moved = true;
        let Some(directory) = self.directories.get_mut(&data) else { return };
        debug_assert!(directory.issued_tasks().next().is_none(), "a task in flight uses what is released");
        let replicas: SmallVec<[Replica; 2]> = directory.abandon().collect();
        for replica in &replicas {
            let (Replica { id, space, leaving, pins, .. }, bytes) = (*replica, directory.bytes_of(replica));
            debug_assert!(pins == 0, "somebody uses a replica of what is released");
            if !leaving {
                self.memories.leaves(space, data, id, bytes);
            }
            out.push(Command::Release(Box::new(Release { replica: id, space, bytes })));
        }
        out.push(Command::Unregister { data });
    }

    /// A task is in its device's queue. If the device is gone, as another thread may have found meanwhile, what it writes is not
    /// to be had.
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

    /// What a task that stands for several has not left as it should is lost.
    fn lose_missing(&mut self, task: &OwnedTask) {
        let Some(parts) = task.body().parts() else { return };
        parts.missing(&mut |data, block, cause| {
            if let Some(directory) = self.directories.get_mut(&data) {
                directory.written_and_lost(block, cause, &mut self.any_loss);
                self.has_moved = true;
            }
        });
    }

    /// What a task wrote is valid where it wrote it, or, if the device is gone, nowhere. One that was skipped before it
    /// `began` wrote nothing: its replica may never have been filled.
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

    /// Takes from a task that was launched what it had reserved.
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

    /// Issued tasks that use what a task will use: on the same replica it is launched behind them; where bytes have to
    /// be copied first, or all replicas will go with the data, their end is waited for. So it is on another replica if all are
    /// the same bytes, and one of the two writes them: no stream of the one comes behind those of the other, nor does the host.
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
        // No stream comes behind those of all devices of a task, and nothing of others' behind what is lent.
        if placed.assigned.across.is_some() || lends(&placed.assigned.task) {
            found.waited_for.append(&mut found.before);
        }
        for tasks in [&mut found.before, &mut found.waited_for] {
            tasks.sort_unstable();
            tasks.dedup();
        }
        found
    }

    /// The device with this memory is gone, as `cause` was the first to find; false if that is known.
    pub(super) fn lose(&mut self, space: SpaceId, cause: &Arc<TaskFailure>) -> bool {
        let news = !space.is_host() && !self.is_lost(space);
        if news {
            self.lost.push((space, cause.clone()));
        }
        news
    }

    /// All data objects that have a directory.
    pub(super) fn all_data(&self) -> Vec<DataId> {
        self.directories.keys().copied().collect()
    }

    /// A data object's replicas in the memory of a device that is gone leave. The orders to write back home what replicas
    /// on their way out rely on no other for any more.
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
        // They are not written back where others hold the same. If those are gone, it has to be done yet.
        let leaving: Vec<_> = directory.away().filter(|replica| replica.leaving).map(|replica| replica.id).collect();
        self.write_back(data, &leaving)
    }

    /// Whether the device with this memory is gone.
    pub(super) fn is_lost(&self, space: SpaceId) -> bool {
        self.lost.iter().any(|(lost, _)| *lost == space)
    }

    /// What found out that the device with this memory is gone.
    pub(super) fn cause_of_device_loss(&self, space: SpaceId) -> Option<Arc<TaskFailure>> {
        self.lost.iter().find(|(lost, _)| *lost == space).map(|(_, cause)| cause.clone())
    }

    /// What found the last device gone, if any is.
    pub(super) fn last_loss(&self) -> Option<&Arc<TaskFailure>> {
        self.lost.last().map(|(_, cause)| cause)
    }

    /// How many replicas were evicted to make room.
    pub(super) fn evictions(&self) -> u64 {
        self.evictions
    }

    /// The replicas in use or on their way out, in words.
    pub(super) fn describe(&self, lines: &mut Vec<String>) {
        for directory in self.directories.values() {
            for r in directory.away().filter(|replica| replica.pins > 0 || replica.leaving) {
                let leaving = if r.leaving { ", leaving" } else { "" };
                lines.push(format!("{} {:?} in {}: {} users{leaving}", directory.data, r.block, r.space, r.pins));
            }
        }
    }
}
