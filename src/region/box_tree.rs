//! A balanced tree of boxes that finds the boxes overlapping a given box.
//!
//! A node has up to 16 boxes ([`BoxNode`]), each of which encloses everything below one child; at the lowest level, the
//! children are the items. A search descends wherever a box overlaps the sought box, so its cost is the logarithm of
//! the number of items plus the number of items found. The boxes' sizes, size differences and insertion order do not
//! matter, because there is no cell size that would have to suit them.
//!
//! Items are numbers chosen by the caller, starting at 0 and without large gaps. The tree does not interpret them.
//!
//! Nodes store boxes in units of *cells*. A cell is a single index, unless the whole has more indices along an axis
//! than the maximum number of cells; in that case a cell is a power-of-two number of indices. Boxes are rounded
//! outwards to whole cells, so boxes that a search finds are compared once more, exactly.
//!
//! Invariants:
//! 1. A node's box, which is stored in its parent, is the smallest box that encloses its children's boxes.
//! 2. All items are at the same level, and no node is empty. Halving a node leaves at least 6 children on each side,
//!    and neither side is halved before at least 6 more children have been added to it. Each added child is an item, or
//!    results from a halving one level below. So a tree into which n items were inserted since it was built has a
//!    height of at most log₆ n + 1, whatever was removed from it.
//! 3. After many removals the tree is rebuilt, so that either nodes have at least 4 children on average or there are
//!    only a few nodes.
//! 4. All items' boxes lie inside the whole and are not empty.

use super::Block;
use super::block::MAX_DIMS;
use super::box_node::{BoxNode, Cells, MOST_CELLS, NONE, WIDTH};
use arrayvec::ArrayVec;

/// A tree with at most this many nodes is not rebuilt.
const FEW_NODES: usize = 4;

/// Boxes, each with an item.
#[derive(Debug)]
pub(crate) struct BoxTree {
    whole: Block,
    /// The dimensions along which the whole has more than one index, and the number of bits by which indices are
    /// shifted.
    axes: ArrayVec<(usize, u32), MAX_DIMS>,
    nodes: Vec<BoxNode>,
    free: Vec<u32>,
    root: u32,
    /// For each item, the node that contains it, or [`NONE`].
    node_of: Vec<u32>,
    len: usize,
    /// Each item's exact box; `None` if every cell is a single index.
    exact: Option<Vec<Block>>,
}

impl BoxTree {
    /// Makes an empty tree for boxes inside `whole`.
    pub(crate) fn new(whole: &Block) -> Self {
        let shift = |end: usize| end.div_ceil(MOST_CELLS).next_power_of_two().trailing_zeros();
        let extents = whole.extents();
        let axes: ArrayVec<_, MAX_DIMS> =
            (0..MAX_DIMS).filter(|d| extents[*d] > 1).map(|d| (d, shift(whole.hi()[d]))).collect();
        Self {
            whole: *whole,
            exact: axes.iter().any(|(_, shift)| *shift > 0).then(Vec::new),
            axes,
            nodes: Vec::new(),
            free: Vec::new(),
            root: NONE,
            node_of: Vec::new(),
            len: 0,
        }
    }

    /// Adds a box in the place where existing boxes grow least.
    pub(crate) fn insert(&mut self, block: &Block, item: u32) {
        self.note(block, item);
        self.insert_cells(&self.cells(block), item);
    }

    /// Cuts an item's box in two: `rest` stays, and `piece` becomes the box of the item `new`. Together they are the
    /// former box.
    pub(crate) fn split(&mut self, item: u32, rest: &Block, piece: &Block, new: u32) {
        self.note(rest, item);
        self.note(piece, new);
        let (rest, piece) = (self.cells(rest), self.cells(piece));
        let at = self.node_of[item as usize];
        let node = &mut self.nodes[at as usize];
        node.set(node.lane_of(item), &rest);
        self.len += 1;
        self.place(at, piece, new);
    }

