//! Placement: from a ready task to a unit, with its data there.
//!
//! The policy has charge of ready tasks until a unit with room gets one ([`super::assign`]). The task's working set is then
//! reserved in the unit's memory in one step ([`super::reserve`]), missing parts are copied from the nearest replica, and
//! when the last copy has arrived the task is launched ([`super::bring`]). When it has finished, its written regions are valid where it ran and nowhere
//! else, and its replicas become candidates for eviction.
//!
//! Invariants:
//! 1. A task is in exactly one of `queued` (the policy's), `waiting` (for memory), `arriving` (for copies), `running`.
//! 2. A task that waits for memory holds none: two tasks cannot starve each other.
//! 3. No copy to or from a task's region is planned, and the task is not launched, while a write-back of the region is
//!    under way. All other copies belong to tasks, and dependences order those.
//! 4. A task that a device has in its queue is *issued*: what it writes counts as valid there, and tasks on the same
//!    replicas are launched behind it. No copy from what it writes, or into what it uses, is planned until it has finished.
//! 5. Copies that a task waits for have ended before it is launched or let go, also if one of them fails; so when a task
//!    has finished, nothing that was done for it is under way.
//! 6. A task that overwrites a region makes it valid in its own replica alone *before* it runs, one that updates it when
//!    it has run: until then, what it started from can still be had elsewhere.

use super::Nanos;
use super::assign::{forgotten_by, needs, place_of};
use super::command::Command;
use super::scheduler::Scheduler;
use super::stages::{Assigned, Placed, Running, Suited, UnderWay};
use super::units::{AHEAD_NS, Units};
use crate::coherence::{CopyId, Directory, Memories, ReplicaId};
use crate::depend::{Kinds, OwnedTask};
use crate::error::TaskFailure;
use crate::ids::{DataId, DeviceId, SpaceId, TaskId};
use crate::machine::Machine;
use crate::region::Block;
use crate::sched::{AffinityStatistics, Model, Sample};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::sync::Arc;

/// The most tasks in one space; it limits those that are launched behind others, which do not count as given ahead.
pub(super) const MOST_IN_SPACE: usize = 256;
/// What moved between two address spaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Link {
    /// How many copies.
    pub(crate) copies: u64,
    /// How many bytes together.
    pub(crate) bytes: u64,
}

/// The state between ready and finished.
pub(crate) struct Placement {
    pub(super) policy: Scheduler,
    pub(super) units: Units,
    /// Tasks placed in each space and not finished.
    pub(super) busy: Vec<usize>,
    pub(super) memories: Memories,
    pub(super) directories: FxHashMap<DataId, Directory>,
    pub(super) queued: FxHashMap<TaskId, OwnedTask>,
    pub(super) waiting: Vec<VecDeque<Assigned>>,
    pub(super) arriving: FxHashMap<TaskId, (Placed, usize)>,
    pub(super) running: FxHashMap<TaskId, Running>,
    pub(super) copies: FxHashMap<CopyId, UnderWay>,
    /// Which of the copies under way are write-backs.
    pub(super) write_backs: FxHashMap<DataId, SmallVec<[CopyId; 4]>>,
    /// Where a task with these kinds can run, as far as the kinds decide.
    pub(super) suited: FxHashMap<(Kinds, bool), Suited>,
    pub(super) next_replica: u64,
    pub(super) next_copy: u64,
    pub(super) uses: u64,
    pub(super) links: FxHashMap<(SpaceId, SpaceId), Link>,
    pub(super) evictions: u64,
    /// There is no CPU unit, and the hosting threads of devices stand in.
    pub(super) hosts_at_home: bool,
    /// The memories of devices that are gone, and what found out.
    pub(super) lost: Vec<(SpaceId, Arc<TaskFailure>)>,
    /// How long each unit has run tasks.
    busy_ns: Vec<u64>,
    /// How long issued tasks took each unit lately.
    mean_ns: Vec<u64>,
}

