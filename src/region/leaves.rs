//! Values over the disjoint intervals of one dimension, many of them, in leaves of a tree.
//!
//! The intervals cover the whole range without gaps, so each ends where the next begins and only starts are kept: in
//! sorted vectors of a few cache lines ([`Leaf`]), apart from the values. Finding an interval costs one search in the
//! tree of leaves and one in a leaf, whatever is then split or visited nearby costs no further search.
//!
//! Invariants:
//! 1. No leaf is empty; a leaf's key in the tree is its first start; it ends where the next one begins.
//! 2. Starts ascend strictly, in each leaf and from leaf to leaf.
//! 3. A leaf has at most [`MOST`] intervals. Leaves that have become small are joined when intervals are united.

use std::collections::BTreeMap;
use std::ops::Range;

/// The most intervals in one leaf: their starts take four cache lines.
const MOST: usize = 32;

/// Values over disjoint intervals that cover one range.
#[derive(Debug)]
pub(super) struct Leaves<V> {
    leaves: BTreeMap<usize, Leaf<V>>,
}

/// Neighbouring intervals.
#[derive(Debug)]
struct Leaf<V> {
    starts: Vec<usize>,
    /// Where the last interval ends.
    end: usize,
    values: Vec<V>,
}

impl<V: Clone> Leaves<V> {
    /// One interval, which is not empty.
    pub(super) fn new(whole: Range<usize>, value: V) -> Self {
        let leaf = Leaf { starts: vec![whole.start], end: whole.end, values: vec![value] };
        Self { leaves: BTreeMap::from([(whole.start, leaf)]) }
    }

    /// Visits every interval inside `range` in ascending order, after splitting those that cross its ends. What lies
    /// outside the whole is left out.
    #[inline]
    pub(super) fn visit(&mut self, range: Range<usize>, mut visit: impl FnMut(Range<usize>, &mut V)) {
        let mut at = range.start;
        while at < range.end {
            let Some((_, leaf)) = self.leaves.range_mut(..=at).next_back() else { return };
            let stop = range.end.min(leaf.end);
            if at >= stop {
                return;
            }
            if leaf.starts.len() + 2 > MOST && leaf.splits(at, stop) {
                let right = leaf.halve();
                self.leaves.insert(right.starts[0], right);
                continue;
            }
            leaf.visit(at..stop, &mut visit);
            at = stop;
        }
    }

    /// Visits the overlap with `range` of every interval that has one, in ascending order.
    pub(super) fn peek(&self, range: Range<usize>, mut visit: impl FnMut(Range<usize>, &V)) {
        let first = self.leaves.range(..=range.start).next_back().map_or(range.start, |(start, _)| *start);
        for leaf in self.leaves.range(first..range.end).map(|(_, leaf)| leaf) {
            for (i, value) in leaf.values.iter().enumerate() {
                let (lo, hi) = (leaf.starts[i].max(range.start), leaf.end_of(i).min(range.end));
                if lo < hi {
                    visit(lo..hi, value);
                }
            }
        }
    }

    /// Makes one interval of all that lie inside `range`, which begins and ends where intervals do.
    pub(super) fn unite(&mut self, range: Range<usize>) {
        let Some((&first, leaf)) = self.leaves.range_mut(..=range.start).next_back() else { return };
        let kept = leaf.index_of(range.start);
        let behind = leaf.starts.partition_point(|start| *start < range.end);
        leaf.drop_intervals(kept + 1..behind);
        if leaf.end >= range.end && leaf.starts.len() > MOST / 4 {
            return;
        }
        if leaf.end < range.end {
            leaf.end = range.end;
            let emptied: Vec<usize> = self.leaves.range(range.start + 1..range.end).map(|(start, _)| *start).collect();
            for start in emptied {
                let Some(mut next) = self.leaves.remove(&start) else { continue };
                next.drop_intervals(0..next.starts.partition_point(|start| *start < range.end));
                if let Some(&start) = next.starts.first() {
                    self.leaves.insert(start, next);
                }
            }
        }
        self.join_small(first);
    }

