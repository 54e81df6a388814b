//! Scheduling: which unit gets which ready task.
//!
//! A [`Policy`] is a deterministic function of its state and a read-only [`View`]. It uses no clock, environment,
//! lock, I/O or randomness; ties are broken by id. The engine notifies it of ready tasks, asks it for a task when a
//! unit has room, and acts on the answers. One policy per file.
//!
//! *Work distributions* (González Tallada 2024 (slides); González Tallada & Morancho 2024, §4) share out the indices
//! of an iteration space. Each is a [`Distribution`], a function from weights and times to an [`Assignment`];
//! [`Distributed`] turns any of them into a policy: a recurring task carries its [`Place`] and goes to the queue of
//! the unit that its index is assigned to.
//!
//! *Online policies* decide task by task: [`Stealing`], [`Eft`], [`BottomLevel`], [`Priority`], [`Dynamic`].
//!
//! [`Auto`] chooses among some of the others by simulating the program under each.
//!
//! [`NAMES`] and `spec.rs` define the names by which users select a policy.

mod adjacency;
mod affinity;
mod alike;
mod any_distribution;
mod assignment;
mod auto;
mod balance;
mod bottom_level;
mod certified;
mod check;
mod clustered;
mod copies;
mod distribution;
mod dynamic;
mod eft;
pub mod fpm;
mod guided;
mod kernels;
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
mod team_size;
mod unit_set;

pub use affinity::AffinityStatistics;
pub(crate) use assignment::Chunks;
pub use assignment::{Assignment, Distribution, Neighbour, Team, Times, Workload};
pub use auto::Choice;
pub use certified::LowerBound;
pub use check::{Violation, check};
pub use copies::CopySample;
pub use distribution::Distributed;
pub use model::Model;
#[cfg(feature = "sim")]
pub use model_text::ModelError;
pub use pcf::Pcf;
pub use spec::NAMES;
pub(crate) use spec::{Setting, from_spec};
pub use static_chunks::Static;
pub use static_pcf::StaticPcf;
pub use unit_set::UnitSet;
// Programs select the other policies by name. As types they serve benches, pictures and tests, and may change.
#[doc(hidden)]
pub use self::{
    adjacency::Adjacency,
    affinity::Affinity,
    auto::Auto,
    balance::balanced_chunks,
    bottom_level::BottomLevel,
    certified::Certified,
    clustered::{ClusteredGuided, ClusteredGuidedLiteral, State},
    copies::LinkEstimate,
    dynamic::Dynamic,
    eft::Eft,
    guided::{GuidedRuntime, GuidedSizes, guided_step},
    pcf::profiled as profiled_pcf,
    pcf_guided::PcfGuided,
    pcf_static::{PcfStatic, cpu_tasks as pcf_static_cpu_tasks},
    priority::Priority,
    static_chunks::static_chunks,
    static_pcf::device_tasks as static_pcf_device_tasks,
    stealing::Stealing,
    team_size::{TeamSize, TeamSized},
};

use crate::ids::{DataId, SpaceId, TaskId, UnitId};
use crate::machine::UnitKind;
use crate::region::Block;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::sync::Arc;

