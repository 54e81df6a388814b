//! Blocks in half the space, for code that compares many of them: both corners fill half a cache line.
//!
//! Nothing else is done here, and a block whose indices do not fit into 32 bits stays a [`Block`].
//!
//! Invariant: no block is empty.

use super::Block;
use super::block::MAX_DIMS;

/// A [`Block`] that is not empty and whose indices fit into 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NarrowBlock {
    lo: [u32; MAX_DIMS],
    hi: [u32; MAX_DIMS],
}

impl NarrowBlock {
    /// Whether all blocks inside `whole` are narrow.
    pub(crate) fn holds(whole: &Block) -> bool {
        whole.hi().iter().all(|&end| u32::try_from(end).is_ok())
    }

    /// The same block, unless that is empty; it must lie in one that [`holds`](Self::holds) such.
    #[inline]
    pub(crate) fn new(block: &Block) -> Option<Self> {
        let narrow = |corner: &[usize; MAX_DIMS]| corner.map(|index| index as u32);
        (!block.is_empty()).then(|| Self { lo: narrow(block.lo()), hi: narrow(block.hi()) })
    }

    /// The same block.
    #[inline]
    pub(crate) fn widen(&self) -> Block {
        Block::from_corners(self.lo.map(|index| index as usize), self.hi.map(|index| index as usize))
    }

    /// Whether the two share an element.
    #[inline]
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        // From the innermost dimension on: most programs cut there as well, and few in the outermost of several.
        (0..MAX_DIMS).rev().all(|d| self.lo[d] < other.hi[d] && other.lo[d] < self.hi[d])
    }

    /// Whether every element of `other` is one of this block.
    #[inline]
    pub(crate) fn contains(&self, other: &Self) -> bool {
        (0..MAX_DIMS).rev().all(|d| self.lo[d] <= other.lo[d] && other.hi[d] <= self.hi[d])
    }

    /// Whether every element that is common to this block and `region` is one of some of the `covers`.
    #[inline]
    pub(crate) fn is_covered_within(&self, region: &Self, covers: &[Self]) -> bool {
        covers.iter().any(|cover| cover.overlaps(self))
            && is_covered(self.widen().intersection(&region.widen()), covers)
    }
}

fn is_covered(block: Option<Block>, covers: &[NarrowBlock]) -> bool {
    let Some(narrow) = block.as_ref().and_then(NarrowBlock::new) else { return true };
    // Mostly the first element tells.
    let corner = NarrowBlock { lo: narrow.lo, hi: narrow.lo.map(|index| index + 1) };
    if !covers.iter().any(|cover| cover.contains(&corner)) {
        return false;
    }
    let mut covered = true;
    match covers.iter().position(|cover| cover.overlaps(&narrow)) {
        Some(first) => narrow.widen().subtract(&covers[first].widen(), |piece| {
            covered = covered && is_covered(Some(piece), &covers[first + 1..]);
        }),
        None => covered = false,
    }
    covered
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
        fn a_block_is_covered_if_all_its_elements_are(a in block(), b in block(), covers in prop::collection::vec(block(), 0..12)) {
            let at = |i, j, k| Block::new(&[i..i + 1, j..j + 1, k..k + 1]);
            let elements = a.range(0).flat_map(|i| a.range(1).flat_map(move |j| a.range(2).map(move |k| at(i, j, k))));
            let expected = { elements }.filter(|e| b.contains(e)).all(|element| covers.iter().any(|cover| cover.contains(&element)));
            let covers: Vec<_> = covers.iter().map(narrow).collect();
            if a.overlaps(&b) {
                prop_assert_eq!(narrow(&a).is_covered_within(&narrow(&b), &covers), expected);
            }
        }
    }

    #[test]
    fn the_largest_indices_are_compared_as_well_as_the_smallest() {
        let most = (1 << 32) - 1;
        let [all, end, start] =
            [0..most, most - 1..most, 0..1].map(|range| narrow(&Block::new(&[0..1, 0..most, range])));
        assert!(all.contains(&end) && all.contains(&start) && !end.contains(&all));
        assert!(all.overlaps(&end) && !start.overlaps(&end) && !end.overlaps(&start));
        assert_eq!(end.widen(), Block::new(&[0..1, 0..most, most - 1..most]));
        assert!(NarrowBlock::new(&Block::new(&[0..5, 3..3])).is_none());
    }

    #[test]
    fn what_has_more_than_32_bits_is_not_narrow() {
        assert!(NarrowBlock::holds(&Block::whole(&[5, (1 << 32) - 1])));
        assert!(!NarrowBlock::holds(&Block::whole(&[5, 1 << 32])));
    }
}
