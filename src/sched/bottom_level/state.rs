//! Data of the policy: groups of identical units, sets of units with their queues, and the stages of tasks.

use super::lookahead::Ahead;
use crate::ids::{SpaceId, TaskId};
use crate::machine::UnitKind;
use crate::sched::kernels::KernelId;
use crate::sched::{Position, UnitSet};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A group of identical units.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) kind: UnitKind,
    pub(super) spaces: Vec<SpaceId>,
    pub(super) units: u64,
    pub(super) members: UnitSet,
    /// The units of this group that have nothing to do.
    pub(super) idle: UnitSet,
    /// Number of queued tasks.
    pub(super) queued: usize,
    /// Whether the first queued task may wait for the group's first free unit.
    pub(super) rests: bool,
    /// When a unit of this group last had no task and found none to steal.
    pub(super) dry_at: Option<Moment>,
    /// Sum of the estimates of unfinished tasks given to units of this group, by the times of its kind.
    pub(super) given_ns: u64,
    pub(super) ahead: Ahead,
    /// Number of further tasks for which this group's memory counts as short.
    pub(super) short: u32,
}

/// A logical time: the number of changes and, if copies influenced the decision, the number of moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moment {
    pub(super) changes: u64,
    pub(super) moves: Option<u64>,
}

/// A set of units, with the queues of the tasks that run on exactly these units.
#[derive(Debug)]
pub(super) struct Set {
    pub(super) units: Arc<[bool]>,
    /// One queue per group, most urgent task first; `None` if no unit of the group runs these tasks.
    pub(super) queues: Vec<Option<BTreeSet<Rank>>>,
}

/// Sort key of queued tasks: the program's priority, then the level, then age.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    pub(super) priority: Reverse<i32>,
    /// Bit pattern of the level, a non-negative `f64`, which sorts as the level does.
    pub(super) level_bits: Reverse<u64>,
    pub(super) task: TaskId,
}

impl Rank {
    pub(super) fn level_ns(self) -> f64 {
        f64::from_bits(self.level_bits.0)
    }
}

/// Scheduling state of a task.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) kernel: KernelId,
    pub(super) work: f64,
    pub(super) stage: Stage,
}

#[derive(Debug)]
pub(super) enum Stage {
    /// Not ready yet.
    Waits,
    /// Boxed because most tasks of a large window are not ready.
    Queued(Box<Queued>),
    /// Given to a unit of this group, whose kind takes `ns`.
    /// `end_ns` is the expected time from ready to the end; NaN if it is unknown.
    Given { group: usize, ns: u64, trial: bool, end_ns: f32 },
}

#[derive(Debug, Clone)]
pub(super) struct Queued {
    pub(super) set: usize,
    pub(super) group: usize,
    pub(super) rank: Rank,
    /// Expected execution time on the group's kind of unit.
    pub(super) ns: u64,
    /// Expected time until the task ends.
    pub(super) end_ns: f32,
    pub(super) trial: bool,
    /// Number of bytes of the task's data that the memory lacked when the task was queued.
    pub(super) missing: u64,
    pub(super) position: Option<Position>,
}

/// The time at which a task would end in a group.
pub(super) struct Offer {
    pub(super) group: usize,
    pub(super) end_ns: f64,
    /// Execution time on the group's kind of unit.
    pub(super) ns: f64,
    pub(super) trial: bool,
    pub(super) missing: u64,
}
