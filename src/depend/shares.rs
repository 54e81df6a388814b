//! The blocks of an array that each of several tasks has written or read. The array is kept in parts; parts that were
//! cut from one block are reunited.
//!
//! This module uses nothing of a history except task addresses, and its data lives only as long as the conversion of a
//! history.

use crate::region::Block;
use rustc_hash::FxHashMap;

/// The parts of each task, in the order in which the tasks were first added.
pub(super) struct Shares<T> {
    all: Vec<(T, Vec<Block>)>,
    by_address: FxHashMap<usize, usize>,
}

impl<T> Default for Shares<T> {
    fn default() -> Self {
        Self { all: Vec::new(), by_address: FxHashMap::default() }
    }
}

impl<T> Shares<T> {
    /// Adds a part to the task at this address. All calls for one part must be consecutive; the same task may be added
    /// more than once for a part.
    pub(super) fn add(&mut self, address: usize, task: impl FnOnce() -> T, part: Block) {
        let at = *self.by_address.entry(address).or_insert_with(|| {
            self.all.push((task(), Vec::new()));
            self.all.len() - 1
        });
        let parts = &mut self.all[at].1;
        if parts.last() != Some(&part) {
            parts.push(part);
        }
    }

    /// Visits each task with its parts, as one block if the parts make up one.
    pub(super) fn blocks(&self) -> impl Iterator<Item = (&T, Block)> {
        self.all.iter().flat_map(|(task, parts)| {
            let around = parts[1..].iter().fold(parts[0], |around, part| around.hull(part));
            let is_one = around.volume() == parts.iter().map(Block::volume).sum::<usize>();
            let (one, several) = if is_one { (Some(around), &[][..]) } else { (None, &parts[..]) };
            one.into_iter().chain(several.iter().copied()).map(move |block| (task, block))
        })
    }
}
