//! Interface of a task's body to the engine and the drivers, independent of the body's types.

use super::{Env, Group, Kinds, Parts, Piece, Stop, TaskRef};
use crate::depend::{AccessRecord, Accumulation};
use crate::error::{BoxError, TaskFailure};
use crate::ids::Iteration;
use crate::kernel::{DeviceSite, Launcher};
use crate::region::Block;
use std::sync::Arc;

/// A typed closure with its accesses, seen through an untyped interface.
///
/// All methods take shared references, so that a body's accesses can be looked at while it runs; state that changes
/// is in cells. Nevertheless a body belongs to its owner alone: two threads never use it at once, except for its
/// accesses.
pub(crate) trait Body: Send {
    /// Visits the declared accesses in order. Must not read state that changes while the body runs, since another
    /// thread may call this meanwhile.
    fn accesses(&self, visit: &mut dyn FnMut(AccessRecord<'_>));

    /// Runs the body that fits the unit, or resumes it if the task has begun. May panic with whatever the user's code
    /// panics with.
    fn run(&self, env: &Env<'_>) -> Result<(), Box<Stop>>;

    /// Whether the body has been run before and the task continues, so that it must not be refused any more.
    fn has_begun(&self) -> bool {
        false
    }

    /// Runs the body for accelerators, which enqueues its work. May panic as [`Self::run`] may.
    fn enqueue(&self, launcher: &mut Launcher<'_>, sites: &[DeviceSite]) -> Result<(), BoxError>;

    /// Drops the user's closures without running them.
    fn discard(&self);

    /// Returns the address and the size in bytes of a new private replica of the `access`-th access, if that is a
    /// reduction. The replica stays until the next one is made or the body is dropped.
    fn private(&self, _access: usize) -> Option<(*mut u8, usize)> {
        None
    }

    /// Combines the private replica of the `access`-th access into the host copy of the data, within `block`. May
    /// panic with whatever the user's operation panics with.
    fn combine(&self, _access: usize, _block: &Block) {}

    /// Returns the private replica of the `access`-th access, if there is one: its elements in row-major order, and
    /// its region.
    fn replica(&self, _access: usize) -> Option<(&[u8], Block)> {
        None
    }

    /// Combines another replica into that of the `access`-th access, within `block`. May panic as [`Self::combine`]
    /// may.
    fn absorb(&self, _access: usize, _block: &Block, _other: (&[u8], Block)) {}

    /// Frees the memory of a private replica.
    fn retire(&self, _access: usize) {}

    /// Makes the `access`-th access accumulate in this group, at this part. Called at submission, under a lock.
    fn enlist(&self, _access: usize, _group: &Arc<Accumulation>, _part: &Block) {}

    /// Sets the probe of the `access`-th access, an `outcome`, which finds a good value unless `probe` is poisoned.
    /// Called at submission, under a lock.
    fn ask(&self, _access: usize, _probe: TaskRef) {}

    /// Records that the `access`-th access, if it is an `outcome`, finds no value because of `cause`. Called under a
    /// lock, by the task's owner.
    fn spoil(&self, _access: usize, _cause: &Arc<TaskFailure>) {}

    /// Whether [`Self::spoil`] has been called for the `access`-th access.
    fn is_spoiled(&self, _access: usize) -> bool {
        false
    }

    /// Gives shared replicas back after the enqueued work has ended successfully. [`Self::run`] does this by itself.
    fn keep(&self) {}

    /// For a task that stands for several: the interface that treats its regions part by part.
    fn parts(&self) -> Option<&dyn Parts> {
        None
    }

    /// For a join: the parts at which it is waited for. Tasks that take a finished task's place there matter to it.
    fn stands_at(&self) -> &[Piece] {
        &[]
    }

    /// Records why the task will not run to its end. Called under locks, by its owner.
    fn failed(&self, _failure: &Arc<TaskFailure>) {}

    /// The group that the task is a member of. Does not change; another thread may call this meanwhile.
    fn group(&self) -> Option<&Group> {
        None
    }

    /// For a join: called when everything that it waits for has ended. May panic as [`Self::combine`] may.
    fn complete(&self) {}

    /// The kinds of unit that there is a body for.
    fn kinds(&self) -> Kinds;

    /// The loop iteration that the task executes.
    fn iteration(&self) -> Iteration {
        Iteration::NONE
    }
}
