//! The least busy unit of each class of identical units.
//!
//! Units of one kind with the same memories are *alike*: a task takes equally long on each of them, and each lacks the
//! same bytes of its data. So a policy that looks for the best unit compares only the least busy unit of each class.
//! The number of classes is the number of combinations of memories and kinds, which does not grow with the number of
//! cores.
//!
//! Units of one class differ only in load, which the owner of the classes keeps up to date. A tournament tree finds the
//! least busy unit: when a load changes, the comparisons on one path to the root are repeated, which takes log2 n
//! comparisons for a class of n units.

use super::{UnitView, View};
use crate::ids::{SpaceId, UnitId};
use crate::machine::UnitKind;
use std::sync::Arc;

/// The loads of all units, with the least busy unit of each class.
#[derive(Debug)]
pub(super) struct Alike<L> {
    loads: Vec<L>,
    /// One entry for each set of units that some tasks run on. There are few such sets.
    sets: Vec<Set>,
}

/// A set of units that some tasks run on.
#[derive(Debug)]
struct Set {
    units: Arc<[bool]>,
    classes: Vec<Class>,
    /// For each unit, its class and its index in that class.
    places: Vec<Option<(usize, usize)>>,
}

/// A class of identical units, sorted by ID.
#[derive(Debug)]
struct Class {
    kind: UnitKind,
    spaces: Vec<SpaceId>,
    units: Vec<UnitId>,
    /// The tournament tree. Each node holds the less busy of its two children. Node 1 is the root, node `k` has the
    /// children `2k` and `2k + 1`, and the leaves, which begin at the number of units, are the units.
    winners: Vec<usize>,
}

impl Class {
    /// Returns the winner at a tree node.
    fn winner(&self, node: usize) -> usize {
        node.checked_sub(self.units.len()).unwrap_or_else(|| self.winners[node])
    }

    /// Repeats the comparisons from a unit whose load has changed up to the root.
    fn play<L: Ord + Copy>(&mut self, number: usize, load: &impl Fn(UnitId) -> L) {
        let mut node = (number + self.units.len()) / 2;
        while node > 0 {
            let key = |number: &usize| (load(self.units[*number]), *number);
            self.winners[node] =
                [2 * node, 2 * node + 1].map(|below| self.winner(below)).into_iter().min_by_key(key).unwrap_or(number);
            node /= 2;
        }
    }

    fn least(&self) -> UnitId {
        self.units[self.winner(1)]
    }
}

impl<L> Default for Alike<L> {
    fn default() -> Self {
        Self { loads: Vec::new(), sets: Vec::new() }
    }
}

impl<L: Ord + Copy + Default> Alike<L> {
    /// Returns a unit's load.
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
        let Self { loads, sets } = self;
        let load = |unit: UnitId| loads.get(unit.index()).copied().unwrap_or_default();
        for set in sets {
            if let Some(&Some((class, number))) = set.places.get(unit.index()) {
                set.classes[class].play(number, &load);
            }
        }
    }

    /// Returns the least busy unit of each class among the units that a task can run on. Among equals, the first unit
    /// wins.
    pub(super) fn least<'a>(&mut self, on: &Arc<[bool]>, view: &View<'a>) -> impl Iterator<Item = (L, &'a UnitView)> {
        let (units, set) = (view.units, self.set_of(on, view.units));
        let least = self.sets[set].classes.iter().map(Class::least);
        least.map(|unit| (self.load(unit), &units[unit.index()]))
    }

    fn set_of(&mut self, on: &Arc<[bool]>, units: &[UnitView]) -> usize {
        let known = self.sets.iter().position(|set| Arc::ptr_eq(&set.units, on));
        let known = known.or_else(|| self.sets.iter().position(|set| set.units == *on));
        known.unwrap_or_else(|| {
            let (mut classes, mut places): (Vec<Class>, _) = (Vec::new(), vec![None; on.len()]);
            for unit in units.iter().filter(|unit| on[unit.id.index()]) {
                let known = classes.iter().position(|class| class.kind == unit.kind && class.spaces == unit.spaces);
                let class = known.unwrap_or_else(|| {
                    let (kind, spaces) = (unit.kind, unit.spaces.clone());
                    classes.push(Class { kind, spaces, units: Vec::new(), winners: Vec::new() });
                    classes.len() - 1
                });
                places[unit.id.index()] = Some((class, classes[class].units.len()));
                classes[class].units.push(unit.id);
            }
            for class in &mut classes {
                class.winners = vec![0; class.units.len()];
                (0..class.units.len()).rev().for_each(|number| class.play(number, &|unit| self.load(unit)));
            }
            self.sets.push(Set { units: on.clone(), classes, places });
            self.sets.len() - 1
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn best_of_the_least_busy_is_best_of_all(
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
