//! `stealing`: one queue per unit. Tasks are queued where their data are, and idle units steal from the longest queue.
//!
//! On a machine with only CPU units this policy is never asked, because every core reaches all data equally well and
//! the runtime's deques do the same without a lock (the fast path). With devices, the choice depends on the data that
//! would have to move.

use super::alike::Alike;
use super::{Policy, ReadyTask, View};
use crate::ids::{TaskId, UnitId};
use std::cmp::Reverse;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// Locality first, then work stealing.
///
/// A thief considers only tasks that it can run, because tasks that run on different sets of units have separate
/// queues. There is one class of queues for each combination of bodies and of memories that tasks fit into, so there
/// are few classes.
///
/// ```
/// use thalweg::prelude::*;
/// use thalweg::sched::{Policy, ReadyTask, Stealing, UnitView, View};
/// let units = [0, 1].map(|id| UnitView { id: UnitId(id), kind: UnitKind::Cpu, spaces: vec![SpaceId::HOST], in_flight: 0 });
/// let view = View::new(&units, &|_, _| 0);
/// let mut policy = Stealing::new(2);
/// policy.ready(ReadyTask::new(TaskId(0), "t", [true, true]), &view); // queued at unit 0
/// assert_eq!(policy.next(UnitId(1), &view), Some(TaskId(0))); // unit 0 has not run it yet
/// ```
#[derive(Debug)]
pub struct Stealing {
    classes: Vec<Class>,
    /// Number of queued tasks of each unit, over all classes.
    lens: Vec<usize>,
    /// Number of queued tasks of each unit, plus the tasks given to the unit.
    loads: Alike<usize>,
    arrived: u64,
}

/// A class of tasks that run on the same set of units.
#[derive(Debug)]
struct Class {
    units: Arc<[bool]>,
    /// The queue of each unit, sorted in ascending order.
    queues: Vec<VecDeque<Queued>>,
    /// The units that have tasks of this class, sorted by their number of tasks in all classes.
    fullest: BTreeSet<(usize, Reverse<usize>)>,
}

/// A task ID with its rank: [`ReadyTask::order`], then arrival.
type Queued = (((Reverse<i32>, bool), u64), TaskId);

impl Stealing {
    /// Creates the policy for this many units.
    pub fn new(units: usize) -> Self {
        Self { classes: Vec::new(), lens: vec![0; units], loads: Alike::default(), arrived: 0 }
    }

    /// Returns the class of tasks that run on these units.
    fn class_of(&mut self, units: &Arc<[bool]>) -> usize {
        let same = |class: &Class| Arc::ptr_eq(&class.units, units);
        let known = self.classes.iter().position(same);
        let known = known.or_else(|| self.classes.iter().position(|class| class.units == *units));
        known.unwrap_or_else(|| {
            let queues = vec![VecDeque::new(); self.lens.len()];
            self.classes.push(Class { units: units.clone(), queues, fullest: BTreeSet::new() });
            self.classes.len() - 1
        })
    }

    /// Adds or removes one task in a unit's queue of one class.
    fn change<R>(&mut self, class: usize, unit: usize, change: impl FnOnce(&mut VecDeque<Queued>) -> R) -> R {
        let before = self.classes[class].queues[unit].len();
        let changed = change(&mut self.classes[class].queues[unit]);
        let len = self.lens[unit];
        self.lens[unit] = len + self.classes[class].queues[unit].len() - before;
        let entry = |len| (len, Reverse(unit));
        for class in &mut self.classes {
            class.fullest.remove(&entry(len));
            if !class.queues[unit].is_empty() {
                class.fullest.insert(entry(self.lens[unit]));
            }
        }
        let now = self.lens[unit];
        self.loads.change(UnitId(unit as u16), |load| *load = *load + now - len);
        changed
    }

    /// Returns, among the classes that `thief` can run, the class whose task is last in the victim's queues.
    fn last_of(&self, victim: usize, thief: UnitId) -> Option<usize> {
        let last = |index: &usize| self.classes[*index].queues[victim].back().copied();
        let stealable = (0..self.classes.len()).filter(|index| self.classes[*index].units[thief.index()]);
        stealable.filter(|index| last(index).is_some()).max_by_key(last)
    }
}

