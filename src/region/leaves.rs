//! A map from many disjoint one-dimensional intervals to values, stored in the leaves of a tree.
//!
//! The intervals cover the whole range without gaps, so each ends where the next begins, and only the starts are
//! stored. They are in sorted vectors of a few cache lines ([`Leaf`]), separate from the values. Finding an interval
//! costs one search in the tree of leaves and one search in a leaf; splitting or visiting nearby intervals needs no
//! further search. A finger remembers where intervals were visited last, and each leaf remembers the leaf that was
//! found after it. So a program that goes through a range in order searches once per leaf the first time, and not at
//! all after that.
//!
//! Invariants:
//! 1. No leaf of the tree is empty. A leaf's key in the tree is its first start, and each leaf ends where the next leaf
//!    begins.
//! 2. Starts ascend strictly, in each leaf and from leaf to leaf.
//! 3. A leaf has at most [`MOST`] intervals. Leaves that have become small are joined when intervals are united.
//! 4. Leaves that are not in the tree have no intervals and end at 0, so no finger is valid in them and none of them is
//!    mistaken for a neighbour.

use super::wear::Wear;
use std::collections::BTreeMap;
use std::ops::Range;

/// The maximum number of intervals in one leaf: their starts take four cache lines.
const MOST: usize = 32;

/// Values of disjoint intervals that together cover one range.
#[derive(Debug)]
pub(super) struct Leaves<V> {
    /// Index of each leaf, by the leaf's first start.
    tree: BTreeMap<usize, usize>,
    leaves: Vec<Leaf<V>>,
    /// Indices of leaves that are not in the tree.
    free: Vec<usize>,
    finger: Finger,
    wear: Wear,
}

/// A guess where an interval may be found. The leaf's contents at that position tell whether the guess is right.
#[derive(Debug, Clone, Copy, Default)]
struct Finger {
    leaf: usize,
    /// Index of the interval in the leaf, or of the interval before it.
    interval: usize,
}

/// Neighbouring intervals.
#[derive(Debug)]
struct Leaf<V> {
    starts: Vec<usize>,
    /// Where the last interval ends.
    end: usize,
    values: Vec<V>,
    /// Index of the leaf that was last found after this one. Whether it still comes next can be told from that leaf's
    /// contents.
    next: usize,
}

impl<V: Clone> Leaves<V> {
    /// Makes a map of one interval, which must not be empty.
    pub(super) fn new(whole: Range<usize>, value: V) -> Self {
        let leaf = Leaf { starts: vec![whole.start], end: whole.end, values: vec![value], next: 0 };
        let tree = BTreeMap::from([(whole.start, 0)]);
        Self { tree, leaves: vec![leaf], free: Vec::new(), finger: Finger::default(), wear: Wear::new() }
    }

    /// Visits every interval inside `range` in ascending order, after splitting the intervals that cross its ends.
    /// Indices outside the whole are ignored.
    #[inline]
    pub(super) fn visit(&mut self, range: Range<usize>, mut visit: impl FnMut(Range<usize>, &mut V)) {
        let mut at = range.start;
        while at < range.end {
            if !self.leaves[self.finger.leaf].contains(at) && !self.find(at) {
                return;
            }
            let leaf = &mut self.leaves[self.finger.leaf];
            let stop = range.end.min(leaf.end);
            if at >= stop {
                return;
            }
            if leaf.starts.len() + 2 > MOST && leaf.splits(at, stop) {
                let right = leaf.divide(at);
                self.insert(right);
                continue;
            }
            let index = leaf.index_near(at, self.finger.interval);
            self.finger.interval = leaf.visit(at..stop, index, &mut visit);
            at = stop;
        }
    }

    /// Returns the value of the interval after the one visited last, if that interval has these ends and is where it is
    /// expected.
    #[inline]
    pub(super) fn next_if(&mut self, start: usize, end: usize) -> Option<&mut V> {
        let Finger { mut leaf, mut interval } = self.finger;
        interval += 1;
        if interval == self.leaves[leaf].starts.len() {
            (leaf, interval) = (self.leaves[leaf].next, 0);
        }
        let found = &mut self.leaves[leaf];
        if found.starts.get(interval) != Some(&start) || found.end_of(interval) != end {
            return None;
        }
        self.finger = Finger { leaf, interval };
        found.values.get_mut(interval)
    }

    /// Moves the finger to the leaf that contains `at`. Returns false if there is no such leaf.
    fn find(&mut self, at: usize) -> bool {
        let before = self.finger.leaf;
        let mut place = self.leaves[before].next;
        if !self.leaves[place].contains(at) {
            let Some((_, found)) = self.tree.range(..=at).next_back() else { return false };
            place = *found;
            if self.leaves[before].end == self.leaves[place].starts[0] {
                self.leaves[before].next = place;
            }
        }
        self.finger = Finger { leaf: place, interval: 0 };
        true
    }

