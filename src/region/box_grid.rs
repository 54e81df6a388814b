//! A grid of cells that finds the boxes overlapping a given box, for sets in which most boxes have about the same size.
//!
//! Programs usually tile arrays. A cell is about as large as a tile and lists the boxes that share an element with it,
//! so a single table lookup finds a tile and its neighbours' halos. A box costs one entry per cell that it overlaps,
//! regardless of the number of boxes. Boxes that span more than [`MOST_CELLS`] cells along an axis are kept in a
//! separate list. If most cells contain boxes, the table has an entry for every cell; if only a few do, it is a hash
//! table.
//!
//! The cell extents are derived from the boxes: along each axis, three quarters of the boxes are no longer than a cell.
//! The extents are reconsidered whenever the number of boxes has quadrupled.
//!
//! A grid does not suit all sets of boxes. So it counts the entries that searches examine in vain, and reports when
//! there are too many of these ([`is_wasteful`](BoxGrid::is_wasteful)). Its owner then switches to a tree
//! ([`super::box_set`]).
//!
//! Invariants:
//! 1. An item with a non-empty box is either in the list of each of its cells or in the list of large boxes. It is in
//!    no other list, and in no list twice.
//! 2. A search reports an item in exactly one cell, which is the cell of the lowest corner of the two boxes'
//!    intersection.

use super::Block;
use super::block::MAX_DIMS;
use super::cells::{Cell, for_each_cell, volume};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Maximum number of cells along an axis that list the same box. A tile with its halo spans 3 cells, or 4 if tiles do
/// not fill cells exactly.
const MOST_CELLS: u32 = 4;

/// Total number of entries by which searches may exceed their allowance.
const PATIENCE: i64 = 1 << 12;

/// The number of entries that a search may always examine, and the additional number per box that it finds.
const ALLOWED: (i64, i64) = (32, 8);

/// If there are at most this many cells per box, the table has an entry for every cell.
const CELLS_PER_BOX: u64 = 8;

/// Placeholder box of a removed item.
const GONE: Block = Block::from_corners([0; MAX_DIMS], [0; MAX_DIMS]);

/// Boxes, each with an item; see the module documentation.
#[derive(Debug)]
pub(super) struct BoxGrid {
    whole: Block,
    scale: Scale,
    /// Each item's box.
    boxes: Vec<Block>,
    cells: Cells,
    large: Vec<u32>,
    len: usize,
    /// Number of boxes at which the cell extents are reconsidered.
    look_again_at: usize,
    /// Number of entries that searches have examined in vain, minus their allowance.
    wasted: std::cell::Cell<i64>,
}

/// The boxes listed by each cell.
#[derive(Debug)]
enum Cells {
    /// The lists of all cells, in row-major order, and the number of cells along each axis.
    All(Cell, Vec<Items>),
    /// The lists of only those cells that have any boxes.
    Some(FxHashMap<Cell, Items>),
}

type Items = SmallVec<[u32; 4]>;

/// The cell boundaries: after an offset has been added, the indices of one cell differ only in their lowest bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Scale {
    offset: [usize; MAX_DIMS],
    shift: [u32; MAX_DIMS],
}

impl BoxGrid {
    /// Makes a grid of these boxes, which must lie inside `whole` and must not be empty.
    pub(super) fn new(whole: &Block, boxes: &[(u32, Block)]) -> Self {
        let mut grid = Self {
            whole: *whole,
            scale: Scale { offset: [0; MAX_DIMS], shift: [0; MAX_DIMS] },
            boxes: Vec::new(),
            cells: Cells::Some(FxHashMap::default()),
            large: Vec::new(),
            len: boxes.len(),
            look_again_at: 4 * boxes.len(),
            wasted: std::cell::Cell::new(0),
        };
        for (item, block) in boxes {
            *grid.place_of(*item) = *block;
        }
        grid.scale = Scale::of(whole, &grid.boxes);
        grid.cells = Cells::new(whole, &grid.scale, grid.len);
        grid.link_all();
        grid
    }

    /// Adds a box.
    #[inline]
    pub(super) fn insert(&mut self, block: &Block, item: u32) {
        if self.len >= self.look_again_at {
            self.look_again();
        }
        *self.place_of(item) = *block;
        self.len += 1;
        self.link(item);
    }

    /// Removes an item.
    pub(super) fn remove(&mut self, item: u32) {
        self.unlink(item);
        self.boxes[item as usize] = GONE;
        self.len -= 1;
    }

