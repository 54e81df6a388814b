//! Sizes of the largest allocations in address spaces, and the largest capacity for each kind of unit.

use crate::ids::SpaceId;
use crate::machine::{Machine, UnitKind};

/// The capacities of a machine's memories.
pub(super) struct Capacities {
    /// The largest single allocation in each memory.
    buffers: Vec<u64>,
    /// The capacity of the largest memory among the units of each kind; `None` for kinds that the machine lacks.
    largest_by_kind: [Option<u64>; UnitKind::ALL.len()],
    /// The largest single allocation of any device, for the units of each kind.
    buffer_by_kind: [u64; UnitKind::ALL.len()],
}

impl Capacities {
    /// Creates the capacities of `machine`, where each space allows single allocations of `buffer` bytes.
    pub(super) fn new(machine: &Machine, buffer: impl Fn(SpaceId) -> u64) -> Self {
        let mut largest_by_kind = [None; UnitKind::ALL.len()];
        let mut buffer_by_kind = [0; UnitKind::ALL.len()];
        for unit in machine.units() {
            let capacity = machine.spaces_of(unit.id).map(|space| machine.capacity_bytes(space)).max();
            let largest = &mut largest_by_kind[unit.kind as usize];
            *largest = (*largest).max(Some(capacity.unwrap_or(0)));
            let of_unit = machine.spaces_of(unit.id).map(&buffer).max();
            let most = &mut buffer_by_kind[unit.kind as usize];
            *most = (*most).max(of_unit.unwrap_or(0));
        }
        let buffers = machine.spaces().map(buffer).collect();
        Self { buffers, largest_by_kind, buffer_by_kind }
    }

    /// Returns the maximum size of a region in a space, in bytes.
    pub(super) fn buffer(&self, space: SpaceId) -> u64 {
        self.buffers.get(space.index()).copied().unwrap_or(0)
    }

    /// Returns the maximum size of a region on units of a kind, in bytes.
    pub(super) fn largest_buffer(&self, kind: UnitKind) -> u64 {
        self.buffer_by_kind[kind as usize]
    }

    /// Returns the capacity of the largest memory among units of a kind, if there are such units.
    pub(super) fn largest(&self, kind: UnitKind) -> Option<u64> {
        self.largest_by_kind[kind as usize]
    }
}