    /// Puts a leaf into the tree.
    #[cold]
    fn insert(&mut self, leaf: Leaf<V>) {
        let (start, place) = (leaf.starts[0], self.free.pop().unwrap_or(self.leaves.len()));
        match self.leaves.get_mut(place) {
            Some(unused) => *unused = leaf,
            None => self.leaves.push(leaf),
        }
        self.tree.insert(start, place);
    }

    /// Takes the leaf with this first start out of the tree.
    fn remove(&mut self, start: usize) -> Option<Leaf<V>> {
        let place = self.tree.remove(&start)?;
        self.free.push(place);
        Some(std::mem::replace(
            &mut self.leaves[place],
            Leaf { starts: Vec::new(), end: 0, values: Vec::new(), next: 0 },
        ))
    }

    /// Visits every interval that overlaps `range`, in ascending order; the visitor sees the overlap.
    pub(super) fn peek(&self, range: Range<usize>, mut visit: impl FnMut(Range<usize>, &V)) {
        let first = self.tree.range(..=range.start).next_back().map_or(range.start, |(start, _)| *start);
        for leaf in self.tree.range(first..range.end).map(|(_, place)| &self.leaves[*place]) {
            for (i, value) in leaf.values.iter().enumerate() {
                let (lo, hi) = (leaf.starts[i].max(range.start), leaf.end_of(i).min(range.end));
                if lo < hi {
                    visit(lo..hi, value);
                }
            }
        }
    }

    /// Unites all intervals inside `range`, which must begin and end at interval boundaries.
    pub(super) fn unite(&mut self, range: Range<usize>) {
        let Some((&first, &place)) = self.tree.range(..=range.start).next_back() else { return };
        let leaf = &mut self.leaves[place];
        let kept = leaf.index_of(range.start);
        let behind = leaf.starts.partition_point(|start| *start < range.end);
        leaf.drop_intervals(kept + 1..behind);
        if leaf.end >= range.end && leaf.starts.len() > MOST / 4 {
            return;
        }
        if leaf.end < range.end {
            leaf.end = range.end;
            let emptied: Vec<usize> = self.tree.range(range.start + 1..range.end).map(|(start, _)| *start).collect();
            for start in emptied {
                let Some(mut next) = self.remove(start) else { continue };
                next.drop_intervals(0..next.starts.partition_point(|start| *start < range.end));
                if !next.starts.is_empty() {
                    self.insert(next);
                }
            }
        }
        self.join_small(first);
    }

    /// Counts a visit that reached this many intervals. Returns whether a [merge](Self::merge) is due.
    #[inline]
    pub(super) fn is_worn(&mut self, met: usize) -> bool {
        let most = self.tree.len() * MOST;
        self.wear.count(met, most)
    }

    /// Settles all values and unites neighbours that are alike. Returns the interval if only one is left.
    #[cold]
    pub(super) fn merge(
        &mut self,
        mut settle: impl FnMut(&mut V),
        alike: impl Fn(&V, &V) -> bool,
    ) -> Option<(Range<usize>, V)> {
        let (tree, mut old) = (std::mem::take(&mut self.tree), std::mem::take(&mut self.leaves));
        (self.free, self.finger) = (Vec::new(), Finger::default());
        let empty = || Leaf { starts: Vec::new(), end: 0, values: Vec::new(), next: 0 };
        let (mut leaf, mut end) = (empty(), 0);
        for (_, place) in tree {
            end = old[place].end;
            let starts = std::mem::take(&mut old[place].starts);
            for (start, mut value) in starts.into_iter().zip(std::mem::take(&mut old[place].values)) {
                settle(&mut value);
                let last = leaf.values.last();
                if last.is_some_and(|last| alike(last, &value)) {
                    continue;
                }
                if leaf.starts.len() == MOST / 2 {
                    leaf.end = start;
                    self.insert(std::mem::replace(&mut leaf, empty()));
                }
                leaf.starts.push(start);
                leaf.values.push(value);
            }
        }
        leaf.end = end;
        if self.tree.is_empty() && leaf.starts.len() == 1 {
            return leaf.values.pop().map(|value| (leaf.starts[0]..end, value));
        }
        self.insert(leaf);
        self.wear.merged(self.tree.len() * MOST);
        None
    }

    /// Joins the leaf at `first`, which has become small, with a neighbour if the two are small even together.
    fn join_small(&mut self, first: usize) {
        let before = self.tree.range(..first).next_back().map(|(start, _)| *start);
        for left in [Some(first), before].into_iter().flatten() {
            let mut both = self.tree.range(left..);
            let (Some((_, &left)), Some((&start, &right))) = (both.next(), both.next()) else { continue };
            let count = |place: usize| self.leaves[place].starts.len();
            if count(left) + count(right) <= MOST / 2
                && let Some(mut next) = self.remove(start)
            {
                let leaf = &mut self.leaves[left];
                leaf.starts.append(&mut next.starts);
                leaf.values.append(&mut next.values);
                leaf.end = next.end;
            }
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.leaves.iter().map(|leaf| leaf.starts.len()).sum()
    }

    /// Returns the number of leaves.
    #[cfg(test)]
    fn num_leaves(&self) -> usize {
        self.tree.len()
    }
}

impl<V: Clone> Leaf<V> {
    /// Whether one of the intervals contains `at`.
    #[inline]
    fn contains(&self, at: usize) -> bool {
        at < self.end && self.starts[0] <= at
    }