    /// Removes an item.
    pub(crate) fn remove(&mut self, item: u32) {
        let at = std::mem::replace(&mut self.node_of[item as usize], NONE);
        let node = &mut self.nodes[at as usize];
        node.swap_remove(node.lane_of(item));
        self.len -= 1;
        self.tighten(at);
        if self.num_nodes() > FEW_NODES + 4 * self.len / WIDTH {
            self.build_anew();
        }
    }

    /// Replaces an item's box.
    pub(crate) fn set(&mut self, item: u32, block: &Block) {
        self.note(block, item);
        let cells = self.cells(block);
        let at = self.node_of[item as usize];
        let node = &mut self.nodes[at as usize];
        node.set(node.lane_of(item), &cells);
        self.tighten(at);
    }

    /// Returns the number of boxes.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Visits all boxes.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(u32, Block)) {
        let nodes =
            (0..).zip(&self.node_of).filter(|(_, at)| **at != NONE).map(|(item, at)| (item, &self.nodes[*at as usize]));
        for (item, node) in nodes {
            visit(item, self.block(item, node));
        }
    }

    /// Returns the box of an item that this node contains.
    fn block(&self, item: u32, node: &BoxNode) -> Block {
        if let Some(exact) = &self.exact {
            return exact[item as usize];
        }
        let (cells, mut corners) = (node.get(node.lane_of(item)), [*self.whole.lo(), *self.whole.hi()]);
        for (axis, (d, _)) in self.axes.iter().enumerate() {
            (corners[0][*d], corners[1][*d]) = (cells.lo[axis] as usize, cells.hi[axis] as usize);
        }
        Block::from_corners(corners[0], corners[1])
    }

    /// Visits the items of all boxes that overlap `block`.
    #[inline]
    pub(crate) fn find(&self, block: &Block, mut found: impl FnMut(u32)) {
        if self.root == NONE || !block.overlaps(&self.whole) {
            return;
        }
        match &self.exact {
            None => self.find_below(self.root, &self.cells(block), &mut found),
            Some(exact) => self.find_below(self.root, &self.cells(block), &mut |item| {
                if exact[item as usize].overlaps(block) {
                    found(item);
                }
            }),
        }
    }

    fn find_below<F: FnMut(u32)>(&self, at: u32, sought: &Cells, found: &mut F) {
        let node = &self.nodes[at as usize];
        #[cfg(test)]
        LOOKED_AT.set(LOOKED_AT.get() + 1);
        let mut lanes = node.overlapping(sought, self.axes.len());
        while lanes != 0 {
            let child = node.child(lanes.trailing_zeros() as usize);
            lanes &= lanes - 1;
            if node.level == 0 {
                found(child);
            } else {
                self.find_below(child, sought, found);
            }
        }
    }

    /// Returns the cells that a non-empty box covers at least in part. Indices beyond the whole count as its last cell.
    #[inline]
    fn cells(&self, block: &Block) -> Cells {
        let mut cells = Cells { lo: [0; MAX_DIMS], hi: [0; MAX_DIMS] };
        for (axis, (d, shift)) in self.axes.iter().enumerate() {
            let cell = |index: usize| (index >> shift).min(MOST_CELLS - 1) as i32;
            (cells.lo[axis], cells.hi[axis]) = (cell(block.lo()[*d]), cell(block.hi()[*d] - 1) + 1);
        }
        cells
    }

    /// Makes room for an item, and stores its exact box if necessary.
    #[inline]
    fn note(&mut self, block: &Block, item: u32) {
        debug_assert!(!block.is_empty() && self.whole.contains(block), "{block:?} in {:?}", self.whole);
        let item = item as usize;
        if item >= self.node_of.len() {
            self.node_of.resize(item + 1, NONE);
        }
        if let Some(exact) = &mut self.exact {
            if item >= exact.len() {
                exact.resize(item + 1, *block);
            }
            exact[item] = *block;
        }
    }

    fn insert_cells(&mut self, cells: &Cells, item: u32) {
        self.len += 1;
        if self.root == NONE {
            self.root = self.add(BoxNode::new(0));
        }
        let mut at = self.root;
        loop {
            let node = &mut self.nodes[at as usize];
            if node.level == 0 {
                return self.place(at, *cells, item);
            }
            let lane = node.lane_that_grows_least(cells, self.axes.len());
            node.stretch(lane, cells);
            at = node.child(lane);
        }
    }

    /// Makes an item or a node a child of the node `at`, whose box encloses it. Full nodes are halved.
    fn place(&mut self, mut at: u32, mut cells: Cells, mut child: u32) {
        while self.nodes[at as usize].is_full() {
            let right = self.nodes[at as usize].halve(&cells, child, self.axes.len());
            let parent = self.nodes[at as usize].parent;
            let (left_cells, right_cells) = (self.nodes[at as usize].hull(), right.hull());
            let right = self.add(right);
            self.adopt(at);
            self.adopt(right);
            if parent == NONE {
                let mut root = BoxNode::new(self.nodes[at as usize].level + 1);
                root.push(&left_cells, at);
                root.push(&right_cells, right);
                self.root = self.add(root);
                return self.adopt(self.root);
            }
            let above = &mut self.nodes[parent as usize];
            above.set(above.lane_of(at), &left_cells);
            (at, cells, child) = (parent, right_cells, right);
        }
        let node = &mut self.nodes[at as usize];
        node.push(&cells, child);
        match node.level {
            0 => self.node_of[child as usize] = at,
            _ => self.nodes[child as usize].parent = at,
        }
    }

    /// Sets this node as the parent of all of its children.
    fn adopt(&mut self, at: u32) {
        let level = self.nodes[at as usize].level;
        for lane in 0..self.nodes[at as usize].len() {
            let child = self.nodes[at as usize].child(lane) as usize;
            match level {
                0 => self.node_of[child] = at,
                _ => self.nodes[child].parent = at,
            }
        }
    }

    /// Updates the boxes above a node whose children have changed, up to the first box that stays the same. Removes
    /// empty nodes.
    fn tighten(&mut self, mut at: u32) {
        while self.nodes[at as usize].parent != NONE {
            let (node, parent) = (&self.nodes[at as usize], self.nodes[at as usize].parent);
            let hull = (node.len() > 0).then(|| node.hull());
            let above = &mut self.nodes[parent as usize];
            let lane = above.lane_of(at);
            match hull {
                Some(hull) if above.get(lane) == hull => return,
                Some(hull) => above.set(lane, &hull),
                None => {
                    above.swap_remove(lane);
                    self.free.push(at);
                }
            }
            at = parent;
        }
        // Shrink at the root: remove levels with a single node, and the last level if it is empty.
        while self.nodes[at as usize].level > 0 && self.nodes[at as usize].len() == 1 {
            self.free.push(at);
            at = self.nodes[at as usize].child(0);
            self.nodes[at as usize].parent = NONE;
            self.root = at;
        }
        if self.nodes[at as usize].len() == 0 {
            self.free.push(at);
            self.root = NONE;
        }
    }

    fn num_nodes(&self) -> usize {
        self.nodes.len() - self.free.len()
    }

    fn add(&mut self, node: BoxNode) -> u32 {
        match self.free.pop() {
            Some(at) => {
                self.nodes[at as usize] = node;
                at
            }
            None => {
                self.nodes.push(node);
                u32::try_from(self.nodes.len() - 1).expect("there are fewer than 2³² boxes")
            }
        }
    }

    /// Removes all items and inserts them again.
    #[cold]
    fn build_anew(&mut self) {
        let nodes = std::mem::take(&mut self.nodes);
        self.free.clear();
        (self.root, self.len) = (NONE, 0);
        let items = std::mem::take(&mut self.node_of);
        self.node_of = vec![NONE; items.len()];
        for (item, at) in (0..).zip(items).filter(|(_, at)| *at != NONE) {
            let node = &nodes[at as usize];
            self.insert_cells(&node.get(node.lane_of(item)), item);
        }
    }
}

#[cfg(test)]
thread_local! {
    /// Number of nodes that searches have examined.
    pub(crate) static LOOKED_AT: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
#[path = "box_tree_tests.rs"]
mod tests;