    /// Replaces an item's box.
    pub(super) fn set(&mut self, item: u32, block: &Block) {
        self.unlink(item);
        self.boxes[item as usize] = *block;
        self.link(item);
    }

    /// Visits the items of all boxes that overlap `block`.
    #[inline]
    pub(super) fn find(&self, block: &Block, mut found: impl FnMut(u32)) {
        let Some(sought) = self.whole.intersection(block) else { return };
        let (low, high) = self.scale.cells(&sought);
        let (mut looked_at, mut hits) = (0, 0);
        let mut look = |items: &[u32], cell: Option<Cell>| {
            looked_at += 1 + items.len();
            for &item in items {
                let other = &self.boxes[item as usize];
                if other.overlaps(&sought) && cell.is_none_or(|cell| self.scale.first_common(other, &sought) == cell) {
                    hits += 1;
                    found(item);
                }
            }
        };
        if low == high {
            look(self.cells.at(&low), None);
        } else if volume(&low, &high) <= self.len as u64 {
            for_each_cell(low, high, |cell| {
                look(self.cells.at(&cell), Some(cell));
            });
        } else {
            let all = (0..).zip(&self.boxes).filter(|(_, other)| other.overlaps(&sought)).map(|(item, _)| item);
            return all.for_each(found);
        }
        look(&self.large, None);
        #[cfg(test)]
        super::LOOKED_AT.set(super::LOOKED_AT.get() + looked_at);
        let wasted = self.wasted.get() + looked_at as i64 - ALLOWED.0 - ALLOWED.1 * hits;
        self.wasted.set(wasted.max(0));
    }

    /// Whether no cell extents suit these boxes or the searches for them.
    #[inline]
    pub(super) fn is_wasteful(&self) -> bool {
        self.wasted.get() > PATIENCE
    }

    /// Visits all boxes.
    pub(super) fn boxes(&self) -> impl Iterator<Item = (u32, &Block)> {
        (0..).zip(&self.boxes).filter(|(_, block)| !block.is_empty())
    }

    #[inline]
    fn place_of(&mut self, item: u32) -> &mut Block {
        let item = item as usize;
        if item >= self.boxes.len() {
            self.boxes.resize(item + 1, GONE);
        }
        &mut self.boxes[item]
    }

    #[inline]
    fn link(&mut self, item: u32) {
        let (low, high) = self.scale.cells(&self.boxes[item as usize]);
        if is_large(&low, &high) {
            return self.large.push(item);
        }
        for_each_cell(low, high, |cell| self.cells.list(&cell).push(item));
    }

    fn unlink(&mut self, item: u32) {
        let (low, high) = self.scale.cells(&self.boxes[item as usize]);
        let take_out = |items: &mut [u32]| {
            let at = items.iter().position(|other| *other == item).expect("invariant 1");
            self.wasted.set(self.wasted.get() + at as i64);
            at
        };
        if is_large(&low, &high) {
            let at = take_out(&mut self.large);
            self.large.swap_remove(at);
            return;
        }
        for_each_cell(low, high, |cell| {
            let items = self.cells.list(&cell);
            let at = take_out(items);
            items.swap_remove(at);
            if items.is_empty() {
                self.cells.vacate(&cell);
            }
        });
    }

    /// Switches to the cell extents that suit the current boxes, and to the table that suits these extents.
    #[cold]
    fn look_again(&mut self) {
        self.look_again_at = 4 * self.len;
        let scale = Scale::of(&self.whole, &self.boxes);
        let has_all = Cells::table(&self.whole, &scale, self.len).is_some();
        if scale != self.scale || has_all != self.cells.has_all() {
            self.cells = Cells::new(&self.whole, &scale, self.len);
            self.scale = scale;
            self.large.clear();
            self.link_all();
        }
    }

    fn link_all(&mut self) {
        for item in 0..self.boxes.len() {
            if !self.boxes[item].is_empty() {
                self.link(item as u32);
            }
        }
    }
}

impl Cells {
    /// Makes an empty table for about this many boxes.
    fn new(whole: &Block, scale: &Scale, boxes: usize) -> Self {
        match Self::table(whole, scale, boxes) {
            Some((extents, number)) => Self::All(extents, vec![Items::new(); number]),
            None => Self::Some(FxHashMap::default()),
        }
    }

