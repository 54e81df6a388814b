//! Compact blocks for code that compares many blocks: both corners together fill half a cache line, and each corner is
//! one vector.
//!
//! A block whose indices do not fit into 31 bits must remain a [`Block`].
//!
//! Invariant: no block is empty.

use super::Block;
use super::block::MAX_DIMS;

/// A [`Block`] that is not empty and whose indices fit into 31 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NarrowBlock {
    lo: Corner,
    hi: Corner,
}

/// Signed, because every processor can compare vectors of signed integers.
type Corner = [i32; MAX_DIMS];

impl NarrowBlock {
    /// Whether all blocks inside `whole` can be narrowed.
    pub(crate) fn holds(whole: &Block) -> bool {
        whole.hi().iter().all(|&end| i32::try_from(end).is_ok())
    }

    /// Narrows a block, which must be inside a block for which [`holds`](Self::holds) returns true. Returns `None` if
    /// the block is empty.
    #[inline]
    pub(crate) fn new(block: &Block) -> Option<Self> {
        let narrow = |[i, j, k, l]: [usize; MAX_DIMS]| [i as i32, j as i32, k as i32, l as i32];
        Self { lo: narrow(*block.lo()), hi: narrow(*block.hi()) }.unless_empty()
    }

    /// Returns the same block as a [`Block`].
    #[inline]
    pub(crate) fn widen(&self) -> Block {
        Block::from_corners(self.lo.map(|index| index as usize), self.hi.map(|index| index as usize))
    }

    /// Whether the two blocks share an element.
    #[inline]
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        are_below(&self.lo, &other.hi) & are_below(&other.lo, &self.hi)
    }

    /// Whether this block contains every element of `other`.
    #[inline]
    pub(crate) fn contains(&self, other: &Self) -> bool {
        let sticks_out = |d: usize| (other.lo[d] < self.lo[d]) | (self.hi[d] < other.hi[d]);
        !(0..MAX_DIMS).fold(false, |any, d| any | sticks_out(d))
    }

    /// Whether every element common to this block and `region` is in one of the `covers`.
    #[inline]
    pub(crate) fn is_covered_within<'a>(&self, region: &Self, covers: impl Iterator<Item = &'a Self> + Clone) -> bool {
        covers.clone().any(|cover| cover.overlaps(self))
            && self.intersection(region).is_none_or(|common| common.is_covered(covers))
    }

    fn is_covered<'a>(&self, mut covers: impl Iterator<Item = &'a Self> + Clone) -> bool {
        // The first element usually decides, so check it first.
        let corner = Self { lo: self.lo, hi: self.lo.map(|index| index + 1) };
        if !covers.clone().any(|cover| cover.contains(&corner)) {
            return false;
        }
        let Some(first) = covers.find(|cover| cover.overlaps(self)) else { return false };
        let mut covered = true;
        self.widen().subtract(&first.widen(), |piece| {
            covered = covered && Self::new(&piece).is_none_or(|piece| piece.is_covered(covers.clone()));
        });
        covered
    }

    /// Returns the elements common to both, if there are any.
    #[inline]
    fn intersection(&self, other: &Self) -> Option<Self> {
        let (mut lo, mut hi) = (self.lo, self.hi);
        for d in 0..MAX_DIMS {
            (lo[d], hi[d]) = (lo[d].max(other.lo[d]), hi[d].min(other.hi[d]));
        }
        Self { lo, hi }.unless_empty()
    }

    #[inline]
    fn unless_empty(self) -> Option<Self> {
        are_below(&self.lo, &self.hi).then_some(self)
    }
}

/// Whether each index is smaller than its counterpart. Always compares all indices, because branches would take longer
/// than one vector comparison.
#[inline]
fn are_below(these: &Corner, those: &Corner) -> bool {
    (0..MAX_DIMS).fold(true, |all, d| all & (these[d] < those[d]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn block() -> impl Strategy<Value = Block> {
        let side = || (0..5usize, 1..4usize).prop_map(|(lo, extent)| lo..lo + extent);
        (side(), side(), side()).prop_map(|(i, j, k)| Block::new(&[i, j, k]))
    }

    fn narrow(block: &Block) -> NarrowBlock {
        NarrowBlock::new(block).expect("not empty")
    }

    proptest! {
        #[test]
        fn narrow_blocks_agree_with_wide_ones(a in block(), b in block()) {
            let (narrow_a, narrow_b) = (narrow(&a), narrow(&b));
            prop_assert_eq!(narrow_a.widen(), a);
            prop_assert_eq!(narrow_a.overlaps(&narrow_b), a.overlaps(&b));
            prop_assert_eq!(narrow_a.contains(&narrow_b), a.contains(&b));
        }

        #[test]
        fn block_is_covered_if_all_its_elements_are(a in block(), b in block(), covers in prop::collection::vec(block(), 0..12)) {
            let at = |i, j, k| Block::new(&[i..i + 1, j..j + 1, k..k + 1]);
            let elements = a.range(0).flat_map(|i| a.range(1).flat_map(move |j| a.range(2).map(move |k| at(i, j, k))));
            let expected = { elements }.filter(|e| b.contains(e)).all(|element| covers.iter().any(|cover| cover.contains(&element)));
            let covers: Vec<_> = covers.iter().map(narrow).collect();
            if a.overlaps(&b) {
                prop_assert_eq!(narrow(&a).is_covered_within(&narrow(&b), covers.iter()), expected);
            }
        }
    }

    #[test]
    fn largest_and_smallest_indices_are_compared_correctly() {
        let most = (1 << 31) - 1;
        let [all, end, start] =
            [0..most, most - 1..most, 0..1].map(|range| narrow(&Block::new(&[0..1, 0..most, range])));
        assert!(all.contains(&end) && all.contains(&start) && !end.contains(&all));
        assert!(all.overlaps(&end) && !start.overlaps(&end) && !end.overlaps(&start));
        assert_eq!(end.widen(), Block::new(&[0..1, 0..most, most - 1..most]));
        assert!(NarrowBlock::new(&Block::new(&[0..5, 3..3])).is_none());
    }

    #[test]
    fn indices_of_more_than_31_bits_are_not_narrow() {
        assert!(NarrowBlock::holds(&Block::whole(&[5, (1 << 31) - 1])));
        assert!(!NarrowBlock::holds(&Block::whole(&[5, 1 << 31])));
    }
}
