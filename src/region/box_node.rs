//! Arithmetic of a tree node: up to [`WIDTH`] boxes, stored together, and their overlap with another box.
//!
//! All lower corners along an axis are stored contiguously, and so are all upper corners. So a few vector instructions,
//! available on any processor, compare a box with all boxes of a node without a branch. For this purpose, corners are
//! 32-bit *cell* numbers. This module does not know what a cell is or which tree a node belongs to.
//!
//! Invariants:
//! 1. Corners are between 0 and [`MOST_CELLS`], so the sum of a box's extents is less than 2³².
//! 2. Lanes beyond a node's length have unspecified contents.

use super::block::MAX_DIMS;
use arrayvec::ArrayVec;

/// The maximum number of boxes in one node.
pub(super) const WIDTH: usize = 16;

/// A bit for each lane.
const LANES: [i32; WIDTH] = {
    let (mut lanes, mut lane) = ([0; WIDTH], 0);
    while lane < WIDTH {
        lanes[lane] = 1 << lane;
        lane += 1;
    }
    lanes
};

/// The minimum number of children in each half of a split node.
const LEAST: usize = 6;

/// The maximum number of cells along an axis.
pub(super) const MOST_CELLS: usize = (1 << 30) - 1;

/// Index that stands for no node.
pub(super) const NONE: u32 = u32::MAX;

/// A box in units of cells, with an exclusive upper corner. Axes that the tree does not use are `0..0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cells {
    pub(super) lo: [i32; MAX_DIMS],
    pub(super) hi: [i32; MAX_DIMS],
}

impl Cells {
    /// Returns the smallest box that encloses both.
    #[inline]
    fn hull(&self, other: &Self) -> Self {
        let mut hull = *self;
        for axis in 0..MAX_DIMS {
            (hull.lo[axis], hull.hi[axis]) = (hull.lo[axis].min(other.lo[axis]), hull.hi[axis].max(other.hi[axis]));
        }
        hull
    }

    /// Returns the number of cells that both boxes have in common, saturating.
    fn common(&self, other: &Self, axes: usize) -> u64 {
        let extent = |axis: usize| self.hi[axis].min(other.hi[axis]) - self.lo[axis].max(other.lo[axis]);
        (0..axes).fold(1, |volume: u64, axis| volume.saturating_mul(extent(axis).max(0).cast_unsigned().into()))
    }

    /// Returns the sum of the extents.
    fn margin(&self) -> u64 {
        (0..MAX_DIMS).map(|axis| u64::from((self.hi[axis] - self.lo[axis]).cast_unsigned())).sum()
    }
}

/// The lower and the upper corners along one axis.
#[derive(Debug, Clone, Copy, Default)]
struct Corners {
    lo: [i32; WIDTH],
    hi: [i32; WIDTH],
}

/// A node: boxes, each with a child.
#[derive(Debug, Clone)]
pub(super) struct BoxNode {
    corners: [Corners; MAX_DIMS],
    children: [u32; WIDTH],
    len: usize,
    /// The parent node, or [`NONE`].
    pub(super) parent: u32,
    /// The number of node levels below this node. At level 0 the children are items; above that they are nodes.
    pub(super) level: u32,
}

