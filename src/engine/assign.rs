//! Which unit and which memory a ready task gets.
//!
//! The policy names the unit; here is what it is told and asked, and who is asked first: everybody's first task comes before
//! anybody's second, so nobody idles while another has tasks ahead.

use super::command::Command;
use super::placement::{MOST_IN_SPACE, Placement};
use super::stages::{Assigned, Placed, Suited};
use crate::coherence::Directory;
use crate::depend::{AccessRecord, Kinds, Mode, OwnedTask};
use crate::ids::{DataId, SpaceId, TaskId};
use crate::machine::UnitKind;
use crate::sched::{Place, ReadyTask, UnitView, View};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::cell::Cell;
use std::sync::Arc;

impl Placement {
    /// Tells the policy of a ready task.
    pub(super) fn queue(&mut self, task: OwnedTask) {
        let ready = self.describe(&task);
        let id = ready.id;
        self.queued.insert(id, task);
        let Self { policy, units, queued, directories, busy, .. } = self;
        // Many units share the host's memory: what a policy asks about this task is computed once per space.
        let known: SmallVec<[Cell<Option<u64>>; 4]> = busy.iter().map(|_| Cell::new(None)).collect();
        let missing = |task, space: SpaceId| {
            let compute = || missing_bytes(queued, directories, task, space);
            let Some(cell) = known.get(space.index()).filter(|_| task == id) else { return compute() };
            let bytes = cell.get().unwrap_or_else(compute);
            cell.set(Some(bytes));
            bytes
        };
        policy.ready(ready, &View { units, missing_bytes: &missing });
    }

    /// Where a task can run.
    pub(super) fn suited(&mut self, task: &OwnedTask) -> Suited {
        let needs = needs(task);
        let kinds = kinds(task);
        let small = needs.bytes <= self.memories.smallest();
        if let Some(known) = self.suited.get(&(kinds, needs.home_only)).filter(|_| small) {
            return known.clone();
        }
        let fits = |space: &SpaceId| needs.bytes <= self.memories.capacity(*space);
        let suits = |unit: &UnitView| {
            kinds.has(unit.kind) && (unit.kind == UnitKind::Cpu || !needs.home_only) && unit.spaces.iter().any(fits)
        };
        let units: Arc<[bool]> = self.units.iter().map(suits).collect();
        // What suits no device can still run on a device's hosting thread, if cores can run it.
        let at_home = self.hosts_at_home && kinds.has(UnitKind::Cpu) && !units.contains(&true);
        let units = if at_home { units.iter().map(|_| true).collect() } else { units };
        let suited = Suited { units, at_home };
        if small {
            self.suited.insert((kinds, needs.home_only), suited.clone());
        }
        suited
    }

    fn describe(&mut self, task: &OwnedTask) -> ReadyTask {
        let units = self.suited(task).units;
        let side = task.owned().as_ref();
        ReadyTask {
            id: task.shared().id,
            name: task.shared().name.clone(),
            bytes: needs(task).bytes,
            priority: task.shared().priority,
            cost: side.and_then(|side| side.cost),
            place: place_of(task),
            units,
        }
    }

    /// Gives work to whoever has room, until nothing moves.
    pub(super) fn pump(&mut self, out: &mut Vec<Command>) {
        loop {
            let mut moved = self.serve_waiting(out);
            // Everybody's first task before anybody's second: nobody idles while another has tasks ahead.
            let mut last = None;
            while !self.queued.is_empty()
                && let Some(next) = self.units.next_with_room(last)
            {
                last = Some(next);
                let (_, unit) = next;
                moved |= self.has_room_in_memory(unit) && self.give_next(unit, out);
            }
            if !moved && !self.judge() {
                return;
            }
        }
    }

    /// Brings data for tasks whose memory is free now; whether there were any.
    fn serve_waiting(&mut self, out: &mut Vec<Command>) -> bool {
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
        moved
    }

