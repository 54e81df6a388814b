//! The directory of one data object: its replicas, and the valid parts of each replica.

use super::CopyId;
use super::issued::{IssuedUse, IssuedUses};
use super::replicas::{Replica, ReplicaId, Replicas, dimensions};
use crate::error::TaskFailure;
use crate::ids::{DataId, SpaceId, TaskId};
use crate::region::{Block, Part, RegionMap};
use smallvec::SmallVec;
use std::sync::Arc;

/// A copy to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Transfer {
    pub(crate) copy: CopyId,
    pub(crate) from: ReplicaId,
    pub(crate) to: ReplicaId,
    pub(crate) block: Block,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Filling(CopyId),
    Valid,
}

/// Copies to be made for one access, usually only a few.
pub(crate) type Transfers = SmallVec<[Transfer; 8]>;
type Losses = RegionMap<Option<Arc<TaskFailure>>>;
pub(super) type Holders = SmallVec<[(ReplicaId, State); 2]>;

/// The replicas of one data object.
#[derive(Debug)]
pub(crate) struct Directory {
    pub(crate) data: DataId,
    pub(crate) element_bytes: usize,
    pub(super) replicas: Replicas,
    /// Whether all replicas share the same bytes.
    unified: bool,
    pub(super) holders: RegionMap<Holders>,
    /// A replica that is valid everywhere, if one is known.
    pub(super) complete: Option<ReplicaId>,
    issued: IssuedUses,
    /// Parts without a valid replica, and the causes of their loss. `None` until something has been lost.
    lost: Option<Box<Losses>>,
}

/// Whether any part of any data object was ever lost. Usually nothing was lost, which makes a search unnecessary.
#[derive(Debug, Default)]
pub(crate) struct AnyLoss(bool);

impl AnyLoss {
    pub(crate) fn is_there(&self) -> bool {
        self.0
    }
}

impl Directory {
    /// Makes the directory of a data object that is valid only at home.
    pub(crate) fn new(data: DataId, whole: Block, element_bytes: usize) -> Self {
        Self {
            data,
            element_bytes,
            replicas: Replicas::new(whole),
            unified: false,
            holders: at_home(&whole),
            complete: Some(ReplicaId::HOME),
            issued: IssuedUses::default(),
            lost: None,
        }
    }

    /// Returns the replica with this id.
    ///
    /// # Panics
    /// Panics if there is no such replica. This cannot happen for a pinned replica, because IDs come from this
    /// directory and pinned replicas are never dropped.
    pub(crate) fn replica(&self, id: ReplicaId) -> &Replica {
        self.replicas.get(id).expect("a replica in use exists")
    }

    pub(crate) fn replica_mut(&mut self, id: ReplicaId) -> &mut Replica {
        self.replicas.get_mut(id).expect("a replica in use exists")
    }

    /// Returns the replica with this id, or `None` if it has been dropped.
    pub(crate) fn find(&self, id: ReplicaId) -> Option<&Replica> {
        self.replicas.get(id)
    }

    /// Visits all replicas except the home.
    pub(crate) fn away(&self) -> impl Iterator<Item = &Replica> {
        self.replicas.away()
    }

    /// Returns the size of a region in bytes.
    pub(crate) fn bytes(&self, block: &Block) -> u64 {
        (block.volume() * self.element_bytes) as u64
    }

    /// Returns the number of bytes that a replica occupies in its address space: 0 if its memory is foreign or shared
    /// with the home.
    pub(crate) fn bytes_of(&self, replica: &Replica) -> u64 {
        if replica.adopted { 0 } else { self.bytes(&replica.block) }
    }

    /// Returns the largest replica in `space` that covers `block`. In host memory, that is the home.
    pub(crate) fn covering(&self, space: SpaceId, block: &Block) -> Option<ReplicaId> {
        self.replicas.covering(space, block)
    }