    /// Returns the extents of a table of all cells and the number of cells, or `None` if that is too many for this
    /// number of boxes.
    fn table(whole: &Block, scale: &Scale, boxes: usize) -> Option<(Cell, usize)> {
        let last = scale.cells(whole).1;
        let number = volume(&[0; MAX_DIMS], &last);
        (number <= CELLS_PER_BOX * boxes as u64).then(|| (last.map(|last| last + 1), number as usize))
    }

    fn has_all(&self) -> bool {
        matches!(self, Self::All(..))
    }

    #[inline]
    fn at(&self, cell: &Cell) -> &[u32] {
        match self {
            Self::All(extents, lists) => &lists[position(cell, extents)],
            Self::Some(lists) => lists.get(cell).map_or(&[], |items| items.as_slice()),
        }
    }

    /// Returns the list of a cell. The caller must not leave the list empty.
    #[inline]
    fn list(&mut self, cell: &Cell) -> &mut Items {
        match self {
            Self::All(extents, lists) => &mut lists[position(cell, extents)],
            Self::Some(lists) => lists.entry(*cell).or_default(),
        }
    }

    /// Called when a cell has no boxes left.
    fn vacate(&mut self, cell: &Cell) {
        match self {
            Self::All(..) => self.list(cell).shrink_to_fit(),
            Self::Some(lists) => drop(lists.remove(cell)),
        }
    }
}

/// Returns the row-major position of a cell in a table of these extents.
#[inline]
fn position(cell: &Cell, extents: &Cell) -> usize {
    (0..MAX_DIMS).fold(0, |position, d| position * extents[d] as usize + cell[d] as usize)
}

impl Scale {
    /// Chooses cells that are at least as large as most of these boxes, and whose boundaries are aligned with one of
    /// them.
    fn of(whole: &Block, boxes: &[Block]) -> Self {
        let mut scale = Self { offset: [0; MAX_DIMS], shift: [0; MAX_DIMS] };
        // Skip dimensions with a single index, along which all boxes are alike.
        for d in (0..MAX_DIMS).filter(|d| whole.range(*d).len() > 1) {
            let mut bits: Vec<(u32, usize)> = { boxes.iter().filter(|block| !block.is_empty()) }
                .map(|block| (usize::BITS - (block.range(d).len() - 1).leading_zeros(), block.lo()[d]))
                .collect();
            let upper = 3 * bits.len() / 4;
            let Some((shift, start)) = (!bits.is_empty()).then(|| *bits.select_nth_unstable(upper).1) else {
                return scale;
            };
            let end = whole.hi()[d];
            let shift = shift.max((usize::BITS - end.leading_zeros()).saturating_sub(u32::BITS - 1));
            let offset = 1usize.checked_shl(shift).map_or(0, |extent| start.wrapping_neg() & (extent - 1));
            scale.shift[d] = shift.min(usize::BITS - 1);
            scale.offset[d] = if end.checked_add(offset).is_some() { offset } else { 0 };
        }
        scale
    }

    /// Returns the first and the last cell of a box, along each axis.
    #[inline]
    fn cells(&self, block: &Block) -> (Cell, Cell) {
        (self.cell(|d| block.lo()[d]), self.cell(|d| block.hi()[d] - 1))
    }

    /// Returns the cell of the lowest corner of the intersection of two boxes.
    #[inline]
    fn first_common(&self, one: &Block, other: &Block) -> Cell {
        self.cell(|d| one.lo()[d].max(other.lo()[d]))
    }

    #[inline]
    fn cell(&self, index: impl Fn(usize) -> usize) -> Cell {
        std::array::from_fn(|d| ((index(d) + self.offset[d]) >> self.shift[d]) as u32)
    }
}