    /// Like [`Self::index_of`], but first tries the interval `here` and the next one.
    #[inline]
    fn index_near(&self, at: usize, here: usize) -> usize {
        match self.starts.get(here..) {
            Some([_, next, ..]) if *next == at => here + 1,
            Some([start, ..]) if *start == at => here,
            _ => self.index_of(at),
        }
    }

    /// Returns the index of the interval that contains `at`. The leaf must have such an interval.
    #[inline]
    fn index_of(&self, at: usize) -> usize {
        self.starts.partition_point(|start| *start <= at) - 1
    }

    #[inline]
    fn end_of(&self, index: usize) -> usize {
        self.starts.get(index + 1).copied().unwrap_or(self.end)
    }

    /// Whether any of these indices is not yet an interval boundary. The indices must be inside the leaf or at its end.
    #[cold]
    fn splits(&self, start: usize, end: usize) -> bool {
        let is_new = |at: usize| at < self.end && self.starts.binary_search(&at).is_err();
        is_new(start) || is_new(end)
    }

    /// Visits the intervals inside `range` after splitting at its ends. `range` must be inside the leaf and begin in
    /// the interval `index`, and the leaf must have room for the splits. Returns the last interval visited.
    #[inline]
    fn visit(&mut self, range: Range<usize>, mut index: usize, visit: &mut impl FnMut(Range<usize>, &mut V)) -> usize {
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
        index - 1
    }

    /// Splits an interval at an index strictly inside it.
    fn split(&mut self, index: usize, at: usize) {
        self.starts.insert(index + 1, at);
        self.values.insert(index + 1, self.values[index].clone());
    }

    /// Splits off the right part of the leaf. This is half of the leaf, unless the interval around `at` is the first or
    /// the last one. In that case, the interval gets its own leaf, because programs that go through a range in order
    /// will keep splitting the interval's remainder, and this way leaves stay full.
    #[cold]
    fn divide(&mut self, at: usize) -> Self {
        let last = self.starts.len() - 1;
        let first_given = match self.index_of(at) {
            0 => 1,
            index if index == last => last,
            _ => self.starts.len() / 2,
        };
        let (starts, values) = (self.starts.split_off(first_given), self.values.split_off(first_given));
        let end = std::mem::replace(&mut self.end, starts[0]);
        Self { starts, end, values, next: self.next }
    }

    fn drop_intervals(&mut self, indices: Range<usize>) {
        self.starts.drain(indices.clone());
        self.values.drain(indices);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks invariants 1 to 3.
    fn check(leaves: &Leaves<usize>, whole: Range<usize>) {
        let mut end = whole.start;
        for (key, leaf) in leaves.tree.iter().map(|(key, place)| (key, &leaves.leaves[*place])) {
            assert_eq!((Some(key), *key), (leaf.starts.first(), end));
            assert!(leaf.starts.is_sorted_by(|a, b| a < b) && leaf.starts.len() <= MOST);
            assert_eq!(leaf.starts.len(), leaf.values.len());
            end = leaf.end;
        }
        assert_eq!(end, whole.end);
        assert_eq!(leaves.tree.len() + leaves.free.len(), leaves.leaves.len());
        assert!(
            leaves.free.iter().all(|place| leaves.leaves[*place].end == 0 && leaves.leaves[*place].starts.is_empty())
        );
    }

    #[test]
    fn leaves_are_divided_when_full_and_joined_when_small() {
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
    fn leaves_that_grow_at_an_end_stay_full() {
        let starts = || (0..10_000).step_by(10);
        let orders: [&mut dyn Iterator<Item = usize>; 2] = [&mut starts(), &mut starts().rev()];
        for order in orders {
            let mut leaves = Leaves::new(0..10_000, 0);
            for start in order {
                leaves.visit(start..start + 10, |range, value| *value = range.start);
            }
            check(&leaves, 0..10_000);
            assert!(leaves.num_leaves() <= 1000 / (MOST - 3) + 1, "{}", leaves.num_leaves());
            // Go through all leaves in order; the second pass needs no search.
            for through in 0..2 {
                leaves.visit(0..10, |_, _| {});
                let mut searched = 0;
                for start in (10..10_000).step_by(10) {
                    match leaves.next_if(start, start + 10) {
                        Some(value) => assert_eq!(*value, start),
                        None => {
                            searched += 1;
                            leaves.visit(start..start + 10, |range, value| assert_eq!(range.start, *value));
                        }
                    }
                }
                assert!(searched <= if through == 0 { leaves.num_leaves() } else { 0 }, "{searched}");
            }
        }
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
