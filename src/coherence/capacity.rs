//! How full each address space is, and what has to go to make room.
//!
//! A replica's bytes are in use until the driver says that it has given them back. From the decision that it goes until
//! then it is *leaving*: who needs room counts on its bytes and sends no other away for them, but does not get them yet.
//!
//! A device may hold less than it says: others use it too, and memory is cut up. When it refuses an allocation its memory is
//! *limited* to what was in use without that, for a while; but who is alone there may try for all that it needs.

use super::Directory;
use super::ReplicaId;
use super::recency::Recency;
use crate::ids::{DataId, SpaceId};
use rustc_hash::FxHashMap;

/// Capacity and use of every address space; the host's is not counted.
#[derive(Debug)]
pub(crate) struct Memories {
    spaces: Vec<Memory>,
}

#[derive(Debug)]
struct Memory {
    capacity_bytes: u64,
    /// What it turned out to hold; the capacity, unless an allocation was refused lately.
    limit_bytes: u64,
    /// After so many ends of tasks the capacity is believed again.
    limited_for: u32,
    used_bytes: u64,
    /// Those of them that will be free without further ado.
    leaving_bytes: u64,
    /// Its replicas that stay.
    by_use: Recency,
}

/// For so many ends of tasks a limit holds: who limited the memory may have gone since, and to find that out costs a refusal.
const LIMITED_FOR: u32 = 1000;

/// What it takes to reserve some bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// They are free.
    Free,
    /// They will be once these replicas are gone, the least recently used first.
    After(Vec<(DataId, ReplicaId)>),
    /// They will be once those are gone that are leaving already.
    Soon,
    /// Too much is in use by tasks and copies.
    Never,
}

impl Memories {
    /// `capacities_bytes[0]` is the host's and ignored.
    pub(crate) fn new(capacities_bytes: &[u64]) -> Self {
        let space = |&capacity_bytes| Memory {
            capacity_bytes,
            limit_bytes: capacity_bytes,
            limited_for: 0,
            used_bytes: 0,
            leaving_bytes: 0,
            by_use: Recency::default(),
        };
        Self { spaces: capacities_bytes.iter().map(space).collect() }
    }

    /// The bytes that `space` holds at most.
    pub(crate) fn capacity(&self, space: SpaceId) -> u64 {
        if space.is_host() { u64::MAX } else { self.spaces[space.index()].capacity_bytes }
    }

    /// The bytes of a device's memory that are not in use.
    pub(crate) fn free(&self, space: SpaceId) -> u64 {
        let Memory { limit_bytes, used_bytes, .. } = &self.spaces[space.index()];
        limit_bytes.saturating_sub(*used_bytes)
    }

    /// The bytes that are in use, or promised.
    pub(crate) fn in_use(&self, space: SpaceId) -> u64 {
        self.spaces[space.index()].used_bytes
    }

    /// The device has refused so many bytes: of those in use, or beside them.
    pub(crate) fn refused(&mut self, space: SpaceId, bytes: u64) {
        let memory = &mut self.spaces[space.index()];
        memory.limit_bytes = memory.limit_bytes.min(memory.used_bytes.saturating_sub(bytes));
        memory.limited_for = LIMITED_FOR;
    }

    /// A task that had something there has ended.
    pub(crate) fn task_ended(&mut self, space: SpaceId) {
        let memory = &mut self.spaces[space.index()];
        if memory.limited_for > 0 {
            memory.limited_for -= 1;
            if memory.limited_for == 0 {
                memory.limit_bytes = memory.capacity_bytes;
            }
        }
    }

    /// Whether a memory holds less than was thought.
    fn is_limited(&self, space: SpaceId) -> bool {
        self.spaces[space.index()].limited_for > 0
    }

    /// The replicas that stay, the least recently used first.
    pub(crate) fn staying(&self, space: SpaceId) -> impl Iterator<Item = (DataId, ReplicaId)> {
        self.spaces[space.index()].by_use.iter()
    }

    /// The bytes that the smallest space holds at most.
    pub(crate) fn smallest(&self) -> u64 {
        self.spaces.iter().skip(1).map(|memory| memory.capacity_bytes).min().unwrap_or(u64::MAX)
    }

