//! Reservation of a task's whole working set in one step, and the choice of replicas to evict for it.
//!
//! Each region gets an existing replica that covers it, or a new replica with exactly the region's box, unless that
//! box partly overlaps the box of another replica. In that case similar regions are likely to follow (as with blocks
//! that have a halo), and two overlapping replicas would copy to each other for every task. Therefore the whole data
//! object gets a replica in that memory, if memory is plentiful, and the replica is filled as parts of it are needed.
//!
//! A task across devices has a part of its working set in each of several memories. Room is found in all of them
//! before a replica is created in any of them.
//!
//! If new replicas do not fit, idle replicas are evicted, the least recently used first: immediately if their content
//! is valid elsewhere, otherwise after a write-back to the home. Until the driver has freed their memory, the task
//! waits and holds no memory. [`shortage`](super::super::shortage) handles devices that hold less than assumed.

use super::Residency;
use crate::coherence::{ReplicaId, Room};
use crate::depend::{AccessRecord, Mode, OwnedTask, Residence};
use crate::engine::command::ReplicaRef;
use crate::engine::placement::stages::{Assigned, Reserved};
use crate::ids::{DataId, SpaceId};
use crate::region::{Block, BoxIndex};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::cmp::Reverse;

/// A region that a task needs in its space.
struct Wanted {
    access: usize,
    data: DataId,
    block: Block,
    space: SpaceId,
    /// The replica that will hold the region; `None` if it has to be created.
    found: Option<ReplicaId>,
}

impl Wanted {
    fn is_with(&self, other: &Self) -> bool {
        self.space == other.space
    }
}

/// The reason why nothing was reserved.
#[derive(Debug)]
pub(in super::super) enum Shortage {
    /// Too much memory is in use or held by replicas that are already leaving. It will be freed later.
    InUse,
    /// There will be enough room once these replicas have been evicted.
    Evict(Vec<(DataId, ReplicaId)>),
}

/// Limit for a replica of a whole data object that replaces a replica of a part: it may take at most
/// 1/`WHOLE_OF_MEMORY` of a memory. OpenCL guarantees only that one buffer may take at least a quarter of it.
const WHOLE_OF_MEMORY: u64 = 4;

impl Residency {
    /// Pins a replica for every access of a task, or changes nothing.
    pub(in super::super) fn reserve(&mut self, assigned: &Assigned) -> Result<Reserved, Shortage> {
        let Assigned { task, space, .. } = assigned;
        if space.is_host() {
            return if self.homes.is_some() { self.reserve_homes(task, false) } else { Ok(self.at_home(task)) };
        }
        let (mut wanted, private_bytes) = wanted(assigned);
        let mut spare = SmallVec::<[u64; 4]>::new();
        for of_space in wanted.chunk_by_mut(Wanted::is_with) {
            spare.push(self.find_room(of_space[0].space, of_space, private_bytes)?);
        }
        for (of_space, spare) in wanted.chunk_by_mut(Wanted::is_with).zip(spare) {
            self.make_replicas(of_space[0].space, of_space, spare);
        }
        wanted.sort_by_key(|w| w.access);
        let mut replicas: SmallVec<[ReplicaRef; 8]> = SmallVec::new();
        for w in &wanted {
            let id = w.found.unwrap_or(ReplicaId::HOME);
            // Each access gets one place, in order, because lookups use the access index. The task that forgets a data
            // object comes after every task that declares a region of the object, so until then the object has a
            // directory.
            let directory = self.directories.get_mut(&w.data).expect("the data of a placed task are registered");
            let replica = directory.replica_mut(id);
            replica.pins += u32::from(id != ReplicaId::HOME);
            replicas.push(ReplicaRef { data: w.data, replica: id, space: replica.space, holds: replica.block });
        }
        if private_bytes > 0 {
            self.memories.reserve(*space, private_bytes);
        }
        assigned.spaces().iter().for_each(|space| self.tenants[space.index()] += 1);
        Ok(Reserved { replicas: replicas[..].into(), homes: SmallVec::new(), private_bytes, refused: false })
    }

    /// Returns the number of bytes that would have to be reserved in the task's first space, in addition to those
    /// already there.
    pub(in super::super) fn needed(&self, assigned: &Assigned) -> u64 {
        let (mut wanted, private_bytes) = wanted(assigned);
        wanted.retain(|w| w.space == assigned.space);
        self.find_covering(assigned.space, &mut wanted);
        private_bytes + self.new_bytes(&wanted)
    }

