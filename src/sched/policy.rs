//! The interface of policies, and its contract.

use super::clustered::State;
use super::{AffinityStatistics, CopySample, LowerBound, Model, ReadyTask, Sample, SubmittedTask, UnitSet, View, fpm};
use crate::ids::{TaskId, UnitId};

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
/// [`check`](super::check) tests the first two rules on many programs, without a runtime.
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

    /// Returns the policy that has just given `task` to `unit`, and what it expects of the task. Called only while a
    /// trace is recorded, directly after [`next`](Self::next) has returned the task.
    fn estimate(&self, _task: TaskId, _unit: UnitId) -> Estimate {
        Estimate::unknown(self.name())
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

/// What a policy expects of a task that it has given to a unit, for traces.
///
/// ```
/// use thalweg::sched::Estimate;
/// let estimate = Estimate { body_ns: Some(1500.0), ..Estimate::unknown("largest-first") };
/// assert_eq!(estimate.end_ns, None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The name of the policy that has chosen the unit. For a policy that lets others decide, this is the other one.
    pub policy: &'static str,
    /// The expected duration of the task's body, in nanoseconds.
    pub body_ns: Option<f64>,
    /// The expected time from when the task was ready to the end of its body, in nanoseconds.
    pub end_ns: Option<f64>,
}

impl Estimate {
    /// Returns that the policy of this name expects nothing in particular.
    pub fn unknown(policy: &'static str) -> Self {
        Self { policy, body_ns: None, end_ns: None }
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
