//! Regions: the boxes inside a data object that tasks declare.
//!
//! This module is pure arithmetic on index ranges, without data, tasks or locks. A [`Block`] is a half-open box of up
//! to `MAX_DIMS` dimensions. Two maps store a value for each part of a data object and split parts where a new block
//! crosses them: `IntervalMap` for one dimension (ordered), `BlockMap` for more (a hash table, and a grid or a tree of
//! boxes).
//!
//! Invariants of both maps:
//! 1. The parts are always disjoint and together cover the whole data object.
//! 2. A part is split only where a visited block crosses it. So a block that was visited once can be found whole until
//!    parts are united, which happens if the caller requests it, or if the parts' values are alike and the map is worn.

mod block;
mod block_map;
mod box_grid;
mod box_index;
mod box_node;
mod box_set;
mod box_tree;
mod cells;
mod interval_map;
mod leaves;
mod narrow;
mod tiling;
mod wear;

pub use block::Block;
pub(crate) use block::MAX_DIMS;
pub(crate) use block_map::BlockMap;
pub(crate) use box_index::{BoxIndex, Entry};
pub(crate) use box_set::BoxSet;
pub(crate) use box_tree::BoxTree;
#[cfg(test)]
pub(crate) use box_tree::LOOKED_AT;
pub(crate) use cells::Cell;
pub(crate) use interval_map::IntervalMap;
pub(crate) use narrow::NarrowBlock;
pub(crate) use tiling::{Span, Tiling};

use std::ops::Range;

/// A map from the parts of a data object to values, for any number of dimensions.
#[derive(Debug)]
pub(crate) enum RegionMap<V> {
    /// One dimension: intervals, visited in ascending order.
    Line(IntervalMap<V>),
    /// More dimensions: boxes, visited in no particular (but deterministic) order.
    Grid(Box<BlockMap<V>>),
}

/// A visited part, in its map's own representation.
#[derive(Debug)]
pub(crate) enum Part<'m> {
    /// One dimension.
    Interval(Range<usize>),
    /// More dimensions.
    Box(&'m Block),
}

impl Part<'_> {
    /// Returns the part as a block.
    pub(crate) fn block(&self) -> Block {
        match self {
            Self::Interval(range) => Block::interval(range.clone()),
            Self::Box(block) => **block,
        }
    }
}

impl<V: Clone> RegionMap<V> {
    /// Makes a map over `whole`, a block of `ndim` dimensions, with the same value for every part.
    pub(crate) fn new(whole: Block, ndim: usize, value: V) -> Self {
        if ndim <= 1 {
            Self::Line(IntervalMap::new(whole.range(0), value))
        } else {
            Self::Grid(Box::new(BlockMap::new(whole, value)))
        }
    }

    /// If this is a one-dimensional map whose only part is `block`, returns the part's value. For most data objects,
    /// this is always the case.
    #[inline]
    pub(crate) fn undivided(&mut self, block: &Block) -> Option<&mut V> {
        match self {
            Self::Line(map) => map.undivided(block.lo()[0], block.hi()[0]),
            Self::Grid(_) => None,
        }
    }

    /// If this is a one-dimensional map and the part after the one visited last is `block`, returns that part's value.
    #[inline]
    pub(crate) fn next_if(&mut self, block: &Block) -> Option<&mut V> {
        match self {
            Self::Line(map) => map.next_if(block.lo()[0], block.hi()[0]),
            Self::Grid(_) => None,
        }
    }

    /// Returns the number of boxes, or `None` for a one-dimensional map.
    pub(crate) fn boxes(&self) -> Option<usize> {
        if let Self::Grid(map) = self { Some(map.len()) } else { None }
    }

    /// Returns the number of parts.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Line(map) => map.len(),
            Self::Grid(map) => map.len(),
        }
    }

    /// Visits every part inside `block`, after splitting the parts that cross its faces.
    #[inline]
    pub(crate) fn visit(&mut self, block: &Block, mut visit: impl FnMut(Part<'_>, &mut V)) {
        match self {
            Self::Line(map) => map.visit(block.range(0), |range, value| visit(Part::Interval(range), value)),
            Self::Grid(map) => map.visit(block, |block, value| visit(Part::Box(&block), value)),
        }
    }

    /// Sets the value of every part inside `block`, after splitting the parts that cross its faces. Returns the number
    /// of parts inside `block`; if there are too many, they are united.
    pub(crate) fn assign(&mut self, block: &Block, value: &V) -> usize {
        let mut parts = 0;
        match self {
            Self::Line(map) => map.visit(block.range(0), |_, of_part| {
                of_part.clone_from(value);
                parts += 1;
            }),
            Self::Grid(map) => parts = map.assign(block, value),
        }
        self.unite_if_many(block, parts);
        parts
    }

    /// Visits every part that overlaps `block`, without splitting. The visitor sees only the overlap, not the whole
    /// part.
    pub(crate) fn peek(&self, block: &Block, mut visit: impl FnMut(Block, &V)) {
        match self {
            Self::Line(map) => map.peek(block.range(0), |range, value| visit(Block::interval(range), value)),
            Self::Grid(map) => map.peek(block, visit),
        }
    }

    /// Counts a visit that reached this many parts. If many visits have reached many parts, or if there are many parts,
    /// settles all values and unites neighbours that are alike. Returns whether it did so.
    ///
    /// Invariant: `alike` returns true only for values that no later visit can distinguish.
    #[inline]
    pub(crate) fn wear(&mut self, met: usize, settle: impl FnMut(&mut V), alike: impl Fn(&V, &V) -> bool) -> bool {
        match self {
            Self::Line(map) => map.wear(met, settle, alike),
            Self::Grid(map) => map.wear(met, settle, alike),
        }
    }

    /// Unites the `visited` parts inside `block` if there are too many. The first part's value is kept.
    ///
    /// Must be called when all parts inside `block` hold equal values (after a write of the whole block), so that a
    /// long history of crossing blocks does not leave behind many small parts.
    #[inline]
    pub(crate) fn unite_if_many(&mut self, block: &Block, visited: usize) {
        match self {
            Self::Line(map) if visited > interval_map::PARTS_LEFT_APART => map.unite(block.range(0)),
            Self::Grid(map) if visited > block_map::PARTS_LEFT_APART => map.unite(block),
            Self::Line(_) | Self::Grid(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_dimension_is_visited_in_order() {
        let mut map = RegionMap::new(Block::whole(&[100]), 1, "old");
        map.visit(&Block::interval(20..30), |_, value| *value = "new");
        let mut seen = vec![];
        map.visit(&Block::whole(&[100]), |part, value| seen.push((part.block().range(0), *value)));
        assert_eq!(seen, [(0..20, "old"), (20..30, "new"), (30..100, "old")]);
    }
}
