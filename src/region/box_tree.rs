//! A balanced tree of boxes: which of many boxes overlap a given one?
//!
//! Leaves are boxes, each with an item; an inner node knows the box around all below it. A search goes where boxes
//! overlap what is sought, so it costs the logarithm of the number of leaves and what it finds. How large boxes are,
//! how different from each other, and in which order they come does not matter: there is no cell whose size would have
//! to suit them.
//!
//! Items are the caller's numbers; nothing is known of what they stand for.
//!
//! Invariants:
//! 1. The box of an inner node is the smallest around its children's.
//! 2. The heights of two siblings differ by one at most, so a tree of n leaves is less than 1.45·log₂ n + 2 high.
//!    Children have no order: one rotation always suffices.

use super::Block;
use arrayvec::ArrayVec;
use std::cmp::Ordering;

const NONE: u32 = u32::MAX;

/// What a node is by its height.
const LEAF: u32 = 0;

#[derive(Debug)]
struct Node {
    around: Block,
    parent: u32,
    height: u32,
    /// Of a leaf, the item and nothing.
    children: [u32; 2],
}

/// Boxes, each with an item.
#[derive(Debug)]
pub(crate) struct BoxTree {
    nodes: Vec<Node>,
    free: Vec<u32>,
    root: u32,
}

/// A box in a tree, as long as it is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Leaf(u32);

impl BoxTree {
    /// No box.
    pub(crate) fn new() -> Self {
        Self { nodes: Vec::new(), free: Vec::new(), root: NONE }
    }

    /// Takes all boxes out.
    pub(crate) fn clear(&mut self) {
        *self = Self::new();
    }

    /// Adds a box, beside the one that it makes grow least.
    pub(crate) fn insert(&mut self, block: Block, item: u32) -> Leaf {
        if self.root == NONE {
            self.root = self.add(block, LEAF, [item, NONE]);
            return Leaf(self.root);
        }
        let mut at = self.root;
        while self.nodes[at as usize].height != LEAF {
            let growth = |child: u32| {
                let around = &self.nodes[child as usize].around;
                let before = margin(around);
                let after = margin(&around.hull(&block));
                (after - before, after)
            };
            let [a, b] = self.nodes[at as usize].children;
            at = if growth(b) < growth(a) { b } else { a };
        }
        let leaf = self.insert_beside(at, block, item);
        self.mend_from(self.nodes[leaf.0 as usize].parent);
        leaf
    }

    /// Cuts a leaf's box in two: `rest` stays, `piece` is a leaf of its own. Together they are what it was.
    pub(crate) fn split(&mut self, leaf: Leaf, rest: Block, piece: Block, item: u32) -> Leaf {
        self.nodes[leaf.0 as usize].around = rest;
        let new = self.insert_beside(leaf.0, piece, item);
        self.mend_from(self.nodes[new.0 as usize].parent);
        new
    }

    /// Takes a box out.
    pub(crate) fn remove(&mut self, Leaf(leaf): Leaf) {
        let parent = self.nodes[leaf as usize].parent;
        self.free.push(leaf);
        if parent == NONE {
            self.root = NONE;
            return;
        }
        let sibling = self.other_child(parent, leaf);
        let above = self.nodes[parent as usize].parent;
        self.replace_child(above, parent, sibling);
        self.free.push(parent);
        self.mend_from(above);
    }

    /// Gives a leaf another box.
    pub(crate) fn set(&mut self, Leaf(leaf): Leaf, block: Block) {
        self.nodes[leaf as usize].around = block;
        self.mend_from(self.nodes[leaf as usize].parent);
    }

    /// The items of all boxes that overlap `block`.
    #[inline]
    pub(crate) fn find(&self, block: &Block, mut found: impl FnMut(u32)) {
        // Inner nodes that overlap the block and are yet to be opened: one for each level at most.
        let mut rest: ArrayVec<u32, 64> = ArrayVec::new();
        let mut look = |at: u32, rest: &mut ArrayVec<u32, 64>| {
            #[cfg(test)]
            LOOKED_AT.set(LOOKED_AT.get() + 1);
            let node = &self.nodes[at as usize];
            if !node.around.overlaps(block) {
                return;
            }
            match node.height {
                LEAF => found(node.children[0]),
                _ => rest.push(at),
            }
        };
        if self.root != NONE {
            look(self.root, &mut rest);
        }
        while let Some(at) = rest.pop() {
            let [a, b] = self.nodes[at as usize].children;
            look(a, &mut rest);
            look(b, &mut rest);
        }
    }

    fn add(&mut self, around: Block, height: u32, children: [u32; 2]) -> u32 {
        let node = Node { around, parent: NONE, height, children };
        match self.free.pop() {
            Some(at) => {
                self.nodes[at as usize] = node;
                at
            }
            None => {
                self.nodes.push(node);
                u32::try_from(self.nodes.len() - 1).expect("there are less than 2³¹ boxes")
            }
        }
    }

    /// Makes a new leaf the sibling of `at`. The boxes and heights above are to be mended.
    fn insert_beside(&mut self, at: u32, block: Block, item: u32) -> Leaf {
        let leaf = self.add(block, LEAF, [item, NONE]);
        let above = self.nodes[at as usize].parent;
        let parent = self.add(block, NONE, [at, leaf]);
        self.replace_child(above, at, parent);
        self.nodes[at as usize].parent = parent;
        self.nodes[leaf as usize].parent = parent;
        Leaf(leaf)
    }

    fn other_child(&self, parent: u32, child: u32) -> u32 {
        let [a, b] = self.nodes[parent as usize].children;
        if a == child { b } else { a }
    }

