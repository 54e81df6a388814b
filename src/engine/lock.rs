//! The single lock that protects placement.

use super::failures::FailureLog;
use super::placement::Placement;
use super::scheduler::is_asked_by;
use crate::sync::{Birth, Brief, BriefGuard};
use std::sync::Arc;

/// State of all tasks between ready and finished, accessible to one thread at a time.
pub(crate) struct PlacementLock {
    runtime: u64,
    birth: Birth,
    placement: Brief<Placement>,
}

impl PlacementLock {
    pub(super) fn new(runtime: u64, mut placement: Placement, failures: &Arc<FailureLog>) -> Self {
        placement.belongs_to(runtime, failures);
        Self { runtime, birth: Birth::here(), placement: Brief::new(placement) }
    }

    /// Locks placement for a query. Returns `None` in a forked child, where the lock may be held forever.
    pub(super) fn look(&self) -> Option<BriefGuard<'_, Placement>> {
        self.birth.is_here().then(|| self.lock())
    }

    /// # Panics
    /// Panics if called from within a call of a policy, which would wait for itself. The panic is attributed to that
    /// policy.
    pub(crate) fn lock(&self) -> BriefGuard<'_, Placement> {
        self.placement.try_lock().unwrap_or_else(|| {
            assert!(
                !is_asked_by(self.runtime),
                "cannot use the runtime in a call of its policy; try deciding from the policy's arguments"
            );
            self.placement.lock()
        })
    }
}
