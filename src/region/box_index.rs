//! A map from boxes that may overlap each other to values, searched by overlap.
//!
//! The region maps cut boxes where they cross. In this index, a box keeps its declared form and a single value until it
//! is removed. The cost of a search is the logarithm of the number of boxes plus the number of boxes found.
//!
//! Invariant: the tree has one item per value, and the item's number is the value's entry. If a new box is outside the
//! tree's bounds, the tree is rebuilt. The new bounds are rounded up to powers of two, so this rarely happens.

use super::Block;
use super::block::MAX_DIMS;
use super::box_node::MOST_CELLS;
use super::box_tree::BoxTree;

/// Boxes with a value each; see the module documentation.
#[derive(Debug)]
pub(crate) struct BoxIndex<V> {
    values: Vec<Option<(Block, V)>>,
    free: Vec<u32>,
    /// The bounds of all boxes.
    whole: Block,
    tree: BoxTree,
}

/// The entry of a value, valid as long as the value is in the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry(u32);

impl<V> Default for BoxIndex<V> {
    fn default() -> Self {
        let whole = Block::whole(&[MOST_CELLS; MAX_DIMS]);
        Self { values: Vec::new(), free: Vec::new(), tree: BoxTree::new(&whole), whole }
    }
}

impl<V> BoxIndex<V> {
    /// Adds a non-empty box.
    pub(crate) fn insert(&mut self, block: Block, value: V) -> Entry {
        debug_assert!(!block.is_empty(), "an empty box is never found");
        if !self.whole.contains(&block) {
            self.widen(&block);
        }
        let entry = self.free.pop().unwrap_or_else(|| {
            self.values.push(None);
            u32::try_from(self.values.len() - 1).expect("there are fewer than 2³¹ boxes")
        });
        self.tree.insert(&block, entry);
        self.values[entry as usize] = Some((block, value));
        Entry(entry)
    }

    /// Removes a box.
    pub(crate) fn remove(&mut self, Entry(entry): Entry) -> Option<V> {
        let (_, value) = self.values[entry as usize].take()?;
        self.tree.remove(entry);
        self.free.push(entry);
        Some(value)
    }

    /// Visits all boxes that overlap `block`, with their values, in no particular (but deterministic) order.
    pub(crate) fn find<'a>(&'a self, block: &Block, mut found: impl FnMut(&'a Block, &'a V)) {
        self.tree.find(block, |entry| {
            if let Some((block, value)) = &self.values[entry as usize] {
                found(block, value);
            }
        });
    }

    /// Rebuilds the tree with bounds that also contain this box.
    #[cold]
    fn widen(&mut self, block: &Block) {
        let end = |d: usize| block.hi()[d].checked_next_power_of_two().unwrap_or(usize::MAX);
        let ends: [usize; MAX_DIMS] = std::array::from_fn(|d| self.whole.hi()[d].max(end(d)));
        self.whole = Block::whole(&ends);
        self.tree = BoxTree::new(&self.whole);
        for (entry, value) in (0..).zip(&self.values) {
            if let Some((block, _)) = value {
                self.tree.insert(block, entry);
            }
        }
    }

    /// Visits all values.
    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.values.iter().flatten().map(|(_, value)| value)
    }

    /// Whether there are no boxes.
    pub(crate) fn is_empty(&self) -> bool {
        self.values.len() == self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Boxes, some of them so far from the origin that a cell is more than one index.
    fn block() -> impl Strategy<Value = Block> {
        let side = |extent: usize| (0..extent, 1..=extent).prop_map(move |(lo, len)| lo..(lo + len).min(extent));
        let far = prop_oneof![8 => Just(0), 1 => Just(1usize << 31), 1 => Just(usize::MAX - 9)];
        (side(9), side(7), far).prop_map(|(i, j, far)| Block::new(&[i.start + far..i.end + far, j]))
    }

    proptest! {
        /// Compares the index with a list that is searched.
        #[test]
        fn agrees_with_linear_search(acts in prop::collection::vec((block(), any::<prop::sample::Index>(), 0..3u8), 1..60)) {
            let mut index = BoxIndex::default();
            let mut list: Vec<(Entry, Block, usize)> = Vec::new();
            for (n, (block, which, act)) in acts.into_iter().enumerate() {
                if act == 0 && !list.is_empty() {
                    let (entry, _, value) = list.swap_remove(which.index(list.len()));
                    prop_assert_eq!(index.remove(entry), Some(value));
                } else {
                    list.push((index.insert(block, n), block, n));
                }
                let mut found = vec![];
                index.find(&block, |_, value| found.push(*value));
                found.sort_unstable();
                let searched = list.iter().filter(|(_, other, _)| other.overlaps(&block)).map(|(.., value)| *value);
                let mut searched: Vec<_> = searched.collect();
                searched.sort_unstable();
                prop_assert_eq!(found, searched);
                prop_assert_eq!(index.is_empty(), list.is_empty());
                prop_assert_eq!(index.values().count(), list.len());
            }
        }
    }
}