impl Placement {
    pub(crate) fn new(machine: &Machine, capacities_bytes: &[u64], policy: Scheduler) -> Self {
        Self {
            policy,
            units: Units::new(machine),
            busy: vec![0; machine.num_spaces()],
            memories: Memories::new(capacities_bytes),
            directories: FxHashMap::default(),
            queued: FxHashMap::default(),
            waiting: (0..machine.num_spaces()).map(|_| VecDeque::new()).collect(),
            arriving: FxHashMap::default(),
            running: FxHashMap::default(),
            copies: FxHashMap::default(),
            write_backs: FxHashMap::default(),
            suited: FxHashMap::default(),
            next_replica: 1,
            next_copy: 0,
            uses: 0,
            links: FxHashMap::default(),
            evictions: 0,
            hosts_at_home: false,
            lost: Vec::new(),
            busy_ns: vec![0; machine.num_units()],
            mean_ns: vec![AHEAD_NS; machine.num_units()],
        }
    }

    /// On a machine without CPU units, has the hosting threads of devices run what only cores can, in host memory.
    pub(crate) fn with_hosts_at_home(self) -> Self {
        let hosts_at_home = self.units.iter().all(|unit| unit.kind.is_device());
        Self { hosts_at_home, ..self }
    }

    /// A task is ready: to the policy, or, if it is bound to a space, straight there.
    pub(super) fn ready(&mut self, task: OwnedTask, out: &mut Vec<Command>) {
        task.body().accesses(&mut |access| {
            let directory = || Directory::new(access.datum.id, access.datum.whole(), access.datum.element_bytes);
            self.directories.entry(access.datum.id).or_insert_with(directory);
        });
        if let Some(space) = task.owned().as_ref().and_then(|side| side.space) {
            match self.lost.iter().find(|(lost, _)| *lost == space) {
                None => self.waiting[space.index()].push_back(Assigned { task, unit: None, space }),
                Some((_, cause)) => {
                    task.set_poison(cause.clone());
                    out.push(Command::Skip(task));
                }
            }
        } else if let Some(task) = self.poison_if_hopeless(task, out) {
            self.queue(task);
        }
        self.pump(out);
    }

    /// A copy has arrived.
    pub(super) fn copied(&mut self, copy: CopyId, out: &mut Vec<Command>) {
        let Some(ended) = self.end_copy(copy) else { return };
        if let Some(directory) = self.directories.get_mut(&ended.data) {
            directory.arrived(&ended.transfer);
        }
        self.let_go_of_copy(ended, out);
    }

    /// A copy could not be made. If a device is gone, the tasks that wait for it look again for what they need; else they
    /// fail. What was on its way out of an evicted replica is lost.
    ///
    /// A task that fails so is not let go before its other copies have ended: those would overwrite what others write there.
    pub(super) fn copy_failed(
        &mut self,
        copy: CopyId,
        fail: &dyn Fn(Option<&OwnedTask>) -> Arc<TaskFailure>,
        lost_device: Option<DeviceId>,
        out: &mut Vec<Command>,
    ) {
        let Some(ended) = self.end_copy(copy) else { return };
        let waiting = ended.waiters.iter().filter_map(|task| self.arriving.get(task));
        let mut waiting = waiting.map(|(placed, _)| &placed.assigned.task);
        let cause = match lost_device {
            Some(device) => self.cause_of_device_loss(device.space()).unwrap_or_else(|| fail(waiting.next())),
            None if ended.write_back => fail(None),
            None => {
                let failures: SmallVec<[_; 2]> = waiting
                    .map(|task| {
                        let failure = fail(Some(task));
                        task.set_poison(failure.clone());
                        failure
                    })
                    .collect();
                failures.into_iter().next().unwrap_or_else(|| fail(None))
            }
        };
        if let Some(directory) = self.directories.get_mut(&ended.data) {
            directory.failed(&ended.transfer, &cause);
        }
        if let Some(device) = lost_device {
            self.device_lost(device.space(), &cause, out);
        }
        self.let_go_of_copy(ended, out);
    }

    fn end_copy(&mut self, copy: CopyId) -> Option<UnderWay> {
        let ended = self.copies.remove(&copy)?;
        if ended.write_back
            && let Some(of_data) = self.write_backs.get_mut(&ended.data)
        {
            of_data.retain(|other| *other != copy);
            if of_data.is_empty() {
                self.write_backs.remove(&ended.data);
            }
        }
        Some(ended)
    }

