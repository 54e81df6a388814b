//! Loops split into pieces that are separate tasks: the iterations of a piece, and the piece's part of each array.
//!
//! A piece keeps using the indices of the whole loop and of whole arrays. The part of an array that a piece's task
//! accesses is a *window*: the smallest box that includes all elements that the piece's iterations touch according to
//! the plan. Invariants: no iteration of the piece touches an element outside the window; windows of different pieces
//! do not overlap if the array is written.

use super::extents::{Extents, Measure};
use super::form::Whole;
use super::nest::Nest;
use super::number::Number;
use super::parts::Part;
use crate::error::{Called, SubmitError};
use crate::memory::{Element, Reducer, Shape};
use crate::region::Block;
use crate::task::Region;
use ndarray::{ArrayRef, ArrayView, ArrayViewMut, Ix2, Ix3};
use std::ops::Range;

/// A piece of a loop: the iterations from `first` up to but not including `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    pub first: i128,
    pub end: i128,
}

impl Piece {
    /// Returns the whole range as one piece.
    pub fn of<T: Whole>(range: Range<T>) -> Self {
        Self { first: range.start.whole(), end: range.end.whole() }
    }

    /// Returns the piece as a range.
    pub fn range<T: Whole>(self) -> Range<T> {
        T::of_whole(self.first)..T::of_whole(self.end)
    }

    /// Divides the piece into at most `count` non-empty pieces of about equal size.
    pub fn cut(self, count: usize) -> Vec<Self> {
        let trips = (self.end - self.first).max(0);
        let count = trips.min(count.max(1) as i128);
        let at = |n: i128| self.first + trips * n / count;
        (0..count).map(|n| Self { first: at(n), end: at(n + 1) }).collect()
    }
}

/// The position of a task's part of an array within the whole array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window<const D: usize> {
    /// The first index in the window along each dimension.
    pub base: [usize; D],
    /// The size of the whole array.
    pub whole: Extents<D>,
}

/// Returns the size of a region.
pub fn extents<T: Element, S: Shape, const D: usize>(region: &Region<'_, T, S>) -> Extents<D> {
    Extents(std::array::from_fn(|d| region.range(d).len()))
}

impl<const D: usize> Window<D> {
    /// Returns a window that covers the whole array.
    pub fn all(whole: Extents<D>) -> Self {
        Self { base: [0; D], whole }
    }

    /// Returns the window and the subregion for the given indices of a region.
    pub fn on<'d, T: Element, S: Shape>(
        region: &Region<'d, T, S>,
        indices: &[Range<usize>; D],
    ) -> (Self, Region<'d, T, S>) {
        let inside: [Range<usize>; D] = std::array::from_fn(|d| {
            let first = region.range(d).start;
            first + indices[d].start..first + indices[d].end
        });
        let part = Region { data: region.data, block: Block::new(&inside) };
        (Self { base: std::array::from_fn(|d| indices[d].start), whole: extents(region) }, part)
    }
}

impl Window<1> {
    /// Returns the part that a task reads.
    pub fn seen<'a, T>(&self, view: &'a [T]) -> Part<&'a [T], 1> {
        Part { view, base: self.base, cut: None, extents: self.whole.0 }
    }

    /// Returns the part that a task writes.
    pub fn written<'a, T>(&self, view: &'a mut [T]) -> Part<&'a mut [T], 1> {
        Part { view, base: self.base, cut: None, extents: self.whole.0 }
    }
}

macro_rules! arrays {
    ($($ix:ident $d:literal;)*) => {$(
        impl Window<$d> {
            /// Returns the part that a task reads.
            pub fn seen<'a, T>(&self, view: &'a ArrayRef<T, $ix>) -> Part<ArrayView<'a, T, $ix>, $d> {
                Part { view: view.view(), base: self.base, cut: None, extents: self.whole.0 }
            }

            /// Returns the part that a task writes.
            pub fn written<'a, T>(&self, view: &'a mut ArrayRef<T, $ix>) -> Part<ArrayViewMut<'a, T, $ix>, $d> {
                Part { view: view.view_mut(), base: self.base, cut: None, extents: self.whole.0 }
            }
        }
    )*};
}

