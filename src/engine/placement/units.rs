//! The compute units, and which of them have room for another task.
//!
//! A machine may have hundreds of units, and most events concern only one of them. Therefore the units with room are
//! kept in order, the least busy first, and an event that occurs while all units are busy inspects none of them.
//!
//! A device is given tasks until those in its queue fill it, plus a few, so that copies for the next tasks overlap with
//! the running tasks. The share of the device that a task takes is known once its launches are in the queue. So the
//! number of tasks follows what the device runs now, not what it ran before.
//!
//! Invariant: a unit is in `with_room`, at the index given by its number of tasks, exactly as long as it has room.

use crate::engine::Nanos;
use crate::ids::SpaceId;
use crate::machine::{ComputeUnit, Machine};
use crate::sched::{UnitSet, UnitView};
use std::ops::Deref;

/// Number of tasks given to a device even if each of them fills it, so that copies for the next task overlap with the
/// running task.
const DEVICE_DEPTH: usize = 3;
/// Minimum total time of the tasks that fill a device one after the other: if tasks take less than a third of this
/// time, enough tasks are given ahead to fill it.
const AHEAD_NS: Nanos = 200_000;
/// Maximum number of tasks given to a device.
const MOST_AHEAD: usize = 64;
/// Number of tasks given ahead to a CPU unit on a machine with devices, because the task's data may have to come from
/// a device.
const CPU_DEPTH_BESIDE_DEVICES: usize = 2;

/// The units of a machine as seen by policies; see the module documentation.
pub(super) struct Units {
    views: Vec<UnitView>,
    loads: Vec<Load>,
    /// Units with room, indexed by their number of tasks.
    with_room: Vec<UnitSet>,
    /// Total number of tasks on all units.
    in_flight: usize,
    /// Per unit, the total time spent running tasks.
    busy_ns: Vec<u64>,
}

/// The tasks that a unit has and may have.
struct Load {
    /// Number of tasks that the unit may have in any case.
    depth: usize,
    /// Number of tasks in the queues of the unit's devices.
    queued: usize,
    /// Total share of a device that these tasks take, in thousandths.
    share: u64,
    /// Recent mean time of such a task.
    mean_ns: Nanos,
}

impl Load {
    /// Returns whether the unit has room for another task besides `tasks` tasks, given its number of devices.
    fn has_room(&self, tasks: usize, devices: usize) -> bool {
        if tasks < self.depth || self.queued == 0 {
            return tasks < self.depth;
        }
        // Tasks that are not in a queue yet are assumed to be like the tasks in the queues.
        let share = self.share * tasks as u64 / self.queued as u64;
        let in_row = (AHEAD_NS / self.mean_ns.max(1)).max(DEVICE_DEPTH as u64);
        tasks < MOST_AHEAD * devices && share < 1000 * in_row * devices as u64
    }
}

/// A unit with room, as its number of tasks and its index.
pub(super) type Room = (usize, usize);

impl Units {
    pub(super) fn new(machine: &Machine) -> Self {
        let beside_devices = machine.num_devices() > 0;
        let load = |unit: &ComputeUnit| {
            let depth = match unit.is_device() {
                true => DEVICE_DEPTH * unit.devices.len(),
                false if beside_devices => CPU_DEPTH_BESIDE_DEVICES,
                false => 1,
            };
            Load { depth, queued: 0, share: 0, mean_ns: AHEAD_NS }
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
            loads: machine.units().iter().map(load).collect(),
            with_room: vec![idle],
            in_flight: 0,
            busy_ns: vec![0; machine.num_units()],
        }
    }

