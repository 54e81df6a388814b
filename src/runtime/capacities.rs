//! How many bytes address spaces hold, and the largest that units of each kind can work in.

use crate::ids::SpaceId;
use crate::machine::{Machine, UnitKind};

/// The capacities of a machine's memories.
pub(super) struct Capacities {
    bytes: Vec<u64>,
    /// What can be allocated at once in each.
    buffers: Vec<u64>,
    /// Of the largest memory among the units of each kind; nothing of kinds that the machine lacks.
    largest_by_kind: [Option<u64>; UnitKind::ALL.len()],
    /// What the most generous of those units' devices allocates at once.
    buffer_by_kind: [u64; UnitKind::ALL.len()],
}

impl Capacities {
    /// The spaces of `machine` hold so many bytes each, of which `buffer` can be allocated at once.
    pub(super) fn new(machine: &Machine, bytes: Vec<u64>, buffer: impl Fn(SpaceId) -> u64) -> Self {
        let mut largest_by_kind = [None; UnitKind::ALL.len()];
        let mut buffer_by_kind = [0; UnitKind::ALL.len()];
        for unit in machine.units() {
            let capacity = machine.spaces_of(unit.id).map(|space| bytes[space.index()]).max();
            let largest = &mut largest_by_kind[unit.kind as usize];
            *largest = (*largest).max(Some(capacity.unwrap_or(0)));
            let of_unit = machine.spaces_of(unit.id).map(&buffer).max();
            let most = &mut buffer_by_kind[unit.kind as usize];
            *most = (*most).max(of_unit.unwrap_or(0));
        }
        let buffers = machine.spaces().map(buffer).collect();
        Self { bytes, buffers, largest_by_kind, buffer_by_kind }
    }

    /// What a space holds.
    pub(super) fn bytes(&self, space: SpaceId) -> u64 {
        self.bytes.get(space.index()).copied().unwrap_or(0)
    }

    /// How many bytes one region can have in a space.
    pub(super) fn buffer(&self, space: SpaceId) -> u64 {
        self.buffers.get(space.index()).copied().unwrap_or(0)
    }

    /// How many bytes one region can have on units of a kind.
    pub(super) fn largest_buffer(&self, kind: UnitKind) -> u64 {
        self.buffer_by_kind[kind as usize]
    }

    /// What the largest memory holds of units of a kind, if there are any.
    pub(super) fn largest(&self, kind: UnitKind) -> Option<u64> {
        self.largest_by_kind[kind as usize]
    }
}
