//! The untyped task, as all layers between a submission and a body see it.
//!
//! A task is a block of [`crate::sync`] with a header that every thread may read ([`Meta`]), optional state that few
//! tasks need ([`Side`]), and a body of any type ([`Body`]). This module also tracks the task whose code runs on a
//! thread ([`running`]) and the regions that tasks submitted by this code must leave alone ([`Ancestry`]).
//!
//! This module never accesses a history and never creates an edge. Of the dependence analysis, it knows only the parts
//! that a task carries: its accesses, turns and tickets.

mod ancestry;
mod bodiless;
mod body;
mod context;
mod detached;
mod group;
#[cfg(test)]
pub(crate) mod hand_made;
mod kinds;
mod parts;
mod piece;
pub(crate) mod running;

pub(crate) use ancestry::Ancestry;
pub(in crate::depend) use bodiless::Bodiless;
pub(crate) use body::Body;
pub use context::Context;
pub(crate) use context::{Entrance, Env, Site};
pub(crate) use detached::{Away, Detachment, Hold, Leaving, Parked, Reception, Stop};
pub(in crate::depend) use group::Causes;
pub(crate) use group::{Boxed, Group, Membership, Told};
pub(crate) use kinds::Kinds;
pub(crate) use parts::Parts;
pub(crate) use piece::Piece;
pub(crate) use running::Team;

use super::domain::{Child, Domain};
use super::join::Predecessor;
use super::reduction::Tickets;
use super::replay::Gate;
use super::sources::Sources;
use super::turns::Turns;
use crate::error::TaskFailure;
use crate::ids::TaskId;
use crate::sync::CallSite;
use crate::sync::{self, Pooled, Share};
use std::borrow::Cow;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Waker;

/// The types that the runtime's tasks are made of.
pub(crate) struct Node;

impl sync::Kind for Node {
    type Shared = Meta;
    type Owned = Own;
    type Body = dyn Body;
    type Cause = TaskFailure;

    #[inline(always)]
    fn is_bare(own: &Own) -> bool {
        own.is_bare()
    }
}

pub(crate) type TaskRef = sync::TaskRef<Node>;
pub(crate) type OwnedTask = sync::OwnedTask<Node>;
pub(crate) type Task = sync::Task<Node>;
pub(crate) type Submitting = sync::Submitting<Node>;
/// The task that a thread shows to other threads as running.
pub(crate) type ExposedTask = sync::Exposed<Node>;
/// The record by which other threads can still see the tasks on a stack that its thread has left.
pub(crate) type ExposedApart = sync::Apart<Node>;
/// Tasks whose bodies wait, each with its parent's domain.
pub(crate) type SuspendedTasks = sync::Suspended<Node, Option<Arc<Domain>>>;
/// A walk along the edges of the graph.
pub(crate) type Walk = sync::Walk<Node>;
/// A task from which a walk begins, because a thread shows it as running.
pub(crate) type ShownTask<'a> = sync::Running<'a, Node>;
/// A task that a walk has reached.
pub(crate) type WalkedTask<'a> = sync::Met<'a, Node>;
/// A task on the path from one task to another.
pub(crate) type Step<'a> = sync::Step<'a, Node>;

/// The header of a task, which every thread may read.
///
/// Fields that are read when the task runs and ends come last, close to the body that follows the header.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Meta {
    pub(crate) name: Cow<'static, str>,
    pub(crate) location: CallSite,
    pub(crate) id: TaskId,
    /// The domain of the task's children, if the task has or may have children.
    pub(crate) domain: OnceLock<Arc<Domain>>,
    pub(crate) priority: i32,
    /// Whether the runtime itself created the task, for example for a read or a release. Internal tasks are neither
    /// counted nor recorded.
    pub(crate) internal: bool,
    /// Whether the task has commutative accesses or reductions, or uses resources. After its last predecessor has
    /// finished, such a task may still have to wait for its turns ([`take_turns`](crate::depend::take_turns)) or to
    /// be let in ([`let_in`](crate::depend::let_in)).
    pub(crate) queues: bool,
    /// Whether the task is a join: it does nothing itself and stands for everything that it waits for (see
    /// [`crate::depend`]).
    pub(crate) join: bool,
    /// The driver's counter that counts the task when it has finished.
    pub(crate) lane: Lane,
}

/// Index of one of the driver's counters. A task that runs repeatedly gets another counter each time.
#[derive(Debug)]
pub(crate) struct Lane(AtomicU8);

