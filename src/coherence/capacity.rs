//! Capacity and use of each address space, and the choice of replicas to evict.
//!
//! A replica's bytes are in use until the driver reports that it has freed them. Between the decision to evict it and
//! that report, the replica is *leaving*: a task that needs room can count on the replica's bytes and need not evict
//! another replica, but cannot use the bytes yet.
//!
//! A device may hold less than it reports, because other programs use it too and because memory gets fragmented. When a
//! device refuses an allocation, its memory is *limited* for a while to the amount that was in use without that
//! allocation. A task that runs alone on the device may still try to allocate everything that it needs.

use super::Directory;
use super::ReplicaId;
use super::outlook::{Outlook, Turn};
use super::recency::Recency;
use crate::ids::{DataId, SpaceId};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Capacity and use of every address space. The use of host memory is tracked if it is limited.
#[derive(Debug)]
pub(crate) struct Memories {
    spaces: Vec<Memory>,
    /// The future uses, if evictions depend on them.
    outlook: Option<Outlook>,
}

#[derive(Debug)]
struct Memory {
    capacity_bytes: u64,
    /// Number of bytes that the memory has turned out to hold. Equal to the capacity unless an allocation was refused
    /// recently.
    limit_bytes: u64,
    /// Number of further task ends after which the capacity is trusted again.
    limited_for: u32,
    used_bytes: u64,
    /// Number of used bytes that will become free without further action, because their replicas are leaving.
    leaving_bytes: u64,
    /// The replicas that are not leaving, ordered by last use.
    by_use: Recency,
}

/// Number of task ends for which a limit holds. The limit must expire, because its cause may have disappeared; it must
/// not expire too soon, because each new attempt may cost another refusal.
const LIMITED_FOR: u32 = 1000;

/// How some bytes can be reserved.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// The bytes are free.
    Free,
    /// The bytes will be free once these replicas have been evicted, in this order.
    After(Vec<(DataId, ReplicaId)>),
    /// The bytes will be free once the replicas that are already leaving are gone.
    Soon,
    /// The bytes cannot be freed now, because tasks and copies use too much of the memory.
    Never,
}

impl Memory {
    fn new(capacity_bytes: u64) -> Self {
        let (limit_bytes, by_use) = (capacity_bytes, Recency::default());
        Self { capacity_bytes, limit_bytes, limited_for: 0, used_bytes: 0, leaving_bytes: 0, by_use }
    }
}

impl Memories {
    /// Makes the memories of all address spaces, the host's first.
    pub(crate) fn new(capacities_bytes: &[u64]) -> Self {
        Self { spaces: capacities_bytes.iter().copied().map(Memory::new).collect(), outlook: None }
    }

    /// Makes evictions depend on future uses.
    pub(crate) fn look_ahead(&mut self) {
        self.outlook.get_or_insert_default();
    }

    /// Returns the future uses, if evictions depend on them.
    pub(crate) fn outlook(&mut self) -> Option<&mut Outlook> {
        self.outlook.as_mut()
    }

    /// Whether evictions depend on future uses.
    pub(crate) fn looks_ahead(&self) -> bool {
        self.outlook.is_some()
    }

    /// Adds an address space.
    pub(crate) fn add_space(&mut self, capacity_bytes: u64) {
        self.spaces.push(Memory::new(capacity_bytes));
    }

    /// Returns the capacity of `space` in bytes.
    pub(crate) fn capacity(&self, space: SpaceId) -> u64 {
        self.spaces[space.index()].capacity_bytes
    }

    /// Returns the number of bytes of a device's memory that are not in use.
    pub(crate) fn free(&self, space: SpaceId) -> u64 {
        let Memory { limit_bytes, used_bytes, .. } = &self.spaces[space.index()];
        limit_bytes.saturating_sub(*used_bytes)
    }

    /// Returns the number of bytes that are in use or promised.
    pub(crate) fn in_use(&self, space: SpaceId) -> u64 {
        self.spaces[space.index()].used_bytes
    }

    /// Limits the memory after the device has refused this many bytes, whether they were counted as in use or came on
    /// top.
    pub(crate) fn refused(&mut self, space: SpaceId, bytes: u64) {
        let memory = &mut self.spaces[space.index()];
        memory.limit_bytes = memory.limit_bytes.min(memory.used_bytes.saturating_sub(bytes));
        memory.limited_for = LIMITED_FOR;
    }

    /// Counts the end of a task that had memory in this space.
    pub(crate) fn task_ended(&mut self, space: SpaceId) {
        let memory = &mut self.spaces[space.index()];
        if memory.limited_for > 0 {
            memory.limited_for -= 1;
            if memory.limited_for == 0 {
                memory.limit_bytes = memory.capacity_bytes;
            }
        }
    }

