//! A half-open box of indices.

use std::fmt;
use std::ops::Range;

/// The maximum number of dimensions of a data object.
pub(crate) const MAX_DIMS: usize = 4;

/// A half-open box of up to four dimensions; dimensions that a data object does not have are `0..1`.
///
/// ```
/// use thalweg::region::Block;
/// let a = Block::new(&[0..4, 0..4]);
/// let b = Block::new(&[2..6, 3..9]);
/// assert_eq!(a.intersection(&b), Some(Block::new(&[2..4, 3..4])));
/// assert_eq!(a.volume(), 16);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Block {
    lo: [usize; MAX_DIMS],
    hi: [usize; MAX_DIMS],
}

impl Block {
    /// The box that contains only index 0, which is the whole of a data object with one element.
    pub(crate) const ONE: Self = Self { lo: [0; MAX_DIMS], hi: [1; MAX_DIMS] };

    /// Makes the box with these ranges, outermost dimension first.
    ///
    /// # Panics
    /// Panics if there are more than four ranges.
    #[track_caller]
    pub fn new(ranges: &[Range<usize>]) -> Self {
        assert!(ranges.len() <= MAX_DIMS, "a block has at most {MAX_DIMS} dimensions");
        let mut block = Self { lo: [0; MAX_DIMS], hi: [1; MAX_DIMS] };
        for (d, range) in ranges.iter().enumerate() {
            block.lo[d] = range.start;
            block.hi[d] = range.end;
        }
        block
    }

    /// Makes a one-dimensional box.
    #[inline]
    pub fn interval(range: Range<usize>) -> Self {
        Self { lo: [range.start, 0, 0, 0], hi: [range.end, 1, 1, 1] }
    }

    /// Makes the box between two corners, the upper one exclusive.
    #[inline]
    pub const fn from_corners(lo: [usize; MAX_DIMS], hi: [usize; MAX_DIMS]) -> Self {
        Self { lo, hi }
    }

    /// Makes the box of a whole array of this shape.
    pub fn whole(shape: &[usize]) -> Self {
        let mut block = Self { lo: [0; MAX_DIMS], hi: [1; MAX_DIMS] };
        block.hi[..shape.len()].copy_from_slice(shape);
        block
    }

    /// Returns the range of dimension `d`.
    #[inline]
    pub fn range(&self, d: usize) -> Range<usize> {
        self.lo[d]..self.hi[d]
    }

    /// Replaces the range of dimension `d`.
    #[inline]
    pub(crate) fn set_range(&mut self, d: usize, range: Range<usize>) {
        (self.lo[d], self.hi[d]) = (range.start, range.end);
    }

    /// Returns the lower corner.
    #[inline]
    pub fn lo(&self) -> &[usize; MAX_DIMS] {
        &self.lo
    }

    /// Returns the upper corner (exclusive).
    #[inline]
    pub fn hi(&self) -> &[usize; MAX_DIMS] {
        &self.hi
    }

    /// Returns the number of indices along each dimension.
    #[inline]
    pub fn extents(&self) -> [usize; MAX_DIMS] {
        // This is a loop because `from_fn` is not always inlined, and the call would then take longer than the
        // computation itself.
        let mut extents = [0; MAX_DIMS];
        for (d, extent) in extents.iter_mut().enumerate() {
            *extent = self.hi[d].saturating_sub(self.lo[d]);
        }
        extents
    }

    /// Returns the number of elements, or `usize::MAX` if the number overflows, which no array's box does.
    #[inline]
    pub fn volume(&self) -> usize {
        self.extents().iter().fold(1, |volume: usize, extent| volume.saturating_mul(*extent))
    }

    /// Whether the box has no element.
    #[inline]
    pub fn is_empty(&self) -> bool {
        (0..MAX_DIMS).any(|d| self.lo[d] >= self.hi[d])
    }