    /// Returns the whole data object as a block.
    pub(crate) fn whole(&self) -> Block {
        *self.replicas.whole()
    }

    /// Whether a replica in `space` covers a part of `block`, but not all of it.
    pub(crate) fn overlaps_partly(&self, space: SpaceId, block: &Block) -> bool {
        self.replicas.overlap_partly(space, block)
    }

    /// Adds a replica in which no part is valid yet.
    pub(crate) fn add(&mut self, id: ReplicaId, space: SpaceId, block: Block) {
        self.replicas.add(id, space, block);
    }

    /// Adds a replica of the whole data object in foreign memory, which becomes the only valid replica.
    pub(crate) fn adopt(&mut self, id: ReplicaId, space: SpaceId) {
        self.replicas.adopt(id, space);
        self.written(id, &self.whole());
    }

    /// Adds a replica of the whole data object at the home's addresses, in unified memory. All replicas of the data
    /// object are then aliases.
    pub(crate) fn alias(&mut self, id: ReplicaId, space: SpaceId) {
        self.replicas.adopt(id, space);
        self.unified = true;
    }

    /// Whether all replicas share the same bytes, so that a write to one replica writes to all of them.
    pub(crate) fn is_unified(&self) -> bool {
        self.unified
    }

    /// Marks a replica as leaving, so that no task can find it any more.
    pub(crate) fn leave(&mut self, id: ReplicaId) {
        self.replicas.leave(id);
    }

    /// Whether the home is the only replica, and hence valid everywhere.
    fn all_at_home(&self) -> bool {
        self.replicas.are_home_alone()
    }

    /// Returns the number of bytes of `block` that are not valid in any replica in `space`.
    pub(crate) fn missing_bytes(&self, space: SpaceId, block: &Block) -> u64 {
        if !self.replicas.are_in(space) {
            return self.bytes(block);
        }
        if self.all_at_home() || self.complete.is_some_and(|id| self.replica(id).space == space) {
            return 0;
        }
        let mut missing = 0;
        self.holders.peek(block, |part, holders| {
            if !holders.iter().any(|(id, _)| self.replica(*id).space == space) {
                missing += self.bytes(&part);
            }
        });
        missing
    }

    /// Returns the spaces in which all of `block` is valid.
    pub(crate) fn valid_in(&self, spaces: impl Iterator<Item = SpaceId>, block: &Block) -> Vec<SpaceId> {
        spaces
            .filter(|space| {
                let mut everywhere = true;
                self.holders.peek(block, |_, holders| {
                    everywhere &=
                        holders.iter().any(|(id, state)| *state == State::Valid && self.replica(*id).space == *space);
                });
                everywhere
            })
            .collect()
    }