    /// Takes from a copy that has ended what it held.
    fn let_go_of_copy(&mut self, UnderWay { data, transfer, waiters, .. }: UnderWay, out: &mut Vec<Command>) {
        for replica in [transfer.from, transfer.to] {
            if let Some(directory) = self.directories.get_mut(&data) {
                directory.replica_mut(replica).pins -= 1;
            }
            self.drop_if_leaving(data, replica, out);
        }
        self.one_less(waiters, out);
        self.pump(out);
    }

    /// A replica's memory was given back.
    pub(super) fn released(&mut self, space: SpaceId, bytes: u64, out: &mut Vec<Command>) {
        self.memories.left(space, bytes);
        self.pump(out);
    }

    /// These tasks wait for one thing less.
    pub(super) fn one_less(&mut self, waiters: Vec<TaskId>, out: &mut Vec<Command>) {
        for task in waiters {
            if let Some((_, missing)) = self.arriving.get_mut(&task) {
                *missing -= 1;
                if *missing == 0
                    && let Some((placed, _)) = self.arriving.remove(&task)
                {
                    self.bring(placed, out);
                }
            }
        }
    }

    /// A task is in its device's queue.
    pub(super) fn issued(&mut self, task: &OwnedTask, out: &mut Vec<Command>) {
        let id = task.shared().id;
        let Some(running) = self.running.get_mut(&id) else { return };
        running.issued = true;
        let not_counted = running.unit.filter(|_| running.behind);
        let mut places = running.replicas.iter();
        task.body().accesses(&mut |access| {
            if let Some(place) = places.next()
                && let Some(directory) = self.directories.get_mut(&place.data)
                && !access.block.is_empty()
            {
                directory.issued(id, place.replica, access.block, access.mode.writes());
            }
        });
        if let Some(unit) = not_counted {
            self.take_from(unit.index());
        }
        self.pump(out);
    }

    /// A unit has one task more.
    pub(super) fn give_to(&mut self, unit: usize) {
        self.units.give(unit);
        self.policy.in_flight(self.units[unit].id, self.units[unit].in_flight);
    }

    /// A unit has one task less.
    pub(super) fn take_from(&mut self, unit: usize) {
        self.units.take(unit);
        self.policy.in_flight(self.units[unit].id, self.units[unit].in_flight);
    }

    /// A task has run (for so long), failed, or was skipped before it `began`; perhaps before it was placed.
    ///
    /// If its device was lost meanwhile, `device_lost` is the failure that it shows by.
    pub(super) fn finished(
        &mut self,
        task: &OwnedTask,
        began: bool,
        elapsed_ns: Option<Nanos>,
        device_lost: Option<&Arc<TaskFailure>>,
        out: &mut Vec<Command>,
    ) {
        let id = task.shared().id;
        if let (Some(cause), Some(running)) = (device_lost, self.running.get(&id)) {
            self.device_lost(running.space, cause, out);
        }
        if let Some(running) = self.running.remove(&id) {
            if forgotten_by(task).is_none_or(|_| elapsed_ns.is_none()) {
                self.note_end(task, began, &running);
            } // else what it accessed is gone
            if let Some(unit) = running.unit {
                let sample = |elapsed_ns| Sample {
                    task: id,
                    name: task.shared().name.clone(),
                    bytes: needs(task).bytes,
                    unit,
                    elapsed_ns,
                    place: place_of(task),
                };
                if let Some(elapsed_ns) = elapsed_ns {
                    self.busy_ns[unit.index()] += elapsed_ns;
                    if running.issued {
                        self.look_ahead(unit.index(), elapsed_ns);
                    }
                    self.policy.finished(&sample(elapsed_ns));
                } else {
                    self.policy.failed(&sample(0));
                }
            }
            let waiters = self.let_go(running, out);
            self.one_less(waiters, out);
        }
        // A take that was skipped has taken nothing.
        if let Some(data) = forgotten_by(task).filter(|_| elapsed_ns.is_some()) {
            self.directories.remove(&data);
        }
        self.pump(out);
    }

    /// What a task wrote is valid where it wrote it, or, if the device is gone, nowhere. One that was skipped wrote nothing: its
    /// replica may never have been filled.
    fn note_end(&mut self, task: &OwnedTask, began: bool, running: &Running) {
        let (id, failure) = (task.shared().id, task.poison().filter(|_| running.issued));
        let mut places = running.replicas.iter();
        task.body().accesses(&mut |access| {
            let Some(place) = places.next() else { return };
            let loss = self.lost.iter().find(|(lost, _)| *lost == place.space);
            let Some(directory) = self.directories.get_mut(&place.data) else { return };
            match loss {
                _ if running.issued => directory.ended(id, place.replica, failure.as_ref()),
                _ if !began || access.block.is_empty() || !access.mode.writes() => {}
                Some((_, cause)) => directory.written_and_lost(access.block, cause),
                None => directory.written(place.replica, access.block),
            }
        });
    }