impl BoxNode {
    /// Makes a node without boxes.
    pub(super) fn new(level: u32) -> Self {
        Self { corners: Default::default(), children: [NONE; WIDTH], len: 0, parent: NONE, level }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_full(&self) -> bool {
        self.len == WIDTH
    }

    pub(super) fn children(&self) -> &[u32] {
        &self.children[..self.len]
    }

    #[inline]
    pub(super) fn child(&self, lane: usize) -> u32 {
        self.children[lane]
    }

    /// Returns the lane of a child. The node must have this child.
    #[inline]
    pub(super) fn lane_of(&self, child: u32) -> usize {
        self.children().iter().position(|one| *one == child).expect("a node contains its children")
    }

    /// Returns the box of a lane.
    #[inline]
    pub(super) fn get(&self, lane: usize) -> Cells {
        let mut cells = Cells { lo: [0; MAX_DIMS], hi: [0; MAX_DIMS] };
        for (axis, corners) in self.corners.iter().enumerate() {
            (cells.lo[axis], cells.hi[axis]) = (corners.lo[lane], corners.hi[lane]);
        }
        cells
    }

    /// Replaces the box of a lane.
    #[inline]
    pub(super) fn set(&mut self, lane: usize, cells: &Cells) {
        for (axis, corners) in self.corners.iter_mut().enumerate() {
            (corners.lo[lane], corners.hi[lane]) = (cells.lo[axis], cells.hi[axis]);
        }
    }

    /// Grows a lane's box just enough to also contain `cells`.
    #[inline]
    pub(super) fn stretch(&mut self, lane: usize, cells: &Cells) {
        self.set(lane, &self.get(lane).hull(cells));
    }

    /// Adds a child; the node must not be full.
    #[inline]
    pub(super) fn push(&mut self, cells: &Cells, child: u32) {
        self.set(self.len, cells);
        self.children[self.len] = child;
        self.len += 1;
    }

    /// Removes a child and moves the last child to its lane.
    pub(super) fn swap_remove(&mut self, lane: usize) {
        self.len -= 1;
        self.set(lane, &self.get(self.len));
        self.children[lane] = self.children[self.len];
    }

    /// Returns a bit mask of the lanes whose boxes overlap `sought` along the first `axes` axes.
    #[inline]
    pub(super) fn overlapping(&self, sought: &Cells, axes: usize) -> u32 {
        let mut hits = LANES;
        for (axis, corners) in self.corners.iter().enumerate().take(axes) {
            let (lo, hi) = (sought.lo[axis], sought.hi[axis]);
            for (lane, hit) in hits.iter_mut().enumerate() {
                let overlaps = (corners.lo[lane] < hi) & (lo < corners.hi[lane]);
                *hit &= -i32::from(overlaps);
            }
        }
        hits.iter().fold(0, |mask, hit| mask | hit).cast_unsigned() & ((1 << self.len) - 1)
    }

    /// Returns the lane of the box that has to grow least to contain `cells`; among equals, the lane whose grown box is
    /// the smallest. Size is measured as the sum of extents, because the volume of a thin box says little about its
    /// size.
    #[inline]
    pub(super) fn lane_that_grows_least(&self, cells: &Cells, axes: usize) -> usize {
        let (mut growth, mut after) = ([0u32; WIDTH], [0u32; WIDTH]);
        for (axis, corners) in self.corners.iter().enumerate().take(axes) {
            let (lo, hi) = (cells.lo[axis], cells.hi[axis]);
            for lane in 0..WIDTH {
                let before = corners.hi[lane] - corners.lo[lane];
                let extent = corners.hi[lane].max(hi) - corners.lo[lane].min(lo);
                growth[lane] += (extent - before).cast_unsigned();
                after[lane] += extent.cast_unsigned();
            }
        }
        let key = |lane: usize| (u64::from(growth[lane]) << 32) | u64::from(after[lane]);
        (0..self.len).min_by_key(|lane| key(*lane)).unwrap_or(0)
    }

    /// Returns the smallest box that encloses all boxes. The node must not be empty.
    pub(super) fn hull(&self) -> Cells {
        (1..self.len).fold(self.get(0), |hull, lane| hull.hull(&self.get(lane)))
    }

    /// Divides the children of a full node plus one further child: about half of them stay, and the others move to a
    /// new node, which is returned. The cut's axis and position are chosen so that the two sides' boxes overlap least.
    /// Ties are resolved in favour of the smallest boxes, and then of the most even division.
    #[cold]
    pub(super) fn halve(&mut self, cells: &Cells, child: u32, axes: usize) -> Self {
        let mut all: ArrayVec<(Cells, u32), { WIDTH + 1 }> =
            (0..self.len).map(|lane| (self.get(lane), self.children[lane])).collect();
        all.push((*cells, child));
        let mut best = ((u64::MAX, u64::MAX, 0), [0; WIDTH + 1], LEAST);
        for axis in 0..axes.max(1) {
            let mut order: [usize; WIDTH + 1] = std::array::from_fn(|lane| lane);
            order.sort_by_key(|lane| all[*lane].0.lo[axis] + all[*lane].0.hi[axis]);
            let mut high = [all[order[WIDTH]].0; WIDTH + 1];
            for at in (0..WIDTH).rev() {
                high[at] = high[at + 1].hull(&all[order[at]].0);
            }
            let mut low = all[order[0]].0;
            for at in 1..=WIDTH + 1 - LEAST {
                let unevenness = at.abs_diff(WIDTH / 2);
                let rating = (low.common(&high[at], axes), low.margin() + high[at].margin(), unevenness);
                if at >= LEAST && rating < best.0 {
                    best = (rating, order, at);
                }
                low = low.hull(&all[order[at]].0);
            }
        }
        let (_, order, at) = best;
        let mut right = Self::new(self.level);
        self.len = 0;
        for (place, (cells, child)) in order.into_iter().map(|lane| &all[lane]).enumerate() {
            let side = if place < at { &mut *self } else { &mut right };
            side.push(cells, *child);
        }
        right
    }
}