    /// Plans the copies that make `block` valid in replica `to`, each from the nearest valid replica.
    ///
    /// Parts that are already being copied are not copied again; the copies under way are appended to `pending`.
    pub(crate) fn fill(
        &mut self,
        to: ReplicaId,
        block: &Block,
        next_copy: &mut u64,
        pending: &mut Vec<CopyId>,
        transfers: &mut Transfers,
    ) {
        // An access to the whole data object cuts no parts, so skipping the visit makes no difference.
        if self.all_at_home() || self.complete == Some(to) && *block == self.whole() {
            return;
        }
        let (replicas, mut parts) = (&self.replicas, 0);
        let space_of = |id: ReplicaId| replicas.get(id).map_or(SpaceId::HOST, |replica| replica.space);
        let distance = |id: ReplicaId| {
            let (space, target) = (space_of(id), space_of(to));
            match () {
                () if space == target => 0,
                () if !space.is_host() && !target.is_host() => 1,
                () => 2,
            }
        };
        let nearer = |one: ReplicaId, other: ReplicaId| {
            if (distance(other), other) < (distance(one), one) { other } else { one }
        };
        let mut bring = |part: Part<'_>, holders: &mut Holders| match holders.iter().find(|(id, _)| *id == to) {
            Some((_, State::Valid)) => {}
            Some((_, State::Filling(copy))) => pending.push(*copy),
            None => {
                // Usually there is only one, in which case no distance is computed.
                let valid = holders.iter().filter(|(_, state)| *state == State::Valid);
                let nearest = valid.map(|(id, _)| *id).reduce(nearer);
                let Some(nearest) = nearest else {
                    // The part's last valid replica is gone, but copies from it are still under way. Wait for these
                    // copies, because their outcome decides.
                    pending.extend(holders.iter().filter_map(|(_, state)| match state {
                        State::Filling(copy) => Some(*copy),
                        State::Valid => None,
                    }));
                    return;
                };
                let copy = CopyId(*next_copy);
                *next_copy += 1;
                holders.push((to, State::Filling(copy)));
                transfers.push(Transfer { copy, from: nearest, to, block: part.block() });
            }
        };
        self.holders.visit(block, |part, holders| {
            parts += 1;
            bring(part, holders);
        });
        self.holders.wear(parts, |_| (), are_alike);
    }

    /// Plans copies to the home for those parts that no replica will hold after `id` is gone.
    ///
    /// Other leaving replicas do not count, because they relied on this one when they left.
    pub(crate) fn write_back(&mut self, id: ReplicaId, next_copy: &mut u64, transfers: &mut Transfers) {
        let block = self.replica(id).block;
        let replicas = &self.replicas;
        let stays = |holder: ReplicaId| holder != id && replicas.get(holder).is_some_and(|replica| !replica.leaving);
        self.holders.visit(&block, |part, holders| {
            let held = holders.contains(&(id, State::Valid));
            let kept = holders.iter().any(|(holder, state)| *state == State::Valid && stays(*holder));
            if held && !kept && !holders.iter().any(|(holder, _)| *holder == ReplicaId::HOME) {
                let copy = CopyId(*next_copy);
                *next_copy += 1;
                holders.push((ReplicaId::HOME, State::Filling(copy)));
                transfers.push(Transfer { copy, from: id, to: ReplicaId::HOME, block: part.block() });
            }
        });
    }

    /// Whether some part is valid only in this replica.
    #[cfg(test)]
    fn holds_the_only_copy(&self, id: ReplicaId) -> bool {
        let mut alone = false;
        self.holders.peek(&self.replica(id).block, |_, holders| {
            let mut valid = holders.iter().filter(|(_, state)| *state == State::Valid);
            alone |= valid.next().is_some_and(|(holder, _)| *holder == id) && valid.next().is_none();
        });
        alone
    }

    /// Marks the parts that a copy has filled as valid, except parts that were overwritten elsewhere in the meantime.
    pub(crate) fn arrived(&mut self, transfer: &Transfer) {
        self.holders.visit(&transfer.block, |_, holders| {
            for (id, state) in holders.iter_mut() {
                if *id == transfer.to && *state == State::Filling(transfer.copy) {
                    *state = State::Valid;
                }
            }
        });
    }

    /// Handles a failed copy: the parts that it should have filled are not valid in its destination. A part is lost if
    /// no staying replica holds it and no other copy is about to fill one. Leaving replicas do not count, because they
    /// relied on this copy.
    pub(crate) fn failed(&mut self, transfer: &Transfer, cause: &Arc<TaskFailure>, any: &mut AnyLoss) {
        let replicas = &self.replicas;
        let stays = |id: ReplicaId| replicas.get(id).is_some_and(|replica| !replica.leaving);
        let mut nowhere = Vec::new();
        self.complete = None;
        self.holders.visit(&transfer.block, |part, holders| {
            let before = holders.len();
            holders.retain(|holder| *holder != (transfer.to, State::Filling(transfer.copy)));
            let failed = holders.len() < before; // otherwise it was overwritten in the meantime
            if failed && !holders.iter().any(|(id, state)| stays(*id) || *state != State::Valid) {
                *holders = Holders::from_slice(&[(ReplicaId::HOME, State::Valid)]);
                nowhere.push(part.block());
            }
        });
        nowhere.iter().for_each(|part| self.lose(part, cause, any));
    }

    /// Handles a copy for whose destination there was no memory. Returns false if the copy's contents are not available
    /// anywhere else, which means that the copy has [failed](Self::failed).
    pub(crate) fn refused(&mut self, transfer: &Transfer) -> bool {
        let mut elsewhere = true;
        let filled = (transfer.to, State::Filling(transfer.copy));
        self.holders.peek(&transfer.block, |_, holders| elsewhere &= holders[..] != [filled]);
        if elsewhere {
            self.holders.visit(&transfer.block, |_, holders| holders.retain(|holder| *holder != filled));
        }
        elsewhere
    }

    /// Whether a replica has no parts that are valid or about to become valid.
    pub(crate) fn holds_nothing(&self, id: ReplicaId) -> bool {
        let mut nothing = true;
        self.holders.peek(&self.replica(id).block, |_, holders| {
            nothing &= !holders.iter().any(|(holder, _)| *holder == id);
        });
        nothing
    }

    /// Handles the loss of a device: no part is valid in the device's replicas any more, and copies still under way to
    /// these replicas no longer count. Parts that were valid nowhere else are lost, unless they are being copied
    /// elsewhere, in which case the outcome of those copies decides. Returns the device's replicas, which must leave.
    pub(crate) fn space_lost(&mut self, space: SpaceId, cause: &Arc<TaskFailure>, any: &mut AnyLoss) -> Vec<ReplicaId> {
        let gone: Vec<_> = self.away().filter(|replica| replica.space == space).map(|r| (r.id, r.block)).collect();
        let mut nowhere = Vec::new();
        self.complete = None;
        for (id, block) in &gone {
            self.holders.visit(block, |part, holders| {
                holders.retain(|(holder, _)| holder != id);
                if holders.is_empty() {
                    holders.push((ReplicaId::HOME, State::Valid));
                    nowhere.push(part.block());
                }
            });
        }
        nowhere.iter().for_each(|part| self.lose(part, cause, any));
        gone.into_iter().map(|(id, _)| id).collect()
    }

    /// Whether all of `block` is valid in this replica.
    pub(crate) fn is_valid_in(&self, id: ReplicaId, block: &Block) -> bool {
        let mut valid = true;
        self.holders.peek(block, |_, holders| valid &= holders.contains(&(id, State::Valid)));
        valid
    }

    /// Records that a task has been enqueued on its device and will use `block` in replica `id`. A region that the task
    /// writes counts as written from now on.
    pub(crate) fn issued(&mut self, task: TaskId, id: ReplicaId, block: &Block, writes: bool) {
        if writes {
            self.written(id, block);
        }
        self.issued.add(IssuedUse { task, replica: id, block: *block, writes });
    }

    /// Visits the uses that overlap `block`, by issued tasks that have not ended.
    pub(crate) fn issued_uses<'a>(&'a self, block: &Block, found: impl FnMut(&'a IssuedUse)) {
        self.issued.find(block, found);
    }

    /// Visits the issued tasks that have not ended, once for each use.
    pub(crate) fn issued_tasks(&self) -> impl Iterator<Item = TaskId> {
        self.issued.tasks()
    }

    /// Ends an issued task. If the task failed, the parts that it should have written are lost, except parts that other
    /// tasks have overwritten since.
    pub(crate) fn ended(&mut self, task: TaskId, failure: Option<&Arc<TaskFailure>>, any: &mut AnyLoss) {
        let mut parts = Vec::new();
        for issued in self.issued.end(task).filter(|issued| issued.writes && failure.is_some()) {
            self.holders.peek(&issued.block, |part, holders| {
                if holders.iter().any(|(holder, _)| *holder == issued.replica) {
                    parts.push(part);
                }
            });
        }
        if let Some(cause) = failure {
            parts.iter().for_each(|part| self.lose(part, cause, any));
        }
    }

    /// Records that a task wrote `block` in the memory of a lost device. The contents are lost, and so are the contents
    /// that they replaced.
    pub(crate) fn written_and_lost(&mut self, block: &Block, cause: &Arc<TaskFailure>, any: &mut AnyLoss) {
        self.written(ReplicaId::HOME, block);
        self.lose(block, cause, any);
    }

    /// Marks the contents of `block` as lost.
    fn lose(&mut self, block: &Block, cause: &Arc<TaskFailure>, AnyLoss(any): &mut AnyLoss) {
        *any = true;
        let whole = self.whole();
        let lost = self.lost.get_or_insert_with(|| Box::new(RegionMap::new(whole, dimensions(&whole), None)));
        lost.visit(block, |_, lost| *lost = Some(cause.clone()));
    }

    /// Visits the lost parts of `block`, each with the cause.
    pub(crate) fn losses(&self, block: &Block, mut found: impl FnMut(Block, &Arc<TaskFailure>)) {
        if let Some(lost) = &self.lost {
            lost.peek(block, |part, cause| cause.iter().for_each(|cause| found(part, cause)));
        }
    }

    /// Returns the cause of the loss of a part of `block`, or `None` if no part is lost.
    pub(crate) fn cause_of_loss(&self, block: &Block) -> Option<Arc<TaskFailure>> {
        let mut cause = None;
        self.lost.as_ref()?.peek(block, |_, lost| cause = cause.take().or_else(|| lost.clone()));
        cause
    }

    /// Records that a task wrote `block` in replica `id`, which is now the only valid replica of the block.
    pub(crate) fn written(&mut self, id: ReplicaId, block: &Block) {
        if let Some(lost) = &mut self.lost {
            let is_like = |one: &Option<Arc<TaskFailure>>, other: &Option<_>| {
                one.as_ref().map(Arc::as_ptr) == other.as_ref().map(Arc::as_ptr)
            };
            let parts = lost.assign(block, &None);
            lost.wear(parts, |_| (), is_like);
        }
        if self.all_at_home() {
            return;
        }
        if *block == self.whole() {
            self.complete = Some(id);
        } else if self.complete != Some(id) {
            self.complete = None;
        }
        let parts = self.holders.assign(block, &Holders::from_slice(&[(id, State::Valid)]));
        self.holders.wear(parts, |_| (), are_alike);
    }

    /// Drops a replica. Its parts must be valid elsewhere, or lost.
    pub(crate) fn remove(&mut self, id: ReplicaId) {
        let block = self.replica(id).block;
        self.complete = self.complete.filter(|complete| *complete != id);
        self.holders.visit(&block, |_, holders| {
            holders.retain(|(holder, _)| *holder != id);
            debug_assert!(!holders.is_empty(), "the only copy was dropped");
        });
        self.replicas.remove(id);
    }

    /// Drops all replicas except the home, including parts that were valid nowhere else, because no task will need
    /// them.
    pub(crate) fn abandon(&mut self) -> impl Iterator<Item = Replica> {
        self.holders = at_home(self.replicas.whole());
        self.complete = Some(ReplicaId::HOME);
        self.replicas.remove_away()
    }
}

/// Whether two parts are valid, or about to become valid, in the same replicas.
fn are_alike(one: &Holders, other: &Holders) -> bool {
    one.len() == other.len() && one.iter().all(|holder| other.contains(holder))
}

/// Returns a map in which all parts are valid only at home.
fn at_home(whole: &Block) -> RegionMap<Holders> {
    RegionMap::new(*whole, dimensions(whole), Holders::from_slice(&[(ReplicaId::HOME, State::Valid)]))
}

#[cfg(test)]
#[path = "directory_tests.rs"]
mod tests;