    /// Joins the leaf at `first`, which has become small, with its neighbours if they are small together.
    fn join_small(&mut self, first: usize) {
        let before = self.leaves.range(..first).next_back().map(|(start, _)| *start);
        for left in [Some(first), before].into_iter().flatten() {
            let mut both = self.leaves.range(left..);
            let (Some((_, leaf)), Some((&right, next))) = (both.next(), both.next()) else { continue };
            if leaf.starts.len() + next.starts.len() <= MOST / 2
                && let Some(mut next) = self.leaves.remove(&right)
                && let Some(leaf) = self.leaves.get_mut(&left)
            {
                leaf.starts.append(&mut next.starts);
                leaf.values.append(&mut next.values);
                leaf.end = next.end;
            }
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.leaves.values().map(|leaf| leaf.starts.len()).sum()
    }

    /// How many leaves there are.
    #[cfg(test)]
    fn num_leaves(&self) -> usize {
        self.leaves.len()
    }
}

impl<V: Clone> Leaf<V> {
    /// The interval that has `at` inside it; the leaf has one.
    #[inline]
    fn index_of(&self, at: usize) -> usize {
        self.starts.partition_point(|start| *start <= at) - 1
    }

    #[inline]
    fn end_of(&self, index: usize) -> usize {
        self.starts.get(index + 1).copied().unwrap_or(self.end)
    }

    /// Whether one of these, inside the leaf or its end, is no interval's border yet.
    #[cold]
    fn splits(&self, start: usize, end: usize) -> bool {
        let is_new = |at: usize| at < self.end && self.starts.binary_search(&at).is_err();
        is_new(start) || is_new(end)
    }

    /// Visits what lies inside `range`, which is inside the leaf, after splitting at its ends; there is room for that.
    #[inline]
    fn visit(&mut self, range: Range<usize>, visit: &mut impl FnMut(Range<usize>, &mut V)) {
        let mut index = self.index_of(range.start);
        if self.starts[index] < range.start {
            self.split(index, range.start);
            index += 1;
        }
        while self.starts.get(index).is_some_and(|start| *start < range.end) {
            if self.end_of(index) > range.end {
                self.split(index, range.end);
            }
            visit(self.starts[index]..self.end_of(index), &mut self.values[index]);
            index += 1;
        }
    }

    /// Splits an interval at an index strictly inside it.
    fn split(&mut self, index: usize, at: usize) {
        self.starts.insert(index + 1, at);
        self.values.insert(index + 1, self.values[index].clone());
    }

    /// Gives the right half away.
    #[cold]
    fn halve(&mut self) -> Self {
        let middle = self.starts.len() / 2;
        let (starts, values) = (self.starts.split_off(middle), self.values.split_off(middle));
        let end = std::mem::replace(&mut self.end, starts[0]);
        Self { starts, end, values }
    }

    fn drop_intervals(&mut self, indices: Range<usize>) {
        self.starts.drain(indices.clone());
        self.values.drain(indices);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Invariants 1 to 3.
    fn check(leaves: &Leaves<usize>, whole: Range<usize>) {
        let mut end = whole.start;
        for (key, leaf) in &leaves.leaves {
            assert_eq!((Some(key), *key), (leaf.starts.first(), end));
            assert!(leaf.starts.is_sorted_by(|a, b| a < b) && leaf.starts.len() <= MOST);
            assert_eq!(leaf.starts.len(), leaf.values.len());
            end = leaf.end;
        }
        assert_eq!(end, whole.end);
    }

    #[test]
    fn leaves_are_halved_when_full_and_joined_when_small() {
        let mut leaves = Leaves::new(0..10_000, 0);
        for start in (0..10_000).step_by(10).rev() {
            leaves.visit(start..start + 10, |range, value| *value = range.start);
            check(&leaves, 0..10_000);
        }
        assert_eq!(leaves.len(), 1000);
        assert!(leaves.num_leaves() < 1000 / (MOST / 4));
        for start in (0..10_000).step_by(500) {
            leaves.unite(start..start + 500);
            check(&leaves, 0..10_000);
        }
        assert_eq!(leaves.len(), 20);
        assert!(leaves.num_leaves() <= 3, "{}", leaves.num_leaves());
        leaves.unite(0..10_000);
        check(&leaves, 0..10_000);
        assert_eq!((leaves.len(), leaves.num_leaves()), (1, 1));
    }

    #[test]
    fn one_visit_crosses_many_leaves() {
        let mut leaves = Leaves::new(0..1000, 0);
        (0..500).for_each(|i| leaves.visit(2 * i..2 * i + 1, |_, value| *value = 1));
        let (mut seen, mut end) = (0, 3);
        leaves.visit(3..998, |range, _| {
            assert_eq!(range.start, end);
            (seen, end) = (seen + 1, range.end);
        });
        assert_eq!((seen, end), (995, 998));
        check(&leaves, 0..1000);
    }
}