arrays! { Ix2 2; Ix3 3; }

impl<V, const D: usize> Measure<D> for Part<V, D> {
    fn measure(&self) -> Extents<D> {
        Extents(self.extents)
    }
}

/// Checks that no two pieces write the same elements of a region.
///
/// # Errors
/// Returns an error if two windows overlap.
#[track_caller]
pub fn apart<const D: usize>(
    function: &str,
    array: &str,
    windows: impl Iterator<Item = [Range<usize>; D]>,
) -> Result<(), SubmitError> {
    let mut windows: Vec<[Range<usize>; D]> = windows.collect();
    // The windows are sorted by their first rows, so all later windows that overlap a window begin before it ends.
    windows.sort_by_key(|window| window[0].start);
    for (n, window) in windows.iter().enumerate() {
        let own = Block::new(window);
        let near = windows[n + 1..].iter().take_while(|other| other[0].start < window[0].end);
        if let Some(other) = near.map(|other| Block::new(other)).find(|other| other.overlaps(&own)) {
            let shown = |block: &Block| block.display(D).to_string();
            let (task, array) = (function.into(), array.to_owned());
            return Err(SubmitError::Split { task, array, first: shown(&own), second: shown(&other) }.called_here());
        }
    }
    Ok(())
}

/// The product operation, for reductions that pieces share.
#[derive(Debug, Clone, Copy)]
pub struct Product;

impl<T: Number> Reducer<T> for Product {
    fn identity(&self) -> T {
        T::ONE
    }

    fn combine(&self, accumulator: &mut T, contribution: T) {
        *accumulator = accumulator.product(contribution);
    }
}

impl Nest {
    /// Returns the piece's window of an array: the smallest box that includes all elements that the piece's
    /// iterations touch.
    pub fn window<const D: usize>(&self, array: usize, whole: Extents<D>) -> [Range<usize>; D] {
        let seen = self.seen(array);
        std::array::from_fn(|d| match seen {
            None => 0..0,
            Some(None) => 0..whole.0[d],
            Some(Some(seen)) => {
                let end = whole.0[d] as i128;
                let (least, most) = (seen[d].least.clamp(0, end), seen[d].most.saturating_add(1).clamp(0, end));
                least as usize..most.max(least) as usize
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_windows_are_found_in_any_order() {
        let is_apart = |windows: &[[Range<usize>; 2]]| apart("f", "x", windows.iter().cloned()).is_ok();
        assert!(is_apart(&[[8..9, 0..5], [0..4, 0..9], [4..8, 0..9], [8..9, 5..9], [3..3, 0..9]]));
        assert!(!is_apart(&[[8..9, 0..5], [0..4, 0..9], [4..8, 0..9], [6..9, 5..9]]));
        assert!(!is_apart(&[[0..9, 0..9], [1..2, 1..2]]));
        let error = apart("f", "x", [[34..40, 0..2], [0..36, 0..2]].into_iter()).unwrap_err().to_string();
        assert!(error.contains("[0..36, 0..2] and [34..40, 0..2]"), "{error}");
    }

    #[test]
    fn pieces_cover_the_range_once() {
        for (first, end, count) in [(0, 10, 3), (-5, 2, 7), (3, 3, 4), (5, 1, 2), (0, 2, 9), (0, 7, 0)] {
            let pieces = Piece { first, end }.cut(count);
            let all: Vec<i128> = pieces.iter().flat_map(|piece| piece.first..piece.end).collect();
            assert_eq!(all, (first..end).collect::<Vec<_>>());
            assert!(pieces.len() <= count.max(1) && pieces.iter().all(|piece| piece.first < piece.end));
        }
    }
}
