//! A set of units.

use crate::ids::UnitId;
use smallvec::SmallVec;

/// A set of units, stored by unit ID.
///
/// ```
/// use thalweg::ids::UnitId;
/// use thalweg::sched::UnitSet;
/// let mut units = UnitSet::default();
/// units.insert(UnitId(3));
/// units.insert(UnitId(70));
/// units.remove(UnitId(3));
/// assert!(units.contains(UnitId(70)) && !units.contains(UnitId(3)));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnitSet(SmallVec<[u64; 2]>);

fn place(unit: usize) -> (usize, u64) {
    (unit / 64, 1 << (unit % 64))
}

impl UnitSet {
    /// Adds a unit.
    pub fn insert(&mut self, unit: UnitId) {
        let (word, bit) = place(unit.index());
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= bit;
    }

    /// Removes a unit.
    pub fn remove(&mut self, unit: UnitId) {
        let (word, bit) = place(unit.index());
        if let Some(word) = self.0.get_mut(word) {
            *word &= !bit;
        }
    }

    /// Returns whether the set contains a unit.
    pub fn contains(&self, unit: UnitId) -> bool {
        let (word, bit) = place(unit.index());
        self.0.get(word).is_some_and(|word| word & bit != 0)
    }

    /// Adds all units of another set.
    pub fn extend(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word |= other);
    }

    /// Returns the units in the order of their ids.
    pub(crate) fn iter(&self) -> impl Iterator<Item = UnitId> {
        let next = |unit: &usize| self.first_from(unit + 1, None);
        std::iter::successors(self.first_from(0, None), next).map(|unit| UnitId(unit as u16))
    }

    /// Returns the first unit from `start` on that is in this set and, if `others` is given, also in `others`.
    pub(crate) fn first_from(&self, start: usize, others: Option<&Self>) -> Option<usize> {
        let first = start / 64;
        for (at, word) in self.0.iter().enumerate().skip(first) {
            let mut word = *word & others.map_or(u64::MAX, |others| others.0.get(at).copied().unwrap_or(0));
            if at == first {
                word &= u64::MAX << (start % 64);
            }
            if word != 0 {
                return Some(at * 64 + word.trailing_zeros() as usize);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn operations_match_a_set_of_numbers(
            one in prop::collection::btree_set(0..200u16, 0..20),
            other in prop::collection::btree_set(0..200u16, 0..20),
            start in 0..200usize,
        ) {
            let set = |numbers: &BTreeSet<u16>| {
                let mut set = UnitSet::default();
                numbers.iter().for_each(|number| set.insert(UnitId(*number)));
                set
            };
            let first = |numbers: &mut dyn Iterator<Item = &u16>| numbers.map(|n| usize::from(*n)).find(|n| *n >= start);
            prop_assert_eq!(set(&one).first_from(start, None), first(&mut one.iter()));
            prop_assert_eq!(set(&one).first_from(start, Some(&set(&other))), first(&mut one.intersection(&other)));
            let mut both = set(&one);
            both.extend(&set(&other));
            prop_assert!((0..200).all(|n| both.contains(UnitId(n)) == (one.contains(&n) || other.contains(&n))));
            one.iter().for_each(|number| both.remove(UnitId(*number)));
            prop_assert!((0..200).all(|n| both.contains(UnitId(n)) == (!one.contains(&n) && other.contains(&n))));
        }
    }
}