/// Decides which unit gets which ready task.
///
/// A custom policy ([`Builder::policy`](crate::Builder::policy)) needs only two methods: [`ready`] hands it a task,
/// [`next`] asks which task a unit gets. A policy can be tested without a runtime, since all of its inputs can be
/// constructed by hand:
///
/// ```
/// use thalweg::ids::{SpaceId, TaskId, UnitId};
/// use thalweg::machine::UnitKind;
/// use thalweg::sched::{Policy, ReadyTask, UnitView, View};
///
/// /// Large tasks go first.
/// #[derive(Default)]
/// struct LargestFirst(Vec<ReadyTask>);
///
/// impl Policy for LargestFirst {
///     fn name(&self) -> &'static str {
///         "largest-first"
///     }
///     fn ready(&mut self, task: ReadyTask, _: &View<'_>) {
///         let position = self.0.partition_point(|other| other.bytes >= task.bytes);
///         self.0.insert(position, task);
///     }
///     fn next(&mut self, unit: UnitId, _: &View<'_>) -> Option<TaskId> {
///         let first = self.0.iter().position(|task| task.runs_on(unit))?;
///         Some(self.0.remove(first).id)
///     }
/// }
///
/// let unit = |id| UnitView { id: UnitId(id), kind: UnitKind::Cpu, spaces: vec![SpaceId::HOST], in_flight: 0 };
/// let units = [unit(0), unit(1)];
/// let view = View::new(&units, &|_, _| 0);
/// let mut policy = LargestFirst::default();
/// for (id, bytes, runs_on) in [(0, 10, [true, true]), (1, 30, [true, false]), (2, 20, [true, true])] {
///     let mut task = ReadyTask::new(TaskId(id), "t", runs_on);
///     task.bytes = bytes;
///     policy.ready(task, &view);
/// }
/// assert_eq!(policy.next(UnitId(1), &view), Some(TaskId(2)), "the largest has no body for unit 1");
/// assert_eq!(policy.next(UnitId(0), &view), Some(TaskId(1)));
/// ```
///
/// # Contract
/// - A policy gives each task it was handed to one unit, once, and to a unit for which
///   [`runs_on`](ReadyTask::runs_on) holds.
/// - It may hold tasks back while some unit is busy. Once [`View::is_idle`], it must give a task to at least one of
///   the units that it is asked for; no later event would cause it to be asked again.
/// - It does not use the runtime, which waits for its answer: waiting and submitting are refused with
///   [`SubmitError::InsidePolicy`](crate::error::SubmitError::InsidePolicy).
///
/// [`check`] tests the first two rules on many programs, without a runtime.
///
/// A policy that breaks the contract or panics is dismissed: `stealing` replaces it, all tasks still run, and
/// [`Runtime::wait`](crate::Runtime::wait) reports the policy, the task and the violation
/// ([`FailureReason::Policy`](crate::error::FailureReason::Policy)).
///
/// [`ready`]: Policy::ready
/// [`next`]: Policy::next
pub trait Policy: Send {
    /// Returns the policy's name, for reports.
    fn name(&self) -> &'static str;

