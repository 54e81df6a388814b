//! Which unit and which memory a ready task gets.
//!
//! The policy names the unit; here is what it is told and asked, and who is asked first: everybody's first task comes before
//! anybody's second, so nobody idles while another has tasks ahead.

use super::command::Command;
use super::placement::{MOST_IN_SPACE, Placement};
use super::stages::{Assigned, Placed};
use crate::coherence::Directory;
use crate::depend::{AccessRecord, Kinds, Mode, OwnedTask};
use crate::ids::{DataId, SpaceId, TaskId};
use crate::machine::UnitKind;
use crate::sched::{Place, ReadyTask, UnitView, View};
use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};
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

    /// Whether a unit has a memory that a task fits into.
    fn fits(&self, unit: &UnitView, needs: &Needs) -> bool {
        unit.spaces.iter().any(|space| needs.bytes <= self.memories.capacity(*space))
    }

    pub(super) fn describe(&mut self, task: &OwnedTask) -> ReadyTask {
        let side = task.owned().as_ref();
        let needs = needs(task);
        let kinds = kinds(task);
        let small = needs.bytes <= self.memories.smallest();
        let known = self.masks.get(&(kinds, needs.home_only)).filter(|_| small).cloned();
        let mask = known.unwrap_or_else(|| {
            let at_home = self.runs_at_home(kinds, &needs);
            let suits = |unit: &UnitView| at_home || has_body(unit, kinds, &needs) && self.fits(unit, &needs);
            let mask: Arc<[bool]> = self.units.iter().map(suits).collect();
            if small {
                self.masks.insert((kinds, needs.home_only), mask.clone());
            }
            mask
        });
        ReadyTask {
            id: task.shared().id,
            name: task.shared().name.clone(),
            bytes: needs.bytes,
            priority: task.shared().priority,
            cost: side.and_then(|side| side.cost),
            place: place_of(task),
            units: mask,
        }
    }

    /// Gives work to whoever has room, until nothing moves.
    pub(super) fn pump(&mut self, out: &mut Vec<Command>) {
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
            // Everybody's first task before anybody's second: nobody idles while another has tasks ahead.
            let mut has_none: SmallVec<[bool; 16]> = smallvec![false; self.units.len()];
            let least = self.units.iter().map(|unit| unit.in_flight).min().unwrap_or(0);
            for level in least..self.deepest {
                if self.queued.is_empty() {
                    break;
                }
                for unit in 0..self.units.len() {
                    if has_none[unit] {
                        continue;
                    }
                    let room = |space: &SpaceId| self.busy[space.index()] < MOST_IN_SPACE || space.is_host();
                    let view = &self.units[unit];
                    if view.in_flight <= level && level < self.depth[unit] && view.spaces.iter().any(room) {
                        let given = self.give_next(unit, out);
                        (moved, has_none[unit]) = (moved | given, !given);
                    }
                }
            }
            if !moved {
                return;
            }
        }
    }

    /// Gives a unit the next task that the policy has for it; false if there is none.
    fn give_next(&mut self, unit: usize, out: &mut Vec<Command>) -> bool {
        if self.queued.is_empty() {
            return false;
        }
        let next = self.ask(unit).and_then(|next| self.queued.remove(&next));
        match next {
            Some(task) => {
                self.assign(task, unit);
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
        let unit = &mut self.units[unit];
        unit.in_flight += 1;
        self.waiting[space.index()].push_back(Assigned { task, unit: Some(unit.id), space });
    }

    /// Among a unit's memories, the one with the most of the task's data, then the least busy.
    fn choose_space(&self, task: &OwnedTask, unit: usize) -> SpaceId {
        if self.hosts_at_home && self.runs_at_home(kinds(task), &needs(task)) {
            return SpaceId::HOST;
        }
        if let [only] = self.units[unit].spaces[..] {
            return only;
        }
        let key = |space: &SpaceId| (bytes_missing(&self.directories, task, *space), self.busy[space.index()], *space);
        self.units[unit].spaces.iter().copied().min_by_key(key).unwrap_or(SpaceId::HOST)
    }
}

impl Placement {
    /// Whether a task has to run on a device's hosting thread: no unit has a body for it, and cores have.
    fn runs_at_home(&self, kinds: Kinds, needs: &Needs) -> bool {
        let cores_alone = self.hosts_at_home && kinds.has(UnitKind::Cpu);
        cores_alone && !self.units.iter().any(|unit| has_body(unit, kinds, needs))
    }
}

fn has_body(unit: &UnitView, kinds: Kinds, needs: &Needs) -> bool {
    kinds.has(unit.kind) && (unit.kind == UnitKind::Cpu || !needs.home_only)
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
