//! The notation of a box in a data object: an index or a range along each dimension.
//!
//! Nothing is checked here: a range that exceeds the data object, or is reversed, yields a box that submission
//! refuses.

use crate::memory::Shape;
use crate::region::Block;
use crate::sealed::Sealed;
use ndarray::{Ix1, Ix2, Ix3, Ix4};
use std::ops::{Bound, Range, RangeBounds, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

/// Indices along one dimension: a single index, or any range of `usize`. Open-ended ranges extend to the ends of the
/// data object.
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let x = rt.data(vec![1, 2, 3, 4]);
/// assert_eq!(rt.read(x.slice(2))?, [3]);
/// assert_eq!(rt.read(x.slice(1..=2))?, [2, 3]);
/// assert_eq!(rt.read(x.slice(2..))?, [3, 4]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait IndexRange: Sealed {
    /// Returns the indices as a range, in a dimension of `len` indices.
    fn range(self, len: usize) -> Range<usize>;
}

impl IndexRange for usize {
    #[inline]
    fn range(self, _: usize) -> Range<usize> {
        self..self.saturating_add(1)
    }
}

macro_rules! index_ranges {
    ($($t:ty)*) => {$(
        impl Sealed for $t {}

        impl IndexRange for $t {
            #[inline]
            fn range(self, len: usize) -> Range<usize> {
                within(&self, len)
            }
        }
    )*};
}

index_ranges! {
    Range<usize> RangeInclusive<usize> RangeFrom<usize> RangeTo<usize> RangeToInclusive<usize> RangeFull
}

impl IndexRange for (Bound<usize>, Bound<usize>) {
    #[inline]
    fn range(self, len: usize) -> Range<usize> {
        within(&self, len)
    }
}

/// Replaces open ends by the ends of the data object. A range that begins after the end of the data object remains out
/// of bounds.
#[inline]
fn within(range: &impl RangeBounds<usize>, len: usize) -> Range<usize> {
    let start = match range.start_bound() {
        Bound::Included(&start) => start,
        Bound::Excluded(&before) => before.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(&last) => last.saturating_add(1),
        Bound::Excluded(&end) => end,
        Bound::Unbounded => len.max(start),
    };
    start..end
}

/// The argument of [`Data::block`](super::Data::block): a tuple with one [`IndexRange`] of any kind per dimension. In
/// one dimension, it need not be a tuple. A [`Block`] serves code that works for any number of dimensions.
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let x: Data<f64, Ix3> = rt.zeros([4, 5, 6]);
/// assert_eq!(x.block((1, ..=2, 3..)).len(), 1 * 3 * 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Ranges<S: Shape>: Sealed {
    /// Returns the ranges as a block of a data object of this shape.
    fn block(self, shape: &[usize]) -> Block;
}

impl<R: IndexRange> Ranges<Ix1> for R {
    #[inline]
    fn block(self, shape: &[usize]) -> Block {
        Block::interval(self.range(shape[0]))
    }
}

impl Sealed for Block {}

impl<S: Shape> Ranges<S> for Block {
    fn block(self, _: &[usize]) -> Block {
        self
    }
}

macro_rules! tuples {
    ($($ix:ident ($($r:ident $d:tt),*);)*) => {$(
        impl<$($r: IndexRange),*> Ranges<$ix> for ($($r,)*) {
            #[inline]
            fn block(self, shape: &[usize]) -> Block {
                Block::new(&[$(self.$d.range(shape[$d])),*])
            }
        }
    )*};
}

tuples! {
    Ix1 (A 0);
    Ix2 (A 0, B 1);
    Ix3 (A 0, B 1, C 2);
    Ix4 (A 0, B 1, C 2, D 3);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_ends_take_the_extent_and_bounds_are_not_checked() {
        assert_eq!((..).range(5), 0..5);
        assert_eq!((2..).range(5), 2..5);
        assert_eq!((..=2).range(5), 0..3);
        assert_eq!((1..=3).range(5), 1..4);
        assert_eq!(4.range(5), 4..5);
        assert_eq!((Bound::Excluded(1), Bound::Unbounded).range(5), 2..5);
        // Ranges that are out of bounds remain as written.
        assert_eq!((7..).range(5), 7..7);
        assert_eq!(5.range(5), 5..6);
        #[expect(clippy::reversed_empty_ranges)]
        let reversed = (3..1).range(5);
        assert_eq!((reversed.start, reversed.end), (3, 1));
        // Nothing overflows.
        assert_eq!((0..=usize::MAX).range(5), 0..usize::MAX);
        assert_eq!(usize::MAX.range(5), usize::MAX..usize::MAX);
        assert_eq!((Bound::Excluded(usize::MAX), Bound::Unbounded).range(5), usize::MAX..usize::MAX);
    }
}
