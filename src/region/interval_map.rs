//! A map from disjoint one-dimensional intervals to values.
//!
//! A map that has never been split is a single value without an allocation, because most data objects are always used
//! as a whole. Otherwise the intervals are in the [`Leaves`] of a tree.

use super::leaves::Leaves;
use std::ops::Range;

/// Maximum number of parts inside one block that stay separate after the whole block has been written. The number is
/// small because uniting and splitting parts again are cheap in this map.
pub(super) const PARTS_LEFT_APART: usize = 6;

/// Values of disjoint intervals that together cover one range.
#[derive(Debug)]
pub(crate) struct IntervalMap<V> {
    parts: Parts<V>,
}

#[derive(Debug)]
enum Parts<V> {
    One(Range<usize>, V),
    Many(Leaves<V>),
}

impl<V: Clone> IntervalMap<V> {
    /// Makes a map of one interval with one value.
    pub(crate) fn new(whole: Range<usize>, value: V) -> Self {
        Self { parts: Parts::One(whole, value) }
    }

    /// Returns the value if the map has a single, non-empty interval with these ends.
    #[inline]
    pub(super) fn undivided(&mut self, start: usize, end: usize) -> Option<&mut V> {
        match &mut self.parts {
            Parts::One(whole, value) if whole.start == start && whole.end == end && start < end => Some(value),
            Parts::One(..) | Parts::Many(_) => None,
        }
    }

    /// Returns the value of the interval after the one visited last, if that interval has these ends.
    #[inline]
    pub(super) fn next_if(&mut self, start: usize, end: usize) -> Option<&mut V> {
        match &mut self.parts {
            Parts::Many(leaves) => leaves.next_if(start, end),
            Parts::One(..) => None,
        }
    }

    /// Visits every interval inside `range` in ascending order, after splitting those that cross its ends.
    #[inline]
    pub(crate) fn visit(&mut self, range: Range<usize>, mut visit: impl FnMut(Range<usize>, &mut V)) {
        if range.is_empty() {
            return;
        }
        if let Parts::One(whole, value) = &mut self.parts {
            if range == *whole {
                visit(range, value);
                return;
            }
            self.parts = Parts::Many(Leaves::new(whole.clone(), value.clone()));
        }
        let Parts::Many(leaves) = &mut self.parts else { unreachable!("made so above") };
        leaves.visit(range, visit);
    }

    /// Visits every interval that overlaps `range`, in ascending order; the visitor sees the overlap.
    pub(crate) fn peek(&self, range: Range<usize>, mut visit: impl FnMut(Range<usize>, &V)) {
        if range.is_empty() {
            return;
        }
        match &self.parts {
            Parts::One(whole, value) => {
                let (lo, hi) = (whole.start.max(range.start), whole.end.min(range.end));
                if lo < hi {
                    visit(lo..hi, value);
                }
            }
            Parts::Many(leaves) => leaves.peek(range, visit),
        }
    }

    /// Unites all intervals inside `range`, which must begin and end at interval boundaries.
    pub(crate) fn unite(&mut self, range: Range<usize>) {
        if let Parts::Many(leaves) = &mut self.parts
            && !range.is_empty()
        {
            leaves.unite(range);
        }
    }

    /// Like [`RegionMap::wear`](super::RegionMap::wear).
    #[inline]
    pub(super) fn wear(&mut self, met: usize, settle: impl FnMut(&mut V), alike: impl Fn(&V, &V) -> bool) -> bool {
        let Parts::Many(leaves) = &mut self.parts else { return false };
        let is_due = leaves.is_worn(met);
        if is_due && let Some((whole, value)) = leaves.merge(settle, alike) {
            self.parts = Parts::One(whole, value);
        }
        is_due
    }

    /// Returns the number of intervals.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        match &self.parts {
            Parts::One(whole, _) => usize::from(!whole.is_empty()),
            Parts::Many(leaves) => leaves.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Compares the map with one value per index.
        #[test]
        fn agrees_with_an_array(
            ops in prop::collection::vec((0usize..400, 0usize..400, 0usize..5), 1..300)
        ) {
            let mut map = IntervalMap::new(0..400, 0usize);
            let mut model = [0usize; 400];
            for (k, (a, b, unite)) in ops.into_iter().enumerate() {
                // Mostly short ranges, so that there are many intervals.
                let range = if unite < 4 { a..(a + b % 8).min(400) } else { a.min(b)..a.max(b) };
                map.visit(range.clone(), |_, v| *v = k + 1);
                model[range.clone()].fill(k + 1);
                if unite % 4 == 0 {
                    map.unite(range);
                }
                let mut covered = 0;
                map.peek(0..400, |r, v| {
                    assert_eq!(r.start, covered);
                    covered = r.end;
                    assert!(model[r].iter().all(|m| m == v));
                });
                prop_assert_eq!(covered, 400);
            }
        }
    }

    #[test]
    fn exact_match_does_not_split() {
        let mut map = IntervalMap::new(0..100, 'a');
        map.visit(10..20, |_, v| *v = 'b');
        assert_eq!(map.len(), 3);
        map.visit(10..20, |range, v| assert_eq!((range, *v), (10..20, 'b')));
        assert_eq!(map.len(), 3);
    }

    #[test]
    fn empty_ranges_touch_nothing() {
        let mut map = IntervalMap::new(0..100, 'a');
        map.visit(10..10, |_, _| panic!("nothing to visit"));
        assert_eq!(map.len(), 1);
    }
}
