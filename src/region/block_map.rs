//! A map from disjoint multi-dimensional boxes to values.
//!
//! A part that exactly equals the visited block is found by its hash. Other parts are found in a grid or a balanced
//! tree ([`BoxSet`]). For any block sizes and any order of visits, the cost is at most logarithmic in the number of
//! parts, plus a term proportional to the number of parts visited.
//!
//! Memory use is proportional to the number of parts, regardless of the size of the whole.

use super::Block;
use super::block::MAX_DIMS;
use super::box_set::BoxSet;
use super::wear::{Wear, commonest, unite_alike};
use rustc_hash::FxHashMap;

/// Maximum number of parts inside one block that stay separate after the whole block has been written.
pub(super) const PARTS_LEFT_APART: usize = 64;

/// If fewer than one in this many boxes differs from the rest, the map is united and then cut again only around the
/// boxes that differ.
const MUCH_COMMON: usize = 16;

/// A map from disjoint boxes, which together cover one box, to values.
#[derive(Debug)]
pub(crate) struct BlockMap<V> {
    whole: Block,
    parts: Vec<Option<Entry<V>>>,
    free: Vec<u32>,
    /// Index of the part that exactly equals a block.
    exact: FxHashMap<Block, u32>,
    boxes: BoxSet,
    found: Vec<u32>,
    wear: Wear,
}

#[derive(Debug)]
struct Entry<V> {
    block: Block,
    value: V,
}

impl<V: Clone> BlockMap<V> {
    /// Makes a map of one box with one value.
    pub(crate) fn new(whole: Block, value: V) -> Self {
        let mut map = Self {
            whole,
            parts: Vec::new(),
            free: Vec::new(),
            exact: FxHashMap::default(),
            boxes: BoxSet::new(&whole),
            found: Vec::new(),
            wear: Wear::new(),
        };
        if !whole.is_empty() {
            map.add(whole, value, |boxes, index| boxes.insert(&whole, index));
        }
        map
    }

    /// Visits every box inside `block`, after splitting the boxes that cross its faces.
    pub(crate) fn visit(&mut self, block: &Block, mut visit: impl FnMut(Block, &mut V)) {
        self.boxes.adapt();
        if let Some(&index) = self.exact.get(block) {
            if let Some(part) = &mut self.parts[index as usize] {
                visit(part.block, &mut part.value);
            }
            return;
        }
        let Some(block) = self.whole.intersection(block) else { return };
        let mut found = std::mem::take(&mut self.found);
        found.clear();
        self.boxes.find(&block, |index| found.push(index));
        for &index in &found {
            if let Some(part) = &self.parts[index as usize]
                && !block.contains(&part.block)
            {
                self.cut(index, &block);
            }
            if let Some(part) = &mut self.parts[index as usize] {
                visit(part.block, &mut part.value);
            }
        }
        self.found = found;
    }

    /// Gives every box inside `block` this value, after splitting the boxes that cross its faces. Returns the number
    /// of boxes.
    pub(crate) fn assign(&mut self, block: &Block, value: &V) -> usize {
        let mut parts = 0;
        if *block == self.whole {
            self.boxes.adapt();
            for part in self.parts.iter_mut().flatten() {
                part.value.clone_from(value);
                parts += 1;
            }
            return parts;
        }
        self.visit(block, |_, of_part| {
            of_part.clone_from(value);
            parts += 1;
        });
        parts
    }

    /// Visits every box that overlaps `block`; the visitor sees the overlap.
    pub(crate) fn peek(&self, block: &Block, mut visit: impl FnMut(Block, &V)) {
        let mut look = |index: u32| {
            if let Some(part) = &self.parts[index as usize]
                && let Some(inside) = part.block.intersection(block)
            {
                visit(inside, &part.value);
            }
        };
        match self.exact.get(block) {
            Some(&index) => look(index),
            None => self.boxes.find(block, look),
        }
    }

    /// Visits the value of every box that overlaps `block`.
    #[inline]
    pub(crate) fn look(&self, block: &Block, mut visit: impl FnMut(&V)) {
        let mut look = |index: u32| {
            if let Some(part) = &self.parts[index as usize] {
                visit(&part.value);
            }
        };
        match self.exact.get(block) {
            Some(&index) => look(index),
            None => self.boxes.find(block, look),
        }
    }

    /// Unites all boxes inside `block`, none of which may cross its faces. The value of one of them is kept.
    pub(crate) fn unite(&mut self, block: &Block) {
        let Some(block) = self.whole.intersection(block) else { return };
        let mut found = Vec::new();
        self.boxes.find(&block, |index| found.push(index));
        let Some((&kept, others)) = found.split_first() else { return };
        if block == self.whole {
            return self.unite_all(kept);
        }
        for &index in others {
            if let Some(part) = self.parts[index as usize].take() {
                self.exact.remove(&part.block);
                self.boxes.remove(index);
                self.free.push(index);
            }
        }
        if let Some(part) = &mut self.parts[kept as usize] {
            self.exact.remove(&part.block);
            self.exact.insert(block, kept);
            self.boxes.set(kept, &block);
            part.block = block;
        }
    }

