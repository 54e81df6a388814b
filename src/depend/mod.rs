//! Dependences: from the accesses of tasks to the edges between them.
//!
//! Program order of submission defines the result. Each data has a [`Datum`] with a [`history::History`]: who wrote each
//! part of it last and who has read it since. A submission looks its accesses up there, links an edge from every task
//! found that has not finished, and leaves itself behind.
//!
//! What a task is to all layers without its types is in [`node`]; here is how it is entered, and what it waits for.
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
mod batch;
mod commutative;
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

pub(crate) use accumulation::{Accumulated, Accumulation};
pub(crate) use batch::{Batch, MOST_TOGETHER, Together, register_together};
pub(crate) use commutative::{give_up_turns, take_turns};
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
    Body, Boxed, Entrance, Env, ExposedApart, ExposedTask, Group, Kinds, Lane, Meta, Own, OwnedTask, Parts, Side, Site,
    Step, Submitting, SuspendedTasks, Task, TaskRef, Team, Told,
};
pub(crate) use recorder::Recorder;
pub(crate) use reduction::{Combine, Contribution, combine_in_turn, let_in};
pub(crate) use register::{FEW_ACCESSES, Leftover, register};
pub(crate) use replay::{Aftermath, Freezer, Fringe, Keeps, Replays, Round, Settle, replays_at_end};
pub(crate) use sources::Sources;
