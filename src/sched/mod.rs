//! Scheduling: which unit gets which ready task.
//!
//! A [`Policy`] is a deterministic function of its own state and a read-only [`View`]: no clock, environment, lock, I/O or
//! randomness of its own; ties are broken by id. It is told of ready tasks and asked by units with room; the engine acts
//! on the answers. One policy per file.
//!
//! Work distributions (004 §4) fit the same trait: a task that recurs carries its [`Place`], index, instance and all
//! weights of its iteration space, so a distribution keeps a queue per unit and answers each unit from its own.

mod dynamic;
mod stealing;

pub use dynamic::Dynamic;
pub use stealing::Stealing;

use crate::ids::{CuId, SpaceId, TaskId};
use crate::machine::UnitKind;
use std::sync::Arc;

/// Decides which unit gets which ready task.
pub trait Policy: Send {
    /// The name by which users choose it.
    fn name(&self) -> &'static str;

    /// A task is ready; the policy has charge of it until it gives it to a unit.
    fn ready(&mut self, task: ReadyTask, view: &View<'_>);

    /// `unit` has room for a task: which one? Only a task with `runs_on(unit)` may be named.
    fn next(&mut self, unit: CuId, view: &View<'_>) -> Option<TaskId>;

    /// A task has run.
    fn finished(&mut self, _sample: &Sample) {}

    /// Whether tasks may go the short way on a machine of CPU units: the policy would give any unit any task.
    fn short_way(&self) -> bool {
        false
    }
}

/// A ready task, as a policy sees it.
#[derive(Debug, Clone)]
pub struct ReadyTask {
    /// The task.
    pub id: TaskId,
    /// Larger is more urgent.
    pub priority: i32,
    /// The user's estimate of the work, in any unit that is the same for all tasks.
    pub cost: Option<f64>,
    /// Its place in an iteration space, if it recurs.
    pub place: Option<Place>,
    pub(crate) units: Arc<[bool]>,
}

impl ReadyTask {
    /// Whether the task has a body for this unit, and its data fit into the unit's memory.
    pub fn runs_on(&self, unit: CuId) -> bool {
        self.units[unit.index()]
    }
}

/// Where a recurring task stands.
#[derive(Debug, Clone)]
pub struct Place {
    /// Which iteration space.
    pub space: u32,
    /// Which index of it.
    pub index: usize,
    /// Which instance, counted from 0.
    pub instance: u64,
    /// The work at every index, as the user estimates it.
    pub weights: Arc<[f64]>,
}

/// A task that has run.
#[derive(Debug, Clone)]
pub struct Sample {
    /// The task.
    pub task: TaskId,
    /// Where it ran.
    pub unit: CuId,
    /// How long its body took.
    pub elapsed_ns: u64,
    /// Its place in an iteration space, if it recurs.
    pub place: Option<Place>,
}

/// A unit, as a policy sees it.
#[derive(Debug, Clone)]
pub struct UnitView {
    /// The unit.
    pub id: CuId,
    /// Its kind.
    pub kind: UnitKind,
    /// The memories its tasks can work in.
    pub spaces: Vec<SpaceId>,
    /// Tasks given to it and not finished.
    pub in_flight: usize,
}

/// What a policy may look at.
pub struct View<'a> {
    /// All units, by id.
    pub units: &'a [UnitView],
    pub(crate) missing_bytes: &'a dyn Fn(TaskId, SpaceId) -> u64,
}

impl View<'_> {
    /// The bytes of a ready task's data that would have to be copied to `space`.
    pub fn missing_bytes(&self, task: TaskId, space: SpaceId) -> u64 {
        (self.missing_bytes)(task, space)
    }
}

impl std::fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("View").field("units", &self.units).finish_non_exhaustive()
    }
}

/// The policy of this name, for that many units.
pub(crate) fn by_name(name: &str, units: usize) -> Option<Box<dyn Policy>> {
    match name {
        "stealing" => Some(Box::new(Stealing::new(units))),
        "dynamic" => Some(Box::new(Dynamic::new())),
        _ => None,
    }
}

/// Every name that [`by_name`] knows.
pub(crate) const NAMES: &[&str] = &["stealing", "dynamic"];
