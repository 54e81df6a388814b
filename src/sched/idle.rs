//! The idle units that may take a task from the queue of another unit.
//!
//! If one unit finds no such task, neither do those like it: units of one kind with the same memories. So a class of
//! such units *rests* until some unit's speed changes. On a machine whose speeds stay the same, no class ever wakes.

use super::{UnitSet, UnitView};
use crate::ids::{SpaceId, UnitId};
use crate::machine::UnitKind;

/// Idle units by class; see the module documentation.
#[derive(Debug, Default)]
pub(super) struct Idle {
    class_of: Vec<usize>,
    classes: Vec<Class>,
    /// Number of changes of speeds so far.
    changes: u64,
}

/// A class of identical units.
#[derive(Debug)]
struct Class {
    kind: UnitKind,
    spaces: Vec<SpaceId>,
    idle: UnitSet,
    /// The number of changes when one of its units last found no task.
    rests_at: u64,
}

impl Idle {
    /// Adds a unit. Units are numbered in the order in which they are added.
    pub(super) fn add(&mut self, unit: &UnitView) {
        let alike = |class: &Class| class.kind == unit.kind && class.spaces == unit.spaces;
        let class = self.classes.iter().position(alike).unwrap_or_else(|| {
            let (kind, spaces) = (unit.kind, unit.spaces.clone());
            self.classes.push(Class { kind, spaces, idle: UnitSet::default(), rests_at: 0 });
            self.classes.len() - 1
        });
        self.class_of.push(class);
        self.in_flight(unit.id, unit.in_flight);
    }

    /// Notes how many unfinished tasks a unit has been given.
    pub(super) fn in_flight(&mut self, unit: UnitId, tasks: usize) {
        let Some(class) = self.class_of.get(unit.index()) else { return }; // `add` notes it
        let idle = &mut self.classes[*class].idle;
        if tasks == 0 { idle.insert(unit) } else { idle.remove(unit) }
    }

    /// Notes that a unit has found no task to take.
    pub(super) fn rest(&mut self, unit: UnitId) {
        if let Some(class) = self.class_of.get(unit.index()) {
            self.classes[*class].rests_at = self.changes;
        }
    }

    /// Notes that a unit's speed has changed.
    pub(super) fn wake(&mut self) {
        self.changes += 1;
    }

    /// Returns whether a unit is idle and may find a task to take.
    pub(super) fn may_take(&self, unit: UnitId) -> bool {
        let class = self.class_of.get(unit.index()).map(|class| &self.classes[*class]);
        class.is_some_and(|class| !self.rests(class) && class.idle.contains(unit))
    }

    /// Adds the units that may find a task to take.
    pub(super) fn extend(&self, units: &mut UnitSet) {
        self.classes.iter().filter(|class| !self.rests(class)).for_each(|class| units.extend(&class.idle));
    }

    fn rests(&self, class: &Class) -> bool {
        class.rests_at == self.changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn class_rests_until_a_speed_changes() {
        let unit = |id, kind, in_flight| UnitView { id: UnitId(id), kind, spaces: vec![SpaceId::HOST], in_flight };
        let mut idle = Idle::default();
        idle.in_flight(UnitId(0), 1);
        for (id, kind, in_flight) in [(0, UnitKind::Cpu, 0), (1, UnitKind::Cpu, 1), (2, UnitKind::Gpu, 0)] {
            idle.add(&unit(id, kind, in_flight));
        }
        let may_take = |idle: &Idle| {
            let mut units = UnitSet::default();
            idle.extend(&mut units);
            let one_by_one: Vec<u16> = (0..4).filter(|unit| idle.may_take(UnitId(*unit))).collect();
            assert_eq!(units.iter().map(|unit| unit.0).collect::<Vec<_>>(), one_by_one);
            one_by_one
        };
        assert_eq!(may_take(&idle), [0u16; 0], "no speed has changed");
        idle.wake();
        assert_eq!(may_take(&idle), [0, 2]);
        idle.rest(UnitId(0));
        idle.in_flight(UnitId(1), 0);
        assert_eq!(may_take(&idle), [2], "unit 1 is like unit 0");
        idle.wake();
        assert_eq!(may_take(&idle), [0, 1, 2]);
        idle.in_flight(UnitId(0), 1);
        assert_eq!(may_take(&idle), [1, 2]);
    }
}