    /// Reserves home replicas, which have room.
    pub(super) fn at_home(&mut self, task: &OwnedTask) -> Reserved {
        let mut replicas: SmallVec<[ReplicaRef; 8]> = SmallVec::new();
        task.body().accesses(&mut |AccessRecord { datum, .. }| {
            let (data, holds) = (datum.id, datum.whole());
            replicas.push(ReplicaRef { data, replica: ReplicaId::HOME, space: SpaceId::HOST, holds });
        });
        self.tenants[SpaceId::HOST.index()] += 1;
        Reserved { replicas: replicas[..].into(), homes: SmallVec::new(), private_bytes: 0, refused: false }
    }

    /// Finds replicas for the wanted regions, or ensures that memory for them is free. Returns how many more bytes are
    /// free.
    fn find_room(&mut self, space: SpaceId, wanted: &mut [Wanted], private_bytes: u64) -> Result<u64, Shortage> {
        self.find_covering(space, wanted);
        let chosen: Vec<_> = wanted.iter().filter_map(|w| Some((w.data, w.found?))).collect();
        let alone = self.tenants[space.index()] == 0 && !self.memories.is_left(space);
        // The chosen replicas are pinned during the search for room, so that the search does not evict what the task
        // needs.
        self.pin(&chosen, 1);
        let mut needed = private_bytes + self.new_bytes(wanted);
        // A task that has the memory to itself may try for more than the assumed capacity, but not with replicas that
        // are larger than it needs.
        let mut room = match alone && self.are_exact(wanted) {
            false => self.memories.room(space, needed, &self.directories),
            true => self.memories.room_alone(space, needed, &chosen, &self.directories),
        };
        self.pin(&chosen, -1);
        if room == Room::Never && alone {
            // No other task uses this memory, so the covering replicas themselves are too large. Exact replicas will
            // fit.
            for w in wanted.iter_mut() {
                w.found = w.found.filter(|id| *id == ReplicaId::HOME || self.is_adopted(w.data, *id));
            }
            needed = private_bytes + self.new_bytes(wanted);
            room = self.memories.room_alone(space, needed, &[], &self.directories);
        }
        match room {
            Room::Free => Ok(self.memories.free(space) - needed),
            Room::Soon | Room::Never => Err(Shortage::InUse),
            Room::After(leaving) => Err(Shortage::Evict(leaving)),
        }
    }

    /// Creates the replicas that do not exist yet.
    fn make_replicas(&mut self, space: SpaceId, wanted: &mut [Wanted], mut spare: u64) {
        for w in wanted.iter_mut().filter(|w| w.found.is_none()) {
            let (data, block) = (w.data, w.block);
            let Some(directory) = self.directories.get_mut(&data) else { continue };
            // The loop may just have created a replica for a larger region of the same task.
            let id = directory.covering(space, &block).unwrap_or_else(|| {
                let id = ReplicaId(self.next_replica);
                self.next_replica += 1;
                let (mut block, mut bytes) = (block, directory.bytes(&block));
                if directory.overlaps_partly(space, &block) {
                    let whole = directory.whole();
                    let whole_bytes = directory.bytes(&whole);
                    if whole_bytes - bytes <= spare && whole_bytes <= self.memories.capacity(space) / WHOLE_OF_MEMORY {
                        spare -= whole_bytes - bytes;
                        (block, bytes) = (whole, whole_bytes);
                    }
                }
                directory.add(id, space, block);
                self.memories.reserve(space, bytes);
                self.memories.used(space, data, id, self.uses);
                id
            });
            w.found = Some(id);
        }
    }

    /// Returns whether the replicas that were found match the regions exactly.
    fn are_exact(&self, wanted: &[Wanted]) -> bool {
        let is_wanted = |data, block| wanted.iter().any(|w| (w.data, w.block) == (data, block));
        let exact = |w: &Wanted| match w.found {
            None | Some(ReplicaId::HOME) => true,
            Some(id) if self.is_adopted(w.data, id) => true,
            Some(id) => self.directories.get(&w.data).is_none_or(|all| is_wanted(w.data, all.replica(id).block)),
        };
        wanted.iter().all(exact)
    }

    pub(super) fn is_adopted(&self, data: DataId, id: ReplicaId) -> bool {
        self.directories.get(&data).is_some_and(|directory| directory.replica(id).adopted)
    }

    fn find_covering(&self, space: SpaceId, wanted: &mut [Wanted]) {
        for w in wanted.iter_mut().filter(|w| w.found.is_none()) {
            w.found = self.directories.get(&w.data).and_then(|directory| directory.covering(space, &w.block));
        }
    }

