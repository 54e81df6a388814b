//! Dependence analysis: turns the accesses of tasks into edges between them.
//!
//! Submission order defines the result. Each data object has a [`Datum`] with a [`history::History`], which records,
//! for each part, the task that wrote it last and the tasks that have read it since. A submission looks up the new
//! task's accesses there, links an edge from every unfinished task that it finds, and records the new task.
//!
//! The untyped task that all layers share is in [`node`]. The other modules enter it into the histories and determine
//! what it waits for.
//!
//! This module never runs a task, touches data or chooses a unit. A finishing task does not access its data objects'
//! histories again; it only counts its successors down. So submitting and finishing threads contend for individual
//! tasks, not for data objects.
//!
//! Invariants:
//! 1. All of a task's accesses are entered while all its data objects are locked; the locks are taken in address order.
//!    A child's accesses are entered under the lock of its parent's domain. Hence edges always lead from earlier to
//!    later submissions, and there is no cycle.
//! 2. Every pair of conflicting accesses is connected by a path of edges. Every edge connects conflicting accesses, or
//!    leads to or from a [`join`] that replaces such edges.
//! 3. Poison travels along edges that carry a value, and stays in the failed task, which the histories keep alive.
//! 4. A task that gives up a data object's memory comes after every task that declares a region of it, even an empty
//!    one.

mod accumulation;
mod batch;
mod datum;
mod disjoint;
mod domain;
#[cfg(test)]
mod ended_tests;
mod fragment;
#[cfg(feature = "graph")]
mod graph;
#[cfg(not(feature = "graph"))]
#[path = "graph_absent.rs"]
mod graph;
mod history;
mod indexed;
mod join;
mod lists;
mod mode;
mod node;
mod queues;
mod recent;
mod recorder;
mod reduction;
#[cfg(test)]
mod reduction_tests;
mod register;
mod replay;
mod settled;
mod shares;
mod sources;
#[cfg(test)]
mod tests;
mod tiled;
mod turns;

pub(crate) use accumulation::{Accumulated, Accumulation};
pub(crate) use batch::{Batch, MOST_TOGETHER, Together, register_together};
pub(crate) use datum::{AccessRecord, Datum, Residence};
pub(crate) use disjoint::overlap;
pub(crate) use domain::{Child, Domain, finish};
#[cfg(feature = "graph")]
pub use graph::{Dependence, GraphTask, TaskGraph};
pub use mode::{Mode, OpId};
pub use node::Context;
#[cfg(test)]
pub(crate) use node::hand_made;
pub(crate) use node::running;
pub(crate) use node::{Away, Detachment, Hold, Leaving, Parked, Reception, Stop};
pub(crate) use node::{
    Body, Boxed, Entrance, Env, ExposedApart, ExposedTask, Group, Kinds, Lane, Meta, Own, OwnedTask, Parts, ShownTask,
    Side, Site, Step, Submitting, SuspendedTasks, Task, TaskRef, Team, Told, Walk, WalkedTask,
};
pub(crate) use queues::{ReadyStage, TaskQueue};
pub(crate) use recorder::{Recorder, tracer_of};
pub(crate) use reduction::{Combine, Contribution, combine_in_turn, let_in};
pub(crate) use register::{FEW_ACCESSES, Leftover, register};
pub(crate) use replay::{Aftermath, Again, Freezer, Fringe, Keeps, Replays, Round, Settle, replays_at_end};
pub(crate) use sources::Sources;
pub(crate) use turns::{Line, Shortfall, Turns, give_up_turns, take_turns};
