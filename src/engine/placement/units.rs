//! The compute units, and which of them have room for another task.
//!
//! A machine may have hundreds of units, and most events concern only one of them. Therefore the units with room are
//! kept in order, the least busy first, and an event that occurs while all units are busy inspects none of them.
//!
//! Invariant: a unit is in `with_room`, at the index given by its number of tasks, exactly as long as that number is
//! less than the unit's depth.

use crate::engine::Nanos;
use crate::ids::SpaceId;
use crate::machine::{ComputeUnit, Machine};
use crate::sched::{UnitSet, UnitView};
use std::ops::Deref;

/// Number of tasks given to a device ahead of time, so that copies for the next task overlap with the running task.
const DEVICE_DEPTH: usize = 3;
/// Minimum total time of the tasks given ahead: if issued tasks take less than a third of this time, enough tasks are
/// given ahead to fill it.
const AHEAD_NS: Nanos = 200_000;
/// Maximum number of tasks given ahead.
const MOST_AHEAD: usize = 64;
/// Number of tasks given ahead to a CPU unit on a machine with devices, because the task's data may have to come from
/// a device.
const CPU_DEPTH_BESIDE_DEVICES: usize = 2;

/// The units of a machine as seen by policies; see the module documentation.
pub(super) struct Units {
    views: Vec<UnitView>,
    depth: Vec<usize>,
    /// Units with room, indexed by their number of tasks.
    with_room: Vec<UnitSet>,
    /// Total number of tasks on all units.
    in_flight: usize,
    /// Per unit, the total time spent running tasks.
    busy_ns: Vec<u64>,
    /// Per unit, the recent mean time of an issued task, scaled to the whole device.
    mean_ns: Vec<u64>,
}

/// A unit with room, as its number of tasks and its index.
pub(super) type Room = (usize, usize);

impl Units {
    pub(super) fn new(machine: &Machine) -> Self {
        let beside_devices = machine.num_devices() > 0;
        let depth = |unit: &ComputeUnit| match unit.is_device() {
            true => DEVICE_DEPTH * unit.devices.len(),
            false if beside_devices => CPU_DEPTH_BESIDE_DEVICES,
            false => 1,
        };
        let view = |unit: &ComputeUnit| UnitView {
            id: unit.id,
            kind: unit.kind,
            spaces: machine.spaces_of(unit.id).collect(),
            in_flight: 0,
        };
        let mut idle = UnitSet::default();
        machine.units().iter().for_each(|unit| idle.insert(unit.id));
        Self {
            views: machine.units().iter().map(view).collect(),
            depth: machine.units().iter().map(depth).collect(),
            with_room: vec![idle],
            in_flight: 0,
            busy_ns: vec![0; machine.num_units()],
            mean_ns: vec![AHEAD_NS; machine.num_units()],
        }
    }

    /// Returns the first unit after `last` that has room and, if `wanted` is given, is among the wanted units. Every
    /// unit's first task comes before any unit's second task.
    pub(super) fn next_with_room(&self, last: Option<Room>, wanted: Option<&UnitSet>) -> Option<Room> {
        let (tasks, mut first) = last.map_or((0, 0), |(tasks, unit)| (tasks, unit + 1));
        for (tasks, units) in self.with_room.iter().enumerate().skip(tasks) {
            if let Some(unit) = units.first_from(first, wanted) {
                return Some((tasks, unit));
            }
            first = 0;
        }
        None
    }

    /// Returns whether no unit has anything to do.
    pub(super) fn are_idle(&self) -> bool {
        self.in_flight == 0
    }

    /// Notes that a unit has one task more.
    pub(super) fn give(&mut self, unit: usize) {
        self.in_flight += 1;
        self.change(unit, |view, _| view.in_flight += 1);
    }

    /// Notes that a unit has one task fewer.
    pub(super) fn take(&mut self, unit: usize) {
        self.in_flight -= 1;
        self.change(unit, |view, _| view.in_flight -= 1);
    }

    /// Notes that a unit has run a task for this long. For issued tasks, the duration and the share of the device
    /// determine how many tasks the device is given ahead, because a device runs several tasks at once if they do not
    /// fill it.
    pub(super) fn ran(&mut self, unit: usize, elapsed_ns: Nanos, issued: Option<u32>) {
        self.busy_ns[unit] += elapsed_ns;
        if let Some(share) = issued {
            self.mean_ns[unit] = (self.mean_ns[unit] * 7 + elapsed_ns * Nanos::from(share) / 1000) / 8;
            let ahead = ((AHEAD_NS / self.mean_ns[unit].max(1)) as usize).min(MOST_AHEAD);
            self.change(unit, |view, depth| *depth = ahead.max(DEVICE_DEPTH * view.spaces.len().max(1)));
        }
    }

    /// Returns, for each unit, the total time spent running tasks.
    pub(super) fn busy_ns(&self) -> &[u64] {
        &self.busy_ns
    }

    /// Notes that a memory is lost.
    pub(super) fn lose(&mut self, space: SpaceId) {
        self.views.iter_mut().for_each(|unit| unit.spaces.retain(|other| *other != space));
    }

    fn change(&mut self, unit: usize, change: impl FnOnce(&mut UnitView, &mut usize)) {
        let (view, depth) = (&mut self.views[unit], &mut self.depth[unit]);
        let before = (view.in_flight < *depth).then_some(view.in_flight);
        change(view, depth);
        let after = (view.in_flight < *depth).then_some(view.in_flight);
        if before != after {
            let id = view.id;
            if let Some(tasks) = before {
                self.with_room[tasks].remove(id);
            }
            if let Some(tasks) = after {
                if self.with_room.len() <= tasks {
                    self.with_room.resize(tasks + 1, UnitSet::default());
                }
                self.with_room[tasks].insert(id);
            }
        }
    }
}

impl Deref for Units {
    type Target = [UnitView];

    fn deref(&self) -> &[UnitView] {
        &self.views
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Topology;

    /// Returns how many tasks a device is given after it has run tasks with this time and share.
    fn given(elapsed_ns: Nanos, share: u32) -> usize {
        let machine = Machine::plan(&"1:EMU:1".parse().unwrap(), None, &Topology::with_cores(4)).unwrap();
        let mut units = Units::new(&machine);
        (0..100).for_each(|_| units.ran(0, elapsed_ns, Some(share)));
        let mut given = 0;
        while units.next_with_room(None, None).is_some() {
            units.give(0);
            given += 1;
        }
        given
    }

    #[test]
    fn device_is_given_as_many_tasks_as_fill_it() {
        assert_eq!(given(1_000_000, 1000), DEVICE_DEPTH, "each of them fills it for a long time");
        assert_eq!(given(10_000, 1000), 20, "short tasks");
        assert_eq!(given(1_000_000, 10), 20, "long tasks that take a hundredth of it each");
        assert_eq!(given(1_000_000, 1), MOST_AHEAD);
    }
}
