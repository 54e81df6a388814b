//! A part of a data object with the way it is accessed, kept when the access itself may be gone.

use crate::depend::{AccessRecord, Mode};
use crate::ids::DataId;
use crate::region::Block;

/// A part of a data object, and how it is accessed. Data objects are told apart by their ids, which are never used again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    pub(crate) data: DataId,
    pub(crate) block: Block,
    pub(crate) mode: Mode,
}

impl Piece {
    /// What is accessed like this.
    pub(crate) fn of(access: &AccessRecord<'_>) -> Self {
        Self { data: access.datum.id, block: *access.block, mode: access.mode }
    }

    /// Whether who leaves this alone leaves `other` alone too.
    pub(super) fn says(&self, other: &Self) -> bool {
        self.data == other.data && self.block.contains(&other.block) && (self.mode.writes() || !other.mode.writes())
    }

    /// Whether both cannot happen at once.
    pub(super) fn conflicts_with(&self, access: &AccessRecord<'_>) -> bool {
        self.data == access.datum.id
            && (self.mode.writes() || access.mode.writes())
            && self.block.overlaps(access.block)
    }
}
