//! Which of many boxes overlap a given one, in the form that suits the boxes.
//!
//! Few boxes are a tree ([`BoxTree`]): its root has all of them side by side. Many are a grid ([`BoxGrid`]), which finds a
//! tile among its like by one look; if it turns out that they are not alike, or that other boxes are sought, they become a
//! tree again, for good. So the cost is that of the grid for what programs do mostly, and that of the tree for all else,
//! but for what the grid has wasted before: a constant.
//!
//! Items are the caller's numbers, from 0 on without large gaps.

use super::Block;
use super::box_grid::BoxGrid;
use super::box_tree::BoxTree;

/// So many boxes become a grid.
const MANY: usize = if cfg!(test) { 6 } else { 32 };

/// Boxes, each with an item; see the module.
#[derive(Debug)]
pub(crate) struct BoxSet {
    whole: Block,
    form: Form,
}

#[derive(Debug)]
enum Form {
    /// Few boxes.
    Few(BoxTree),
    /// Boxes for which a grid has not been found wasteful.
    Grid(Box<BoxGrid>),
    /// Boxes for which it has.
    Tree(BoxTree),
}

impl BoxSet {
    /// No box. All that come lie inside `whole`.
    pub(crate) fn new(whole: &Block) -> Self {
        Self { whole: *whole, form: Form::Few(BoxTree::new(whole)) }
    }

    /// Takes all boxes out.
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

    /// Cuts an item's box in two: `rest` stays, `piece` is that of a new item. Together they are what it was.
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

    /// Takes an item out.
    pub(crate) fn remove(&mut self, item: u32) {
        match &mut self.form {
            Form::Grid(grid) => grid.remove(item),
            Form::Few(tree) | Form::Tree(tree) => tree.remove(item),
        }
    }

    /// Gives an item another box.
    pub(crate) fn set(&mut self, item: u32, block: &Block) {
        match &mut self.form {
            Form::Grid(grid) => grid.set(item, block),
            Form::Few(tree) | Form::Tree(tree) => tree.set(item, block),
        }
    }

    /// The items of all boxes that overlap `block`.
    #[inline]
    pub(crate) fn find(&self, block: &Block, found: impl FnMut(u32)) {
        match &self.form {
            Form::Grid(grid) => grid.find(block, found),
            Form::Few(tree) | Form::Tree(tree) => tree.find(block, found),
        }
    }

    /// Takes the other form if it is time. To be called now and then by who searches and changes nothing.
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
    fn it_becomes_a_grid_and_a_tree_again_and_finds_the_same() {
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

    /// Many small boxes in one cell of large ones: what is wasted before the tree comes does not grow with their number.
    #[test]
    fn what_a_grid_wastes_is_a_constant() {
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
