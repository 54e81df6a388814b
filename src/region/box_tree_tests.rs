//! Comparison of a tree of boxes with a list, and bounds on its cost.

use super::*;
use proptest::prelude::*;

impl BoxTree {
    /// Checks the invariants.
    fn check(&self) {
        let mut items = 0;
        if self.root != NONE {
            let root = &self.nodes[self.root as usize];
            assert!(root.parent == NONE && (root.level == 0 || root.len() > 1), "an unneeded root");
            self.check_below(self.root, &mut items);
        }
        assert_eq!(items, self.len);
        assert_eq!(self.node_of.iter().filter(|at| **at != NONE).count(), self.len);
    }

    /// Checks the invariants below a node, and counts its items.
    fn check_below(&self, at: u32, items: &mut usize) {
        let node = &self.nodes[at as usize];
        assert!(node.len() > 0);
        for (lane, &child) in node.children().iter().enumerate() {
            if node.level == 0 {
                assert_eq!(self.node_of[child as usize], at);
                *items += 1;
            } else {
                let below = &self.nodes[child as usize];
                assert_eq!((below.parent, below.level + 1), (at, node.level));
                assert_eq!(below.hull(), node.get(lane));
                self.check_below(child, items);
            }
        }
    }

    /// Returns the number of levels of nodes.
    fn height(&self) -> u32 {
        if self.root == NONE { 0 } else { self.nodes[self.root as usize].level + 1 }
    }

    fn found(&self, sought: &Block) -> Vec<u32> {
        let mut found = vec![];
        self.find(sought, |item| found.push(item));
        found.sort_unstable();
        found
    }
}

/// Returns the items that a tree should find.
fn overlapping(list: &[(Block, u32)], sought: &Block) -> Vec<u32> {
    let mut items: Vec<u32> = list.iter().filter(|(block, _)| block.overlaps(sought)).map(|(_, item)| *item).collect();
    items.sort_unstable();
    items
}

/// A block of four dimensions below 120, which may be empty if `least` is 0.
fn block(least: usize) -> impl Strategy<Value = Block> {
    let side = move || {
        let extent = prop_oneof![least..3usize, least..60usize];
        (0..60usize, extent).prop_map(|(lo, extent)| lo..lo + extent)
    };
    (side(), side(), side(), side()).prop_map(|(i, j, k, l)| Block::new(&[i, j, k, l]))
}

/// Scales a block by these factors along each dimension, off the cells' borders.
fn scaled(block: &Block, factors: [usize; MAX_DIMS]) -> Block {
    let scale =
        |corner: &[usize; MAX_DIMS]| std::array::from_fn(|d| corner[d] * factors[d] + usize::from(factors[d] > 1));
    Block::from_corners(scale(block.lo()), scale(block.hi()))
}

proptest! {
    /// Tests cells of a single index and larger cells, for which neighbours within one cell must also be told apart.
    #[test]
    fn agrees_with_linear_search(
        ops in prop::collection::vec((block(1), any::<prop::sample::Index>(), 0..8u8), 1..300),
        sought in prop::collection::vec(block(0), 4),
        factors in prop_oneof![
            Just([1; MAX_DIMS]),
            Just([1, 1 << 26, 1, 1]),
            Just([1 << 33, 1, 1, 3]),
            Just([1 << 40, 1 << 25, 1 << 22, 1 << 40]),
        ],
    ) {
        let mut tree = BoxTree::new(&Block::whole(&factors.map(|factor| 121 * factor)));
        let mut list: Vec<(Block, u32)> = vec![];
        let (mut free, mut numbers): (Vec<u32>, u32) = (vec![], 0);
        for (block, at, op) in ops {
            let block = scaled(&block, factors);
            // Reuse numbers, as callers do.
            let item = free.pop().unwrap_or_else(|| {
                numbers += 1;
                numbers - 1
            });
            let at = (!list.is_empty()).then(|| at.index(list.len()));
            match (op, at) {
                (0 | 1, Some(at)) => {
                    free.push(item);
                    tree.remove(list[at].1);
                    free.push(list.swap_remove(at).1);
                }
                (2, Some(at)) => {
                    free.push(item);
                    tree.set(list[at].1, &block);
                    list[at].0 = block;
                }
                (3, Some(at)) if list[at].0.extents()[1] > 1 => {
                    let (whole, cut) = (list[at].0, list[at].1);
                    let (piece, rest) = whole.split_at(1, whole.lo()[1] + 1).expect("it is longer");
                    tree.split(cut, &rest, &piece, item);
                    list[at].0 = rest;
                    list.push((piece, item));
                }
                _ => {
                    tree.insert(&block, item);
                    list.push((block, item));
                }
            }
            tree.check();
        }
        for sought in sought {
            let sought = scaled(&sought, factors);
            prop_assert_eq!(tree.found(&sought), overlapping(&list, &sought));
        }
    }
}