    /// Whether a memory's limit is currently below its capacity.
    fn is_limited(&self, space: SpaceId) -> bool {
        self.spaces[space.index()].limited_for > 0
    }

    /// Visits the replicas that are not leaving, least recently used first.
    pub(crate) fn staying(&self, space: SpaceId) -> impl Iterator<Item = (DataId, ReplicaId)> {
        self.spaces[space.index()].by_use.iter()
    }

    /// Returns the capacity of the smallest memory in bytes.
    pub(crate) fn smallest(&self) -> u64 {
        self.spaces.iter().map(|memory| memory.capacity_bytes).min().unwrap_or(u64::MAX)
    }

    pub(crate) fn reserve(&mut self, space: SpaceId, bytes: u64) {
        self.spaces[space.index()].used_bytes += bytes;
    }

    pub(crate) fn release(&mut self, space: SpaceId, bytes: u64) {
        self.spaces[space.index()].used_bytes -= bytes;
    }

    /// Records that a replica was created or used again at time `now`.
    pub(crate) fn used(&mut self, space: SpaceId, data: DataId, replica: ReplicaId, now: u64) {
        self.spaces[space.index()].by_use.used(data, replica, now);
    }

    /// Marks a replica as leaving.
    pub(crate) fn leaves(&mut self, space: SpaceId, data: DataId, replica: ReplicaId, bytes: u64) {
        let memory = &mut self.spaces[space.index()];
        memory.by_use.remove(data, replica);
        memory.leaving_bytes += bytes;
    }

    /// Notes that a leaving replica stays after all.
    pub(crate) fn stays(&mut self, space: SpaceId, data: DataId, replica: ReplicaId, bytes: u64, now: u64) {
        self.spaces[space.index()].leaving_bytes -= bytes;
        self.used(space, data, replica, now);
    }

    /// Forgets a replica that is gone.
    pub(crate) fn forget(&mut self, space: SpaceId, data: DataId, replica: ReplicaId) {
        self.spaces[space.index()].by_use.remove(data, replica);
    }

    /// Frees the bytes of a leaving replica that has been dropped.
    pub(crate) fn left(&mut self, space: SpaceId, bytes: u64) {
        self.spaces[space.index()].leaving_bytes -= bytes;
        self.release(space, bytes);
    }

    /// Returns the number of bytes of replicas that are leaving this space.
    pub(crate) fn leaving(&self, space: SpaceId) -> u64 {
        self.spaces[space.index()].leaving_bytes
    }

    /// Whether replicas are leaving this space.
    pub(crate) fn is_left(&self, space: SpaceId) -> bool {
        self.spaces[space.index()].leaving_bytes > 0
    }

    /// Returns how to get `bytes` in `space` by evicting replicas that are not pinned.
    pub(crate) fn room(&self, space: SpaceId, bytes: u64, directories: &FxHashMap<DataId, Directory>) -> Room {
        let Memory { limit_bytes, used_bytes, leaving_bytes, .. } = &self.spaces[space.index()];
        if used_bytes.saturating_add(bytes) <= *limit_bytes {
            return Room::Free;
        }
        let mut missing = used_bytes + bytes - limit_bytes;
        if missing <= *leaving_bytes {
            return Room::Soon;
        }
        missing -= leaving_bytes;
        let mut leaving = Vec::new();
        for (data, id) in self.in_order_of_eviction(space, directories) {
            let directory = &directories[&data];
            let freed = directory.bytes(&directory.replica(id).block);
            leaving.push((data, id));
            if freed >= missing {
                return Room::After(leaving);
            }
            missing -= freed;
        }
        Room::Never
    }

