//! Choice of the units and memories that can have a task, by its kinds of body, its size and its intended device.

use super::multi_device;
use super::needs::{Needs, bytes_in, device_of, kinds, parts_of};
use super::queue::Queue;
use super::residency::Residency;
use crate::depend::OwnedTask;
use crate::ids::{SpaceId, TaskId, UnitId};
use crate::machine::UnitKind;
use crate::sched::UnitView;
use std::sync::Arc;

/// The units that can run tasks with certain requirements.
#[derive(Clone)]
pub(super) struct Suited {
    /// For each unit, whether it can run the tasks.
    pub(super) units: Arc<[bool]>,
    /// Whether the tasks run only in host memory, on any hosting thread.
    pub(super) at_home: bool,
}

impl Queue {
    /// Returns the units that can run a task.
    pub(super) fn suited(&mut self, task: &OwnedTask, residency: &Residency) -> Suited {
        self.suited_for(task, &Needs::of_task(task), residency)
    }

    /// Returns the units that can run a task with these requirements.
    pub(super) fn suited_for(&mut self, task: &OwnedTask, needs: &Needs, residency: &Residency) -> Suited {
        let (kinds, device) = (kinds(task), self.space_for(task, needs, residency));
        let small = residency.fits_anywhere(needs.bytes);
        if let Some(known) = self.suited.get(&(kinds, needs.home_only, device)).filter(|_| small) {
            return known.clone();
        }
        let fits = |space: &SpaceId| device.is_none_or(|only| only == *space) && fits(task, needs, *space, residency);
        let has_memory = |unit: &UnitView| match parts_of(task) {
            Some(ends) => multi_device::fits(task, ends, &unit.spaces, residency),
            None => unit.spaces.iter().any(fits),
        };
        let suits = |unit: &UnitView| {
            kinds.has(unit.kind) && (unit.kind == UnitKind::Cpu || !needs.home_only) && has_memory(unit)
        };
        let units: Arc<[bool]> = self.units.iter().map(suits).collect();
        // A task that suits no device can still run on a device's hosting thread, if cores can run it.
        let at_home = self.hosts_at_home && kinds.has(UnitKind::Cpu) && !units.contains(&true);
        let units = if at_home { units.iter().map(|_| true).collect() } else { units };
        let suited = Suited { units, at_home };
        if small {
            self.suited.insert((kinds, needs.home_only, device), suited.clone());
        }
        suited
    }

    /// Returns the memory of the task's intended device, if that memory exists and is large enough. Otherwise the task
    /// is treated like any other task.
    fn space_for(&self, task: &OwnedTask, needs: &Needs, residency: &Residency) -> Option<SpaceId> {
        let space = device_of(task)?.space();
        let is_there = self.units.iter().any(|unit| unit.spaces.contains(&space));
        (is_there && fits(task, needs, space, residency)).then_some(space)
    }

    /// Returns whether a unit can run a task.
    pub(super) fn suits(&mut self, task: &OwnedTask, unit: usize, residency: &Residency) -> bool {
        self.suited(task, residency).units[unit]
    }

    /// Returns whether any unit can run a task.
    pub(super) fn suits_any(&mut self, task: &OwnedTask, residency: &Residency) -> bool {
        self.suited(task, residency).units.contains(&true)
    }

    /// Returns the least busy unit that can run a task.
    pub(super) fn least_busy_for(&mut self, task: &OwnedTask, residency: &Residency) -> Option<usize> {
        let units = self.suited(task, residency).units;
        let suited = self.units.iter().filter(|unit| units[unit.id.index()]);
        suited.min_by_key(|unit| (unit.in_flight, unit.id)).map(|unit| unit.id.index())
    }

    /// Returns the memory of the task's intended device, if it has one. Otherwise, among the unit's memories that the
    /// task fits into, returns the one that holds most of the task's data; ties go to the least busy memory.
    pub(super) fn choose_space(&self, task: &OwnedTask, unit: usize, residency: &Residency) -> SpaceId {
        if let [only] = self.units[unit].spaces[..] {
            return only;
        }
        let needs = Needs::of_task(task);
        let own = self.space_for(task, &needs, residency);
        if let Some(own) = own.filter(|own| self.units[unit].spaces.contains(own)) {
            return own;
        }
        let key = |space: &SpaceId| (residency.bytes_missing(task, *space), residency.tenants(*space), *space);
        let spaces = self.units[unit].spaces.iter().copied().filter(|space| fits(task, &needs, *space, residency));
        spaces.min_by_key(key).expect("a unit gets tasks that fit one of its memories")
    }

    /// Returns the units that can run a task in the policy's charge, each with its number of tasks.
    pub(super) fn units_for(&mut self, task: TaskId, residency: &Residency) -> Option<Vec<(UnitId, usize)>> {
        let task = self.queued.remove(&task)?;
        let suited = self.suited(&task, residency).units;
        self.queued.insert(task.shared().id, task);
        let suited = self.units.iter().filter(|unit| suited[unit.id.index()]);
        Some(suited.map(|unit| (unit.id, unit.in_flight)).collect())
    }
}

/// Returns whether a task's requirements fit into a memory that holds nothing else.
fn fits(task: &OwnedTask, needs: &Needs, space: SpaceId, residency: &Residency) -> bool {
    residency.fits(needs.bytes, space) || residency.fits(bytes_in(task, space), space)
}
