//! Announcement of future uses of data to the memories, if evictions depend on them.
//!
//! A task is announced when it is submitted, or at the latest when it is ready, and when it is assigned to a unit. It
//! is forgotten when it ends. Nothing here decides which replicas leave (`coherence/outlook.rs`).

use super::Placement;
use crate::coherence::Eviction;
use crate::depend::OwnedTask;
use crate::sched::SubmittedTask;

impl Placement {
    /// Sets which replicas are evicted if a memory is short.
    pub(crate) fn evicting(mut self, eviction: Eviction) -> Self {
        match eviction {
            Eviction::LeastRecent => {}
            Eviction::FurthestUse => self.residency.look_ahead(),
        }
        self
    }

    /// Returns whether placement wants to be notified of tasks at submission: for its policy, or for evictions.
    pub(in crate::engine) fn looks_ahead(&self) -> bool {
        self.queue.looks_ahead() || self.residency.looks_ahead()
    }

    /// Notes that a task was submitted.
    pub(in crate::engine) fn submitted(&mut self, task: &SubmittedTask<'_>) {
        self.residency.expect(task.id, task.regions);
        if self.queue.looks_ahead() {
            self.queue.scheduler_mut().submitted(task);
        }
    }

    /// Assigns a task to a unit.
    pub(super) fn assign(&mut self, task: OwnedTask, unit: usize) {
        let assigned = self.queue.assign(task, unit, &self.residency);
        // A task across devices has its parts in several memories.
        if assigned.across.is_none() {
            self.residency.expect_in(&assigned.task, assigned.space);
        }
        self.queue.wait_for_memory(assigned);
    }
}
