//! Placement: from a ready task to a unit, with its data there.
//!
//! The policy has charge of ready tasks until a unit with room gets one. The task's working set is then reserved in the
//! unit's memory in one step ([`super::reserve`]), missing parts are copied from the nearest replica, and when the last
//! copy has arrived the task is launched. When it has finished, its written regions are valid where it ran and nowhere
//! else, and its replicas become candidates for eviction.
//!
//! Invariants:
//! 1. A task is in exactly one of `queued` (the policy's), `waiting` (for memory), `arriving` (for copies), `running`.
//! 2. A task that waits for memory holds none: two tasks cannot starve each other.
//! 3. No copy to or from a task's region is planned, and the task is not launched, while a write-back of the region is
//!    under way. All other copies belong to tasks, and dependences order those.
//! 4. A task that overwrites a region makes it valid in its own replica alone *before* it runs, one that updates it when
//!    it has run: until then, what it started from can still be had elsewhere.

use super::Outcome;
use super::command::{Command, CopyOrder, Launch, Where};
use crate::coherence::{CopyId, Directory, Memories, ReplicaId, Transfer};
use crate::depend::{AccessRecord, Mode, OwnedTask};
use crate::ids::{CuId, DataId, SpaceId, TaskId};
use crate::machine::Machine;
use crate::region::Block;
use crate::sched::{AffinityStatistics, Model, Place, Policy, ReadyTask, Sample, UnitView, View};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::collections::VecDeque;

/// Tasks given to a device ahead, so that copies for the next overlap the running one.
const DEVICE_DEPTH: usize = 3;
/// As above for a CPU unit beside devices: its data may have to come from there.
const CPU_DEPTH_BESIDE_DEVICES: usize = 2;

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
    policy: Box<dyn Policy>,
    units: Vec<UnitView>,
    depth: Vec<usize>,
    /// Tasks placed in each space and not finished.
    pub(super) busy: Vec<usize>,
    pub(super) memories: Memories,
    pub(super) directories: FxHashMap<DataId, Directory>,
    queued: FxHashMap<TaskId, OwnedTask>,
    waiting: Vec<VecDeque<Assigned>>,
    arriving: FxHashMap<TaskId, (Placed, usize)>,
    running: FxHashMap<TaskId, Running>,
    pub(super) copies: FxHashMap<CopyId, UnderWay>,
    pub(super) next_replica: u64,
    pub(super) next_copy: u64,
    pub(super) uses: u64,
    links: FxHashMap<(SpaceId, SpaceId), Link>,
    pub(super) evictions: u64,
}

/// A task with a unit and a space, and no memory yet.
pub(super) struct Assigned {
    pub(super) task: OwnedTask,
    pub(super) unit: Option<CuId>,
    pub(super) space: SpaceId,
}

/// A task with its memory.
struct Placed {
    assigned: Assigned,
    replicas: SmallVec<[Where; 4]>,
    private_bytes: u64,
}

struct Running {
    unit: Option<CuId>,
    space: SpaceId,
    replicas: SmallVec<[Where; 4]>,
    private_bytes: u64,
}

/// A copy under way.
pub(super) struct UnderWay {
    pub(super) data: DataId,
    pub(super) transfer: Transfer,
    pub(super) write_back: bool,
    pub(super) waiters: Vec<TaskId>,
}

impl Placement {
    pub(crate) fn new(machine: &Machine, capacities_bytes: &[u64], policy: Box<dyn Policy>) -> Self {
        let beside_devices = machine.num_devices() > 0;
        let depth = |unit: &crate::machine::ComputeUnit| match unit.is_device() {
            true => DEVICE_DEPTH * unit.devices.len(),
            false if beside_devices => CPU_DEPTH_BESIDE_DEVICES,
            false => 1,
        };
        let view = |unit: &crate::machine::ComputeUnit| UnitView {
            id: unit.id,
            kind: unit.kind,
            spaces: machine.spaces_of(unit.id).collect(),
            in_flight: 0,
        };
        Self {
            policy,
            units: machine.units().iter().map(view).collect(),
            depth: machine.units().iter().map(depth).collect(),
            busy: vec![0; machine.num_spaces()],
            memories: Memories::new(capacities_bytes),
            directories: FxHashMap::default(),
            queued: FxHashMap::default(),
            waiting: (0..machine.num_spaces()).map(|_| VecDeque::new()).collect(),
            arriving: FxHashMap::default(),
            running: FxHashMap::default(),
            copies: FxHashMap::default(),
            next_replica: 1,
            next_copy: 0,
            uses: 0,
            links: FxHashMap::default(),
            evictions: 0,
        }
    }