    /// Whether the two boxes share an element.
    #[inline]
    pub fn overlaps(&self, other: &Self) -> bool {
        (0..MAX_DIMS).all(|d| self.lo[d].max(other.lo[d]) < self.hi[d].min(other.hi[d]))
    }

    /// Whether this box contains every element of `other`. Every box contains an empty box.
    #[inline]
    pub fn contains(&self, other: &Self) -> bool {
        other.is_empty() || (0..MAX_DIMS).all(|d| self.lo[d] <= other.lo[d] && other.hi[d] <= self.hi[d])
    }

    /// Whether the ranges of `other` are within the ranges of this box, even if `other` is empty.
    #[inline]
    pub fn encloses(&self, other: &Self) -> bool {
        (0..MAX_DIMS).all(|d| self.lo[d] <= other.lo[d] && other.lo[d] <= other.hi[d] && other.hi[d] <= self.hi[d])
    }

    /// Returns the smallest box that contains both boxes.
    pub(crate) fn hull(&self, other: &Self) -> Self {
        let lo = std::array::from_fn(|d| self.lo[d].min(other.lo[d]));
        let hi = std::array::from_fn(|d| self.hi[d].max(other.hi[d]));
        Self { lo, hi }
    }

    /// Returns the box of elements that both boxes have in common, if there are any.
    #[inline]
    pub fn intersection(&self, other: &Self) -> Option<Self> {
        let mut both = *self;
        for d in 0..MAX_DIMS {
            (both.lo[d], both.hi[d]) = (both.lo[d].max(other.lo[d]), both.hi[d].min(other.hi[d]));
        }
        (0..MAX_DIMS).all(|d| both.lo[d] < both.hi[d]).then_some(both)
    }

    /// Splits the box at index `at` of dimension `d`. Returns `None` if either side would be empty.
    #[inline]
    pub(crate) fn split_at(&self, d: usize, at: usize) -> Option<(Self, Self)> {
        let (mut below, mut above) = (*self, *self);
        (below.hi[d], above.lo[d]) = (at, at);
        (self.lo[d] < at && at < self.hi[d]).then_some((below, above))
    }

    /// Calls `piece` with disjoint boxes that together cover this box except for `hole` (at most two boxes per
    /// dimension).
    ///
    /// ```
    /// use thalweg::region::Block;
    /// let mut rest = 0;
    /// Block::new(&[0..10, 0..10]).subtract(&Block::new(&[2..4, 2..4]), |piece| rest += piece.volume());
    /// assert_eq!(rest, 96);
    /// ```
    pub fn subtract(&self, hole: &Self, mut piece: impl FnMut(Self)) {
        let Some(hole) = self.intersection(hole) else {
            piece(*self);
            return;
        };
        let mut rest = *self;
        for d in 0..MAX_DIMS {
            if rest.lo[d] < hole.lo[d] {
                let mut below = rest;
                below.hi[d] = hole.lo[d];
                piece(below);
                rest.lo[d] = hole.lo[d];
            }
            if hole.hi[d] < rest.hi[d] {
                let mut above = rest;
                above.lo[d] = hole.hi[d];
                piece(above);
                rest.hi[d] = hole.hi[d];
            }
        }
    }

    /// Formats the first `ndim` ranges, for example as `[0..4, 2..8]`.
    pub fn display(&self, ndim: usize) -> impl fmt::Display + use<> {
        DisplayBlock(*self, ndim.clamp(1, MAX_DIMS))
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = (0..MAX_DIMS).rev().find(|&d| self.range(d) != (0..1)).unwrap_or(0);
        fmt::Display::fmt(&self.display(last + 1), f)
    }
}

struct DisplayBlock(Block, usize);

impl fmt::Display for DisplayBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for d in 0..self.1 {
            let comma = if d > 0 { ", " } else { "" };
            write!(f, "{comma}{}..{}", self.0.lo[d], self.0.hi[d])?;
        }
        f.write_str("]")
    }
}
