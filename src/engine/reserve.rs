//! Reserving a task's whole working set in one step, and evicting what is in the way.
//!
//! A region is served by a replica that covers it, or by a new one: of exactly its box, unless it overlaps another's partly.
//! Then regions like these will come again (blocks with a halo do), and two boxes would copy to each other for every task:
//! so there the whole data gets a replica, if memory is plentiful. It is filled as parts of it are needed.
//!
//! If new ones do not fit, idle replicas leave, the least recently used first: at once if what they hold is valid elsewhere,
//! after a write-back home otherwise. Until the driver has given their memory back the task waits and holds nothing.

use super::command::{Command, ReplicaRef};
use super::placement::Placement;
use super::stages::Assigned;
use crate::coherence::{ReplicaId, Room};
use crate::depend::{AccessRecord, Mode};
use crate::ids::{DataId, SpaceId};
use crate::region::Block;
use smallvec::SmallVec;
use std::cmp::Reverse;

/// A region that a task needs in its space.
struct Wanted {
    access: usize,
    data: DataId,
    block: Block,
    /// Where it will lie.
    found: Option<ReplicaId>,
}

/// A replica of a whole data in place of a part's takes no more than this part of a memory. OpenCL allows at least a quarter
/// for one buffer.
const WHOLE_OF_MEMORY: u64 = 4;

type Reserved = (Assigned, SmallVec<[ReplicaRef; 4]>, u64);

impl Placement {
    /// Pins a replica for every access of the task, or changes nothing (but may start write-backs) and gives it back.
    pub(super) fn reserve(&mut self, assigned: Assigned, out: &mut Vec<Command>) -> Result<Reserved, Assigned> {
        let space = assigned.space;
        let (mut wanted, mut private_bytes) = (Vec::new(), 0);
        let mut access = 0;
        assigned.task.body().accesses(&mut |record: AccessRecord<'_>| {
            // Reductions work on a private buffer and are combined at home; who only comes after others looks at nothing.
            let needs_none = matches!(record.mode, Mode::Reduction(_) | Mode::After) || record.block.is_empty();
            let at_home = space.is_host() || needs_none;
            if !space.is_host() && matches!(record.mode, Mode::Reduction(_)) {
                private_bytes += record.bytes();
            }
            let found = at_home.then_some(ReplicaId::HOME);
            wanted.push(Wanted { access, data: record.datum.id, block: *record.block, found });
            access += 1;
        });
        // Large regions first: their replicas may cover the small ones.
        wanted.sort_by_key(|w| Reverse(w.block.volume()));
        if !space.is_host() && !self.make_room(space, &mut wanted, private_bytes, out) {
            return Err(assigned);
        }
        let mut places: SmallVec<[ReplicaRef; 4]> = SmallVec::new();
        wanted.sort_by_key(|w| w.access);
        for w in &wanted {
            let id = w.found.unwrap_or(ReplicaId::HOME);
            // One place per access, in their order: who looks a place up counts on it. What forgets a data object comes
            // after every task that declares a region of it, and before that it has a directory.
            let directory = self.directories.get_mut(&w.data).expect("the data of a placed task are registered");
            let replica = directory.replica_mut(id);
            replica.pins += 1;
            places.push(ReplicaRef { data: w.data, replica: id, space: replica.space, holds: replica.block });
        }
        if private_bytes > 0 {
            self.memories.reserve(space, private_bytes);
        }
        self.busy[space.index()] += 1;
        Ok((assigned, places, private_bytes))
    }

    /// Finds or makes replicas for all that is wanted; false if the memory is not free yet.
    fn make_room(&mut self, space: SpaceId, wanted: &mut [Wanted], private_bytes: u64, out: &mut Vec<Command>) -> bool {
        self.find_covering(space, wanted);
        let chosen: Vec<_> = wanted.iter().filter_map(|w| Some((w.data, w.found?))).collect();
        // Pinned while room is sought, so that what the task needs is not evicted for it.
        self.pin(&chosen, 1);
        let mut needed = private_bytes + self.new_bytes(wanted);
        let mut room = self.memories.room(space, needed, &self.directories);
        self.pin(&chosen, -1);
        if room == Room::Never && self.busy[space.index()] == 0 && !self.memories.is_left(space) {
            // Nobody else is there: the replicas that cover the regions are themselves too large. Exact ones will fit.
            for w in wanted.iter_mut().filter(|w| w.found != Some(ReplicaId::HOME)) {
                w.found = None;
            }
            needed = private_bytes + self.new_bytes(wanted);
            room = self.memories.room(space, needed, &self.directories);
        }
        let mut spare = match room {
            Room::Free => self.memories.free(space) - needed,
            Room::Soon | Room::Never => return false,
            Room::After(leaving) => {
                self.evict(&leaving, out);
                return false;
            }
        };
        for w in wanted.iter_mut().filter(|w| w.found.is_none()) {
            let (data, block) = (w.data, w.block);
            let Some(directory) = self.directories.get_mut(&data) else { continue };
            // A larger region of the same task may have been given a replica just now.
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
                directory.add(id, space, block, self.uses);
                self.memories.reserve(space, bytes);
                self.memories.used(space, data, id, self.uses, self.uses);
                id
            });
            w.found = Some(id);
        }
        true
    }

    fn find_covering(&self, space: SpaceId, wanted: &mut [Wanted]) {
        for w in wanted.iter_mut().filter(|w| w.found.is_none()) {
            w.found = self.directories.get(&w.data).and_then(|directory| directory.covering(space, &w.block));
        }
    }

    /// The bytes of the replicas that have to be made: regions inside an earlier (larger) one need none.
    fn new_bytes(&self, wanted: &[Wanted]) -> u64 {
        let mut bytes = 0;
        for (i, w) in wanted.iter().enumerate().filter(|(_, w)| w.found.is_none()) {
            let inside =
                |other: &Wanted| other.found.is_none() && other.data == w.data && other.block.contains(&w.block);
            if !wanted[..i].iter().any(inside) {
                bytes += self.directories.get(&w.data).map_or(0, |directory| directory.bytes(&w.block));
            }
        }
        bytes
    }

    fn pin(&mut self, replicas: &[(DataId, ReplicaId)], by: i32) {
        for (data, id) in replicas {
            if let Some(directory) = self.directories.get_mut(data) {
                let pins = &mut directory.replica_mut(*id).pins;
                *pins = pins.wrapping_add_signed(by);
            }
        }
    }

    /// Sends replicas away. The driver reports when their memory is free, which may be at once, or after they were written
    /// back home.
    fn evict(&mut self, leaving: &[(DataId, ReplicaId)], out: &mut Vec<Command>) {
        for (data, id) in leaving {
            self.evictions += 1;
            self.send_away(*data, *id);
            let mut transfers = Vec::new();
            if let Some(directory) = self.directories.get_mut(data) {
                directory.write_back(*id, &mut self.next_copy, &mut transfers);
            }
            for transfer in transfers {
                self.start_copy(*data, transfer, true, out);
            }
            self.drop_if_leaving(*data, *id, out);
        }
    }
}
