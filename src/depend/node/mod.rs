//! The untyped task: what the layers between a submission and a body know of it.
//!
//! A task is a block of [`crate::sync`] with a header for everybody ([`Meta`]), what few tasks need beside it ([`Side`]),
//! and a body of any type ([`Body`]). Whose code runs on a thread ([`running`]), and what a task that is submitted there
//! must leave alone ([`Ancestry`]), is known of tasks without their types too.
//!
//! What never happens here: no history is looked at, and no edge is made. Of the dependence analysis only what a task
//! carries for it is named: its accesses, its turns and tickets.

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

use super::commutative::Turns;
use super::domain::{Child, Domain};
use super::join::Predecessor;
use super::reduction::Tickets;
use super::replay::Gate;
use super::sources::Sources;
use crate::error::TaskFailure;
use crate::ids::TaskId;
use crate::sync::{self, Pooled};
use std::borrow::Cow;
use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Waker;

/// What the tasks of the runtime are made of.
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
/// What a thread is running.
pub(crate) type ExposedTask = sync::Exposed<Node>;
/// The record that others see of a stack whose thread has left it.
pub(crate) type ExposedApart = sync::Apart<Node>;
/// Tasks whose bodies wait, each with its parent.
pub(crate) type SuspendedTasks = sync::Suspended<Node, Option<Arc<Domain>>>;
/// A task on the way from one to another.
pub(crate) type Step<'a> = sync::Step<'a, Node>;

/// What everybody may know of a task.
///
/// What is looked at when it is run and ended comes last: near the body, which follows.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Meta {
    pub(crate) name: Cow<'static, str>,
    pub(crate) location: &'static Location<'static>,
    pub(crate) id: TaskId,
    /// What it is for its children, if it has or may have any.
    pub(crate) domain: OnceLock<Arc<Domain>>,
    pub(crate) priority: i32,
    /// Made by the runtime itself (a read, a release): not counted, not recorded.
    pub(crate) internal: bool,
    /// Has commutative accesses or reductions: when it has no predecessor left, it may still have to wait for its turns
    /// ([`take_turns`](crate::depend::take_turns)), or to be let in ([`let_in`](crate::depend::let_in)).
    pub(crate) queues: bool,
    /// Has nothing to do: stands for all that it waits for (see [`crate::depend`]).
    pub(crate) join: bool,
    /// Which of its counters the driver counts it under when it has finished.
    pub(crate) lane: Lane,
}

/// One of the driver's counters; of a task that runs again and again, another one each time.
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

    /// To be called by who hands the task to its owner.
    #[inline]
    pub(crate) fn set(&self, lane: u8) {
        self.0.store(lane, Ordering::Relaxed);
    }
}

/// What a task's owner alone knows of it.
#[derive(Debug, Default)]
pub(crate) struct Own {
    /// What few tasks need.
    pub(crate) side: Option<Pooled<Side>>,
    /// If it is a child and has not ended.
    pub(crate) child: Option<Child>,
}

impl Own {
    /// Whether there is nothing in it, as is the rule.
    #[inline(always)] // on the way of every task
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

/// What few tasks need, kept out of the header.
#[derive(Debug, Default)]
pub(crate) struct Side {
    /// The turns that a commutative task waits for.
    pub(crate) turns: Turns,
    /// Where the task's private replicas are combined, and when; the next one last.
    pub(crate) tickets: Tickets,
    /// The user's estimate of the task's work, in any unit that is the same for all tasks.
    pub(crate) cost: Option<f64>,
    /// The task's place in an iteration space.
    pub(crate) place: Option<crate::sched::Place>,
    /// The index beside which it runs.
    pub(crate) beside: Option<crate::sched::Beside>,
    /// The device that it is for, as long as there is that.
    pub(crate) device: Option<crate::ids::DeviceId>,
    /// For the devices of its unit, part by part: where the accesses of each part end.
    pub(crate) across: Option<Arc<[usize]>>,
    /// The address space that an internal task is bound to.
    pub(crate) space: Option<crate::ids::SpaceId>,
    /// The kinds of unit that it can run on, where that does not follow from its bodies alone.
    pub(crate) kinds: Option<Kinds>,
    /// The data that is gone when this (internal) task has run.
    pub(crate) forget: Option<crate::ids::DataId>,
    /// The (internal) task comes after all that name what it accesses, also if they touch none of it.
    pub(crate) behind_all: bool,
    /// What this (internal) task has of a memory is lent out until somebody gives it back.
    pub(crate) lends: bool,
    /// It counts as ended, though it lends that yet: nobody waits for it who waits for tasks.
    pub(crate) counted: bool,
    /// Who waits for this (internal) task.
    pub(crate) awaited_by: Option<Waker>,
    /// Somebody may wait for the end of this task, so it does not let go of others before.
    pub(crate) awaited: bool,
    /// Tasks that it waits for besides those it finds by its accesses: producers of results, and probes. Until they are entered.
    pub(crate) predecessors: Vec<Predecessor>,
    /// Whether one of its accesses is an `outcome`.
    pub(crate) has_outcomes: bool,
    /// It is short, and the thread that submits this (internal) task waits for it: that thread runs it if it is ready then.
    pub(crate) here: bool,
    /// In whose bodies it was submitted.
    pub(crate) ancestry: Ancestry,
    /// If it is in a group and has not ended.
    pub(crate) membership: Option<Membership>,
    /// If it stands at the border of a graph that runs again and again.
    pub(crate) gate: Option<Gate>,
    /// The first of the tasks that are entered together with it, of which none can begin before all can: nobody else with as high a
    /// number has come into their histories.
    pub(crate) eldest: Option<TaskId>,
    /// Who has left what it finds, if it wants to know.
    pub(crate) sources: Option<Arc<Sources>>,
}

impl Side {
    /// Whether the task has private replicas to combine when it has run.
    pub(crate) fn has_contributions(&self) -> bool {
        !self.tickets.is_empty()
    }
}