    /// Puts `new` in the place of `old` below `parent`, or at the root.
    fn replace_child(&mut self, parent: u32, old: u32, new: u32) {
        self.nodes[new as usize].parent = parent;
        if parent == NONE {
            self.root = new;
            return;
        }
        let children = &mut self.nodes[parent as usize].children;
        children[usize::from(children[0] != old)] = new;
    }

    /// Mends boxes, heights and balance from an inner node upwards, as far as they change.
    fn mend_from(&mut self, mut at: u32) {
        while at != NONE {
            let before = (self.nodes[at as usize].around, self.nodes[at as usize].height);
            at = self.balance(at);
            let node = &self.nodes[at as usize];
            if (node.around, node.height) == before {
                return;
            }
            at = node.parent;
        }
    }

    /// Mends one node; if one of its children is too high, that takes its place. Who is there then.
    fn balance(&mut self, at: u32) -> u32 {
        self.measure(at);
        let [a, b] = self.nodes[at as usize].children;
        let (low, high) = if self.height(a) < self.height(b) { (a, b) } else { (b, a) };
        if self.height(high) <= self.height(low) + 1 {
            return at;
        }
        // The higher grandchild stays below `high`, the other comes below `at`; of two equals the one that is nearer.
        let [c, d] = self.nodes[high as usize].children;
        let growth = |moved: u32| {
            let [low, moved] = [low, moved].map(|node| &self.nodes[node as usize].around);
            margin(&low.hull(moved))
        };
        let c_moves = match self.height(c).cmp(&self.height(d)) {
            Ordering::Less => true,
            Ordering::Equal => growth(c) < growth(d),
            Ordering::Greater => false,
        };
        let (moved, stays) = if c_moves { (c, d) } else { (d, c) };
        self.replace_child(self.nodes[at as usize].parent, at, high);
        self.nodes[high as usize].children = [at, stays];
        self.nodes[at as usize].parent = high;
        self.nodes[at as usize].children = [low, moved];
        self.nodes[moved as usize].parent = at;
        self.measure(at);
        self.measure(high);
        high
    }

    fn height(&self, at: u32) -> u32 {
        self.nodes[at as usize].height
    }

    /// Takes an inner node's box and height from its children.
    fn measure(&mut self, at: u32) {
        let [a, b] = self.nodes[at as usize].children.map(|child| &self.nodes[child as usize]);
        let (around, height) = (a.around.hull(&b.around), a.height.max(b.height) + 1);
        let node = &mut self.nodes[at as usize];
        (node.around, node.height) = (around, height);
    }
}

/// How large a box is, for comparisons: the sum of its extents, since a volume says nothing of thin boxes.
fn margin(block: &Block) -> usize {
    block.extents().iter().fold(0, |sum, extent| sum.saturating_add(*extent))
}

#[cfg(test)]
thread_local! {
    /// How many nodes searches have looked at.
    pub(crate) static LOOKED_AT: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    impl BoxTree {
        /// Checks the invariants below a node; its box and height.
        fn check(&self, at: u32, parent: u32) -> (Block, u32) {
            let node = &self.nodes[at as usize];
            assert_eq!(node.parent, parent);
            if node.height != LEAF {
                let [a, b] = node.children.map(|child| self.check(child, at));
                assert_eq!(node.around, a.0.hull(&b.0));
                assert_eq!(node.height, a.1.max(b.1) + 1);
                assert!(a.1.abs_diff(b.1) <= 1, "heights {} and {}", a.1, b.1);
            }
            (node.around, node.height)
        }
    }

    fn block() -> impl Strategy<Value = Block> {
        let side = || (0..60usize, prop_oneof![1..3usize, 1..60usize]).prop_map(|(lo, extent)| lo..lo + extent);
        (side(), side(), side(), side()).prop_map(|(i, j, k, l)| Block::new(&[i, j, k, l]))
    }

    proptest! {
        #[test]
        fn finds_what_a_list_would(
            ops in prop::collection::vec((block(), any::<prop::sample::Index>(), 0..4u8), 1..120),
            sought in block(),
        ) {
            let mut tree = BoxTree::new();
            let mut list: Vec<(Block, u32, Leaf)> = vec![];
            for (number, (block, at, op)) in (0..).zip(ops) {
                let at = (!list.is_empty()).then(|| at.index(list.len()));
                match (op, at) {
                    (0, Some(at)) => tree.remove(list.swap_remove(at).2),
                    (1, Some(at)) => {
                        tree.set(list[at].2, block);
                        list[at].0 = block;
                    }
                    (2, Some(at)) if list[at].0.range(0).len() > 1 => {
                        let (mut rest, whole, leaf) = (list[at].0, list[at].0, list[at].2);
                        whole.subtract(&Block::new(&[whole.lo()[0] + 1..whole.hi()[0], 0..200, 0..200, 0..200]), |piece| {
                            rest = Block::from_corners(
                                [piece.hi()[0], whole.lo()[1], whole.lo()[2], whole.lo()[3]],
                                *whole.hi(),
                            );
                            list.push((piece, number, tree.split(leaf, rest, piece, number)));
                        });
                        list[at].0 = rest;
                    }
                    _ => list.push((block, number, tree.insert(block, number))),
                }
                if tree.root != NONE {
                    tree.check(tree.root, NONE);
                }
                prop_assert_eq!(tree.nodes.len() - tree.free.len(), (2 * list.len()).saturating_sub(1));
            }
            let mut found = vec![];
            tree.find(&sought, |item| found.push(item));
            let mut expected: Vec<u32> =
                list.iter().filter(|(block, ..)| block.overlaps(&sought)).map(|(_, item, _)| *item).collect();
            found.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(found, expected);
        }
    }
}
