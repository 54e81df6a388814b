//! The arithmetic of partitions, which computes the box of a part from the index of the part.
//!
//! Nothing is stored for each part. A part's box follows from its index with one division per cut dimension except the
//! outermost, so a cut costs the same for any number of parts.
//!
//! Invariants:
//! 1. Parts are disjoint and cover the region, unless they are grown. They are numbered in row-major order.
//! 2. No part is empty. The last parts along each dimension may be smaller than the others, and so may the first parts
//!    of a cut on lines.
//! 3. The borders of a cut on lines depend on shapes and sizes, never on addresses or element types. So arrays of the
//!    same shape that are cut in the same way have the same parts, on every machine and in every run.

use crate::region::{Block, MAX_DIMS};
use std::ops::Range;

/// A number of elements that make up whole cache lines of 64 bytes, whatever the size of an element.
const LINE: usize = 64;

/// A region cut into parts.
#[derive(Debug, Clone, Copy)]
#[doc(hidden)]
pub struct Cut {
    region: Block,
    /// The extents of all parts except the first and last along each dimension.
    size: [usize; MAX_DIMS],
    /// The number of elements by which the first parts are smaller, along each dimension.
    lack: [usize; MAX_DIMS],
    /// The number of parts along each dimension.
    counts: [usize; MAX_DIMS],
    len: usize,
    halo: Option<Halo>,
}

/// How far parts extend beyond their borders along each dimension, before and after the part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[doc(hidden)]
pub struct Halo {
    pub(super) before: [usize; MAX_DIMS],
    pub(super) after: [usize; MAX_DIMS],
}

impl Cut {
    /// Cuts a region into parts of this size, given by one number per dimension; further dimensions are not cut.
    #[track_caller]
    pub(super) fn new(region: Block, size: &[usize]) -> Self {
        assert!(!size.contains(&0), "cannot cut {region:?} into blocks of {size:?}: try sizes of 1 or more");
        let mut sizes = [usize::MAX; MAX_DIMS];
        sizes[..size.len()].copy_from_slice(size);
        Self::with_lack(region, sizes, [0; MAX_DIMS])
    }

    fn with_lack(region: Block, size: [usize; MAX_DIMS], lack: [usize; MAX_DIMS]) -> Self {
        let extents = region.extents();
        let counts: [usize; MAX_DIMS] = std::array::from_fn(|d| match extents[d] {
            0 => 0,
            extent => extent.saturating_add(lack[d]).div_ceil(size[d]),
        });
        let len = if counts.contains(&0) { 0 } else { counts.iter().fold(1, |len: usize, n| len.saturating_mul(*n)) };
        Self { region, size, lack, counts, len, halo: None }
    }

    /// Returns the same cut with borders aligned to cache lines, for a data object of this shape whose first element
    /// begins a line.
    ///
    /// If indices are `stride` elements apart, every `LINE / gcd(LINE, stride)`-th index begins a line. Along the
    /// innermost dimension that is cut, the size is rounded up to a multiple of that number, and parts are counted from
    /// the data object's first index. If only one part is left, the next dimension is treated in the same way.
    /// Dimensions further out need no change: if rows are whole lines, any row may be the first of a part; if they are
    /// not, no cut can align the borders inside them.
    pub(super) fn on_lines(mut self, shape: &[usize; MAX_DIMS]) -> Self {
        let mut stride: usize = 1;
        for d in (0..MAX_DIMS).rev() {
            if self.counts[d] > 1 {
                let per_line = LINE >> stride.trailing_zeros().min(LINE.trailing_zeros());
                self.size[d] = self.size[d].next_multiple_of(per_line);
                self.lack[d] = self.region.lo()[d] % self.size[d];
                self = Self { halo: self.halo, ..Self::with_lack(self.region, self.size, self.lack) };
                if self.counts[d] > 1 {
                    break;
                }
            }
            stride = stride.wrapping_mul(shape[d]); // only its lowest bits count
        }
        self
    }

    /// Returns the region that is cut.
    pub(super) fn region(&self) -> &Block {
        &self.region
    }

    /// Describes the number of parts along each of the first `ndim` dimensions.
    pub(super) fn describe(&self, ndim: usize) -> String {
        self.counts[..ndim].iter().map(usize::to_string).collect::<Vec<_>>().join(" × ")
    }

