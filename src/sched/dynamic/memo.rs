//! Choice of the map that `dynamic` keeps, based on the maps and times of each iteration space's first instances.
//!
//! The choice is made when the first task of a later instance becomes ready. At that point the best complete map is
//! locked; a map is complete if every index has run under it and none of its tasks is unfinished. If no map is
//! complete, none is locked for that space, and every index stays on the unit that last ran it.

use crate::ids::UnitId;
use crate::sched::Position;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// The maps of the first instances of each iteration space.
#[derive(Debug)]
pub(super) struct Memo {
    instances: u64,
    spaces: FxHashMap<u64, Space>,
}

#[derive(Debug)]
enum Space {
    Measures(BTreeMap<u64, Instance>),
    Locked(Vec<Option<UnitId>>),
}

#[derive(Debug, Default)]
struct Instance {
    units: Vec<Option<UnitId>>,
    unit_ns: FxHashMap<UnitId, f64>,
    under_way: usize,
}

impl Instance {
    /// Returns the time of the longest unit; `None` if the instance is incomplete.
    fn longest_ns(&self) -> Option<f64> {
        let complete = self.under_way == 0 && !self.units.is_empty() && self.units.iter().all(Option::is_some);
        complete.then(|| self.unit_ns.values().copied().fold(0.0, f64::max))
    }
}

impl Memo {
    /// Creates a comparison of this many instances; 0 means that the comparison never ends.
    pub(super) fn new(instances: u64) -> Self {
        Self { instances: if instances == 0 { u64::MAX } else { instances }, spaces: FxHashMap::default() }
    }

    /// Returns whether an instance comes after all compared instances.
    pub(super) fn is_past(&self, instance: u64) -> bool {
        instance >= self.instances
    }

    /// Notes that a task is ready. The first task of a later instance locks the map.
    pub(super) fn arrived(&mut self, position: &Position) {
        if !self.is_past(position.instance) {
            return;
        }
        let space = self.spaces.entry(position.space).or_insert_with(|| Space::Locked(Vec::new()));
        if let Space::Measures(instances) = space {
            let complete = instances.values_mut().filter_map(|instance| Some((instance.longest_ns()?, instance)));
            let best = complete.min_by(|(one, _), (other, _)| one.total_cmp(other));
            *space = Space::Locked(best.map_or_else(Vec::new, |(_, best)| std::mem::take(&mut best.units)));
        }
    }

    /// Returns the unit to which an index is locked, if any.
    pub(super) fn unit_of(&self, space: u64, index: usize) -> Option<UnitId> {
        match self.spaces.get(&space)? {
            Space::Locked(units) => *units.get(index)?,
            Space::Measures(_) => None,
        }
    }

    /// Notes that a task goes to `unit`, which owns the task's index.
    pub(super) fn given(&mut self, position: &Position, unit: UnitId) {
        if self.instances == u64::MAX || self.is_past(position.instance) {
            return;
        }
        let space = self.spaces.entry(position.space).or_insert_with(|| Space::Measures(BTreeMap::new()));
        if let Space::Measures(instances) = space {
            let instance = instances.entry(position.instance).or_default();
            instance.units.resize(position.weights.len(), None);
            instance.units[position.index] = Some(unit);
            instance.under_way += 1;
        }
    }

    /// Notes that a task has run.
    pub(super) fn finished(&mut self, position: &Position, unit: UnitId, elapsed_ns: f64) {
        if let Some(Space::Measures(instances)) = self.spaces.get_mut(&position.space)
            && let Some(instance) = instances.get_mut(&position.instance)
            && instance.units[position.index] == Some(unit)
        {
            instance.under_way = instance.under_way.saturating_sub(1);
            *instance.unit_ns.entry(unit).or_default() += elapsed_ns;
        }
    }
}
