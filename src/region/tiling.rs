//! Regular tilings of an array, which find the tiles that a block overlaps.
//!
//! A tile is found purely by arithmetic, with one multiplication per axis, regardless of the number of tiles.
//!
//! Invariants: tiles are disjoint and cover the array. All tiles have the same extents, except that tiles at the
//! array's ends may be shorter. This includes the first tiles if the tiling is not aligned with index 0.

use super::Block;
use super::block::MAX_DIMS;
use super::cells::{Cell, for_each_cell, volume};

/// The tiles of one array; see the module documentation.
#[derive(Debug)]
pub(crate) struct Tiling {
    axes: [Axis; MAX_DIMS],
    /// The number of axes up to the last one with more than one index.
    ndim: usize,
}

/// The tiles along one axis.
#[derive(Debug, Clone, Copy)]
struct Axis {
    /// The end of the array along this axis.
    end: u32,
    /// The extent of a tile, and the offset that has to be added to indices so that tiles begin at multiples of the
    /// extent.
    extent: u32,
    offset: u32,
    /// The factor that replaces a division by the extent: 2⁶⁴ divided by the extent, rounded up; 0 if the extent is
    /// 1.
    reciprocal: u64,
    /// The number of tiles.
    count: u32,
}

/// The tiles that a block overlaps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    first: Cell,
    last: Cell,
    /// Whether the block consists of whole tiles.
    is_exact: bool,
}

impl Tiling {
    /// Makes the tiling of an array that contains `tile` as a tile. Returns `None` if the tile is empty or not inside
    /// the array, or if indices have more than 31 bits.
    pub(crate) fn new(whole: &Block, tile: &Block) -> Option<Self> {
        if tile.is_empty() || !whole.contains(tile) || !whole.hi().iter().all(|end| *end <= i32::MAX as usize) {
            return None;
        }
        let axis = |d: usize| Axis::new(whole.hi()[d] as u32, tile.lo()[d] as u32, tile.range(d).len() as u32);
        let axes = std::array::from_fn(axis);
        let ndim = whole.hi().iter().rposition(|end| *end > 1).map_or(0, |last| last + 1);
        Some(Self { axes, ndim })
    }

    /// Returns the number of tiles.
    pub(crate) fn len(&self) -> usize {
        self.axes.iter().fold(1, |len: usize, axis| len.saturating_mul(axis.count as usize))
    }

    /// Returns the tiles that a non-empty block overlaps, or `None` if the block is not inside the array.
    #[inline]
    pub(crate) fn span(&self, block: &Block) -> Option<Span> {
        let mut span = Span { first: [0; MAX_DIMS], last: [0; MAX_DIMS], is_exact: true };
        for d in 0..self.ndim {
            let (axis, lo, hi) = (&self.axes[d], block.lo()[d], block.hi()[d]);
            if hi > axis.end as usize {
                return None;
            }
            let (first, begins) = axis.tile_of(lo as u32);
            let (last, ends) = axis.tile_before(hi as u32);
            (span.first[d], span.last[d]) = (first, last);
            span.is_exact &= begins && ends;
        }
        Some(span)
    }

    /// Returns a tile's index among all tiles, in row-major order.
    #[inline]
    pub(crate) fn index(&self, place: &Cell) -> usize {
        self.axes[..self.ndim].iter().zip(place).fold(0, |index, (axis, at)| index * axis.count as usize + *at as usize)
    }

    /// Returns the tile with an index as returned by [`index`](Self::index).
    pub(crate) fn at(&self, mut index: usize) -> Block {
        let mut place = [0; MAX_DIMS];
        for d in (0..self.ndim).rev() {
            let count = self.axes[d].count as usize;
            (place[d], index) = ((index % count) as u32, index / count);
        }
        self.tile(&place)
    }

    /// Returns the tile at a position in the tiling.
    pub(crate) fn tile(&self, place: &Cell) -> Block {
        let (mut lo, mut hi) = ([0; MAX_DIMS], [1; MAX_DIMS]);
        for (d, axis) in self.axes[..self.ndim].iter().enumerate() {
            let begin = u64::from(place[d]) * u64::from(axis.extent);
            lo[d] = begin.saturating_sub(axis.offset.into()) as usize;
            hi[d] = (begin + u64::from(axis.extent) - u64::from(axis.offset)).min(axis.end.into()) as usize;
        }
        Block::from_corners(lo, hi)
    }
}

impl Axis {
    fn new(end: u32, start: u32, extent: u32) -> Self {
        let offset = (extent - start % extent) % extent;
        let reciprocal = if extent == 1 { 0 } else { u64::MAX / u64::from(extent) + 1 };
        let mut axis = Self { end, extent, offset, reciprocal, count: 1 };
        axis.count = axis.tile_before(end).0 + 1;
        axis
    }

