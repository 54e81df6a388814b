//! Accumulating groups: tasks that add to private replicas, which the members of a group share, one at a time.
//!
//! A member takes an unused replica of its region, or makes one, adds to it, and gives it back when it has run. So
//! there are never more replicas than members that ran at once, and initializing and combining are paid for once per
//! replica, not once per task. A member is finished when it has run, so it does not hold up tasks that wait for its
//! other accesses.
//!
//! A task that comes after the group *closes* it: a [join](super::join) takes the group's place in the history, waits
//! for all members, and combines the replicas with the region's previous contents. If a member has failed, the join
//! is poisoned like every user of the group's value, and nothing of the group is combined: no part of a contribution
//! is ever seen.
//!
//! When a part is split, both halves keep the same group; each half is closed and combined separately. Closing
//! removes parts from a group; parts are never added, and no group is opened twice. So a region that meets the same
//! groups again meets them with the same parts: a replica serves tasks of one region in the same groups, and knows
//! which part belongs to which group.
//!
//! Invariants:
//! 1. A replica is in use by at most one task; while its parts are combined, by no task that touches them.
//! 2. Under the lock of this module references to replicas are moved. No replica is made, combined or dropped there.
//! 3. The histories, which are locked when they change, do not drop the last reference to a group, because replicas
//!    hold the user's operation. They leave groups that they no longer need to the caller that has released the lock.

use super::AccessRecord;
use crate::region::Block;
use parking_lot::Mutex;
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::ThreadId;

/// State that the members of one group share.
pub(crate) struct Accumulation {
    number: u64,
    replicas: Mutex<Vec<Shared>>,
}

/// A replica of a group.
struct Shared {
    replica: Arc<dyn Accumulated>,
    in_use: bool,
    /// The thread that used it last; it probably still has the replica in its cache.
    by: ThreadId,
}

/// A replica of a known type that group members have added to.
pub(crate) trait Accumulated: Any + Send + Sync {
    /// Visits `part` as an access to the data object.
    fn visit(&self, part: &Block, visit: &mut dyn FnMut(AccessRecord<'_>));

    /// Combines what this group has accumulated within `part` with the contents of the region. Runs the user's
    /// operation, which may panic.
    fn combine(&self, group: &Accumulation, part: &Block);
}

impl Accumulation {
    pub(super) fn new() -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Arc::new(Self { number: NEXT.fetch_add(1, Ordering::Relaxed), replicas: Mutex::default() })
    }

    /// A number that no other group ever has.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Returns an unused replica for which `fits` returns a value, and marks it as in use by this thread.
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

    /// Adds a new replica, which is in use.
    pub(crate) fn add(&self, replica: Arc<dyn Accumulated>) {
        self.replicas.lock().push(Shared { replica, in_use: true, by: std::thread::current().id() });
    }

    /// Marks a replica as unused: the task that used it has run to its end.
    pub(crate) fn give_back(&self, replica: *const ()) {
        let mut replicas = self.replicas.lock();
        if let Some(shared) = replicas.iter_mut().find(|shared| Arc::as_ptr(&shared.replica).cast() == replica) {
            shared.in_use = false;
        }
    }

    /// Combines what the members have accumulated at `part`; all of them have run.
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
