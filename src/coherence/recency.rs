//! Replicas in the order of their last use.
//!
//! Every task that ends marks its replicas as used again, but the order is needed only when memory is short. So each
//! use is simply appended, and a replica's obsolete earlier uses are kept until half of all uses are obsolete. Only
//! each replica's last use counts.
//!
//! Invariant: uses are sorted by time and then by replica, without duplicates.

use super::ReplicaId;
use crate::ids::DataId;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// Number of obsolete uses that are always kept.
const FEW: usize = 16;

/// The uses of replicas in one memory; see the module documentation.
#[derive(Debug, Default)]
pub(super) struct Recency {
    uses: VecDeque<(u64, DataId, ReplicaId)>,
    last: FxHashMap<(DataId, ReplicaId), u64>,
}

impl Recency {
    /// Records a use of a replica. This is cheapest if times never decrease.
    pub(super) fn used(&mut self, data: DataId, replica: ReplicaId, now: u64) {
        self.last.insert((data, replica), now);
        let (this, mut at) = ((now, data, replica), self.uses.len());
        while at > 0 && self.uses[at - 1] > this {
            at -= 1;
        }
        if at > 0 && self.uses[at - 1] == this {
            return;
        }
        self.uses.insert(at, this);
        if self.uses.len() > 2 * self.last.len() + FEW {
            let last = &self.last;
            self.uses.retain(|(at, data, replica)| last.get(&(*data, *replica)) == Some(at));
        }
    }

    /// Removes a replica.
    pub(super) fn remove(&mut self, data: DataId, replica: ReplicaId) {
        self.last.remove(&(data, replica));
    }

    /// Visits the replicas, the least recently used first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (DataId, ReplicaId)> {
        let counts = |(at, data, replica): &&(u64, DataId, ReplicaId)| self.last.get(&(*data, *replica)) == Some(at);
        self.uses.iter().filter(counts).map(|(_, data, replica)| (*data, *replica))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Compares the order with a sorted list, and checks that memory is proportional to the number of replicas.
        #[test]
        fn order_is_that_of_the_last_uses(steps in prop::collection::vec((0..6u64, 0..3u64, 0..5u8), 1..200)) {
            let (mut recency, mut known, mut now) = (Recency::default(), BTreeMap::new(), 0);
            for (data, replica, what) in steps {
                let key = (DataId(data), ReplicaId(replica));
                now += u64::from(what == 2);
                match what {
                    0 => drop((recency.remove(key.0, key.1), known.remove(&key))),
                    1 => drop((recency.used(key.0, key.1, now / 2), known.insert(key, now / 2))),
                    _ => drop((recency.used(key.0, key.1, now), known.insert(key, now))),
                }
                let mut expected: Vec<_> = known.iter().map(|(key, at)| (*at, *key)).collect();
                expected.sort_unstable();
                let expected: Vec<_> = expected.into_iter().map(|(_, key)| key).collect();
                prop_assert_eq!(recency.iter().collect::<Vec<_>>(), expected);
                prop_assert!(recency.uses.len() <= 2 * 18 + FEW);
            }
        }
    }
}