    /// Lets each CPU unit have at least this many tasks.
    pub(super) fn give_ahead(&mut self, depth: usize) {
        for unit in 0..self.views.len() {
            self.change(unit, |_, load| load.depth = load.depth.max(depth));
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

    /// Notes that a task of a unit is in its device's queue, and takes this share of the device, in thousandths.
    pub(super) fn queued(&mut self, unit: usize, share: u32) {
        self.change(unit, |_, load| (load.queued, load.share) = (load.queued + 1, load.share + u64::from(share)));
    }

    /// Notes that a unit has one task fewer. If the task was in its device's queue, `queued` is its share.
    pub(super) fn take(&mut self, unit: usize, queued: Option<u32>) {
        self.in_flight -= 1;
        self.change(unit, |view, load| {
            view.in_flight -= 1;
            if let Some(share) = queued {
                (load.queued, load.share) = (load.queued - 1, load.share - u64::from(share));
            }
        });
    }

    /// Notes that a unit has run a task for this long, possibly in a device's queue.
    pub(super) fn ran(&mut self, unit: usize, elapsed_ns: Nanos, was_queued: bool) {
        self.busy_ns[unit] += elapsed_ns;
        if was_queued {
            self.change(unit, |_, load| load.mean_ns = (load.mean_ns * 7 + elapsed_ns) / 8);
        }
    }

    /// Returns, for each unit, the total time spent running tasks.
    pub(super) fn busy_ns(&self) -> &[u64] {
        &self.busy_ns
    }

    /// Notes that a memory is lost.
    pub(super) fn lose(&mut self, space: SpaceId) {
        (0..self.views.len()).for_each(|n| self.change(n, |unit, _| unit.spaces.retain(|other| *other != space)));
    }

    fn change(&mut self, unit: usize, change: impl FnOnce(&mut UnitView, &mut Load)) {
        let (view, load) = (&mut self.views[unit], &mut self.loads[unit]);
        let room = |view: &UnitView, load: &Load| {
            let has_room = load.has_room(view.in_flight, view.spaces.len().max(1));
            has_room.then_some(view.in_flight)
        };
        let before = room(view, load);
        change(view, load);
        let after = room(view, load);
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

    fn device() -> Units {
        let machine = Machine::plan(&"1:EMU:1".parse().unwrap(), None, &Topology::with_cores(4)).unwrap();
        Units::new(&machine)
    }

    /// Gives the device as many tasks as it has room for. The queue gets the share of each at once. Returns how many
    /// these are.
    fn fill(units: &mut Units, mut share: impl FnMut(usize) -> u32) -> usize {
        let mut given = 0;
        while units.next_with_room(None, None).is_some() {
            units.give(0);
            units.queued(0, share(given));
            given += 1;
        }
        given
    }

    /// Returns how many tasks a device is given that has run tasks of this time, if each takes this share.
    fn given(elapsed_ns: Nanos, share: u32) -> usize {
        let mut units = device();
        (0..100).for_each(|_| units.ran(0, elapsed_ns, true));
        fill(&mut units, |_| share)
    }

    #[test]
    fn device_is_given_as_many_tasks_as_fill_it() {
        assert_eq!(given(1_000_000, 1000), DEVICE_DEPTH, "each of them fills it for a long time");
        assert_eq!(given(10_000, 1000), 20, "short tasks");
        assert_eq!(given(1_000_000, 50), 60, "long tasks that take a twentieth of it each");
        assert_eq!(given(1_000_000, 1), MOST_AHEAD);
    }

    #[test]
    fn wide_task_among_narrow_ones_leaves_room_for_them() {
        for wide in 0..25 {
            let given = fill(&mut device(), |number| if number % 25 == wide { 1000 } else { 5 });
            assert!(given >= 50, "{given} with a wide task at {wide}");
        }
    }

    #[test]
    fn number_of_tasks_follows_the_tasks_in_the_queue() {
        let mut units = device();
        assert_eq!(fill(&mut units, |_| 1000), DEVICE_DEPTH);
        for _ in 0..DEVICE_DEPTH {
            units.take(0, Some(1000));
            units.ran(0, 1_000_000, true);
        }
        assert_eq!(fill(&mut units, |_| 10), MOST_AHEAD, "the wide tasks have ended");
        for _ in 0..MOST_AHEAD {
            units.take(0, Some(10));
        }
        (0..DEVICE_DEPTH).for_each(|_| units.give(0));
        assert_eq!(units.next_with_room(None, None), None, "no share is known, as on a device without a queue");
    }
}