#[test]
fn neighbours_are_distinguished_at_any_index() {
    for end in [100, (1 << 30) - 1, 1 << 30, 1 << 31, (1 << 31) + 1, 1 << 32, 1 << 40, usize::MAX] {
        let mut tree = BoxTree::new(&Block::new(&[0..50, 0..end]));
        let starts = [0, 1, end / 2 - 1, end / 2, end - 2, end - 1];
        let blocks = starts.map(|at| Block::new(&[3..5, at..at + 1]));
        (0..).zip(&blocks).for_each(|(item, block)| tree.insert(block, item));
        for (item, block) in (0..).zip(&blocks) {
            assert_eq!(tree.found(block), [item], "{block:?} of {end}");
        }
        assert_eq!(tree.found(&Block::new(&[0..50, 1..end - 1])), [1, 2, 3, 4]);
        assert_eq!(tree.found(&Block::new(&[4..5, 0..usize::MAX])), [0, 1, 2, 3, 4, 5]);
        for nothing in [[4..4, 0..end], [5..50, 0..end], [4..5, 2..end / 2 - 1], [60..70, 0..end]] {
            assert!(tree.found(&Block::new(&nothing)).is_empty());
        }
    }
}

/// Removes every item except each `step`-th, in an order scattered over the tree.
fn thin_out(tree: &mut BoxTree, items: u32, step: u32) {
    let mut order: Vec<u32> = (0..items).filter(|item| item % step != 0).collect();
    order.sort_by_key(|item| (item.wrapping_mul(2_654_435_769), *item));
    order.into_iter().for_each(|item| tree.remove(item));
}

#[test]
fn thinned_out_tree_is_as_low_as_a_new_one() {
    let (n, step) = (20_000, 100);
    let block = |item: u32| {
        Block::new(&[
            item as usize / 100 * 4..item as usize / 100 * 4 + 6,
            item as usize % 100 * 4..item as usize % 100 * 4 + 6,
        ])
    };
    let whole = Block::whole(&[1000, 1000]);
    let mut tree = BoxTree::new(&whole);
    (0..n).for_each(|item| tree.insert(&block(item), item));
    assert!(tree.height() <= 5, "{} levels of 20,000 items", tree.height());
    for _ in 0..3 {
        thin_out(&mut tree, n, step);
        tree.check();
        let kept = (n / step) as usize;
        assert!(tree.height() <= 3 && tree.num_nodes() <= kept / 4 + FEW_NODES, "{} nodes", tree.num_nodes());
        assert_eq!(tree.found(&whole).len(), kept);
        (0..n).filter(|item| item % step != 0).for_each(|item| tree.insert(&block(item), item));
        assert!(tree.height() <= 6, "{} levels after inserting again", tree.height());
    }
    (0..n).for_each(|item| tree.remove(item));
    tree.check();
    assert_eq!((tree.height(), tree.num_nodes()), (0, 0));
}

/// Returns the average number of nodes that a search for each of these boxes examines.
fn looked_at_each(whole: &[usize], blocks: &[Block]) -> f64 {
    let mut tree = BoxTree::new(&Block::whole(whole));
    (0..).zip(blocks).for_each(|(item, block)| tree.insert(block, item));
    let before = LOOKED_AT.get();
    for (item, block) in (0..).zip(blocks) {
        assert_eq!(tree.found(block), [item]);
    }
    (LOOKED_AT.get() - before) as f64 / blocks.len() as f64
}

#[test]
fn search_cost_of_slabs_and_elements_is_logarithmic() {
    let slabs =
        |n: usize, width| -> Vec<Block> { (0..n).map(|i| Block::new(&[0..64, i * width..(i + 1) * width])).collect() };
    // Elements at regular distances, in a scattered order.
    let elements = |n: usize| -> Vec<Block> {
        let at = |i: usize| (i * 7919 + 11) % n * (24 * 24 * 24 * 24 / n);
        let ranges = |at: usize| [at / 13_824, at / 576 % 24, at / 24 % 24, at % 24].map(|i| i..i + 1);
        (0..n).map(|i| Block::new(&ranges(at(i)))).collect()
    };
    for (end, width) in [(1 << 20, 1), (1 << 40, 1024)] {
        let [few, many] = [512, 512 * 64].map(|n| looked_at_each(&[64, end], &slabs(n, width)));
        assert!(many < 3.0 * few, "{few} nodes of 512 slabs, {many} of 32,768");
    }
    let [few, many] = [256, 256 * 64].map(|n| looked_at_each(&[24; 4], &elements(n)));
    assert!(many < 3.0 * few, "{few} nodes of 256 elements, {many} of 16,384");
}
