//! The unit on which each index of an iteration space last ran, with counts of how often that unit changed.
//!
//! Any policy can use this table, which remembers and counts but decides nothing. If an index goes to the same unit as
//! in the previous instance, this is a hit, because its data are already there. If it goes to another unit, this is a
//! migration, and the bytes that must be copied because of it are counted too.

use super::{Position, ReadyTask};
use crate::ids::UnitId;
use rustc_hash::FxHashMap;
use std::ops::AddAssign;

/// Counts that show how well a policy kept indices where their data were.
///
/// ```
/// use thalweg::sched::{Affinity, AffinityStatistics};
/// let mut total = AffinityStatistics::default();
/// total += Affinity::new().statistics();
/// assert_eq!((total.hits, total.migrations, total.migrated_bytes), (0, 0, 0));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct AffinityStatistics {
    /// Number of times an index went to the same unit as in the previous instance.
    pub hits: u64,
    /// Number of times an index went to another unit.
    pub migrations: u64,
    /// Number of bytes of migrated indices' data that were missing on the new unit.
    pub migrated_bytes: u64,
}

impl AddAssign for AffinityStatistics {
    fn add_assign(&mut self, other: Self) {
        self.hits += other.hits;
        self.migrations += other.migrations;
        self.migrated_bytes += other.migrated_bytes;
    }
}

/// The unit on which each index of each iteration space last ran.
///
/// ```
/// use thalweg::ids::UnitId;
/// use thalweg::sched::{Affinity, Position};
/// let at = |instance| Position { space: 0, index: 2, instance, weights: vec![1.0; 4].into(), neighbours: None };
/// let mut affinity = Affinity::new();
/// for (instance, unit) in [(0, 1), (1, 1), (2, 0)] {
///     affinity.note(&at(instance), UnitId(unit), || 4096);
/// }
/// assert_eq!(affinity.unit_of(0, 2), Some(UnitId(0)));
/// let counts = affinity.statistics();
/// assert_eq!((counts.hits, counts.migrations, counts.migrated_bytes), (1, 1, 4096));
/// ```
#[derive(Debug, Default)]
pub struct Affinity {
    last: FxHashMap<u64, Vec<Option<Last>>>,
    statistics: AffinityStatistics,
}

#[derive(Debug, Clone, Copy)]
struct Last {
    unit: UnitId,
    instance: u64,
    migrated: bool,
}

impl Affinity {
    /// Creates an empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the unit on which an index last ran.
    pub fn unit_of(&self, space: u64, index: usize) -> Option<UnitId> {
        self.last.get(&space)?.get(index)?.map(|last| last.unit)
    }

    /// Returns the unit that last ran the index near which the task is placed, if the task can run on that unit.
    pub fn unit_beside(&self, task: &ReadyTask) -> Option<UnitId> {
        let near = task.near?;
        self.unit_of(near.space, near.index).filter(|unit| task.runs_on(*unit))
    }

    /// Returns the unit that owns the position's index in the position's instance, or owned it in a later instance.
    pub fn unit_in(&self, position: &Position) -> Option<UnitId> {
        let last = (*self.last.get(&position.space)?.get(position.index)?)?;
        (last.instance >= position.instance).then_some(last.unit)
    }

    /// Notes that a task goes to `unit`. `missing_bytes` returns how many bytes of the task's data are missing there.
    pub fn note(&mut self, position: &Position, unit: UnitId, missing_bytes: impl FnOnce() -> u64) {
        let indices = self.last.entry(position.space).or_default();
        if indices.len() <= position.index {
            indices.resize(position.weights.len().max(position.index + 1), None);
        }
        let last = &mut indices[position.index];
        let migrated = match *last {
            // This is another task of the same index and instance.
            Some(before) if before.instance >= position.instance && before.unit == unit => before.migrated,
            Some(before) if before.unit == unit => {
                self.statistics.hits += 1;
                false
            }
            Some(_) => {
                self.statistics.migrations += 1;
                true
            }
            None => false,
        };
        if migrated {
            self.statistics.migrated_bytes += missing_bytes();
        }
        let instance = last.map_or(position.instance, |before| before.instance.max(position.instance));
        *last = Some(Last { unit, instance, migrated });
    }

    /// Returns the counts so far.
    pub fn statistics(&self) -> AffinityStatistics {
        self.statistics
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_migrations_and_bytes() {
        let position =
            |index, instance| Position { space: 7, index, instance, weights: vec![1.0; 3].into(), neighbours: None };
        let mut affinity = Affinity::new();
        assert_eq!(affinity.unit_of(7, 0), None);
        affinity.note(&position(0, 0), UnitId(1), || 10); // the first time: neither a hit nor a migration
        affinity.note(&position(0, 0), UnitId(1), || 10); // the same instance
        assert_eq!(affinity.statistics(), AffinityStatistics::default());
        affinity.note(&position(0, 1), UnitId(1), || 10);
        affinity.note(&position(0, 2), UnitId(2), || 10);
        affinity.note(&position(0, 2), UnitId(2), || 5); // more data of the migrated index
        affinity.note(&position(0, 3), UnitId(2), || 10);
        affinity.note(&position(2, 0), UnitId(0), || 10);
        let expected = AffinityStatistics { hits: 2, migrations: 1, migrated_bytes: 15 };
        assert_eq!((affinity.statistics(), affinity.unit_of(7, 0)), (expected, Some(UnitId(2))));
        assert_eq!(
            (affinity.unit_of(7, 1), affinity.unit_of(7, 2), affinity.unit_of(8, 0)),
            (None, Some(UnitId(0)), None)
        );
    }
}
