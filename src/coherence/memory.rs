//! How full each address space is, and what has to go to make room.

use super::Directory;
use super::ReplicaId;
use crate::ids::{DataId, SpaceId};
use rustc_hash::FxHashMap;

/// Capacity and use of every address space; the host's is not counted.
#[derive(Debug)]
pub(crate) struct Memories {
    spaces: Vec<Memory>,
}

#[derive(Debug, Clone, Copy)]
struct Memory {
    capacity_bytes: u64,
    used_bytes: u64,
}

/// What it takes to reserve some bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// They are free.
    Free,
    /// They will be once these replicas are gone, the least recently used first.
    After(Vec<(DataId, ReplicaId)>),
    /// Too much is in use by tasks and copies.
    Never,
}

impl Memories {
    /// `capacities_bytes[0]` is the host's and ignored.
    pub(crate) fn new(capacities_bytes: &[u64]) -> Self {
        let space = |&capacity_bytes| Memory { capacity_bytes, used_bytes: 0 };
        Self { spaces: capacities_bytes.iter().map(space).collect() }
    }

    /// The bytes that `space` holds at most.
    pub(crate) fn capacity(&self, space: SpaceId) -> u64 {
        if space.is_host() { u64::MAX } else { self.spaces[space.index()].capacity_bytes }
    }

    pub(crate) fn reserve(&mut self, space: SpaceId, bytes: u64) {
        self.spaces[space.index()].used_bytes += bytes;
    }

    pub(crate) fn release(&mut self, space: SpaceId, bytes: u64) {
        self.spaces[space.index()].used_bytes -= bytes;
    }

    /// How to get `bytes` in `space`, by giving up replicas that nobody has pinned.
    pub(crate) fn room(&self, space: SpaceId, bytes: u64, directories: &FxHashMap<DataId, Directory>) -> Room {
        if space.is_host() {
            return Room::Free;
        }
        let Memory { capacity_bytes, used_bytes } = self.spaces[space.index()];
        if used_bytes + bytes <= capacity_bytes {
            return Room::Free;
        }
        let mut idle: Vec<_> = (directories.values())
            .flat_map(|directory| directory.away().map(move |replica| (directory, replica)))
            .filter(|(_, replica)| replica.space == space && replica.pins == 0)
            .map(|(directory, replica)| (replica.last_use, directory.data, replica.id, directory.bytes(&replica.block)))
            .collect();
        idle.sort_unstable();
        let mut missing = used_bytes + bytes - capacity_bytes;
        let mut leaving = Vec::new();
        for (_, data, replica, freed) in idle {
            leaving.push((data, replica));
            if freed >= missing {
                return Room::After(leaving);
            }
            missing -= freed;
        }
        Room::Never
    }
}