    /// Accepts a ready task. The policy is responsible for it until it gives it to a unit.
    fn ready(&mut self, task: ReadyTask, view: &View<'_>);

    /// Returns the task that `unit`, which has room for one, gets next, if any.
    fn next(&mut self, unit: UnitId, view: &View<'_>) -> Option<TaskId>;

    /// Returns the units for which there may be a task now, or `None` if that is not known. While something runs, no
    /// other unit is asked: most events concern one unit, and a machine may have hundreds.
    fn wanted(&self) -> Option<UnitSet> {
        None
    }

    /// Notes that `tasks` tasks given to a unit have not finished now: one more or one less than before.
    fn in_flight(&mut self, _unit: UnitId, _tasks: usize) {}

    /// Notes that a task has run. Policies learn from the time that its body took.
    fn finished(&mut self, _sample: &Sample) {}

    /// Notes that a task given to a unit did not run to its end; the sample has no time.
    fn failed(&mut self, _sample: &Sample) {}

    /// Returns whether the policy wants to be notified of tasks at submission. Called once, before the first task.
    fn looks_ahead(&self) -> bool {
        false
    }

    /// Notes that a task was submitted. Called before [`ready`](Self::ready), and only if the policy looks ahead.
    fn submitted(&mut self, _task: &SubmittedTask<'_>) {}

    /// Notes that a submitted task ended without having been given to a unit, because one of its predecessors failed.
    /// Called only if the policy looks ahead.
    fn skipped(&mut self, _task: TaskId) {}

    /// Notes that a copy whose duration is known has ended.
    fn copied(&mut self, _copy: &CopySample) {}

    /// Notes that data have moved, or that copies are planned, since the policy was last asked:
    /// [`View::missing_bytes`] may return other values.
    fn data_moved(&mut self) {}

    /// Returns how well indices stayed where their data are, if the policy counts that.
    fn affinity(&self) -> Option<AffinityStatistics> {
        None
    }

    /// Returns the policy that this one chose, and why, if it chooses among others.
    fn choice(&self) -> Option<&Choice> {
        None
    }

    /// Returns how close to the optimum the policy's map of an iteration space is, if known.
    fn bound(&self) -> Option<LowerBound> {
        None
    }

    /// Returns how the policy shares out an iteration space by functional performance models, if it does.
    fn shares(&self) -> Option<&fpm::SharesInUse> {
        None
    }

    /// Returns the profiles that the policy has learned, by unit name, if it learns any.
    fn profiles(&self) -> Option<fpm::Known> {
        None
    }

    /// Returns the performance model that the policy learns, if it has one.
    fn model(&self) -> Option<&Model> {
        None
    }

    /// Starts to collect decisions for [`take_decisions`](Self::take_decisions).
    #[doc(hidden)]
    fn collect_decisions(&mut self) {}

    /// Returns the decisions of work distributions since the last call, in order.
    #[doc(hidden)]
    fn take_decisions(&mut self) -> Vec<Decision> {
        Vec::new()
    }

    /// Returns whether the policy would give any unit any task. If so, it is not asked at all on a machine of CPU
    /// units: ready tasks take the fast path, from the thread that made them ready to whichever unit is free.
    fn fast_path(&self) -> bool {
        false
    }
}

/// A decision of a work distribution, as traces have it.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// The iteration space.
    pub space: u64,
    /// The instance that the decision is for.
    pub instance: u64,
    /// The state of the distribution's search.
    pub state: State,
    /// The number of indices that CPU units get.
    pub pivot: usize,
}

/// A ready task, as seen by a policy.
///
/// ```
/// use thalweg::ids::{TaskId, UnitId};
/// use thalweg::sched::ReadyTask;
/// let mut task = ReadyTask::new(TaskId(7), "axpy", [true, false]);
/// task.priority = 3;
/// assert!(task.runs_on(UnitId(0)) && !task.runs_on(UnitId(1)));
/// ```
#[derive(Debug, Clone)]
pub struct ReadyTask {
    /// The task.
    pub id: TaskId,
    /// Its name.
    pub name: Cow<'static, str>,
    /// Total bytes of all its regions.
    pub bytes: u64,
    /// Larger values are more urgent.
    pub priority: i32,
    /// The user's estimate of the work, in any unit that is the same for all tasks.
    pub cost: Option<f64>,
    /// Its place in an iteration space, if it is a recurring task.
    pub place: Option<Place>,
    /// The index whose data it works on, without being counted when the indices are shared out.
    pub beside: Option<Beside>,
    /// Whether it became ready when another task ended, rather than when it was submitted. Such a task probably
    /// consumes the other task's output; if it runs first, that memory is freed before other tasks allocate more.
    pub follows: bool,
    pub(crate) units: Arc<[bool]>,
}

impl ReadyTask {
    /// Creates a task to test a policy with; `units` says for each unit whether the task runs there. It has no data,
    /// no hints and no place.
    pub fn new(id: TaskId, name: impl Into<Cow<'static, str>>, units: impl Into<Arc<[bool]>>) -> Self {
        let (name, units) = (name.into(), units.into());
        Self { id, name, bytes: 0, priority: 0, cost: None, place: None, beside: None, follows: false, units }
    }

    /// Returns the sort key; smaller goes first: more urgent tasks and, of equals, tasks that follow others. Tasks
    /// with a place in an iteration space keep the order in which they became ready.
    pub(crate) fn order(&self) -> (Reverse<i32>, bool) {
        (Reverse(self.priority), !self.follows || self.place.is_some())
    }

    /// Returns whether the task has a body for this unit and its data fit into the unit's memory.
    pub fn runs_on(&self, unit: UnitId) -> bool {
        self.units.get(unit.index()).is_some_and(|runs| *runs)
    }

    /// Returns `wanted` if the task runs there, otherwise the next unit by id, wrapping around, on which it does.
    pub(crate) fn unit_from(&self, wanted: UnitId) -> Option<UnitId> {
        let units = self.units.len();
        (0..units).map(|step| UnitId(((wanted.index() + step) % units) as u16)).find(|unit| self.runs_on(*unit))
    }
}

/// A submitted task, as seen by a policy that looks ahead.
///
/// ```
/// use thalweg::ids::TaskId;
/// use thalweg::sched::SubmittedTask;
/// let name = "axpy".into();
/// let task = SubmittedTask { bytes: 8000, after: &[TaskId(5)], ..SubmittedTask::new(TaskId(7), &name) };
/// assert!(task.after.iter().all(|before| *before < task.id));
/// ```
#[derive(Debug, Clone, Copy)]
pub struct SubmittedTask<'a> {
    /// The task.
    pub id: TaskId,
    /// Its name.
    pub name: &'a Cow<'static, str>,
    /// Total bytes of all its regions.
    pub bytes: u64,
    /// The user's estimate of the work, in any unit that is the same for all tasks.
    pub cost: Option<f64>,
    /// Its place in an iteration space, if it is a recurring task.
    pub place: Option<&'a Place>,
    /// The index whose data it works on, without being counted when the indices are shared out.
    pub beside: Option<Beside>,
    /// The regions it works on.
    pub regions: &'a [RegionUse],
    /// Predecessors that had not finished. If there are very many, the list is incomplete.
    pub after: &'a [TaskId],
}

impl<'a> SubmittedTask<'a> {
    /// Creates a task to test a policy with. It has no data, hints, place or predecessors.
    #[allow(clippy::ptr_arg)] // same type as the field
    pub fn new(id: TaskId, name: &'a Cow<'static, str>) -> Self {
        Self { id, name, bytes: 0, cost: None, place: None, beside: None, regions: &[], after: &[] }
    }
}

/// A region that a task works on.
///
/// ```
/// use thalweg::ids::DataId;
/// use thalweg::region::Block;
/// use thalweg::sched::RegionUse;
/// let block = Block::interval(0..100);
/// let used = RegionUse { data: DataId(3), block, is_whole: true, bytes: 800, reads: true, writes: false };
/// assert_eq!(used.block.volume() as u64 * 8, used.bytes);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegionUse {
    /// The data object.
    pub data: DataId,
    /// The part of it.
    pub block: Block,
    /// Whether the part is the whole data object.
    pub is_whole: bool,
    /// Size in bytes.
    pub bytes: u64,
    /// Whether the task uses the present contents.
    pub reads: bool,
    /// Whether the task changes them.
    pub writes: bool,
}

