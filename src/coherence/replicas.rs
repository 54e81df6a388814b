//! The replicas of one data object, indexed by ID and by the region that each replica holds.
//!
//! A data object that is cut into many blocks has just as many replicas on a device, and every task that is placed
//! looks up some of these replicas. So no lookup scans all replicas: IDs are hashed, and each address space has a map
//! from the parts of the data object to the replicas that hold them. Validity is tracked by the
//! [`Directory`](super::Directory).
//!
//! Invariants:
//! 1. There is always a home replica, and it is the only replica in host memory.
//! 2. A replica that is leaving can be found only by its ID.
//! 3. An adopted replica holds the whole data object, and leaves only together with the data object or with its device.
//!    The same holds for an alias of the home.

use crate::ids::SpaceId;
use crate::region::{Block, MAX_DIMS, RegionMap};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Up to this number of replicas, a search examines them one by one.
const FEW: usize = 4;

/// Identifies a replica within a runtime. [`ReplicaId::HOME`] identifies the home replica of every data object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ReplicaId(pub(crate) u64);

impl ReplicaId {
    /// The data in host memory, where the user put it.
    pub(crate) const HOME: Self = Self(0);
}

/// A replica: a box of the data object in one address space.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Replica {
    pub(crate) id: ReplicaId,
    pub(crate) space: SpaceId,
    pub(crate) block: Block,
    pub(crate) pins: u32,
    /// Whether the replica is being evicted, so that no task may choose it any more.
    pub(crate) leaving: bool,
    /// Whether the replica's memory is foreign or shared with the home. Such a replica takes up no capacity and exists
    /// as long as the data object.
    pub(crate) adopted: bool,
}

/// All replicas of one data object.
#[derive(Debug)]
pub(super) struct Replicas {
    home: Replica,
    away: FxHashMap<ReplicaId, Replica>,
    /// One entry per device memory that holds a replica; few machines have many devices.
    spaces: SmallVec<[InSpace; 1]>,
}

/// The replicas in one device's memory.
#[derive(Debug)]
struct InSpace {
    space: SpaceId,
    /// Number of replicas, and number of those that are not leaving.
    count: usize,
    staying: usize,
    /// For each part, the replicas that hold it, except leaving replicas.
    at: RegionMap<SmallVec<[ReplicaId; 2]>>,
}

impl InSpace {
    fn new(space: SpaceId, whole: &Block) -> Self {
        let at = RegionMap::new(*whole, dimensions(whole), SmallVec::new());
        Self { space, count: 0, staying: 0, at }
    }
}

impl Replicas {
    /// Makes the replicas of a data object that exists only at home.
    pub(super) fn new(whole: Block) -> Self {
        let home = Replica {
            id: ReplicaId::HOME,
            space: SpaceId::HOST,
            block: whole,
            pins: 0,
            leaving: false,
            adopted: false,
        };
        Self { home, away: FxHashMap::default(), spaces: SmallVec::new() }
    }

    /// Returns the whole data object as a block.
    pub(super) fn whole(&self) -> &Block {
        &self.home.block
    }

    pub(super) fn get(&self, id: ReplicaId) -> Option<&Replica> {
        if id == ReplicaId::HOME { Some(&self.home) } else { self.away.get(&id) }
    }

    pub(super) fn get_mut(&mut self, id: ReplicaId) -> Option<&mut Replica> {
        if id == ReplicaId::HOME { Some(&mut self.home) } else { self.away.get_mut(&id) }
    }

    /// Visits all replicas except the home, in no particular order.
    pub(super) fn away(&self) -> impl Iterator<Item = &Replica> {
        self.away.values()
    }

    /// Whether a replica is in this address space.
    pub(super) fn are_in(&self, space: SpaceId) -> bool {
        space.is_host() || self.in_space(space).is_some()
    }

    fn in_space(&self, space: SpaceId) -> Option<&InSpace> {
        self.spaces.iter().find(|there| there.space == space)
    }

    /// Returns the largest replica in `space` that is not leaving and covers `block`. In host memory, that is the home.
    pub(super) fn covering(&self, space: SpaceId, block: &Block) -> Option<ReplicaId> {
        if space.is_host() {
            return Some(ReplicaId::HOME);
        }
        if self.away.len() <= FEW {
            let covering = self
                .away
                .values()
                .filter(|replica| replica.space == space && !replica.leaving && replica.block.contains(block));
            return covering.max_by_key(|replica| (replica.block.volume(), replica.id)).map(|replica| replica.id);
        }
        // A replica that covers the block also covers its first element, so looking up that element finds all
        // candidates.
        let first = Block::from_corners(*block.lo(), block.lo().map(|index| index + 1));
        let mut largest = None;
        self.in_space(space)?.at.peek(&first, |_, ids| {
            let covering = ids.iter().map(|id| &self.away[id]).filter(|replica| replica.block.contains(block));
            largest = covering.max_by_key(|replica| (replica.block.volume(), replica.id)).map(|replica| replica.id);
        });
        largest
    }

    /// Whether a replica in `space` that is not leaving covers a part of `block`, but not all of it.
    pub(super) fn overlap_partly(&self, space: SpaceId, block: &Block) -> bool {
        let mut partly = false;
        if let Some(there) = self.in_space(space) {
            there.at.peek(block, |_, ids| partly |= ids.iter().any(|id| !self.away[id].block.contains(block)));
        }
        partly
    }

    pub(super) fn add(&mut self, id: ReplicaId, space: SpaceId, block: Block) {
        self.insert(Replica { id, space, block, pins: 0, leaving: false, adopted: false });
    }