    /// Returns the tile that contains an index, and whether the tile begins at that index.
    #[inline]
    fn tile_of(&self, index: u32) -> (u32, bool) {
        let from_first = index + self.offset;
        let tile = self.quotient(from_first);
        (tile, tile * self.extent == from_first || index == 0)
    }

    /// Returns the tile that contains the index before `end`, which must not be 0, and whether the tile ends at `end`.
    #[inline]
    fn tile_before(&self, end: u32) -> (u32, bool) {
        let from_first = end - 1 + self.offset;
        let tile = self.quotient(from_first);
        (tile, from_first - tile * self.extent == self.extent - 1 || end == self.end)
    }

    /// Divides by multiplication: D. Lemire, O. Kaser, N. Kurz, Faster Remainder by Direct Computation (2019),
    /// section 3. Exact for 32 bits.
    #[inline]
    fn quotient(&self, dividend: u32) -> u32 {
        let product = (u128::from(dividend) * u128::from(self.reciprocal)) >> 64;
        product as u32 + if self.extent == 1 { dividend } else { 0 }
    }
}

impl Span {
    /// Whether the block consists of whole tiles.
    #[inline]
    pub(crate) fn is_exact(&self) -> bool {
        self.is_exact
    }

    /// Returns the tile, if there is only one.
    #[inline]
    pub(crate) fn only(&self) -> Option<&Cell> {
        (self.first == self.last).then_some(&self.first)
    }

    /// Returns the number of tiles.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        volume(&self.first, &self.last) as usize
    }

    /// Visits all tiles, in row-major order.
    #[inline]
    pub(crate) fn for_each(&self, mut visit: impl FnMut(&Cell)) {
        for_each_cell(self.first, self.last, |place| visit(&place));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range(len: usize) -> impl Strategy<Value = std::ops::Range<usize>> {
        (0..len, 1..=len).prop_map(move |(lo, extent)| lo..(lo + extent).min(len))
    }

    proptest! {
        /// Compares spans with the tile of each element.
        #[test]
        fn blocks_meet_the_tiles_of_their_elements(
            (i, j) in (range(13), range(9)), (k, l) in (range(13), range(9)), deep in 1..3usize
        ) {
            let whole = Block::whole(&[13, 9, deep]);
            let tile = Block::new(&[i, j, 0..deep]);
            let tiling = Tiling::new(&whole, &tile).unwrap();
            let mut covered = 0;
            for index in 0..tiling.len() {
                let tile = tiling.at(index);
                covered += tile.volume();
                let span = tiling.span(&tile).unwrap();
                prop_assert!(span.is_exact());
                prop_assert_eq!(span.only().map(|place| tiling.index(place)), Some(index));
            }
            prop_assert_eq!(covered, whole.volume());
            prop_assert!(tiling.span(&tile).is_some_and(|span| span.is_exact() && span.only().is_some()));

            let block = Block::new(&[k, l, 0..deep]);
            let span = tiling.span(&block).unwrap();
            let (mut met, mut volume) = (Vec::new(), 0);
            span.for_each(|place| {
                met.push(tiling.index(place));
                volume += tiling.tile(place).volume();
            });
            let expected: Vec<usize> = (0..tiling.len()).filter(|n| tiling.at(*n).overlaps(&block)).collect();
            prop_assert_eq!(span.len(), met.len());
            prop_assert_eq!(span.is_exact(), volume == block.volume());
            prop_assert_eq!(met, expected);
        }

        #[test]
        fn division_by_multiplication_is_exact(dividend in 0..u32::MAX, extent in prop_oneof![1..40u32, 1..u32::MAX]) {
            let axis = Axis::new(1, 0, extent);
            prop_assert_eq!(axis.quotient(dividend), dividend / extent);
        }
    }

    #[test]
    fn tilings_that_do_not_fit_are_refused() {
        let whole = Block::whole(&[100, 100]);
        assert!(Tiling::new(&whole, &Block::new(&[5..5, 0..100])).is_none());
        assert!(Tiling::new(&whole, &Block::new(&[90..101, 0..100])).is_none());
        assert!(Tiling::new(&Block::whole(&[1 << 40]), &Block::interval(0..8)).is_none());
        let one = Tiling::new(&whole, &whole).unwrap();
        assert_eq!((one.len(), one.at(0)), (1, whole));
        assert!(one.span(&Block::new(&[0..100, 0..101])).is_none());
    }
}
