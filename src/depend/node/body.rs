//! Interface of a task's body to the engine and the drivers, independent of the body's types.

use super::{Env, Group, Kinds, Parts, Piece, Site, Stop, TaskRef};
use crate::depend::{AccessRecord, Accumulation};
use crate::error::{BoxError, TaskFailure};
use crate::ids::Iteration;
use crate::kernel::{Combination, DeviceSite, Launcher};
use crate::region::Block;
use std::sync::Arc;

/// A typed closure with its accesses, seen through an untyped interface.
///
/// All methods take shared references, so that other threads can inspect a body while it runs; mutable state is in
/// cells. Nevertheless a body belongs to its owner alone: two threads never use it at the same time, except for the
/// methods that the contract names.
///
/// # Safety
/// [`accesses`](Self::accesses), [`group`](Self::group) and [`stands_at`](Self::stands_at) read only `Sync` state that
/// no method changes. Other threads call them while the owner calls any method: reports of stalls, explanations of
/// waits and the search for deadlocks show a body that runs at that time.
#[allow(unsafe_code)] // marks the contract of implementations
pub(crate) unsafe trait Body: Send {
    /// Visits the declared accesses in order. Other threads may call this while the body runs.
    fn accesses(&self, visit: &mut dyn FnMut(AccessRecord<'_>));

    /// Runs the body that fits the unit, or resumes it if the task has begun. Propagates panics of the user's code.
    fn run(&self, env: &Env<'_>) -> Result<(), Box<Stop>>;

    /// Whether the body has already been run and the task continues, so that it is too late to refuse the task.
    fn has_begun(&self) -> bool {
        false
    }

    /// Returns the location of the `access`-th region in its host copy, if the body finds the region by the sites of
    /// its environment.
    fn home(&self, _access: usize) -> Option<Site> {
        None
    }

    /// Runs the body for accelerators, which enqueues its work. Propagates panics like [`Self::run`].
    fn enqueue(&self, launcher: &mut Launcher<'_>, sites: &[DeviceSite]) -> Result<(), BoxError>;

    /// Drops the user's closures without running them.
    fn discard(&self);

    /// If a device combines the contribution of the `access`-th access, returns by which operation.
    fn combination(&self, _access: usize) -> Option<Combination> {
        None
    }

    /// If the `access`-th access is a reduction, creates a private replica for it and returns the replica's address and
    /// size in bytes. The replica lives until the next one is created or the body is dropped.
    fn private(&self, _access: usize) -> Option<(*mut u8, usize)> {
        None
    }

    /// Combines the private replica of the `access`-th access into the host copy of the data, within `block`.
    /// Propagates panics of the user's operation.
    fn combine(&self, _access: usize, _block: &Block) {}

    /// Returns the private replica of the `access`-th access, if there is one, as its elements in row-major order and
    /// its region.
    fn replica(&self, _access: usize) -> Option<(&[u8], Block)> {
        None
    }

    /// Combines another replica into the replica of the `access`-th access, within `block`. Propagates panics like
    /// [`Self::combine`].
    fn absorb(&self, _access: usize, _block: &Block, _other: (&[u8], Block)) {}

    /// Frees the memory of a private replica.
    fn retire(&self, _access: usize) {}

    /// Makes the `access`-th access accumulate in this group, at this part. Called at submission, under a lock.
    fn enlist(&self, _access: usize, _group: &Arc<Accumulation>, _part: &Block) {}

    /// Sets the probe of the `access`-th access, which is an `outcome`. The access finds a good value unless `probe` is
    /// poisoned. Called at submission, under a lock.
    fn ask(&self, _access: usize, _probe: TaskRef) {}

    /// If the `access`-th access is an `outcome`, records that it finds no value because of `cause`. Called by the
    /// task's owner, under a lock.
    fn spoil(&self, _access: usize, _cause: &Arc<TaskFailure>) {}

    /// Whether [`Self::spoil`] has been called for the `access`-th access.
    fn is_spoiled(&self, _access: usize) -> bool {
        false
    }

    /// Gives shared replicas back after enqueued work has ended successfully. [`Self::run`] does so itself.
    fn keep(&self) {}

    /// For a task that stands for several tasks: returns the interface for handling its regions part by part.
    fn parts(&self) -> Option<&dyn Parts> {
        None
    }

    /// For a join: returns the pieces at which tasks wait for it. If one of the join's predecessors has finished, the
    /// join must also wait for the tasks that replace that predecessor at these pieces. Other threads may call this.
    fn stands_at(&self) -> &[Piece] {
        &[]
    }

    /// Records why the task will not run to its end. Called by the task's owner, under locks.
    fn failed(&self, _failure: &Arc<TaskFailure>) {}

    /// Returns the group that the task is a member of, if any. Other threads may call this while the body runs.
    fn group(&self) -> Option<&Group> {
        None
    }

    /// For a join: called when everything that it waits for has ended. Propagates panics like [`Self::combine`].
    fn complete(&self) {}

    /// Returns the kinds of unit for which there is a body.
    fn kinds(&self) -> Kinds;

    /// Returns the loop iteration that the task executes.
    fn iteration(&self) -> Iteration {
        Iteration::NONE
    }
}
