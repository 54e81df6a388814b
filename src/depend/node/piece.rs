//! A part of a data object with its access mode, stored independently of the access, which may no longer exist.

use crate::depend::{AccessRecord, Mode};
use crate::ids::DataId;
use crate::region::Block;

/// A part of a data object, and its access mode. The data object is identified by its ID, which is never reused.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    pub(crate) data: DataId,
    pub(crate) block: Block,
    pub(crate) mode: Mode,
}

impl Piece {
    /// Returns the region and mode of an access.
    pub(crate) fn of(access: &AccessRecord<'_>) -> Self {
        Self { data: access.datum.id, block: *access.block, mode: access.mode }
    }

    /// Whether a task that leaves this piece alone also leaves `other` alone.
    pub(super) fn says(&self, other: &Self) -> bool {
        self.data == other.data && self.block.contains(&other.block) && (self.mode.writes() || !other.mode.writes())
    }

    /// Whether the two accesses must not happen at the same time.
    pub(super) fn conflicts_with(&self, access: &AccessRecord<'_>) -> bool {
        self.data == access.datum.id
            && (self.mode.writes() || access.mode.writes())
            && self.block.overlaps(access.block)
    }
}