    /// The number of parts.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The number of parts along each dimension.
    #[inline]
    pub(super) fn counts(&self) -> &[usize; MAX_DIMS] {
        &self.counts
    }

    /// Returns the box of an existing part, in a data object of this shape.
    #[inline]
    pub(super) fn part(&self, index: usize, shape: &[usize; MAX_DIMS]) -> Block {
        let mut part = self.region;
        match self.counts[0] == self.len {
            true => part.set_range(0, self.along(0, index)), // no other dimension is cut
            false => self.tile(index, &mut part),
        }
        match &self.halo {
            None => part,
            Some(halo) => halo.around(&part, shape),
        }
    }

    /// Like [`Self::part`], but changes in place a block that is an arbitrary part of this cut. If only one dimension
    /// is cut, two numbers change, and nothing is copied.
    #[inline]
    pub(super) fn place(&self, index: usize, shape: &[usize; MAX_DIMS], block: &mut Block) {
        if self.counts[0] == self.len && self.halo.is_none() {
            block.set_range(0, self.along(0, index));
        } else {
            *block = self.part(index, shape);
        }
    }

    /// Returns the range of parts at this position along a dimension.
    #[inline]
    fn along(&self, d: usize, at: usize) -> Range<usize> {
        let (lo, hi) = (self.region.lo()[d], self.region.hi()[d]);
        let begin = (lo - self.lack[d]) + at.wrapping_mul(self.size[d]); // a whole dimension has `at` = 0
        begin.max(lo)..begin.saturating_add(self.size[d]).min(hi)
    }

    /// Like [`Self::part`], but without the halo, and only if several dimensions are cut; `block` may be any block
    /// inside the region.
    fn tile(&self, index: usize, block: &mut Block) {
        let mut rest = index;
        for d in (1..MAX_DIMS).rev().filter(|d| self.counts[*d] > 1) {
            block.set_range(d, self.along(d, rest % self.counts[d]));
            rest /= self.counts[d];
        }
        block.set_range(0, self.along(0, rest));
    }

    /// Returns the index of the part at this position along each dimension, if it exists.
    #[inline]
    pub(super) fn index_of(&self, at: &[usize]) -> Option<usize> {
        let inside = at.iter().zip(&self.counts).all(|(at, count)| at < count);
        inside.then(|| at.iter().zip(&self.counts).fold(0, |index, (at, count)| index * count + at))
    }

    /// Returns the same parts, each with a halo.
    pub(super) fn grown(self, by: Halo) -> Self {
        let halo = match self.halo {
            None => by,
            Some(halo) => Halo {
                before: std::array::from_fn(|d| halo.before[d].saturating_add(by.before[d])),
                after: std::array::from_fn(|d| halo.after[d].saturating_add(by.after[d])),
            },
        };
        Self { halo: Some(halo), ..self }
    }
}

impl Halo {
    /// Returns a box with its halo, clipped to a data object of this shape. An empty box has no halo.
    #[inline]
    pub(super) fn around(&self, block: &Block, shape: &[usize; MAX_DIMS]) -> Block {
        if block.is_empty() {
            return *block;
        }
        let (lo, hi) = (block.lo(), block.hi());
        let end = |d: usize| hi[d].saturating_add(self.after[d]).min(shape[d].max(hi[d]));
        Block::from_corners(std::array::from_fn(|d| lo[d].saturating_sub(self.before[d])), std::array::from_fn(end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placed_block_is_the_part_with_that_number() {
        let shape = [40, 30, 1, 1];
        let halo = Halo { before: [1, 2, 0, 0], after: [2, 0, 0, 0] };
        let cuts = [
            Cut::new(Block::whole(&shape), &[7]),
            Cut::new(Block::new(&[3..40, 0..30]), &[40, 7]),
            Cut::new(Block::new(&[3..29, 5..30]), &[8, 9]),
            Cut::new(Block::new(&[3..29, 5..30]), &[4]).on_lines(&shape),
            Cut::new(Block::new(&[3..29, 5..30]), &[26, 6]).on_lines(&shape),
        ];
        for cut in cuts.into_iter().flat_map(|cut| [cut, cut.grown(halo)]) {
            let mut block = cut.part(0, &shape);
            for index in (0..cut.len()).rev().chain(0..cut.len()) {
                cut.place(index, &shape, &mut block);
                assert_eq!(block, cut.part(index, &shape), "part {index} of {cut:?}");
            }
        }
    }
}