/// Position of a recurring task in its iteration space.
///
/// ```
/// use thalweg::sched::Place;
/// let place = Place { space: 0, index: 2, instance: 5, weights: vec![1.0; 8].into(), neighbours: None };
/// assert!(place.index < place.weights.len());
/// ```
#[derive(Debug, Clone)]
pub struct Place {
    /// The iteration space.
    pub space: u64,
    /// The index in it.
    pub index: usize,
    /// The instance, counted from 0.
    pub instance: u64,
    /// The work at every index, as the user estimates it.
    pub weights: Arc<[f64]>,
    /// The indices that every index exchanges data with, if the user has declared them.
    pub neighbours: Option<Arc<[Vec<Neighbour>]>>,
}

/// An index that a task follows without being one of its tasks ([`TaskBuilder::near`](crate::TaskBuilder::near)).
///
/// ```
/// use thalweg::sched::Beside;
/// assert_eq!(Beside { space: 0, index: 2 }.index, 2);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Beside {
    /// The iteration space.
    pub space: u64,
    /// The index in it.
    pub index: usize,
}

/// Measurements of a task that has run.
///
/// ```
/// use thalweg::ids::{TaskId, UnitId};
/// use thalweg::sched::Sample;
/// let (task, unit) = (TaskId(7), UnitId(0));
/// let sample =
///     Sample { task, name: "axpy".into(), bytes: 8000, unit, elapsed_ns: 2000, ended_ns: 9000, energy_j: None, place: None };
/// assert_eq!(sample.bytes / sample.elapsed_ns, 4); // gigabytes per second
/// ```
#[derive(Debug, Clone)]
pub struct Sample {
    /// The task.
    pub task: TaskId,
    /// Its name.
    pub name: Cow<'static, str>,
    /// Total bytes of all its regions.
    pub bytes: u64,
    /// The unit it ran on.
    pub unit: UnitId,
    /// The time its body took.
    pub elapsed_ns: u64,
    /// When it ended, on the runtime's clock ([`Runtime::now`](crate::Runtime::now)).
    pub ended_ns: u64,
    /// The dynamic energy it consumed on that unit in joules, if the unit's power is known.
    pub energy_j: Option<f64>,
    /// Its place in an iteration space, if it is a recurring task.
    pub place: Option<Place>,
}