#[inline]
fn is_large(low: &Cell, high: &Cell) -> bool {
    (0..MAX_DIMS).any(|d| high[d] - low[d] >= MOST_CELLS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Boxes of two extents and some of arbitrary extents, a few of them far from the start of the array.
    fn block() -> impl Strategy<Value = Block> {
        let side = || {
            prop_oneof![
                4 => (0..8usize, Just(4usize)).prop_map(|(at, len)| at * 4 + 1..at * 4 + 1 + len),
                2 => (0..8usize, Just(6usize)).prop_map(|(at, len)| at * 4..at * 4 + len),
                1 => (0..40usize, 1..40usize).prop_map(|(lo, len)| lo..(lo + len).min(40)),
            ]
        };
        (side(), side(), 0..3usize).prop_map(|(i, j, k)| Block::new(&[i, j, k..k + 1]))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        /// Compares the grid with a list that is searched.
        #[test]
        fn agrees_with_linear_search(
            first in prop::collection::vec(block(), 1..20),
            acts in prop::collection::vec((block(), any::<prop::sample::Index>(), 0..4u8), 1..80),
        ) {
            let whole = Block::whole(&[40, 40, 3]);
            let numbered: Vec<_> = (0..).zip(first).collect();
            let mut grid = BoxGrid::new(&whole, &numbered);
            let mut list: Vec<Option<Block>> = numbered.iter().map(|(_, block)| Some(*block)).collect();
            for (block, which, act) in acts {
                let there: Vec<u32> = (0..).zip(&list).filter(|(_, block)| block.is_some()).map(|(item, _)| item).collect();
                match act {
                    0 if !there.is_empty() => {
                        let item = there[which.index(there.len())];
                        grid.remove(item);
                        list[item as usize] = None;
                    }
                    1 if !there.is_empty() => {
                        let item = there[which.index(there.len())];
                        grid.set(item, &block);
                        list[item as usize] = Some(block);
                    }
                    _ => {
                        grid.insert(&block, list.len() as u32);
                        list.push(Some(block));
                    }
                }
                for sought in [block, whole, Block::new(&[3..4, 0..40, 1..2])] {
                    let mut found = Vec::new();
                    grid.find(&sought, |item| found.push(item));
                    found.sort_unstable();
                    let is_met = |(_, block): &(u32, &Option<Block>)| block.is_some_and(|block| block.overlaps(&sought));
                    let expected: Vec<u32> = (0..).zip(&list).filter(is_met).map(|(item, _)| item).collect();
                    prop_assert_eq!(found, expected);
                }
                prop_assert_eq!(grid.len, list.iter().flatten().count());
            }
        }
    }

    fn tile(i: usize, j: usize, extent: usize) -> Block {
        Block::new(&[i * extent..(i + 1) * extent, j * extent..(j + 1) * extent])
    }

    #[test]
    fn tile_of_a_regular_tiling_has_one_cell() {
        let tiles: Vec<_> = (0..16).map(|n| (n, tile(n as usize / 4, n as usize % 4, 32))).collect();
        let shifted = |block: &Block| Block::new(&[0, 1].map(|d| block.lo()[d] + 5..block.hi()[d] + 5));
        for tiles in [tiles.clone(), tiles.iter().map(|(n, block)| (*n, shifted(block))).collect()] {
            let grid = BoxGrid::new(&Block::whole(&[1000, 1000]), &tiles);
            let lists: Vec<&Items> = match &grid.cells {
                Cells::All(_, lists) => lists.iter().filter(|items| !items.is_empty()).collect(),
                Cells::Some(lists) => lists.values().collect(),
            };
            assert!(grid.large.is_empty() && lists.len() == 16);
            assert!(lists.iter().all(|items| items.len() == 1));
        }
    }

    #[test]
    fn largest_indices_are_found() {
        for (at, len) in [(usize::MAX - 8, 1), (usize::MAX - 8, 3), (1 << 40, 1)] {
            let whole = Block::whole(&[usize::MAX, 4]);
            let near = Block::new(&[0..len, 0..2]);
            let far = Block::new(&[at..at + len, 1..2]);
            let mut grid = BoxGrid::new(&whole, &[(0, near), (1, far)]);
            grid.insert(&far, 2);
            for (sought, expected) in [(near, vec![0]), (far, vec![1, 2]), (whole, vec![0, 1, 2])] {
                let mut found = Vec::new();
                grid.find(&sought, |item| found.push(item));
                assert_eq!(found, expected);
            }
        }
    }

    #[test]
    fn crowded_cells_are_wasteful_and_regular_ones_are_not() {
        let large = (0..100).map(|n| (n, tile(n as usize / 10, n as usize % 10, 64)));
        let mut grid = BoxGrid::new(&Block::whole(&[640, 640]), &large.collect::<Vec<_>>());
        let search = |grid: &BoxGrid, extent: usize| {
            for n in 0..64 {
                grid.find(&tile(n / 8, n % 8, extent), |_| ());
            }
        };
        (0..100).for_each(|_| search(&grid, 64));
        assert!(!grid.is_wasteful());
        for n in 0..64 {
            grid.insert(&tile(n / 8, n % 8, 1), 100 + n as u32);
        }
        (0..100).for_each(|_| search(&grid, 1));
        assert!(grid.is_wasteful());
    }
}
