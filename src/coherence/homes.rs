//! Homes that leave host memory for a replica of the whole data object, and come back.
//!
//! A home leaves as a whole. Before and after that, it is valid everywhere: the caller brings it back before any task
//! uses a part of it.

use super::directory::State;
use super::{CopyId, Directory, ReplicaId, Transfer};

impl Directory {
    /// Plans a copy of the whole home to a replica of the whole data object, unless that is valid everywhere already.
    /// The home must be valid everywhere.
    pub(crate) fn write_out(&mut self, to: ReplicaId, next_copy: &mut u64) -> Option<Transfer> {
        let (whole, mut is_valid) = (self.whole(), true);
        self.holders.peek(&whole, |_, holders| is_valid &= holders.contains(&(to, State::Valid)));
        if is_valid {
            return None;
        }
        let copy = CopyId(*next_copy);
        *next_copy += 1;
        self.complete = self.complete.filter(|complete| *complete != to);
        self.holders.visit(&whole, |_, holders| {
            holders.retain(|(id, _)| *id != to);
            holders.push((to, State::Filling(copy)));
        });
        Some(Transfer { copy, from: ReplicaId::HOME, to, block: whole })
    }

    /// Plans a copy of the whole data object to its home, unless it is valid there or under way; copies under way are
    /// appended to `pending`.
    pub(crate) fn bring_home(&mut self, next_copy: &mut u64, pending: &mut Vec<CopyId>) -> Option<Transfer> {
        let (whole, mut missing) = (self.whole(), None);
        self.holders.peek(&whole, |_, holders| match holders.iter().find(|(id, _)| *id == ReplicaId::HOME) {
            Some((_, State::Filling(copy))) => pending.push(*copy),
            Some((_, State::Valid)) => {}
            None => missing = missing.or(holders.first().map(|(id, _)| *id)),
        });
        let copy = CopyId(*next_copy);
        *next_copy += u64::from(missing.is_some());
        let from = missing?;
        self.holders.visit(&whole, |_, holders| {
            if !holders.iter().any(|(id, _)| *id == ReplicaId::HOME) {
                holders.push((ReplicaId::HOME, State::Filling(copy)));
            }
        });
        Some(Transfer { copy, from, to: ReplicaId::HOME, block: whole })
    }

    /// Records that the home has no content any more, because it is elsewhere.
    pub(crate) fn leave_home(&mut self) {
        self.complete = self.complete.filter(|complete| *complete != ReplicaId::HOME);
        self.holders.visit(&self.replicas.whole().to_owned(), |_, holders| {
            holders.retain(|(id, _)| *id != ReplicaId::HOME);
            debug_assert!(!holders.is_empty(), "the only copy was dropped");
        });
    }

    /// Records that tasks may use the home again.
    pub(crate) fn stay_home(&mut self) {
        self.replica_mut(ReplicaId::HOME).leaving = false;
    }
}
