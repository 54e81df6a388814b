//! What the engine and the drivers need of a task's body, whatever its types.

use super::{Env, Group, Kinds, Parts, Piece, Stop, TaskRef};
use crate::depend::{AccessRecord, Accumulation};
use crate::error::{BoxError, TaskFailure};
use crate::ids::Iteration;
use crate::kernel::{DeviceSite, Launcher};
use crate::region::Block;
use std::sync::Arc;

/// A typed closure with its accesses, seen from outside.
///
/// All of it goes by shared references, so that a body's accesses can be looked at while it runs: what changes is in cells.
/// A body is its owner's alone all the same, and never used by two threads at once, but for its accesses.
pub(crate) trait Body: Send {
    /// Visits the declared accesses in order. Reads nothing that changes while the body runs: another thread may look.
    fn accesses(&self, visit: &mut dyn FnMut(AccessRecord<'_>));

    /// Runs the body that fits the unit, or runs it on if the task has begun. May panic with whatever the user's code
    /// panics with.
    fn run(&self, env: &Env<'_>) -> Result<(), Box<Stop>>;

    /// Whether the body has been run, and the task goes on: it is not to be refused any more.
    fn has_begun(&self) -> bool {
        false
    }

    /// Runs the body for accelerators, which enqueues its work. May panic as [`Self::run`] may.
    fn enqueue(&self, launcher: &mut Launcher<'_>, sites: &[DeviceSite]) -> Result<(), BoxError>;

    /// Drops the user's closures without running them.
    fn discard(&self);

    /// Where a new private replica of the `access`-th access lies, and its bytes, if that is a reduction. It stays until
    /// the next one is made or the body is dropped.
    fn private(&self, _access: usize) -> Option<(*mut u8, usize)> {
        None
    }

    /// Combines the private replica of the `access`-th access into the data's home, within `block`. May panic with whatever
    /// the user's operation panics with.
    fn combine(&self, _access: usize, _block: &Block) {}

    /// The private replica of the `access`-th access, if there is one: its elements in row-major order, and its region.
    fn replica(&self, _access: usize) -> Option<(&[u8], Block)> {
        None
    }

    /// Combines another replica into that of the `access`-th access, within `block`. May panic as [`Self::combine`] may.
    fn absorb(&self, _access: usize, _block: &Block, _other: (&[u8], Block)) {}

    /// Gives the memory of a private replica back.
    fn retire(&self, _access: usize) {}

    /// The `access`-th access accumulates in this group, at this part. Called at submission, under a lock.
    fn enlist(&self, _access: usize, _group: &Arc<Accumulation>, _part: &Block) {}

    /// The `access`-th access, an `outcome`, finds a good value unless `probe` is poisoned. Called at submission, under a lock.
    fn ask(&self, _access: usize, _probe: TaskRef) {}

    /// The `access`-th access, if it is an `outcome`, finds no value because of this. Called under a lock, by the task's owner.
    fn spoil(&self, _access: usize, _cause: &Arc<TaskFailure>) {}

    /// Whether [`Self::spoil`] has been called for the `access`-th access.
    fn is_spoiled(&self, _access: usize) -> bool {
        false
    }

    /// The work that was enqueued has ended well: gives replicas that are shared back. [`Self::run`] does so by itself.
    fn keep(&self) {}

    /// Of a task that stands for several: what it says and is told of parts of its regions.
    fn parts(&self) -> Option<&dyn Parts> {
        None
    }

    /// Of a join: the parts that it is waited for at. Whoever takes a finished task's place there matters to it.
    fn stands_at(&self) -> &[Piece] {
        &[]
    }

    /// The task will not have run to its end because of this. Called under locks, by its owner.
    fn failed(&self, _failure: &Arc<TaskFailure>) {}

    /// The group that the task is a member of. Does not change; another thread may look.
    fn group(&self) -> Option<&Group> {
        None
    }

    /// Of a join: what it does when all that it waits for has ended. May panic as [`Self::combine`] may.
    fn complete(&self) {}

    /// Which kinds of unit there is a body for.
    fn kinds(&self) -> Kinds;

    /// Which iteration of a loop the task is.
    fn iteration(&self) -> Iteration {
        Iteration::NONE
    }
}
