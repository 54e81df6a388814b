//! The valid part of a rank's copy of a tile, as disjoint boxes.
//!
//! The owner and the reader each keep this list. Both make the same calls in the same order, so both lists hold the
//! same boxes in the same order, and both ranks derive the same messages from them. Either rank may leave out a call
//! that changes nothing.

use thalweg::region::Block;

/// See the module documentation.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Boxes(Vec<Block>);

impl Boxes {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the parts of a block that are not valid.
    pub(crate) fn missing(&self, block: &Block) -> Vec<Block> {
        let mut missing = if block.is_empty() { Vec::new() } else { vec![*block] };
        for valid in self.0.iter().filter(|valid| valid.overlaps(block)) {
            let mut rest = Vec::new();
            missing.iter().for_each(|part| part.subtract(valid, |piece| rest.push(piece)));
            missing = rest;
        }
        missing
    }

    /// Makes a block valid. It becomes a single box, so that the list of a repeated program does not grow.
    pub(crate) fn insert(&mut self, block: &Block) {
        if !block.is_empty() && !self.0.iter().any(|valid| valid.contains(block)) {
            self.remove(block);
            self.0.push(*block);
        }
    }

    /// Makes a block invalid.
    pub(crate) fn remove(&mut self, block: &Block) {
        if self.0.iter().any(|valid| valid.overlaps(block)) {
            let mut rest = Vec::with_capacity(self.0.len());
            self.0.iter().for_each(|valid| valid.subtract(block, |piece| rest.push(piece)));
            self.0 = rest;
        }
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(blocks: &[Block]) -> usize {
        blocks.iter().map(Block::volume).sum()
    }

    #[test]
    fn missing_is_what_was_never_valid_or_has_been_removed() {
        let mut boxes = Boxes::default();
        let whole = Block::new(&[0..10, 0..10]);
        assert_eq!(boxes.missing(&whole), [whole]);
        boxes.insert(&Block::new(&[0..10, 0..1]));
        boxes.insert(&Block::new(&[0..1, 0..10]));
        assert_eq!(volume(&boxes.missing(&whole)), 81);
        boxes.remove(&Block::new(&[0..5, 0..5]));
        assert_eq!(volume(&boxes.missing(&whole)), 90);
        boxes.insert(&whole);
        assert_eq!(boxes.missing(&whole), []);
        assert_eq!(boxes.missing(&Block::new(&[3..3, 0..10])), [], "nothing is missing from an empty region");
    }

    #[test]
    fn lists_of_repeated_programs_do_not_grow() {
        let (mut boxes, whole) = (Boxes::default(), Block::new(&[0..64, 0..64]));
        let mut lens = Vec::new();
        for _ in 0..100 {
            for at in 0..8 {
                boxes.insert(&Block::new(&[at * 8..at * 8 + 9, 0..3]).intersection(&whole).unwrap());
            }
            boxes.remove(&Block::new(&[3..60, 1..2]));
            lens.push(boxes.0.len());
        }
        assert!(lens[1..].iter().all(|len| *len == lens[1]), "{lens:?}");
    }
}