    /// Like [`RegionMap::wear`](super::RegionMap::wear).
    #[inline]
    pub(crate) fn wear(&mut self, met: usize, settle: impl FnMut(&mut V), alike: impl Fn(&V, &V) -> bool) -> bool {
        let is_due = self.wear.count(met, self.parts.len() - self.free.len());
        if is_due {
            self.merge(settle, alike);
        }
        is_due
    }

    #[cold]
    fn merge(&mut self, mut settle: impl FnMut(&mut V), alike: impl Fn(&V, &V) -> bool) {
        let parts = std::mem::take(&mut self.parts).into_iter().flatten();
        let mut parts: Vec<_> = parts.map(|Entry { block, value }| (block, value)).collect();
        parts.iter_mut().for_each(|(_, value)| settle(value));
        unite_alike(&mut parts, &alike);
        let Some(common) = commonest(&parts, &alike).cloned() else { return };
        let others = |parts: &[(Block, V)]| parts.iter().filter(|(_, value)| !alike(&common, value)).count();
        if MUCH_COMMON * others(&parts) < parts.len() {
            // Only the few boxes that differ cut the rest; earlier cuts are forgotten.
            parts.retain(|(_, value)| !alike(&common, value));
            *self = Self::new(self.whole, common);
            parts.iter().for_each(|(block, value)| self.visit(block, |_, of_part| of_part.clone_from(value)));
        } else {
            *self = Self { parts: Vec::with_capacity(parts.len()), ..Self::new(self.whole, common) };
            (self.boxes, self.exact) = (BoxSet::new(&self.whole), FxHashMap::default());
            for (block, value) in parts {
                self.add(block, value, |boxes, index| boxes.insert(&block, index));
            }
        }
        self.wear.merged(self.len());
    }

