//! Dependences: from the accesses of tasks to the edges between them.
//!
//! Program order of submission defines the result. Each data has a [`Datum`] with a [`history::History`]: who wrote each
//! part of it last and who has read it since. A submission looks its accesses up there, links an edge from every task
//! found that has not finished, and leaves itself behind.
//!
//! What never happens here: no task is run, no data is touched, no unit is chosen. A finishing task does not come back
//! to the data either; it only counts its successors down. So submitting and finishing meet at single tasks, not at
//! data.
//!
//! Invariants:
//! 1. All of one task's accesses are entered under the locks of all its data at once, taken in the order of their
//!    addresses. Hence edges always lead from earlier to later submissions, and there is no cycle.
//! 2. Every pair of conflicting accesses is joined by a path of edges; every edge joins conflicting accesses, or leads to
//!    or from a [`join`] that stands for such edges.
//! 3. Poison travels along edges that carry a value, and stays in the failed task, which the histories keep alive.
//! 4. What gives a data object's memory up comes after every task that declares a region of it, an empty one too.

mod accumulation;
mod ancestry;
mod bodiless;
mod body;
mod commutative;
mod datum;
mod disjoint;
mod fragment;
#[cfg(feature = "graph")]
mod graph;
#[cfg(not(feature = "graph"))]
#[path = "graph_absent.rs"]
mod graph;
#[cfg(test)]
pub(crate) mod hand_made;
mod history;
mod indexed;
mod join;
mod mode;
mod recent;
mod reduction;
mod register;
pub(crate) mod running;
#[cfg(test)]
mod tests;

pub(crate) use accumulation::{Accumulated, Accumulation};
pub(crate) use ancestry::Ancestry;
pub use body::Context;
pub(crate) use body::Site;
pub(crate) use body::{Body, Env, Kinds};
pub(crate) use commutative::{give_up_turns, take_turns};
pub(crate) use datum::{AccessRecord, Datum};
pub(crate) use disjoint::overlap;
pub(crate) use graph::Recorder;
#[cfg(feature = "graph")]
pub use graph::{Dependence, GraphTask, TaskGraph};
pub use mode::{Mode, OpId};
pub(crate) use reduction::{Combine, Contribution, combine_in_turn, let_in};
pub(crate) use register::{FEW_ACCESSES, Leftover, register};
pub(crate) use running::Team;

use crate::error::TaskFailure;
use crate::ids::TaskId;
use crate::sync;
use std::borrow::Cow;
use std::panic::Location;
use std::sync::Arc;

/// What the tasks of the runtime are made of.
pub(crate) struct Node;

impl sync::Kind for Node {
    type Shared = Meta;
    type Owned = Option<Box<Side>>;
    type Body = dyn Body;
    type Cause = TaskFailure;
}

pub(crate) type TaskRef = sync::TaskRef<Node>;
pub(crate) type OwnedTask = sync::OwnedTask<Node>;
pub(crate) type Task = sync::Task<Node>;
pub(crate) type Submitting = sync::Submitting<Node>;
/// What a thread is running.
pub(crate) type ExposedTask = sync::Exposed<Node>;

/// What everybody may know of a task.
#[derive(Debug)]
pub(crate) struct Meta {
    pub(crate) id: TaskId,
    pub(crate) name: Cow<'static, str>,
    pub(crate) location: &'static Location<'static>,
    pub(crate) priority: i32,
    /// Made by the runtime itself (a read, a release): not counted, not recorded.
    pub(crate) internal: bool,
    /// Has commutative accesses or reductions: when it has no predecessor left, it may still have to wait for its turns
    /// ([`take_turns`]), or to be let in ([`let_in`]).
    pub(crate) queues: bool,
    /// Has nothing to do: stands for all that it waits for (see [`join`]).
    pub(crate) join: bool,
    /// Which of its counters the driver counts it under when it has finished.
    pub(crate) lane: u8,
}

/// What few tasks need, kept out of the header.
#[derive(Debug, Default)]
pub(crate) struct Side {
    /// The turns that a commutative task waits for.
    pub(crate) turns: commutative::Turns,
    /// Where the task's private replicas are combined, and when; the next one last.
    pub(crate) tickets: Vec<reduction::Ticket>,
    /// The user's estimate of the task's work, in any unit that is the same for all tasks.
    pub(crate) cost: Option<f64>,
    /// The task's place in an iteration space.
    pub(crate) place: Option<crate::sched::Place>,
    /// The address space that an internal task is bound to.
    pub(crate) space: Option<crate::ids::SpaceId>,
    /// The kinds of unit that it can run on, where that does not follow from its bodies alone.
    pub(crate) kinds: Option<Kinds>,
    /// The data that is gone when this (internal) task has run.
    pub(crate) forget: Option<crate::ids::DataId>,
    /// The thread that waits for this (internal) task.
    pub(crate) awaited_by: Option<Arc<sync::Parker>>,
    /// Somebody may wait for the end of this task, so it does not let go of others before.
    pub(crate) awaited: bool,
    /// In whose bodies it was submitted.
    pub(crate) ancestry: Ancestry,
}

impl Side {
    /// Whether the task has private replicas to combine when it has run.
    pub(crate) fn has_contributions(&self) -> bool {
        !self.tickets.is_empty()
    }
}