    /// Learns how long an issued task took.
    fn look_ahead(&mut self, unit: usize, elapsed_ns: Nanos) {
        let mean = &mut self.mean_ns[unit];
        *mean = (*mean * 7 + elapsed_ns) / 8;
        self.units.look_ahead(unit, *mean);
    }

    /// Takes from a task that is not running any more what it held; who waited for its end.
    pub(super) fn let_go(&mut self, running: Running, out: &mut Vec<Command>) -> Vec<TaskId> {
        self.uses += 1;
        for place in &running.replicas {
            let Some(directory) = self.directories.get_mut(&place.data) else { continue };
            let replica = directory.replica_mut(place.replica);
            replica.pins -= 1;
            let before = std::mem::replace(&mut replica.last_use, self.uses);
            if place.replica != ReplicaId::HOME && !replica.leaving {
                self.memories.used(place.space, place.data, place.replica, before, self.uses);
            }
        }
        for place in &running.replicas {
            self.drop_if_leaving(place.data, place.replica, out);
        }
        self.busy[running.space.index()] -= 1;
        if running.private_bytes > 0 {
            self.memories.release(running.space, running.private_bytes);
        }
        if let Some(unit) = running.unit.filter(|_| !(running.issued && running.behind)) {
            self.take_from(unit.index());
        }
        running.waiters
    }

    /// The spaces where all of a region is valid.
    pub(crate) fn valid_in(&self, data: DataId, block: &Block) -> Vec<SpaceId> {
        let spaces = (0..self.busy.len() as u16).map(SpaceId);
        self.directories.get(&data).map_or_else(|| vec![SpaceId::HOST], |directory| directory.valid_in(spaces, block))
    }

    /// What moved between each two spaces so far.
    pub(crate) fn links(&self) -> Vec<((SpaceId, SpaceId), Link)> {
        let mut links: Vec<_> = self.links.iter().map(|(link, moved)| (*link, *moved)).collect();
        links.sort_unstable_by_key(|(link, _)| *link);
        links
    }

    /// How long each unit has run tasks.
    pub(crate) fn busy_ns(&self) -> &[u64] {
        &self.busy_ns
    }

    /// How well the policy kept indices where their data are, if it keeps count.
    pub(crate) fn affinity(&self) -> Option<AffinityStatistics> {
        self.policy.affinity()
    }

    /// What the policy has learned of tasks' times, if it learns.
    pub(crate) fn model(&self) -> Option<&Model> {
        self.policy.model()
    }

    /// How many replicas were evicted to make room.
    pub(crate) fn evictions(&self) -> u64 {
        self.evictions
    }

    /// How many tasks are under way to their ends, and copies to their places.
    pub(crate) fn in_flight(&self) -> usize {
        self.running.len() + self.copies.len()
    }

    /// Where every placed task is, in words: what to look at when nothing moves.
    pub(crate) fn stall(&self) -> String {
        let waiting = |a: &Assigned| format!("{} waits for memory of {}", a.task.shared().id, a.space);
        let mut lines: Vec<String> = self.waiting.iter().flatten().map(waiting).collect();
        lines.extend(self.queued.keys().map(|task| format!("{task} waits for a unit")));
        lines.extend(self.arriving.iter().map(|(task, (_, missing))| format!("{task} waits for {missing} copies")));
        lines.extend(self.running.iter().map(|(task, running)| format!("{task} runs in {}", running.space)));
        lines.extend(self.copies.values().map(|c| format!("{} {:?} is being copied", c.data, c.transfer.block)));
        for directory in self.directories.values() {
            for r in directory.away().filter(|replica| replica.pins > 0 || replica.leaving) {
                let leaving = if r.leaving { ", leaving" } else { "" };
                lines.push(format!("{} {:?} in {}: {} users{leaving}", directory.data, r.block, r.space, r.pins));
            }
        }
        lines.sort();
        lines.join("; ")
    }
}