    /// Visits all boxes, in no particular (but deterministic) order.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (&Block, &V)> {
        self.parts.iter().flatten().map(|part| (&part.block, &part.value))
    }

    /// Returns the number of boxes.
    pub(crate) fn len(&self) -> usize {
        self.parts.len() - self.free.len()
    }

    /// Starts again with a single part, which covers everything.
    fn unite_all(&mut self, kept: u32) {
        let Some(Entry { value, .. }) = self.parts[kept as usize].take() else { return };
        *self = Self::new(self.whole, value);
    }

    /// Reduces a part to its overlap with `block`, cutting off the rest face by face.
    fn cut(&mut self, index: u32, block: &Block) {
        let Some(part) = &self.parts[index as usize] else { return };
        let (whole, value) = (part.block, part.value.clone());
        let mut rest = whole;
        for d in 0..MAX_DIMS {
            if let Some((below, inside)) = rest.split_at(d, block.lo()[d]) {
                rest = inside;
                self.add(below, value.clone(), |boxes, new| boxes.split(index, &rest, &below, new));
            }
            if let Some((inside, above)) = rest.split_at(d, block.hi()[d]) {
                rest = inside;
                self.add(above, value.clone(), |boxes, new| boxes.split(index, &rest, &above, new));
            }
        }
        if let Some(part) = &mut self.parts[index as usize] {
            part.block = rest;
        }
        self.exact.remove(&whole);
        self.exact.insert(rest, index);
    }

    fn add(&mut self, block: Block, value: V, plant: impl FnOnce(&mut BoxSet, u32)) {
        let index = self.free.pop().unwrap_or_else(|| {
            self.parts.push(None);
            u32::try_from(self.parts.len() - 1).expect("there are fewer than 2³¹ parts")
        });
        plant(&mut self.boxes, index);
        self.parts[index as usize] = Some(Entry { block, value });
        self.exact.insert(block, index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::region::box_tree::LOOKED_AT;
    use proptest::prelude::*;

    fn range(max: usize) -> impl Strategy<Value = std::ops::Range<usize>> {
        (0..=max, 0..=max).prop_map(|(a, b)| a.min(b)..a.max(b))
    }

    proptest! {
        /// Compares the map with one value per element of a 9×7×5 array.
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

    /// A four-dimensional box with sides of a single index, short sides, and long sides.
    fn uneven_box() -> impl Strategy<Value = Block> {
        let side = |len: usize| {
            let short = (0..len, 1..3usize).prop_map(move |(lo, extent)| lo..(lo + extent).min(len));
            prop_oneof![2 => short, 1 => Just(0..len), 1 => range(len)]
        };
        (side(6), side(7), side(3), side(5)).prop_map(|(i, j, k, l)| Block::new(&[i, j, k, l]))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))] // all elements are compared after each change

        /// Compares the map with one value per element of a 6×7×3×5 array, with look-ups between the changes.
        #[test]
        fn boxes_of_very_different_shapes_agree_with_an_array(
            ops in prop::collection::vec((uneven_box(), uneven_box(), 0..4u8), 1..60)
        ) {
            let shape = [6, 7, 3, 5];
            let whole = Block::whole(&shape);
            let mut map = BlockMap::new(whole, 0usize);
            let mut model = vec![0usize; shape.iter().product()];
            let elements = |b: &Block| {
                let mut elements = vec![];
                for (i, j) in b.range(0).flat_map(|i| b.range(1).map(move |j| (i, j))) {
                    for (k, l) in b.range(2).flat_map(|k| b.range(3).map(move |l| (k, l))) {
                        elements.push(((i * 7 + j) * 3 + k) * 5 + l);
                    }
                }
                elements
            };
            for (n, (block, seen, op)) in ops.into_iter().enumerate() {
                let block = if op == 2 && n % 3 == 0 { whole } else { block };
                if op == 2 {
                    prop_assert_eq!(map.assign(&block, &(n + 1)) > 0, !block.is_empty());
                } else {
                    let mut visited = 0;
                    map.visit(&block, |part, v| {
                        assert!(block.contains(&part) && !part.is_empty());
                        visited += part.volume();
                        if op > 0 {
                            *v = n + 1;
                        }
                    });
                    prop_assert_eq!(visited, block.volume());
                }
                if op > 0 {
                    elements(&block).into_iter().for_each(|e| model[e] = n + 1);
                }
                if op == 3 {
                    map.unite(&block);
                }
                for look in [seen, whole] {
                    let mut covered = 0;
                    map.peek(&look, |part, v| {
                        covered += part.volume();
                        assert!(look.contains(&part) && elements(&part).iter().all(|e| model[*e] == *v));
                    });
                    prop_assert_eq!(covered, look.volume());
                }
                prop_assert_eq!(map.exact.len(), map.len());
            }
        }
    }

    /// Different orders in which the tiles of a square are visited.
    fn orders(side: usize) -> [Vec<(usize, usize)>; 3] {
        let rows: Vec<_> = (0..side * side).map(|n| (n / side, n % side)).collect();
        let columns = rows.iter().map(|(i, j)| (*j, *i)).collect();
        let mut mixed = rows.clone();
        mixed.sort_by_key(|(i, j)| (i * 7919 + j * 104_729) % 1009);
        [rows, columns, mixed]
    }

    #[test]
    fn tile_cost_is_logarithmic_in_any_order_of_first_touch() {
        let per_tile = |side: usize, halves: bool, order: Vec<(usize, usize)>| {
            let mut map = BlockMap::new(Block::whole(&[side * 4, side * 4]), 0);
            if halves {
                map.visit(&Block::new(&[0..side * 2, 0..side * 4]), |_, _| ());
            }
            let before = LOOKED_AT.get();
            for _ in 0..2 {
                for (i, j) in &order {
                    let tile = Block::new(&[i * 4..i * 4 + 4, j * 4..j * 4 + 4]);
                    let mut parts = 0;
                    map.visit(&tile, |_, _| parts += 1);
                    assert_eq!(parts, 1);
                }
            }
            assert_eq!(map.len(), side * side);
            (LOOKED_AT.get() - before) as f64 / (side * side) as f64
        };
        for halves in [false, true] {
            for (few, many) in orders(16).into_iter().zip(orders(128)) {
                let (few, many) = (per_tile(16, halves, few), per_tile(128, halves, many));
                assert!(many < 3.0 * few, "{few} nodes per tile of 256, {many} of 16384");
            }
        }
    }

    #[test]
    fn single_element_of_a_large_array_makes_few_parts() {
        let mut map = BlockMap::new(Block::whole(&[1 << 20, 1 << 20, 64, 64]), 0);
        map.visit(&Block::new(&[5..6, 7..8, 9..10, 11..12]), |_, v| *v = 1);
        assert_eq!((map.len(), map.parts.capacity() < 32, map.exact.capacity() < 32), (9, true, true));
    }

    #[test]
    fn crossing_thin_slabs_visits_all_of_them() {
        let mut map = BlockMap::new(Block::whole(&[1000, 1000]), 0);
        for i in 0..1000 {
            map.visit(&Block::new(&[i..i + 1, 0..1000]), |_, v| *v = i);
        }
        assert_eq!(map.len(), 1000);
        let mut rows = vec![];
        map.visit(&Block::new(&[0..1000, 500..501]), |part, v| rows.push((part.lo()[0], *v)));
        rows.sort_unstable();
        assert_eq!(rows, (0..1000).map(|i| (i, i)).collect::<Vec<_>>());
        map.unite(&Block::whole(&[1000, 1000]));
        assert_eq!(map.len(), 1);
    }
}
