//! Accumulating groups: tasks that add to private replicas. The members of a group share the replicas, and only one
//! member at a time uses each replica.
//!
//! A member takes an unused replica of its region (or creates one), adds to it, and gives it back when it has run. So
//! there are never more replicas than members that ran at the same time, and the cost of initializing and combining is
//! paid once per replica, not once per task. A member finishes as soon as it has run, so it does not hold up tasks that
//! wait for its other accesses.
//!
//! A task that comes after the group *closes* it: a [join](super::join) takes the group's place in the history, waits
//! for all members, and combines the replicas with the region's previous contents. If a member has failed, the join is
//! poisoned like every user of the group's value, and nothing is combined, so no task ever sees part of a contribution.
//!
//! When a part is split, both halves keep the same group; each half is closed and combined separately. Closing removes
//! parts from a group; parts are never added, and no group is reopened. So if two tasks access the same region and join
//! the same groups, each group covers the same parts of the region for both. This is why a replica can serve all tasks
//! with the same region and the same groups, and knows which part belongs to which group.
//!
//! Invariants:
//! 1. A replica is in use by at most one task. While parts of it are being combined, no task that uses the replica
//!    touches these parts.
//! 2. Under this module's lock, references to replicas are only moved; no replica is created, combined or dropped.
//! 3. A history, which is locked while it changes, never drops the last reference to a group, because replicas hold the
//!    user's operation. Groups that are no longer needed are left to the caller, which drops them after releasing the
//!    lock.

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
    /// The thread that used the replica last, which probably still has it in its cache.
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

    /// Returns the group's ID, which is never reused.
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

    /// Combines everything that the members have accumulated at `part`. All members must have run.
    pub(super) fn combine(&self, part: &Block) {
        self.all().iter().for_each(|replica| replica.combine(self, part));
    }

    /// Visits `part` as an access to the data object, unless the group has no replica.
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