    /// A task is ready: to the policy, or, if it is bound to a space, straight there.
    pub(super) fn ready(&mut self, task: OwnedTask, out: &mut Vec<Command>) {
        task.body().accesses(&mut |access| {
            let directory = || Directory::new(access.datum.id, access.datum.whole(), access.datum.element_bytes);
            self.directories.entry(access.datum.id).or_insert_with(directory);
        });
        if let Some(space) = task.owned().as_ref().and_then(|side| side.space) {
            self.waiting[space.index()].push_back(Assigned { task, unit: None, space });
        } else {
            let ready = self.describe(&task);
            self.queued.insert(ready.id, task);
            let Self { policy, units, queued, directories, .. } = self;
            let missing = |task, space| missing_bytes(queued, directories, task, space);
            policy.ready(ready, &View { units, missing_bytes: &missing });
        }
        self.pump(out);
    }

    /// A copy has arrived.
    pub(super) fn copied(&mut self, copy: CopyId, out: &mut Vec<Command>) {
        let Some(UnderWay { data, transfer, waiters, .. }) = self.copies.remove(&copy) else { return };
        if let Some(directory) = self.directories.get_mut(&data) {
            directory.arrived(&transfer);
            for replica in [transfer.from, transfer.to] {
                directory.replica_mut(replica).pins -= 1;
            }
            self.drop_if_leaving(data, transfer.from, out);
        }
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
        self.pump(out);
    }