impl Policy for Stealing {
    fn name(&self) -> &'static str {
        "stealing"
    }

    fn ready(&mut self, task: ReadyTask, view: &View<'_>) {
        let cost = |(load, unit): &(usize, &super::UnitView)| {
            let missing = unit.spaces.iter().map(|space| view.missing_bytes(task.id, *space)).min();
            (missing, *load, unit.id)
        };
        let Some((_, unit)) = self.loads.least(&task.units, view).min_by_key(cost) else { return };
        let rank = (task.order(), self.arrived);
        self.arrived += 1;
        let class = self.class_of(&task.units);
        self.change(class, unit.id.index(), |queue| {
            if queue.back().is_none_or(|(last, _)| *last < rank) {
                return queue.push_back((rank, task.id));
            }
            let position = queue.partition_point(|(other, _)| *other < rank);
            queue.insert(position, (rank, task.id));
        });
    }

    fn next(&mut self, unit: UnitId, view: &View<'_>) -> Option<TaskId> {
        let own = unit.index();
        if self.lens[own] > 0 {
            let classes = (0..self.classes.len()).filter(|class| !self.classes[*class].queues[own].is_empty());
            let first = classes.min_by_key(|class| self.classes[*class].queues[own].front().copied())?;
            return self.change(first, own, VecDeque::pop_front).map(|(_, task)| task);
        }
        // A device steals only when it has no task at all, because other units could start immediately the tasks that
        // it would queue ahead.
        if view.units[own].in_flight > 0 {
            return None;
        }
        let victims = self.classes.iter().filter(|class| class.units[own]).filter_map(|class| class.fullest.last());
        let (_, Reverse(victim)) = *victims.max()?;
        // Steals from the far end, that is, the task that the victim would run last.
        let class = self.last_of(victim, unit)?;
        self.change(class, victim, VecDeque::pop_back).map(|(_, task)| task)
    }

    fn in_flight(&mut self, unit: UnitId, tasks: usize) {
        let load = self.lens[unit.index()] + tasks;
        self.loads.change(unit, |known| *known = load);
    }

    fn fast_path(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::SpaceId;
    use crate::machine::UnitKind;
    use crate::sched::UnitView;

    fn units() -> Vec<UnitView> {
        let unit = |id, kind, space| UnitView { id: UnitId(id), kind, spaces: vec![SpaceId(space)], in_flight: 0 };
        vec![unit(0, UnitKind::Cpu, 0), unit(1, UnitKind::Emulated, 1), unit(2, UnitKind::Emulated, 2)]
    }

    fn task(id: u64, on: [bool; 3]) -> ReadyTask {
        ReadyTask::of(id, &on)
    }

    #[test]
    fn tasks_go_to_their_data_and_only_capable_units_steal_them() {
        let units = units();
        let missing = |task: TaskId, space: SpaceId| if task.0 % 3 == u64::from(space.0) { 0 } else { 100 };
        let view = View { units: &units, missing_bytes: &missing };
        let mut policy = Stealing::new(3);
        for id in [2, 5, 8] {
            policy.ready(task(id, [id != 8, true, true]), &view);
        }
        assert_eq!(policy.next(UnitId(2), &view), Some(TaskId(2)), "the first of its own tasks");
        assert_eq!(policy.next(UnitId(0), &view), Some(TaskId(5)), "stolen: task 8 has no body for a CPU unit");
        assert_eq!(policy.next(UnitId(0), &view), None);
        assert_eq!(policy.next(UnitId(1), &view), Some(TaskId(8)));
    }

    #[test]
    fn urgent_tasks_come_first_and_equals_in_order() {
        let units = units();
        let view = View { units: &units, missing_bytes: &|_, space| u64::from(space.0) };
        let mut policy = Stealing::new(3);
        for (id, priority) in [(0, 0), (1, 5), (2, 0), (3, 5)] {
            policy.ready(ReadyTask { priority, ..task(id, [true; 3]) }, &view);
        }
        let order: Vec<_> = std::iter::from_fn(|| policy.next(UnitId(0), &view)).map(|task| task.0).collect();
        assert_eq!(order, [1, 3, 0, 2]);
    }

    #[test]
    fn urgency_and_arrival_count_across_classes() {
        let units = units();
        let view = View { units: &units, missing_bytes: &|_, space| u64::from(space.0 != 1) };
        let mut policy = Stealing::new(3);
        let on = [[false, true, true], [false, true, false], [false, true, true], [true, true, false]];
        for (id, priority) in [(0, 0), (1, 0), (2, 1), (3, 0)] {
            policy.ready(ReadyTask { priority, ..task(id as u64, on[id]) }, &view);
        }
        assert_eq!(policy.next(UnitId(2), &view), Some(TaskId(0)), "the last task that it can run");
        let order: Vec<_> = std::iter::from_fn(|| policy.next(UnitId(1), &view)).map(|task| task.0).collect();
        assert_eq!(order, [2, 1, 3]);
    }
}