    pub(crate) fn reserve(&mut self, space: SpaceId, bytes: u64) {
        self.spaces[space.index()].used_bytes += bytes;
    }

    pub(crate) fn release(&mut self, space: SpaceId, bytes: u64) {
        self.spaces[space.index()].used_bytes -= bytes;
    }

    /// A replica was made, or used again, at `now`.
    pub(crate) fn used(&mut self, space: SpaceId, data: DataId, replica: ReplicaId, now: u64) {
        self.spaces[space.index()].by_use.used(data, replica, now);
    }

    /// A replica is on its way out.
    pub(crate) fn leaves(&mut self, space: SpaceId, data: DataId, replica: ReplicaId, bytes: u64) {
        let memory = &mut self.spaces[space.index()];
        memory.by_use.remove(data, replica);
        memory.leaving_bytes += bytes;
    }

    /// A replica that was leaving is gone, and its bytes are free.
    pub(crate) fn left(&mut self, space: SpaceId, bytes: u64) {
        self.spaces[space.index()].leaving_bytes -= bytes;
        self.release(space, bytes);
    }

    /// Whether replicas are leaving this space.
    pub(crate) fn is_left(&self, space: SpaceId) -> bool {
        self.spaces[space.index()].leaving_bytes > 0
    }

    /// How to get `bytes` in `space`, by giving up replicas that nobody has pinned.
    pub(crate) fn room(&self, space: SpaceId, bytes: u64, directories: &FxHashMap<DataId, Directory>) -> Room {
        if space.is_host() {
            return Room::Free;
        }
        let Memory { limit_bytes, used_bytes, leaving_bytes, by_use, .. } = &self.spaces[space.index()];
        if used_bytes + bytes <= *limit_bytes {
            return Room::Free;
        }
        let mut missing = used_bytes + bytes - limit_bytes;
        if missing <= *leaving_bytes {
            return Room::Soon;
        }
        missing -= leaving_bytes;
        let mut leaving = Vec::new();
        for (data, id) in by_use.iter() {
            let directory = &directories[&data];
            let replica = directory.replica(id);
            if replica.pins > 0 {
                continue;
            }
            let freed = directory.bytes(&replica.block);
            leaving.push((data, id));
            if freed >= missing {
                return Room::After(leaving);
            }
            missing -= freed;
        }
        Room::Never
    }

    /// As [`Self::room`], for who is alone there: in a limited memory all other replicas go, and what is needed then is tried
    /// for. These are `chosen` by the task itself.
    pub(crate) fn room_alone(
        &mut self,
        space: SpaceId,
        bytes: u64,
        chosen: &[(DataId, ReplicaId)],
        directories: &FxHashMap<DataId, Directory>,
    ) -> Room {
        let room = self.room(space, bytes, directories);
        if room != Room::Never || !self.is_limited(space) {
            return room;
        }
        let others: Vec<_> = self.staying(space).filter(|replica| !chosen.contains(replica)).collect();
        let is_idle = |(data, id): &(DataId, ReplicaId)| directories[data].replica(*id).pins == 0;
        let idle: Vec<_> = others.iter().copied().filter(is_idle).collect();
        if !idle.is_empty() {
            return Room::After(idle);
        }
        let Memory { capacity_bytes, limit_bytes, used_bytes, .. } = &mut self.spaces[space.index()];
        // Copies that use others end before this is tried.
        if !others.is_empty() || *used_bytes + bytes > *capacity_bytes {
            return Room::Never;
        }
        *limit_bytes = *used_bytes + bytes;
        Room::Free
    }

