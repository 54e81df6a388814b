//! Scheduling: which unit gets which ready task.
//!
//! A [`Policy`] is a deterministic function of its own state and a read-only [`View`]: no clock, environment, lock, I/O
//! or randomness of its own; ties are broken by id. It is told of ready tasks and asked by units with room; the engine
//! acts on the answers. One policy per file.
//!
//! *Work distributions* (003; 004 §4) share out the indices of an iteration space. Each is a [`Distribution`], a
//! function from weights and times to an [`Assignment`]; [`Distributed`] makes a policy of any of them: a task that
//! recurs carries its [`Place`], and goes to the queue of the unit that its index is assigned to.
//!
//! *Online policies* decide task by task: [`Stealing`], [`Eft`], [`Priority`], [`Dynamic`].
//!
//! How users name all of them: [`NAMES`] and `spec.rs`.

mod adjacency;
mod affinity;
mod alike;
mod assignment;
mod balance;
mod clustered;
mod distribution;
mod dynamic;
mod eft;
mod guided;
mod model;
#[cfg(feature = "sim")]
mod model_text;
mod pcf;
mod pcf_guided;
mod pcf_static;
mod priority;
#[cfg(test)]
mod properties;
mod queues;
mod spec;
mod static_chunks;
mod static_pcf;
mod stealing;

pub use adjacency::Adjacency;
pub use affinity::{Affinity, AffinityStatistics};
pub use assignment::{Assignment, Chunks, Distribution, Team, Times, Workload};
pub use balance::balanced_chunks;
pub use clustered::{ClusteredGuided, State};
pub use distribution::Distributed;
pub use dynamic::Dynamic;
pub use eft::{Eft, LinkEstimate};
pub use guided::{GuidedRuntime, GuidedSizes, guided_step};
pub use model::Model;
#[cfg(feature = "sim")]
pub use model_text::ModelError;
pub use pcf::{Pcf, profiled as profiled_pcf};
pub use pcf_guided::PcfGuided;
pub use pcf_static::{PcfStatic, cpu_tasks as pcf_static_cpu_tasks};
pub use priority::Priority;
pub use spec::NAMES;
pub(crate) use spec::{Setting, from_spec};
pub use static_chunks::{Static, static_chunks};
pub use static_pcf::{StaticPcf, device_tasks as static_pcf_device_tasks};
pub use stealing::Stealing;

use crate::ids::{SpaceId, TaskId, UnitId};
use crate::machine::UnitKind;
use std::borrow::Cow;
use std::sync::Arc;

/// Decides which unit gets which ready task.
pub trait Policy: Send {
    /// The name by which users choose it.
    fn name(&self) -> &'static str;

    /// A task is ready; the policy has charge of it until it gives it to a unit.
    fn ready(&mut self, task: ReadyTask, view: &View<'_>);

    /// `unit` has room for a task: which one? Only a task with `runs_on(unit)` may be named.
    fn next(&mut self, unit: UnitId, view: &View<'_>) -> Option<TaskId>;

    /// A unit has so many tasks that were given to it and have not finished: one more or less than before.
    fn in_flight(&mut self, _unit: UnitId, _tasks: usize) {}

    /// A task has run.
    fn finished(&mut self, _sample: &Sample) {}

    /// A task was given to a unit and did not run to its end: nothing is to be learned from its time.
    fn failed(&mut self, _sample: &Sample) {}

    /// How well indices were kept where their data are, if the policy keeps count.
    fn affinity(&self) -> Option<AffinityStatistics> {
        None
    }

    /// The performance model that the policy learns, if it has one.
    fn model(&self) -> Option<&Model> {
        None
    }

    /// Whether tasks may go the fast path on a machine of CPU units: the policy would give any unit any task.
    fn fast_path(&self) -> bool {
        false
    }
}

/// A ready task, as a policy sees it.
#[derive(Debug, Clone)]
pub struct ReadyTask {
    /// The task.
    pub id: TaskId,
    /// Its name.
    pub name: Cow<'static, str>,
    /// The bytes of all its regions together.
    pub bytes: u64,
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
    pub fn runs_on(&self, unit: UnitId) -> bool {
        self.units[unit.index()]
    }

    /// `wanted` if the task runs there, otherwise the next unit, in the order of ids and then from the first, on which
    /// it does.
    pub(crate) fn unit_from(&self, wanted: UnitId) -> Option<UnitId> {
        let units = self.units.len();
        (0..units).map(|step| UnitId(((wanted.index() + step) % units) as u16)).find(|unit| self.runs_on(*unit))
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
    /// The indices that every index exchanges data with, if the user has said so.
    pub neighbours: Option<Arc<[Vec<usize>]>>,
}

/// A task that has run.
#[derive(Debug, Clone)]
pub struct Sample {
    /// The task.
    pub task: TaskId,
    /// Its name.
    pub name: Cow<'static, str>,
    /// The bytes of all its regions together.
    pub bytes: u64,
    /// Where it ran.
    pub unit: UnitId,
    /// How long its body took.
    pub elapsed_ns: u64,
    /// Its place in an iteration space, if it recurs.
    pub place: Option<Place>,
}

/// A unit, as a policy sees it.
#[derive(Debug, Clone)]
pub struct UnitView {
    /// The unit.
    pub id: UnitId,
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

    /// As [`missing_bytes`](Self::missing_bytes), in that memory of a unit where the least is missing.
    pub fn missing_at(&self, task: TaskId, unit: UnitId) -> u64 {
        let spaces = self.units.get(unit.index()).map(|unit| unit.spaces.as_slice()).unwrap_or_default();
        spaces.iter().map(|space| self.missing_bytes(task, *space)).min().unwrap_or(0)
    }

    /// Whether no unit has anything to do.
    pub fn is_idle(&self) -> bool {
        self.units.iter().all(|unit| unit.in_flight == 0)
    }
}

impl std::fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("View").field("units", &self.units).finish_non_exhaustive()
    }
}

#[cfg(test)]
impl ReadyTask {
    /// A task for tests, with bodies for these units.
    pub(crate) fn of(id: u64, on: &[bool]) -> Self {
        let (name, units) = (Cow::Borrowed("t"), on.to_vec().into());
        Self { id: TaskId(id), name, bytes: 0, priority: 0, cost: None, place: None, units }
    }
}