    /// Whether one of a unit's memories may get another task. A hosting thread whose devices are gone works at home.
    fn has_room_in_memory(&self, unit: usize) -> bool {
        let room = |space: &SpaceId| self.busy[space.index()] < MOST_IN_SPACE || space.is_host();
        self.units[unit].spaces.iter().any(room) || self.hosts_at_home && self.is_gone(unit)
    }

    /// Gives a unit the next task that the policy has for it; false if there is none.
    fn give_next(&mut self, unit: usize, out: &mut Vec<Command>) -> bool {
        let next = self.ask(unit).and_then(|next| self.take_named(next, unit));
        match next {
            Some(task) => {
                self.assign_or_redirect(task, unit, out);
                true
            }
            None => !self.lost.is_empty() && self.stand_in(unit, out),
        }
    }

    /// Asks the policy for a unit's next task.
    pub(super) fn ask(&mut self, unit: usize) -> Option<TaskId> {
        let id = self.units[unit].id;
        let Self { policy, units, queued, directories, .. } = self;
        let missing = |task, space| missing_bytes(queued, directories, task, space);
        policy.next(id, &View { units, missing_bytes: &missing })
    }

    /// A task has its unit; memory comes next.
    pub(super) fn assign(&mut self, task: OwnedTask, unit: usize) {
        let space = self.choose_space(&task, unit);
        self.give_to(unit);
        self.waiting[space.index()].push_back(Assigned { task, unit: Some(self.units[unit].id), space });
    }

    /// Among a unit's memories that the task fits into, the one with the most of its data, then the least busy.
    fn choose_space(&mut self, task: &OwnedTask, unit: usize) -> SpaceId {
        if self.hosts_at_home && self.suited(task).at_home {
            return SpaceId::HOST;
        }
        if let [only] = self.units[unit].spaces[..] {
            return only;
        }
        let bytes = needs(task).bytes;
        let key = |space: &SpaceId| (bytes_missing(&self.directories, task, *space), self.busy[space.index()], *space);
        let fits = |space: &SpaceId| bytes <= self.memories.capacity(*space);
        let spaces = self.units[unit].spaces.iter().copied();
        spaces.filter(fits).min_by_key(key).expect("a unit gets tasks that fit one of its memories")
    }
}

fn kinds(task: &OwnedTask) -> Kinds {
    task.owned().as_ref().and_then(|side| side.kinds).unwrap_or_else(|| task.body().kinds())
}

/// What a task needs of a memory.
pub(crate) struct Needs {
    /// The sum of its regions.
    pub(crate) bytes: u64,
    /// It must work at home: concurrent accesses are atomic in one memory only.
    pub(crate) home_only: bool,
}

pub(super) fn needs(task: &OwnedTask) -> Needs {
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
        if access.mode != Mode::After {
            self.bytes += access.bytes();
        }
        self.home_only |= access.mode == Mode::Concurrent;
    }
}

/// The data that is gone when a task has run, if it is a release or a take.
pub(super) fn forgotten_by(task: &OwnedTask) -> Option<DataId> {
    task.owned().as_ref().and_then(|side| side.forget)
}

pub(super) fn place_of(task: &OwnedTask) -> Option<Place> {
    task.owned().as_ref().and_then(|side| side.place.clone())
}

fn missing_bytes(
    queued: &FxHashMap<TaskId, OwnedTask>,
    directories: &FxHashMap<DataId, Directory>,
    task: TaskId,
    space: SpaceId,
) -> u64 {
    queued.get(&task).map_or(0, |task| bytes_missing(directories, task, space))
}

/// What would have to be copied to `space` for a task.
fn bytes_missing(directories: &FxHashMap<DataId, Directory>, task: &OwnedTask, space: SpaceId) -> u64 {
    let mut missing = 0;
    task.body().accesses(&mut |AccessRecord { datum, block, mode }| {
        if mode.reads()
            && !matches!(mode, Mode::Reduction(_))
            && let Some(directory) = directories.get(&datum.id)
        {
            missing += directory.missing_bytes(space, block);
        }
    });
    missing
}
