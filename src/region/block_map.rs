//! Values over the disjoint boxes of several dimensions.
//!
//! Programs visit the same blocks again and again, so the parts that a block is made of are remembered until parts
//! change; then a visit costs one look-up. Otherwise a uniform grid of cells, each with the list of boxes that touch it,
//! finds them. The cell takes the size of the first box that splits the whole, as programs cut their data into blocks of
//! about one size.

use super::Block;
use super::block::MAX_DIMS;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// The most cells along one dimension: bounds the cost of a box that covers everything.
const MOST_CELLS: usize = 64;

/// More blocks than this are not remembered.
const MOST_KNOWN: usize = 4096;

/// The most parts under one block that are left apart after a write of all of it.
pub(super) const PARTS_LEFT_APART: usize = 64;

type Cell = [u16; MAX_DIMS];

/// Values over disjoint boxes that cover one box.
#[derive(Debug)]
pub struct BlockMap<V> {
    whole: Block,
    cell: [usize; MAX_DIMS],
    parts: Vec<Option<(Block, V)>>,
    free: Vec<u32>,
    /// The parts that a visited block is made of, as long as they are the same.
    known: FxHashMap<Block, SmallVec<[u32; 4]>>,
    cells: FxHashMap<Cell, SmallVec<[u32; 4]>>,
    found: Vec<u32>,
}

impl<V: Clone> BlockMap<V> {
    /// One box with one value.
    pub fn new(whole: Block, value: V) -> Self {
        let mut map = Self {
            whole,
            cell: whole.extents().map(|extent| extent.max(1)),
            parts: Vec::new(),
            free: Vec::new(),
            known: FxHashMap::default(),
            cells: FxHashMap::default(),
            found: Vec::new(),
        };
        if !whole.is_empty() {
            map.insert(whole, value);
        }
        map
    }

    /// Visits every box inside `block`, after splitting those that cross its faces.
    pub fn visit(&mut self, block: &Block, mut visit: impl FnMut(Block, &mut V)) {
        let Some(block) = self.whole.intersection(block) else { return };
        if let Some(known) = self.known.get(&block) {
            for &index in known {
                if let Some((part, value)) = &mut self.parts[index as usize] {
                    visit(*part, value);
                }
            }
            return;
        }
        if self.len() == 1 {
            self.choose_cell(&block);
        }
        let mut found = std::mem::take(&mut self.found);
        self.find(&block, &mut found);
        let mut inside: SmallVec<[u32; 4]> = SmallVec::new();
        for &index in &found {
            let Some((part, value)) = &mut self.parts[index as usize] else { continue };
            if block.contains(part) {
                visit(*part, value);
                inside.push(index);
            } else if let Some((part, mut value)) = self.remove(index) {
                part.subtract(&block, |piece| _ = self.insert(piece, value.clone()));
                if let Some(common) = part.intersection(&block) {
                    visit(common, &mut value);
                    inside.push(self.insert(common, value));
                }
            }
        }
        self.found = found;
        if self.known.len() == MOST_KNOWN {
            self.known.clear();
        }
        self.known.insert(block, inside);
    }

    /// Visits the overlap with `block` of every box that has one.
    pub fn peek(&self, block: &Block, mut visit: impl FnMut(Block, &V)) {
        if let Some(known) = self.known.get(block) {
            for &index in known {
                if let Some((part, value)) = &self.parts[index as usize] {
                    visit(*part, value);
                }
            }
            return;
        }
        let mut found = Vec::new();
        self.find(block, &mut found);
        for index in found {
            if let Some((part, value)) = &self.parts[index as usize]
                && let Some(inside) = part.intersection(block)
            {
                visit(inside, value);
            }
        }
    }

    /// Makes one box of all that lie inside `block`; none may cross its faces. One of their values stays.
    pub fn unite(&mut self, block: &Block) {
        let mut found = Vec::new();
        self.find(block, &mut found);
        let mut kept = None;
        for index in found {
            if let Some((_, value)) = self.remove(index) {
                kept.get_or_insert(value);
            }
        }
        if let Some(value) = kept {
            self.insert(*block, value);
        }
    }

    /// How many boxes there are.
    pub fn len(&self) -> usize {
        self.parts.len() - self.free.len()
    }