    /// A task has run, or was skipped before it was placed.
    pub(super) fn finished(&mut self, task: &OwnedTask, outcome: &Outcome, out: &mut Vec<Command>) {
        let id = task.shared().id;
        if let Some(running) = self.running.remove(&id) {
            self.uses += 1;
            let mut k = 0;
            task.body().accesses(&mut |access| {
                let place = running.replicas[k];
                k += 1;
                let Some(directory) = self.directories.get_mut(&place.data) else { return };
                if access.mode.writes() && !access.block.is_empty() {
                    directory.written(place.replica, access.block);
                }
                let replica = directory.replica_mut(place.replica);
                replica.pins -= 1;
                replica.last_use = self.uses;
            });
            for place in &running.replicas {
                self.drop_if_leaving(place.data, place.replica, out);
            }
            self.busy[running.space.index()] -= 1;
            if running.private_bytes > 0 {
                self.memories.release(running.space, running.private_bytes);
            }
            if let Some(unit) = running.unit {
                self.units[unit.index()].in_flight -= 1;
                let sample = |elapsed_ns| Sample {
                    task: id,
                    name: task.shared().name.clone(),
                    bytes: needs(task).bytes,
                    unit,
                    elapsed_ns,
                    place: place_of(task),
                };
                match *outcome {
                    Outcome::Done { elapsed_ns } => self.policy.finished(&sample(elapsed_ns)),
                    _ => self.policy.failed(&sample(0)),
                }
            }
        }
        let forget = task.owned().as_ref().and_then(|side| side.forget);
        // A take that was skipped has taken nothing.
        if let Some(data) = forget.filter(|_| matches!(outcome, Outcome::Done { .. })) {
            self.forget(data, out);
        }
        self.pump(out);
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

    fn describe(&self, task: &OwnedTask) -> ReadyTask {
        let kinds = task.body().kinds();
        let needs = needs(task);
        let on = |unit: &UnitView| {
            kinds.has(unit.kind)
                && (unit.kind == crate::machine::UnitKind::Cpu || !needs.home_only)
                && unit.spaces.iter().any(|space| needs.bytes <= self.memories.capacity(*space))
        };
        let side = task.owned().as_ref();
        ReadyTask {
            id: task.shared().id,
            name: task.shared().name.clone(),
            bytes: needs.bytes,
            priority: task.shared().priority,
            cost: side.and_then(|side| side.cost),
            place: place_of(task),
            units: self.units.iter().map(on).collect::<Vec<_>>().into(),
        }
    }

    /// Gives work to whoever has room, until nothing moves.
    fn pump(&mut self, out: &mut Vec<Command>) {
        loop {
            let mut moved = false;
            for space in 0..self.waiting.len() {
                while let Some(assigned) = self.waiting[space].pop_front() {
                    match self.reserve(assigned, out) {
                        Ok((assigned, replicas, private_bytes)) => {
                            self.bring(Placed { assigned, replicas, private_bytes }, out);
                            moved = true;
                        }
                        Err(assigned) => {
                            self.waiting[space].push_front(assigned);
                            break;
                        }
                    }
                }
            }
            for unit in 0..self.units.len() {
                while self.units[unit].in_flight < self.depth[unit] {
                    let id = self.units[unit].id;
                    let Self { policy, units, queued, directories, .. } = self;
                    let missing = |task, space| missing_bytes(queued, directories, task, space);
                    let Some(next) = policy.next(id, &View { units, missing_bytes: &missing }) else { break };
                    let space = self.choose_space(next, unit);
                    let Some(task) = self.queued.remove(&next) else { break };
                    self.units[unit].in_flight += 1;
                    self.waiting[space.index()].push_back(Assigned { task, unit: Some(id), space });
                    moved = true;
                }
            }
            if !moved {
                return;
            }
        }
    }

    /// Among a unit's memories, the one with the most of the task's data, then the least busy.
    fn choose_space(&self, task: TaskId, unit: usize) -> SpaceId {
        let key = |space: &SpaceId| {
            (missing_bytes(&self.queued, &self.directories, task, *space), self.busy[space.index()], *space)
        };
        self.units[unit].spaces.iter().copied().min_by_key(key).unwrap_or(SpaceId::HOST)
    }

    /// Plans the copies that a task with memory still needs, and launches it if there are none.
    ///
    /// Called again when what it waited for has arrived.
    fn bring(&mut self, placed: Placed, out: &mut Vec<Command>) {
        let mut pending = self.write_backs_in_the_way(&placed.assigned.task);
        if pending.is_empty() {
            let mut transfers = Vec::new();
            let mut k = 0;
            placed.assigned.task.body().accesses(&mut |AccessRecord { block, mode, .. }| {
                let place = placed.replicas[k];
                k += 1;
                let Some(directory) = self.directories.get_mut(&place.data).filter(|_| !block.is_empty()) else {
                    return;
                };
                if mode == Mode::Out {
                    // What the region holds now is of no use to anybody: it must not be written back over the new value.
                    directory.written(place.replica, block);
                    return;
                }
                let mut planned = Vec::new();
                directory.fill(place.replica, block, &mut self.next_copy, &mut pending, &mut planned);
                pending.extend(planned.iter().map(|transfer| transfer.copy));
                transfers.extend(planned.into_iter().map(|transfer| (place.data, transfer)));
            });
            for (data, transfer) in transfers {
                self.start_copy(data, transfer, false, out);
            }
        }
        if pending.is_empty() {
            return self.launch(placed, out);
        }
        pending.sort_unstable();
        pending.dedup();
        let id = placed.assigned.task.shared().id;
        for copy in &pending {
            if let Some(copy) = self.copies.get_mut(copy) {
                copy.waiters.push(id);
            }
        }
        self.arriving.insert(id, (placed, pending.len()));
    }

    /// Write-backs under way of what a task accesses. Only they belong to no task, so dependences do not order them:
    /// a copy to the same place could overtake one, or a task could write where one still arrives.
    fn write_backs_in_the_way(&self, task: &OwnedTask) -> Vec<CopyId> {
        let forgotten = task.owned().as_ref().and_then(|side| side.forget);
        let mut found = Vec::new();
        task.body().accesses(&mut |AccessRecord { datum, block, .. }| {
            let meets = |c: &UnderWay| {
                c.write_back && c.data == datum.id && c.transfer.block.overlaps(block) || Some(c.data) == forgotten
            };
            found.extend(self.copies.iter().filter(|(_, c)| meets(c)).map(|(copy, _)| *copy));
        });
        found
    }

    pub(super) fn start_copy(&mut self, data: DataId, transfer: Transfer, write_back: bool, out: &mut Vec<Command>) {
        let Some(directory) = self.directories.get_mut(&data) else { return };
        let mut end = |id| {
            let replica = directory.replica_mut(id);
            replica.pins += 1;
            Where { data, replica: id, space: replica.space, holds: replica.block }
        };
        let (from, to) = (end(transfer.from), end(transfer.to));
        let link = self.links.entry((from.space, to.space)).or_default();
        link.copies += 1;
        link.bytes += directory.bytes(&transfer.block);
        let element_bytes = directory.element_bytes;
        out.push(Command::Copy(Box::new(CopyOrder {
            copy: transfer.copy,
            from,
            to,
            block: transfer.block,
            element_bytes,
        })));
        self.copies.insert(transfer.copy, UnderWay { data, transfer, write_back, waiters: Vec::new() });
    }

    fn launch(&mut self, placed: Placed, out: &mut Vec<Command>) {
        let Placed { assigned: Assigned { task, unit, space }, replicas, private_bytes } = placed;
        let id = task.shared().id;
        out.push(match unit {
            None => Command::Run(task),
            Some(unit) => {
                Command::Launch(Box::new(Launch { task, unit, device: space.device(), places: replicas.clone() }))
            }
        });
        self.running.insert(id, Running { unit, space, replicas, private_bytes });
    }

    /// Drops a replica that was to leave, when its last user is gone.
    pub(super) fn drop_if_leaving(&mut self, data: DataId, id: ReplicaId, out: &mut Vec<Command>) {
        let Some(directory) = self.directories.get_mut(&data) else { return };
        if id == ReplicaId::HOME || !directory.away().any(|r| r.id == id && r.leaving && r.pins == 0) {
            return;
        }
        let (space, bytes) = (directory.replica(id).space, directory.bytes(&directory.replica(id).block));
        directory.remove(id);
        self.memories.release(space, bytes);
        out.push(Command::Release { replica: id });
    }

    /// A data is gone: so are its replicas.
    fn forget(&mut self, data: DataId, out: &mut Vec<Command>) {
        let Some(directory) = self.directories.remove(&data) else { return };
        for replica in directory.away() {
            self.memories.release(replica.space, directory.bytes(&replica.block));
            out.push(Command::Release { replica: replica.id });
        }
    }
}

/// What a task needs of a memory.
pub(crate) struct Needs {
    /// The sum of its regions.
    pub(crate) bytes: u64,
    /// It must work at home: concurrent accesses are atomic in one memory only.
    pub(crate) home_only: bool,
}

fn needs(task: &OwnedTask) -> Needs {
    let mut needs = Needs { bytes: 0, home_only: false };
    task.body().accesses(&mut |access| needs.add(&access));
    needs
}

impl Needs {
    /// Of these accesses.
    pub(crate) fn of(accesses: &[AccessRecord<'_>]) -> Self {
        let mut needs = Self { bytes: 0, home_only: false };
        accesses.iter().for_each(|access| needs.add(access));
        needs
    }

    fn add(&mut self, access: &AccessRecord<'_>) {
        self.bytes += access.bytes();
        self.home_only |= access.mode == Mode::Concurrent;
    }
}

fn place_of(task: &OwnedTask) -> Option<Place> {
    task.owned().as_ref().and_then(|side| side.place.clone())
}

fn missing_bytes(
    queued: &FxHashMap<TaskId, OwnedTask>,
    directories: &FxHashMap<DataId, Directory>,
    task: TaskId,
    space: SpaceId,
) -> u64 {
    let mut missing = 0;
    if let Some(task) = queued.get(&task) {
        task.body().accesses(&mut |AccessRecord { datum, block, mode }| {
            if mode.reads()
                && !matches!(mode, Mode::Reduction(_))
                && let Some(directory) = directories.get(&datum.id)
            {
                missing += directory.missing_bytes(space, block);
            }
        });
    }
    missing
}