impl Lane {
    #[inline]
    pub(crate) fn new(lane: u8) -> Self {
        Self(AtomicU8::new(lane))
    }

    #[inline]
    pub(crate) fn get(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }

    /// Sets the counter. Called by the thread that hands the task to its owner.
    #[inline]
    pub(crate) fn set(&self, lane: u8) {
        self.0.store(lane, Ordering::Relaxed);
    }
}

/// State of a task that only its owner may access.
#[derive(Debug, Default)]
pub(crate) struct Own {
    /// State that few tasks need.
    pub(crate) side: Option<Pooled<Side>>,
    /// Present if the task is a child and has not ended.
    pub(crate) child: Option<Child>,
}

impl Own {
    /// Whether both fields are empty, which is the usual case.
    #[inline(always)] // on the path of every task
    pub(crate) fn is_bare(&self) -> bool {
        self.side.is_none() & self.child.is_none()
    }
}

impl Deref for Own {
    type Target = Option<Pooled<Side>>;

    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.side
    }
}

impl DerefMut for Own {
    #[inline]
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.side
    }
}

/// State that few tasks need, kept out of the header.
#[derive(Debug, Default)]
pub(crate) struct Side {
    /// The turns that a task with commutative accesses or resources waits for.
    pub(crate) turns: Turns,
    /// Where and when the task's private replicas are combined. The next ticket to use is the last one in the list.
    pub(crate) tickets: Tickets,
    /// The user's estimate of the task's work, in any unit that all tasks share.
    pub(crate) cost: Option<f64>,
    /// The task's place in an iteration space.
    pub(crate) position: Option<crate::sched::Position>,
    /// The loop index next to which the task should run.
    pub(crate) near: Option<crate::sched::Near>,
    /// The device on which the task should run, as long as that device is available.
    pub(crate) device: Option<crate::ids::DeviceId>,
    /// For a task that spans the devices of its unit: for each part, the end of its range of accesses.
    pub(crate) across: Option<Arc<[usize]>>,
    /// The address space that an internal task is bound to.
    pub(crate) space: Option<crate::ids::SpaceId>,
    /// The kinds of unit that the task can run on, if its bodies alone do not determine them.
    pub(crate) kinds: Option<Kinds>,
    /// The data object that no longer exists once this internal task has run.
    pub(crate) forget: Option<crate::ids::DataId>,
    /// Whether this internal task comes after all tasks that declare its data objects, even tasks that touch none of
    /// the data.
    pub(crate) behind_all: bool,
    /// Whether the memory that this internal task holds is lent out until the borrower gives it back.
    pub(crate) lends: bool,
    /// Whether the task already counts as ended although its memory is still lent out, so that waiting for all tasks
    /// does not include it.
    pub(crate) counted: bool,
    /// The waker of the thread or future that waits for this internal task.
    pub(crate) awaited_by: Option<Waker>,
    /// Whether some thread or future may wait for this task's end, so the task must not release its successors before
    /// it ends.
    pub(crate) awaited: bool,
    /// Additional predecessors that the accesses do not reveal: producers of results, and probes. Kept until the task
    /// is entered.
    pub(crate) predecessors: Vec<Predecessor>,
    /// Whether any of the task's accesses is an `outcome`.
    pub(crate) has_outcomes: bool,
    /// Whether this internal task is short and the submitting thread waits for it. If the task is ready at that point,
    /// the submitting thread runs it.
    pub(crate) here: bool,
    /// The tasks from whose bodies the task was submitted.
    pub(crate) ancestry: Ancestry,
    /// Present if the task is in a group and has not ended.
    pub(crate) membership: Option<Membership>,
    /// The task's share of the bytes that pending tasks may allocate, until it has ended.
    pub(crate) allocation: Option<Share>,
    /// Present if the task is at the border of a graph that runs repeatedly.
    pub(crate) gate: Option<Gate>,
    /// The first of the siblings that are entered together with this task; none of them can begin before all of them
    /// can. A task in their histories is a sibling exactly if its ID is at least this one.
    pub(crate) eldest: Option<TaskId>,
    /// Collects the tasks that produced the contents that this task finds, if the task needs to know them.
    pub(crate) sources: Option<Arc<Sources>>,
}

impl Side {
    /// Whether the task has private replicas to combine when it has run.
    pub(crate) fn has_contributions(&self) -> bool {
        !self.tickets.is_empty()
    }
}
