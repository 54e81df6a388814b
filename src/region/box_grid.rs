//! A grid of cells: which of many boxes overlap a given one, where most boxes are about as large as each other?
//!
//! Programs tile arrays. A cell is about as large as a tile, and has a list of the boxes that share an element with it: a
//! tile is found by one look into a table, and so are its neighbours' halos. A box costs one entry for each of its
//! cells, whatever the number of boxes. Boxes of more than [`MOST_CELLS`] along an axis have a list of their own. Where most
//! cells have boxes the table has a place for each; as long as few have any, it is a hash table.
//!
//! The cells' extents follow from the boxes: along each axis three quarters of them are no longer than a cell. They are
//! looked at again whenever there are four times as many.
//!
//! A grid does not suit all boxes: it counts what searches look at in vain, and says so when that is too much
//! ([`is_wasteful`](BoxGrid::is_wasteful)). Who owns it turns to a tree then ([`super::box_set`]).
//!
//! Invariants:
//! 1. An item whose box is not empty is in the list of each of its cells, or in that of large boxes; nowhere else, and
//!    nowhere twice.
//! 2. A search names an item in one cell only: that of the lowest corner of what the two boxes have in common.

use super::Block;
use super::block::MAX_DIMS;
use super::cells::{Cell, for_each_cell, volume};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// The most cells along an axis in whose lists a box is: a tile and its halo have 3, or 4 if tiles do not fill cells.
const MOST_CELLS: u32 = 4;

/// Searches may look at so much more than they are allowed, all in all.
const PATIENCE: i64 = 1 << 12;

/// What a search may look at in any case, and for each box that it finds.
const ALLOWED: (i64, i64) = (32, 8);

/// While there are no more cells than this for each box, all have a place in the table.
const CELLS_PER_BOX: u64 = 8;

/// What an item has whose box was taken out.
const GONE: Block = Block::from_corners([0; MAX_DIMS], [0; MAX_DIMS]);

/// Boxes, each with an item; see the module.
#[derive(Debug)]
pub(super) struct BoxGrid {
    whole: Block,
    scale: Scale,
    /// Each item's box.
    boxes: Vec<Block>,
    cells: Cells,
    large: Vec<u32>,
    len: usize,
    /// With so many boxes the scale is looked at again.
    look_again_at: usize,
    /// What searches have looked at in vain, less what they were allowed to.
    wasted: std::cell::Cell<i64>,
}

/// The boxes of each cell.
#[derive(Debug)]
enum Cells {
    /// Of all cells, in row-major order, and how many there are along each axis.
    All(Cell, Vec<Items>),
    /// Of those that have any.
    Some(FxHashMap<Cell, Items>),
}

type Items = SmallVec<[u32; 4]>;

/// Where cells begin and end: the indices of a cell differ in the lowest bits, after an offset was added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Scale {
    offset: [usize; MAX_DIMS],
    shift: [u32; MAX_DIMS],
}

impl BoxGrid {
    /// A grid of these boxes, which lie inside `whole` and are not empty.
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

    /// Takes an item out.
    pub(super) fn remove(&mut self, item: u32) {
        self.unlink(item);
        self.boxes[item as usize] = GONE;
        self.len -= 1;
    }

    /// Gives an item another box.
    pub(super) fn set(&mut self, item: u32, block: &Block) {
        self.unlink(item);
        self.boxes[item as usize] = *block;
        self.link(item);
    }

    /// The items of all boxes that overlap `block`.
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

    /// Whether cells of any extents do not suit these boxes, or what is sought.
    #[inline]
    pub(super) fn is_wasteful(&self) -> bool {
        self.wasted.get() > PATIENCE
    }

    /// All boxes.
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

    /// Takes the extents of cells that suit the boxes there are now, and the table that suits these.
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
    /// Without boxes; there will be about so many.
    fn new(whole: &Block, scale: &Scale, boxes: usize) -> Self {
        match Self::table(whole, scale, boxes) {
            Some((extents, number)) => Self::All(extents, vec![Items::new(); number]),
            None => Self::Some(FxHashMap::default()),
        }
    }

    /// The extents of a table of all cells, and their number, if it would not be large for so many boxes.
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

    /// The list of a cell, which will not be left empty.
    #[inline]
    fn list(&mut self, cell: &Cell) -> &mut Items {
        match self {
            Self::All(extents, lists) => &mut lists[position(cell, extents)],
            Self::Some(lists) => lists.entry(*cell).or_default(),
        }
    }

    /// The cell has no boxes any more.
    fn vacate(&mut self, cell: &Cell) {
        match self {
            Self::All(..) => self.list(cell).shrink_to_fit(),
            Self::Some(lists) => drop(lists.remove(cell)),
        }
    }
}

/// Where a cell is among so many, in row-major order.
#[inline]
fn position(cell: &Cell, extents: &Cell) -> usize {
    (0..MAX_DIMS).fold(0, |position, d| position * extents[d] as usize + cell[d] as usize)
}

impl Scale {
    /// Cells that most of these boxes are no larger than, and which begin where one of those does.
    fn of(whole: &Block, boxes: &[Block]) -> Self {
        let mut scale = Self { offset: [0; MAX_DIMS], shift: [0; MAX_DIMS] };
        // Where there is one index, all boxes have it.
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

    /// The first and the last cell of a box, along each axis.
    #[inline]
    fn cells(&self, block: &Block) -> (Cell, Cell) {
        (self.cell(|d| block.lo()[d]), self.cell(|d| block.hi()[d] - 1))
    }

    /// The cell of the lowest corner of what two boxes have in common.
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

    /// Boxes of two extents and some of any, in an array in which a few start far out.
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

        /// Against a list that is searched.
        #[test]
        fn finds_what_a_search_finds(
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
    fn a_tile_of_a_regular_tiling_has_one_cell() {
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
    fn the_largest_indices_are_cells_too() {
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