    /// Returns the total size of the replicas to create. A region inside an earlier, larger region needs no replica.
    fn new_bytes(&self, wanted: &[Wanted]) -> u64 {
        let (mut bytes, mut outermost) = (0, Outermost::default());
        for w in wanted.iter().filter(|w| w.found.is_none()) {
            if outermost.add(w.data, w.block) {
                bytes += self.directories.get(&w.data).map_or(0, |directory| directory.bytes(&w.block));
            }
        }
        bytes
    }

    pub(super) fn pin(&mut self, replicas: &[(DataId, ReplicaId)], by: i32) {
        for (data, id) in replicas {
            if let Some(directory) = self.directories.get_mut(data) {
                let pins = &mut directory.replica_mut(*id).pins;
                *pins = pins.wrapping_add_signed(by);
            }
        }
    }
}

/// Returns the regions that a task needs in its spaces, largest first, and the total size of its private buffers.
fn wanted(assigned: &Assigned) -> (SmallVec<[Wanted; 8]>, u64) {
    let Assigned { task, space, across, .. } = assigned;
    let (mut wanted, mut private_bytes) = (SmallVec::<[Wanted; 8]>::new(), 0);
    let (mut access, parts) = (0, task.body().parts());
    task.body().accesses(&mut |record: AccessRecord<'_>| {
        // Reductions that the host combines work on a private buffer. An access that only orders its task after other
        // tasks reads nothing, and a token has no content.
        let is_combined_at_home = matches!(record.mode, Mode::Reduction(_)) && !record.is_reduced_in_place();
        let needs_none = record.mode.sees_nothing()
            || is_combined_at_home
            || record.block.is_empty()
            || record.datum.residence != Residence::Anywhere;
        if is_combined_at_home {
            private_bytes += record.bytes();
        }
        let found = needs_none.then_some(ReplicaId::HOME);
        // The regions of a task that stands for several tasks consist of parts that are used differently. Each such
        // region needs one contiguous replica for all of its parts.
        let block = parts.map_or(*record.block, |parts| parts.hull(access));
        let space = across.as_ref().map_or(*space, |across| across.space(access));
        wanted.push(Wanted { access, data: record.datum.id, block, space, found });
        access += 1;
    });
    // Large regions come first, because their replicas may cover the small regions.
    wanted.sort_by_key(|w| (w.space, Reverse(w.block.volume())));
    (wanted, private_bytes)
}

/// The outermost of the added regions, which do not lie inside any other region. Regions must be added largest first.
#[derive(Default)]
struct Outermost(FxHashMap<DataId, BoxIndex<()>>);

impl Outermost {
    /// Adds a region unless it lies inside a region added before. Returns whether it was added.
    fn add(&mut self, data: DataId, block: Block) -> bool {
        // Any region that contains the whole of this region also contains its first element.
        let first = Block::from_corners(*block.lo(), block.lo().map(|index| index + 1));
        let (there, mut inside) = (self.0.entry(data).or_default(), false);
        there.find(&first, |other, ()| inside |= other.contains(&block));
        if !inside {
            there.insert(block, ());
        }
        !inside
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::region::LOOKED_AT;

    const DATA: [DataId; 2] = [DataId(1), DataId(2)];

    #[test]
    fn regions_inside_others_of_the_same_data_need_no_replica() {
        let mut outermost = Outermost::default();
        let block = |i, j| Block::new(&[i, j]);
        for (data, block, is_new) in [
            (0, block(0..8, 0..8), true),
            (0, block(0..8, 0..8), false),
            (0, block(4..12, 0..8), true),
            (1, block(2..4, 2..4), true),
            (0, block(2..4, 2..4), false),
            (0, block(8..9, 7..9), true),
        ] {
            assert_eq!(outermost.add(DATA[data], block), is_new, "{data} {block:?}");
        }
    }

    #[test]
    fn cost_per_region_is_logarithmic_in_their_number() {
        let per_region = |n: usize| {
            let mut outermost = Outermost::default();
            let before = LOOKED_AT.get();
            for k in 0..n {
                let at = k * 7919 % n * 4;
                assert!(outermost.add(DATA[0], Block::interval(at..at + 4)));
            }
            (LOOKED_AT.get() - before) as f64 / n as f64
        };
        let (few, many) = (per_region(256), per_region(16_384));
        assert!(many < 3.0 * few, "{few} nodes for each of 256, {many} of 16384");
    }
}