/// A unit, as seen by a policy.
///
/// ```
/// use thalweg::prelude::*;
/// use thalweg::sched::UnitView;
/// let gpu = UnitView { id: UnitId(1), kind: UnitKind::Gpu, spaces: vec![SpaceId(1)], in_flight: 0 };
/// assert!(gpu.kind.is_device());
/// ```
#[derive(Debug, Clone)]
pub struct UnitView {
    /// The unit.
    pub id: UnitId,
    /// Its kind.
    pub kind: UnitKind,
    /// The memories its tasks can work in.
    pub spaces: Vec<SpaceId>,
    /// Tasks given to it that have not finished.
    pub in_flight: usize,
}

/// Everything a policy may look at: the units, and where a ready task's data are.
///
/// ```
/// use thalweg::prelude::*;
/// use thalweg::sched::{UnitView, View};
/// let unit = |id, kind| UnitView { id: UnitId(id), kind, spaces: vec![SpaceId(id)], in_flight: 0 };
/// let units = [unit(0, UnitKind::Cpu), unit(1, UnitKind::Gpu)];
/// let view = View::new(&units, &|_, space| if space.is_host() { 0 } else { 4096 });
/// assert!(view.is_idle());
/// assert_eq!(view.missing_bytes(TaskId(7), SpaceId(1)), 4096);
/// assert_eq!(view.missing_at(TaskId(7), UnitId(0)), 0);
/// ```
pub struct View<'a> {
    /// All units, by id.
    pub units: &'a [UnitView],
    pub(crate) missing_bytes: &'a dyn Fn(TaskId, SpaceId) -> u64,
}

impl<'a> View<'a> {
    /// Creates a view to test a policy with, from the units by id and a function that returns the bytes of a task's
    /// data that a space lacks.
    pub fn new(units: &'a [UnitView], missing_bytes: &'a dyn Fn(TaskId, SpaceId) -> u64) -> Self {
        Self { units, missing_bytes }
    }

    /// Returns the bytes of a ready task's data that would have to be copied to `space`.
    pub fn missing_bytes(&self, task: TaskId, space: SpaceId) -> u64 {
        (self.missing_bytes)(task, space)
    }

    /// Returns [`missing_bytes`](Self::missing_bytes) for whichever of the unit's memories lacks least.
    pub fn missing_at(&self, task: TaskId, unit: UnitId) -> u64 {
        let spaces = self.units.get(unit.index()).map(|unit| unit.spaces.as_slice()).unwrap_or_default();
        spaces.iter().map(|space| self.missing_bytes(task, *space)).min().unwrap_or(0)
    }

    /// Returns whether no unit has anything to do.
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
    /// Creates a task for tests, with bodies for these units.
    pub(crate) fn of(id: u64, on: &[bool]) -> Self {
        Self::new(TaskId(id), "t", on)
    }
}
