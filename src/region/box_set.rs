//! A set of boxes that finds the boxes overlapping a given box and adapts its form to them.
//!
//! A small number of boxes is kept in a tree ([`BoxTree`]) whose root holds all of them. Many boxes are kept in a grid
//! ([`BoxGrid`]), which finds a tile among similar tiles by a single lookup. If the boxes turn out to differ too much
//! in size, or if searches use boxes that do not suit the grid, the set permanently becomes a tree again. So common
//! programs pay the cost of the grid, and all others pay the cost of the tree plus a constant that was wasted on the
//! grid.
//!
//! Items are numbers chosen by the caller, starting at 0 and without large gaps.

use super::Block;
use super::box_grid::BoxGrid;
use super::box_tree::BoxTree;

/// Number of boxes at which the set becomes a grid.
const MANY: usize = if cfg!(test) { 6 } else { 32 };

/// Boxes, each with an item; see the module documentation.
#[derive(Debug)]
pub(crate) struct BoxSet {
    whole: Block,
    form: Form,
}

#[derive(Debug)]
enum Form {
    /// Few boxes.
    Few(BoxTree),
    /// Many boxes, for which a grid has not proved wasteful so far.
    Grid(Box<BoxGrid>),
    /// Boxes for which a grid has proved wasteful.
    Tree(BoxTree),
}

impl BoxSet {
    /// Makes an empty set for boxes inside `whole`.
    pub(crate) fn new(whole: &Block) -> Self {
        Self { whole: *whole, form: Form::Few(BoxTree::new(whole)) }
    }

    /// Removes all boxes.
    pub(crate) fn clear(&mut self) {
        *self = Self::new(&self.whole);
    }

    /// Adds a box.
    #[inline]
    pub(crate) fn insert(&mut self, block: &Block, item: u32) {
        self.adapt();
        match &mut self.form {
            Form::Grid(grid) => grid.insert(block, item),
            Form::Few(tree) | Form::Tree(tree) => tree.insert(block, item),
        }
    }

    /// Cuts an item's box in two: `rest` stays, and `piece` becomes the box of the item `new`. Together they are the
    /// former box.
    #[inline]
    pub(crate) fn split(&mut self, item: u32, rest: &Block, piece: &Block, new: u32) {
        self.adapt();
        match &mut self.form {
            Form::Grid(grid) => {
                grid.set(item, rest);
                grid.insert(piece, new);
            }
            Form::Few(tree) | Form::Tree(tree) => tree.split(item, rest, piece, new),
        }
    }

    /// Removes an item.
    pub(crate) fn remove(&mut self, item: u32) {
        match &mut self.form {
            Form::Grid(grid) => grid.remove(item),
            Form::Few(tree) | Form::Tree(tree) => tree.remove(item),
        }
    }

    /// Replaces an item's box.
    pub(crate) fn set(&mut self, item: u32, block: &Block) {
        match &mut self.form {
            Form::Grid(grid) => grid.set(item, block),
            Form::Few(tree) | Form::Tree(tree) => tree.set(item, block),
        }
    }

    /// Visits the items of all boxes that overlap `block`.
    #[inline]
    pub(crate) fn find(&self, block: &Block, found: impl FnMut(u32)) {
        match &self.form {
            Form::Grid(grid) => grid.find(block, found),
            Form::Few(tree) | Form::Tree(tree) => tree.find(block, found),
        }
    }

    /// Changes the form if necessary. Callers that only search should call this from time to time.
    #[inline]
    pub(crate) fn adapt(&mut self) {
        match &self.form {
            Form::Few(tree) if tree.len() >= MANY => self.become_grid(),
            Form::Grid(grid) if grid.is_wasteful() => self.become_tree(),
            _ => {}
        }
    }

    #[cold]
    fn become_grid(&mut self) {
        if let Form::Few(tree) = &self.form {
            let mut boxes = Vec::with_capacity(tree.len());
            tree.for_each(|item, block| boxes.push((item, block)));
            self.form = Form::Grid(Box::new(BoxGrid::new(&self.whole, &boxes)));
        }
    }

    #[cold]
    fn become_tree(&mut self) {
        if let Form::Grid(grid) = &self.form {
            let mut tree = BoxTree::new(&self.whole);
            grid.boxes().for_each(|(item, block)| tree.insert(block, item));
            self.form = Form::Tree(tree);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::region::LOOKED_AT;

    fn square(i: usize, j: usize, extent: usize) -> Block {
        Block::new(&[i * extent..(i + 1) * extent, j * extent..(j + 1) * extent])
    }

    #[test]
    fn set_finds_the_same_in_every_form() {
        let whole = Block::whole(&[1 << 12, 1 << 12]);
        let mut set = BoxSet::new(&whole);
        let mut boxes = Vec::new();
        let found = |set: &BoxSet, block: &Block| {
            let mut found = Vec::new();
            set.find(block, |item| found.push(item));
            found.sort_unstable();
            found
        };
        for n in 0..64 {
            boxes.push(square(n / 8, n % 8, 64));
            set.insert(&boxes[n], n as u32);
            assert!(n < MANY || matches!(set.form, Form::Grid(_)));
            assert_eq!(found(&set, &boxes[n]), [n as u32]);
        }
        for n in 0..1024 {
            boxes.push(square(n / 32, n % 32, 1));
            set.insert(&boxes[64 + n], 64 + n as u32);
            let expected: Vec<u32> =
                (0..).zip(&boxes).filter(|(_, one)| one.overlaps(&boxes[64 + n])).map(|(n, _)| n).collect();
            assert_eq!(found(&set, &boxes[64 + n]), expected);
        }
        assert!(matches!(set.form, Form::Tree(_)));
        assert_eq!(found(&set, &whole).len(), 64 + 1024);
    }

    /// If many small boxes are in one cell of large boxes, the cost until the set becomes a tree must not grow with
    /// their number.
    #[test]
    fn wasted_work_of_a_grid_is_constant() {
        let looked_at = |n: usize| {
            let mut set = BoxSet::new(&Block::whole(&[1 << 12, 1 << 12]));
            (0..n).for_each(|i| set.insert(&square(i / 64, i % 64, 64), i as u32));
            let before = LOOKED_AT.get();
            for i in 0..n / 4 {
                set.insert(&square(i / 32, i % 32, 1), (n + i) as u32);
                set.find(&square(i / 32, i % 32, 1), |_| ());
            }
            (LOOKED_AT.get() - before) as f64 / n as f64
        };
        let (few, many) = (looked_at(400), looked_at(3200));
        assert!(many < 2.0 * few, "{few} and {many} nodes, cells and boxes looked at per box");
    }
}