    /// Whether there is no box.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes the extents of the first block that splits the whole as the grid's cell.
    fn choose_cell(&mut self, block: &Block) {
        let Some(index) = self.parts.iter().position(Option::is_some).map(|index| index as u32) else { return };
        let Some((part, value)) = self.remove(index) else { return };
        let (whole, wanted) = (self.whole.extents(), block.extents());
        self.cell = std::array::from_fn(|d| wanted[d].max(whole[d].div_ceil(MOST_CELLS)).max(1));
        self.insert(part, value);
    }

    /// The indices of all boxes that overlap `block`, each once, in ascending order.
    fn find(&self, block: &Block, found: &mut Vec<u32>) {
        found.clear();
        for_each_cell(&self.cell, block, |cell| {
            found.extend(self.cells.get(&cell).into_iter().flatten());
        });
        found.sort_unstable();
        found.dedup();
        found.retain(|&index| self.parts[index as usize].as_ref().is_some_and(|(part, _)| part.overlaps(block)));
    }

    fn insert(&mut self, block: Block, value: V) -> u32 {
        self.known.clear();
        let index = self.free.pop().unwrap_or_else(|| {
            self.parts.push(None);
            (self.parts.len() - 1) as u32
        });
        self.parts[index as usize] = Some((block, value));
        for_each_cell(&self.cell, &block, |cell| self.cells.entry(cell).or_default().push(index));
        index
    }

    fn remove(&mut self, index: u32) -> Option<(Block, V)> {
        let (block, value) = self.parts[index as usize].take()?;
        self.known.clear();
        for_each_cell(&self.cell, &block, |cell| {
            if let Some(list) = self.cells.get_mut(&cell) {
                list.retain(|other| *other != index);
            }
        });
        self.free.push(index);
        Some((block, value))
    }
}

fn for_each_cell(size: &[usize; MAX_DIMS], block: &Block, mut each: impl FnMut(Cell)) {
    if block.is_empty() {
        return;
    }
    let first: [usize; MAX_DIMS] = std::array::from_fn(|d| block.lo()[d] / size[d]);
    let last: [usize; MAX_DIMS] = std::array::from_fn(|d| (block.hi()[d] - 1) / size[d]);
    for i in first[0]..=last[0] {
        for j in first[1]..=last[1] {
            for k in first[2]..=last[2] {
                for l in first[3]..=last[3] {
                    each([i as u16, j as u16, k as u16, l as u16]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range(max: usize) -> impl Strategy<Value = std::ops::Range<usize>> {
        (0..=max, 0..=max).prop_map(|(a, b)| a.min(b)..a.max(b))
    }

    proptest! {
        /// Against one value per element of a 9×7×5 array.
        #[test]
        fn agrees_with_an_array(
            ops in prop::collection::vec((range(9), range(7), range(5), any::<bool>()), 1..40)
        ) {
            let shape = [9, 7, 5];
            let mut map = BlockMap::new(Block::whole(&shape), 0usize);
            let mut model = vec![0usize; 9 * 7 * 5];
            let elements = |b: &Block| {
                let b = *b;
                b.range(0).flat_map(move |i| b.range(1).flat_map(move |j| b.range(2).map(move |k| (i * 7 + j) * 5 + k)))
            };
            for (n, (i, j, k, unite)) in ops.into_iter().enumerate() {
                let block = Block::new(&[i, j, k]);
                map.visit(&block, |part, v| {
                    assert!(block.contains(&part));
                    *v = n + 1;
                });
                elements(&block).for_each(|e| model[e] = n + 1);
                if unite && !block.is_empty() {
                    map.unite(&block);
                }
                let mut covered = 0;
                map.peek(&Block::whole(&shape), |part, v| {
                    covered += part.volume();
                    assert!(elements(&part).all(|e| model[e] == *v));
                });
                prop_assert_eq!(covered, model.len());
            }
        }
    }

    #[test]
    fn equal_blocks_are_found_by_hash() {
        let mut map = BlockMap::new(Block::whole(&[64, 64]), 0);
        let block = Block::new(&[16..32, 0..16]);
        map.visit(&block, |_, v| *v = 1);
        let parts = map.len();
        map.visit(&block, |part, v| assert_eq!((part, *v), (block, 1)));
        assert_eq!(map.len(), parts);
    }
}