    /// Adds a replica of the whole data object, either in foreign memory or in the home's memory.
    pub(super) fn adopt(&mut self, id: ReplicaId, space: SpaceId) {
        self.insert(Replica { id, space, block: self.home.block, pins: 0, leaving: false, adopted: true });
    }

    fn insert(&mut self, replica: Replica) {
        let Replica { id, space, block, .. } = replica;
        let known = self.spaces.iter().position(|there| there.space == space);
        let known = known.unwrap_or_else(|| {
            self.spaces.push(InSpace::new(space, &self.home.block));
            self.spaces.len() - 1
        });
        let there = &mut self.spaces[known];
        (there.count, there.staying) = (there.count + 1, there.staying + 1);
        let mut visited = 0;
        there.at.visit(&block, |_, ids| {
            ids.push(id);
            visited += 1;
        });
        there.at.wear(visited, |_| (), are_alike);
        self.away.insert(id, replica);
    }

    /// Marks a replica as leaving, so that from now on it can be found only by its ID.
    pub(super) fn leave(&mut self, id: ReplicaId) {
        if id == ReplicaId::HOME {
            self.home.leaving = true;
            return;
        }
        let Some(Replica { space, block, leaving, .. }) = self.away.get_mut(&id).filter(|replica| !replica.leaving)
        else {
            return;
        };
        *leaving = true;
        let Some(there) = self.spaces.iter_mut().find(|there| there.space == *space) else { return };
        there.staying -= 1;
        if there.staying == 0 {
            // No replica is left to hold any part, so the cuts can be dropped as well.
            *there = InSpace { count: there.count, ..InSpace::new(*space, &self.home.block) };
            return;
        }
        let (mut visited, mut nobody) = (0, true);
        there.at.visit(block, |_, ids| {
            ids.retain(|other| *other != id);
            (visited, nobody) = (visited + 1, nobody && ids.is_empty());
        });
        if nobody {
            there.at.unite_if_many(block, visited);
        }
        there.at.wear(visited, |_| (), are_alike);
    }

    /// Removes a replica that no longer exists.
    pub(super) fn remove(&mut self, id: ReplicaId) {
        self.leave(id);
        let Some(replica) = self.away.remove(&id) else { return };
        if let Some(position) = self.spaces.iter().position(|there| there.space == replica.space) {
            self.spaces[position].count -= 1;
            if self.spaces[position].count == 0 {
                self.spaces.swap_remove(position);
            }
        }
    }

    /// Removes all replicas except the home.
    pub(super) fn remove_away(&mut self) -> impl Iterator<Item = Replica> {
        self.spaces.clear();
        std::mem::take(&mut self.away).into_values()
    }

    /// Whether the home is the only replica.
    pub(super) fn are_home_alone(&self) -> bool {
        self.away.is_empty()
    }
}

/// Whether two parts are held by the same replicas.
fn are_alike(one: &SmallVec<[ReplicaId; 2]>, other: &SmallVec<[ReplicaId; 2]>) -> bool {
    one.len() == other.len() && one.iter().all(|id| other.contains(id))
}

/// Returns 1 if one dimension suffices for this data object's boxes, and [`MAX_DIMS`] otherwise. Maps need to
/// distinguish only these two cases.
pub(super) fn dimensions(whole: &Block) -> usize {
    if whole.extents()[1..] == [1; MAX_DIMS - 1] { 1 } else { MAX_DIMS }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DEVICES: [SpaceId; 2] = [SpaceId(1), SpaceId(2)];

    fn block(extents: [usize; 2]) -> impl Strategy<Value = Block> {
        let side = |extent: usize| (0..extent, 1..=extent).prop_map(move |(lo, len)| lo..(lo + len).min(extent));
        (side(extents[0]), side(extents[1])).prop_map(|(i, j)| Block::new(&[i, j]))
    }

    proptest! {
        /// Compares the replicas with a list that is searched.
        #[test]
        fn look_up_agrees_with_linear_search(
            extents in prop::sample::select(vec![[30, 1], [6, 7]]),
            seed in prop::collection::vec((0..4u8, 0..2usize, any::<prop::sample::Index>()), 1..40),
            blocks in prop::collection::vec((block([30, 1]), block([6, 7])), 40),
        ) {
            let mut replicas = Replicas::new(Block::whole(&extents));
            let mut list: Vec<Replica> = Vec::new();
            for (n, (act, device, which)) in seed.into_iter().enumerate() {
                let (narrow, wide) = blocks[n];
                let (block, space) = (if extents[1] == 1 { narrow } else { wide }, DEVICES[device]);
                match act {
                    0 | 1 => {
                        let id = ReplicaId(n as u64 + 1);
                        replicas.add(id, space, block);
                        list.push(Replica { id, space, block, pins: 0, leaving: false, adopted: false });
                    }
                    2 if !list.is_empty() => {
                        let index = which.index(list.len());
                        replicas.leave(list[index].id);
                        list[index].leaving = true;
                    }
                    3 if !list.is_empty() => replicas.remove(list.swap_remove(which.index(list.len())).id),
                    _ => {}
                }
                let there = |replica: &&Replica| replica.space == space && !replica.leaving;
                let covering = list.iter().filter(there).filter(|replica| replica.block.contains(&block));
                let largest = covering.max_by_key(|replica| (replica.block.volume(), replica.id)).map(|r| r.id);
                prop_assert_eq!(replicas.covering(space, &block), largest);
                let partly = |r: &Replica| r.block.overlaps(&block) && !r.block.contains(&block);
                prop_assert_eq!(replicas.overlap_partly(space, &block), list.iter().filter(there).any(partly));
                prop_assert_eq!(replicas.are_in(space), list.iter().any(|replica| replica.space == space));
                prop_assert_eq!(replicas.are_home_alone(), list.is_empty());
            }
        }
    }
}