    /// Visits the replicas that can be evicted, the best one first: the one whose next use is furthest, if that is
    /// known, and of several such replicas the least recently used one.
    fn in_order_of_eviction<'a>(
        &'a self,
        space: SpaceId,
        directories: &'a FxHashMap<DataId, Directory>,
    ) -> Box<dyn Iterator<Item = (DataId, ReplicaId)> + 'a> {
        let idle = self.staying(space).filter(|(data, id)| directories[data].replica(*id).pins == 0);
        let Some(outlook) = &self.outlook else { return Box::new(idle) };
        /// A replica that is never used again is greater than all others.
        #[derive(PartialEq, Eq, PartialOrd, Ord)]
        enum Next {
            At(Turn),
            Never,
        }
        let judged = idle.enumerate().map(|(position, (data, id))| {
            let next = outlook.next_use(data, &directories[&data].replica(id).block, space);
            (next.map_or(Next::Never, Next::At), Reverse(position), data, id)
        });
        // Usually one replica is enough, so a heap is cheaper than a sort.
        let mut judged: BinaryHeap<_> = judged.collect();
        Box::new(std::iter::from_fn(move || judged.pop().map(|(.., data, id)| (data, id))))
    }

    /// Like [`Self::room`], for a task that runs alone in this space. If the memory is limited, all other replicas are
    /// evicted, and then the task may try to allocate everything that it needs. The replicas that are `chosen` for the
    /// task itself stay.
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
        // Copies that use other replicas must end before the task may try.
        if !others.is_empty() || *used_bytes + bytes > *capacity_bytes {
            return Room::Never;
        }
        *limit_bytes = *used_bytes + bytes;
        Room::Free
    }

    /// Returns the unpinned replicas that must be evicted to bring memory use down to the limit, or all unpinned
    /// replicas if that is not enough.
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

    /// Makes a memory that is full of four replicas of different data objects. `uses` contains the time of each
    /// replica's last use.
    fn full(uses: [u64; 4]) -> (Memories, FxHashMap<DataId, Directory>) {
        let mut memories = Memories::new(&[u64::MAX, 4 * BYTES]);
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
    fn only_as_many_least_recently_used_replicas_leave_as_needed() {
        let (mut memories, mut directories) = full([30, 10, 40, 20]);
        assert_eq!(memories.room(DEVICE, 0, &directories), Room::Free);
        assert_eq!(memories.room(DEVICE, 1, &directories), leaving(&[2]));
        assert_eq!(memories.room(DEVICE, BYTES, &directories), leaving(&[2]));
        assert_eq!(memories.room(DEVICE, BYTES + 1, &directories), leaving(&[2, 4]));
        assert_eq!(memories.room(DEVICE, 4 * BYTES, &directories), leaving(&[2, 4, 1, 3]));
        assert_eq!(memories.room(DEVICE, 4 * BYTES + 1, &directories), Room::Never);
        // The second replica was used again, so it is now evicted last.
        memories.used(DEVICE, DataId(2), ReplicaId(2), 50);
        assert_eq!(memories.room(DEVICE, BYTES, &directories), leaving(&[4]));
        // A pinned replica stays.
        directories.get_mut(&DataId(4)).unwrap().replica_mut(ReplicaId(4)).pins = 1;
        assert_eq!(memories.room(DEVICE, BYTES, &directories), leaving(&[1]));
        assert_eq!(memories.room(DEVICE, 4 * BYTES, &directories), Room::Never);
        assert_eq!(memories.room(SpaceId::HOST, u64::MAX, &directories), Room::Free);
    }

    #[test]
    fn memory_is_limited_for_a_while_after_a_refusal() {
        let (mut memories, mut directories) = full([30, 10, 40, 20]);
        assert!(memories.beyond_limit(DEVICE, &directories).is_empty());
        memories.refused(DEVICE, BYTES);
        assert_eq!(memories.beyond_limit(DEVICE, &directories), [(DataId(2), ReplicaId(2))]);
        assert_eq!(memories.room(DEVICE, BYTES, &directories), leaving(&[2, 4]));
        // A task that runs alone evicts all other replicas. The limit has no room for three replicas of the task
        // itself.
        let own = [(DataId(1), ReplicaId(1))];
        directories.get_mut(&DataId(1)).unwrap().replica_mut(ReplicaId(1)).pins = 1;
        memories.refused(DEVICE, 3 * BYTES);
        assert_eq!(memories.room_alone(DEVICE, BYTES, &own, &directories), leaving(&[2, 4, 3]));
        for n in [2, 4, 3] {
            memories.leaves(DEVICE, DataId(n), ReplicaId(n), BYTES);
            memories.left(DEVICE, BYTES);
        }
        assert_eq!(memories.room(DEVICE, BYTES, &directories), Room::Never);
        assert_eq!(memories.room_alone(DEVICE, BYTES, &[], &directories), Room::Never, "its users end first");
        assert_eq!(memories.room_alone(DEVICE, 4 * BYTES, &own, &directories), Room::Never, "more than the capacity");
        assert_eq!(memories.room_alone(DEVICE, BYTES, &own, &directories), Room::Free);
        assert_eq!((memories.in_use(DEVICE), memories.free(DEVICE)), (BYTES, BYTES));
        (0..LIMITED_FOR).for_each(|_| memories.task_ended(DEVICE));
        assert_eq!(memories.free(DEVICE), 3 * BYTES);
    }
}