    /// The replicas that nobody has pinned and that have to go until no more is in use than the limit, or all of them.
    pub(crate) fn beyond_limit(
        &self,
        space: SpaceId,
        directories: &FxHashMap<DataId, Directory>,
    ) -> Vec<(DataId, ReplicaId)> {
        match self.room(space, 0, directories) {
            Room::Free | Room::Soon => Vec::new(),
            Room::After(leaving) => leaving,
            Room::Never => self.staying(space).filter(|(data, id)| directories[data].replica(*id).pins == 0).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::region::Block;

    const DEVICE: SpaceId = SpaceId(1);
    /// Bytes of a replica.
    const BYTES: u64 = 80;

    /// A memory full of four replicas, each a data object's own; `uses` are the times of their last use.
    fn full(uses: [u64; 4]) -> (Memories, FxHashMap<DataId, Directory>) {
        let mut memories = Memories::new(&[0, 4 * BYTES]);
        let mut directories = FxHashMap::default();
        for (n, last_use) in (1..).zip(uses) {
            let (data, replica, whole) = (DataId(n), ReplicaId(n), Block::interval(0..10));
            let mut directory = Directory::new(data, whole, 8);
            directory.add(replica, DEVICE, whole);
            directories.insert(data, directory);
            memories.reserve(DEVICE, BYTES);
            memories.used(DEVICE, data, replica, last_use);
        }
        (memories, directories)
    }

    fn leaving(numbers: &[u64]) -> Room {
        Room::After(numbers.iter().map(|&n| (DataId(n), ReplicaId(n))).collect())
    }

    #[test]
    fn the_least_recently_used_leave_and_no_more_than_it_takes() {
        let (mut memories, mut directories) = full([30, 10, 40, 20]);
        assert_eq!(memories.room(DEVICE, 0, &directories), Room::Free);
        assert_eq!(memories.room(DEVICE, 1, &directories), leaving(&[2]));
        assert_eq!(memories.room(DEVICE, BYTES, &directories), leaving(&[2]));
        assert_eq!(memories.room(DEVICE, BYTES + 1, &directories), leaving(&[2, 4]));
        assert_eq!(memories.room(DEVICE, 4 * BYTES, &directories), leaving(&[2, 4, 1, 3]));
        assert_eq!(memories.room(DEVICE, 4 * BYTES + 1, &directories), Room::Never);
        // Used again, the second is the last to go.
        memories.used(DEVICE, DataId(2), ReplicaId(2), 50);
        assert_eq!(memories.room(DEVICE, BYTES, &directories), leaving(&[4]));
        // What is pinned stays.
        directories.get_mut(&DataId(4)).unwrap().replica_mut(ReplicaId(4)).pins = 1;
        assert_eq!(memories.room(DEVICE, BYTES, &directories), leaving(&[1]));
        assert_eq!(memories.room(DEVICE, 4 * BYTES, &directories), Room::Never);
        assert_eq!(memories.room(SpaceId::HOST, u64::MAX, &directories), Room::Free);
    }

    #[test]
    fn a_memory_that_refuses_is_limited_for_a_while() {
        let (mut memories, mut directories) = full([30, 10, 40, 20]);
        assert!(memories.beyond_limit(DEVICE, &directories).is_empty());
        memories.refused(DEVICE, BYTES);
        assert_eq!(memories.beyond_limit(DEVICE, &directories), [(DataId(2), ReplicaId(2))]);
        assert_eq!(memories.room(DEVICE, BYTES, &directories), leaving(&[2, 4]));
        // Who is alone has all others go; three of its own would be too many for the limit.
        let own = [(DataId(1), ReplicaId(1))];
        directories.get_mut(&DataId(1)).unwrap().replica_mut(ReplicaId(1)).pins = 1;
        memories.refused(DEVICE, 3 * BYTES);
        assert_eq!(memories.room_alone(DEVICE, BYTES, &own, &directories), leaving(&[2, 4, 3]));
        for n in [2, 4, 3] {
            memories.leaves(DEVICE, DataId(n), ReplicaId(n), BYTES);
            memories.left(DEVICE, BYTES);
        }
        assert_eq!(memories.room(DEVICE, BYTES, &directories), Room::Never);
        assert_eq!(memories.room_alone(DEVICE, BYTES, &[], &directories), Room::Never, "who uses it ends first");
        assert_eq!(memories.room_alone(DEVICE, 4 * BYTES, &own, &directories), Room::Never, "more than the capacity");
        assert_eq!(memories.room_alone(DEVICE, BYTES, &own, &directories), Room::Free);
        assert_eq!((memories.in_use(DEVICE), memories.free(DEVICE)), (BYTES, BYTES));
        (0..LIMITED_FOR).for_each(|_| memories.task_ended(DEVICE));
        assert_eq!(memories.free(DEVICE), 3 * BYTES);
    }
}
