//! Groups that accumulate: tasks that add to private replicas which they share, one at a time.
//!
//! A member takes a replica of its region that is not in use, or makes one, adds to it and gives it back when it has run. So
//! there are no more replicas than members ever ran at once, and beginning one and combining it is paid for once for each of
//! them, not for each task. A member is finished when it has run: who waits for something else that it did is not held up.
//!
//! Whoever comes after the group *closes* it: a [join](super::join) takes the group's place in the history, waits for all
//! members, and combines the replicas with what the region held. If a member has failed, the join is poisoned like all that
//! use the group's value, and nothing of the group is combined: no part of a contribution is ever seen.
//!
//! When a part is split, both halves go on with the same group; each is closed, and combined, by itself. Parts leave a group
//! by that and never come to it, and groups are not opened twice. So a region that is found in the same groups again is
//! there with the same parts: a replica serves tasks of one region in the same groups, and knows which part is whose.
//!
//! Invariants:
//! 1. A replica is in use by one task at most; when its parts are combined, by none that touches them.
//! 2. Under the lock here references to replicas are moved. None is made, combined or dropped.
//! 3. The histories, which are locked when they change, do not drop the last reference to a group: replicas hold the
//!    user's operation. What they do not need any more is left to who has given the lock back.

use super::AccessRecord;
use crate::region::Block;
use parking_lot::Mutex;
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::ThreadId;

/// What the members of one group share.
pub(crate) struct Accumulation {
    number: u64,
    replicas: Mutex<Vec<Shared>>,
}

/// A replica among those of its group.
struct Shared {
    replica: Arc<dyn Accumulated>,
    in_use: bool,
    /// The thread that used it last is likely to have it in its cache.
    by: ThreadId,
}

/// What members have accumulated, with its types.
pub(crate) trait Accumulated: Any + Send + Sync {
    /// Visits `part` as an access to the data object.
    fn visit(&self, part: &Block, visit: &mut dyn FnMut(AccessRecord<'_>));

    /// Combines what this group has accumulated within `part` with what the region holds. Runs the user's operation, which may panic.
    fn combine(&self, group: &Accumulation, part: &Block);
}

impl Accumulation {
    pub(super) fn new() -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Arc::new(Self { number: NEXT.fetch_add(1, Ordering::Relaxed), replicas: Mutex::default() })
    }

    /// Tells this group from all others there ever are.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// A replica that is not in use and fits: it is in use now, by this thread.
    pub(crate) fn borrow<R>(&self, fits: impl Fn(&Arc<dyn Accumulated>) -> Option<R>) -> Option<R> {
        let this = std::thread::current().id();
        let mut replicas = self.replicas.lock();
        let free = |shared: &&mut Shared| !shared.in_use;
        let own = replicas.iter_mut().filter(free).filter(|shared| shared.by == this);
        let (found, shared) = match own.filter_map(|shared| Some((fits(&shared.replica)?, shared))).next() {
            Some(own) => own,
            None => replicas.iter_mut().filter(free).find_map(|shared| Some((fits(&shared.replica)?, shared)))?,
        };
        (shared.in_use, shared.by) = (true, this);
        Some(found)
    }

    /// A new replica, which is in use.
    pub(crate) fn add(&self, replica: Arc<dyn Accumulated>) {
        self.replicas.lock().push(Shared { replica, in_use: true, by: std::thread::current().id() });
    }

    /// Who used this replica has run to its end.
    pub(crate) fn give_back(&self, replica: *const ()) {
        let mut replicas = self.replicas.lock();
        if let Some(shared) = replicas.iter_mut().find(|shared| Arc::as_ptr(&shared.replica).cast() == replica) {
            shared.in_use = false;
        }
    }

    /// All members at `part` have run: combines what they have left there.
    pub(super) fn combine(&self, part: &Block) {
        self.all().iter().for_each(|replica| replica.combine(self, part));
    }

    /// Visits `part` as an access to the data object, if there is any replica.
    pub(super) fn visit(&self, part: &Block, visit: &mut dyn FnMut(AccessRecord<'_>)) {
        if let Some(replica) = self.all().first() {
            replica.visit(part, visit);
        }
    }

    fn all(&self) -> Vec<Arc<dyn Accumulated>> {
        self.replicas.lock().iter().map(|shared| shared.replica.clone()).collect()
    }
}

impl fmt::Debug for Accumulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let replicas = self.replicas.lock();
        let in_use = replicas.iter().filter(|shared| shared.in_use).count();
        write!(f, "Accumulation({} replicas, {in_use} in use)", replicas.len())
    }
}
