//! Values at boxes that may overlap each other, found by the places they share.
//!
//! The maps of this module cut boxes where they cross; here a box stays what it was declared as, with one value, until
//! it is taken out. Finding costs the logarithm of the number of boxes and what is found.
//!
//! Invariant: the tree has one leaf for each value, whose item is the value's entry.

use super::Block;
use super::box_tree::{BoxTree, Leaf};

/// Boxes with a value each; see the module.
#[derive(Debug)]
pub(crate) struct BoxIndex<V> {
    values: Vec<Option<(Leaf, V)>>,
    free: Vec<u32>,
    tree: BoxTree,
}

/// A value's entry, as long as it is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry(u32);

impl<V> Default for BoxIndex<V> {
    fn default() -> Self {
        Self { values: Vec::new(), free: Vec::new(), tree: BoxTree::new() }
    }
}

impl<V> BoxIndex<V> {
    /// Adds a box that is not empty.
    pub(crate) fn insert(&mut self, block: Block, value: V) -> Entry {
        debug_assert!(!block.is_empty(), "nobody would find it");
        let entry = self.free.pop().unwrap_or_else(|| {
            self.values.push(None);
            u32::try_from(self.values.len() - 1).expect("there are less than 2³¹ boxes")
        });
        self.values[entry as usize] = Some((self.tree.insert(block, entry), value));
        Entry(entry)
    }

    /// Takes a box out.
    pub(crate) fn remove(&mut self, Entry(entry): Entry) -> Option<V> {
        let (leaf, value) = self.values[entry as usize].take()?;
        self.tree.remove(leaf);
        self.free.push(entry);
        Some(value)
    }

    /// The values of all boxes that overlap `block`, in no particular (but deterministic) order.
    pub(crate) fn find<'a>(&'a self, block: &Block, mut found: impl FnMut(&'a V)) {
        self.tree.find(block, |entry| {
            if let Some((_, value)) = &self.values[entry as usize] {
                found(value);
            }
        });
    }

    /// All values.
    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.values.iter().flatten().map(|(_, value)| value)
    }

    /// Whether no box is there.
    pub(crate) fn is_empty(&self) -> bool {
        self.values.len() == self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn block() -> impl Strategy<Value = Block> {
        let side = |extent: usize| (0..extent, 1..=extent).prop_map(move |(lo, len)| lo..(lo + len).min(extent));
        (side(9), side(7)).prop_map(|(i, j)| Block::new(&[i, j]))
    }

    proptest! {
        /// Against a list that is searched.
        #[test]
        fn finds_what_a_search_finds(acts in prop::collection::vec((block(), any::<prop::sample::Index>(), 0..3u8), 1..60)) {
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
                index.find(&block, |value| found.push(*value));
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
