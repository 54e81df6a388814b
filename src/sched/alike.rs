//! The least busy of the units that are alike.
//!
//! Units of one kind with the same memories are *alike*: a task takes equally long there, and lacks the same bytes. So
//! a policy that looks for the best unit compares the least busy of each class of them, and not all: there are as many
//! classes as a machine has memories and kinds, whatever the number of its cores.
//!
//! What tells units of a class apart is only their load, which whoever has the classes keeps up to date.

use super::{UnitView, View};
use crate::ids::{SpaceId, UnitId};
use crate::machine::UnitKind;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The units of a machine by their loads.
#[derive(Debug)]
pub(super) struct Alike<L> {
    loads: Vec<L>,
    /// For each set of units that tasks run on: a few.
    sets: Vec<Set<L>>,
}

/// Units that some tasks run on.
#[derive(Debug)]
struct Set<L> {
    units: Arc<[bool]>,
    classes: Vec<Class<L>>,
}

#[derive(Debug)]
struct Class<L> {
    kind: UnitKind,
    spaces: Vec<SpaceId>,
    by_load: BTreeSet<(L, UnitId)>,
}

impl<L> Default for Alike<L> {
    fn default() -> Self {
        Self { loads: Vec::new(), sets: Vec::new() }
    }
}

impl<L: Ord + Copy + Default> Alike<L> {
    /// A unit's load.
    pub(super) fn load(&self, unit: UnitId) -> L {
        self.loads.get(unit.index()).copied().unwrap_or_default()
    }

    /// Changes a unit's load.
    pub(super) fn change(&mut self, unit: UnitId, change: impl FnOnce(&mut L)) {
        if self.loads.len() <= unit.index() {
            self.loads.resize(unit.index() + 1, L::default());
        }
        let load = &mut self.loads[unit.index()];
        let before = *load;
        change(load);
        if *load == before {
            return;
        }
        for class in self.sets.iter_mut().flat_map(|set| &mut set.classes) {
            if class.by_load.remove(&(before, unit)) {
                class.by_load.insert((*load, unit));
            }
        }
    }

    /// The least busy unit of each class among those that a task runs on; of equals the first.
    pub(super) fn least<'a>(&mut self, on: &Arc<[bool]>, view: &View<'a>) -> impl Iterator<Item = (L, &'a UnitView)> {
        let units = view.units;
        let classes = &self.set_of(on, units).classes;
        classes.iter().filter_map(|class| class.by_load.first()).map(|(load, unit)| (*load, &units[unit.index()]))
    }

    fn set_of(&mut self, on: &Arc<[bool]>, units: &[UnitView]) -> &Set<L> {
        let known = self.sets.iter().position(|set| Arc::ptr_eq(&set.units, on));
        let known = known.or_else(|| self.sets.iter().position(|set| set.units == *on));
        let index = known.unwrap_or_else(|| {
            let mut classes: Vec<Class<L>> = Vec::new();
            for unit in units.iter().filter(|unit| on[unit.id.index()]) {
                let entry = (self.load(unit.id), unit.id);
                match classes.iter_mut().find(|class| class.kind == unit.kind && class.spaces == unit.spaces) {
                    Some(class) => _ = class.by_load.insert(entry),
                    None => {
                        let (kind, spaces, by_load) = (unit.kind, unit.spaces.clone(), BTreeSet::from([entry]));
                        classes.push(Class { kind, spaces, by_load });
                    }
                }
            }
            self.sets.push(Set { units: on.clone(), classes });
            self.sets.len() - 1
        });
        &self.sets[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_best_of_the_least_busy_is_the_best_of_all(
            machine in prop::collection::vec((0..3u16, any::<bool>()), 1..12),
            changes in prop::collection::vec((0..12usize, 0..5u32, 0..3u16, any::<u16>()), 1..40),
        ) {
            let kind = |emulated| if emulated { UnitKind::Emulated } else { UnitKind::Cpu };
            let unit = |(id, (space, emulated)): (usize, &(u16, bool))| {
                UnitView { id: UnitId(id as u16), kind: kind(*emulated), spaces: vec![SpaceId(*space)], in_flight: 0 }
            };
            let units: Vec<UnitView> = machine.iter().enumerate().map(unit).collect();
            let view = View { units: &units, missing_bytes: &|_, _| 0 };
            let (mut alike, mut loads) = (Alike::default(), vec![0; units.len()]);
            for (at, load, near, on) in changes {
                let at = at % units.len();
                loads[at] = load;
                alike.change(UnitId(at as u16), |known| *known = load);
                let cost = |unit: &UnitView| (unit.kind, unit.spaces[0].0.abs_diff(near));
                let on: Arc<[bool]> = (0..units.len()).map(|id| on >> (id % 4) & 1 == 1).collect();
                let found = alike.least(&on, &view).map(|(load, unit)| (cost(unit), load, unit.id)).min();
                let all = units.iter().filter(|unit| on[unit.id.index()]);
                prop_assert_eq!(found, all.map(|unit| (cost(unit), loads[unit.id.index()], unit.id)).min());
            }
        }
    }
}
