//! `eft`: every ready task goes to the unit where it is expected to finish earliest, copies included.
//!
//! This policy follows StarPU's `dmda` (deque model, data aware) and `dmdas`, which also sorts a unit's queue by
//! priority (Augonnet et al. 2011). The idea comes from HEFT (Topcuoglu et al. 2002), but without ranks, because the
//! graph is not known in advance. A task's expected finish time is the sum of three terms: the larger of the unit's
//! backlog and the backlog of the link to its memory; the time to copy the missing bytes, estimated from the latest
//! copies to that memory; and the execution time, which is that of the unit's kind according to the [`Model`] times the
//! unit's factor (`paces.rs`).
//!
//! Unknown times are measured by trials. Until a unit kind has run a task of a given name, tasks of this name are
//! assumed to take no time there, for at most as many tasks as there are units of that kind. Further tasks are expected
//! to take as long as on other kinds.
//!
//! Once a device's factor changes, the tasks in queues are no longer where they would end earliest. So an idle unit
//! takes the last task of the queue that would end last, if the task was queued before the change and this unit ends it
//! earlier, copies included (`idle.rs`). A task queued after the change shows that the end of its queue was the best
//! place. The idle unit looks at one task, and at the backlog of each unit whose queue is not empty.
//!
//! Measurements:
//! - *tasks*, by name, unit kind and bytes, and each device's factor over all tasks. Times include slowdown by other
//!   programs or by cores that share a memory, because an estimate follows the latest times, however many units were
//!   busy then. But a unit is not charged for the slowdown that it causes to others by becoming busy;
//! - *copies*, by destination memory, without the time spent waiting for a busy link (`copies.rs`);
//! - *load*: for a unit, the sum of the estimates of its unfinished tasks by its kind's times, which the unit's present
//!   factor multiplies; for a link, the sum of the copy estimates of unfinished tasks, so that copies on a busy link
//!   wait for each other. The policy reads no clock, so a task and its copies count in full until the task ends.

use super::alike::Alike;
use super::copies::Copies;
use super::idle::Idle;
use super::kernels::UNKNOWN_NS;
use super::model::KINDS;
use super::paces::Paces;
use super::queues::Queues;
use super::{
    Affinity, AffinityStatistics, CopySample, Estimate, LinkEstimate, Model, Policy, ReadyTask, Sample, UnitSet,
    UnitView, View,
};
use crate::ids::{SpaceId, TaskId, UnitId};
use crate::machine::UnitKind;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::cmp::Reverse;

/// The `eft` policy; see the module documentation.
///
/// ```
/// use thalweg::prelude::*;
/// use thalweg::sched::{Eft, LinkEstimate, Model, Policy, ReadyTask, UnitView, View};
/// let units = [0, 1].map(|id| UnitView { id: UnitId(id), kind: UnitKind::Cpu, spaces: vec![SpaceId::HOST], in_flight: 0 });
/// let view = View::new(&units, &|_, _| 0);
/// let mut model = Model::default();
/// model.learn("axpy", UnitKind::Cpu, 0, 1000.0);
/// let mut policy = Eft::new(model, LinkEstimate::default());
/// policy.ready(ReadyTask::new(TaskId(0), "axpy", [true, true]), &view);
/// policy.ready(ReadyTask::new(TaskId(1), "axpy", [true, true]), &view);
/// assert_eq!(policy.next(UnitId(0), &view), Some(TaskId(0)));
/// assert_eq!(policy.next(UnitId(1), &view), Some(TaskId(1))); // it ends earlier there
/// ```
#[derive(Debug, Default)]
pub struct Eft {
    copies: Copies,
    model: Model,
    paces: Paces,
    queues: Queues,
    idle: Idle,
    /// Number of tasks queued so far, and at the latest change of a device's factor.
    queued: u64,
    queued_at_change: u64,
    /// The backlog of each unit.
    loads: Alike<Load>,
    /// For each memory, the copy time to it that unfinished tasks still account for.
    links_ns: Vec<f64>,
    /// Number of units of each kind.
    of_kind: Option<[usize; KINDS]>,
    /// What each unfinished task adds to the backlogs.
    expected: FxHashMap<TaskId, Expected>,
    /// Number of unfinished trials by task name and unit kind.
    trials: FxHashMap<(Cow<'static, str>, UnitKind), usize>,
    affinity: Affinity,
}

/// A unit's backlog by its kind's times, compared by time first (a non-negative `f64` as bits, which sort alike) and
/// then by task count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Load {
    backlog_bits: u64,
    tasks: usize,
}

impl Load {
    fn backlog_ns(self) -> f64 {
        f64::from_bits(self.backlog_bits)
    }

    fn add_ns(&mut self, ns: f64) {
        self.backlog_bits = (self.backlog_ns() + ns).max(0.0).to_bits();
    }
}

#[derive(Debug, Clone, Copy)]
struct Expected {
    unit: UnitId,
    kind: UnitKind,
    ns: f64,
    trial: bool,
    /// The body's time, and the time from ready to the end; NaN if another unit has taken the task.
    body_ns: f64,
    end_ns: f64,
    /// The copy's destination memory and time.
    copy: (SpaceId, f64),
    /// Number of tasks queued before this one.
    before: u64,
}

impl Eft {
    /// Creates the policy with known task times and a link speed that is assumed until copies are measured.
    pub fn new(model: Model, link: LinkEstimate) -> Self {
        Self { copies: Copies::new(link), model, ..Self::default() }
    }

    /// Returns the unit of an unfinished task, and what the task adds to the unit's backlog by the times of its kind.
    pub(super) fn load_of(&self, task: TaskId) -> Option<(UnitId, u64)> {
        self.expected.get(&task).map(|expected| (expected.unit, expected.ns as u64))
    }

    /// Changes the backlog of a unit by tasks of another policy, by the times of the unit's kind.
    pub(super) fn occupy(&mut self, unit: UnitId, ns: f64) {
        self.loads.change(unit, |load| load.add_ns(ns));
    }

    /// Adds a task to the backlogs.
    fn charge(&mut self, task: &ReadyTask, expected: Expected) {
        let Expected { unit, kind, ns, trial, copy: (space, copy_ns), .. } = expected;
        if trial {
            *self.trials.entry((task.name.clone(), kind)).or_default() += 1;
        }
        self.loads.change(unit, |load| {
            load.add_ns(ns);
            load.tasks += 1;
        });
        if copy_ns > 0.0 {
            if self.links_ns.len() <= space.index() {
                self.links_ns.resize(space.index() + 1, 0.0);
            }
            self.links_ns[space.index()] += copy_ns;
        }
        self.expected.insert(task.id, expected);
    }

    /// Removes a task from the backlogs.
    #[allow(clippy::ptr_arg, reason = "the name is cloned into a key, which is cheap for a static one")]
    fn forget(&mut self, task: TaskId, name: &Cow<'static, str>) -> Option<Expected> {
        let expected = self.expected.remove(&task)?;
        self.loads.change(expected.unit, |load| load.add_ns(-expected.ns));
        let (space, copy_ns) = expected.copy;
        if let Some(link_ns) = self.links_ns.get_mut(space.index()) {
            *link_ns = (*link_ns - copy_ns).max(0.0);
        }
        if expected.trial
            && let Some(trials) = self.trials.get_mut(&(name.clone(), expected.kind))
        {
            *trials -= 1;
        }
        Some(expected)
    }

    /// Returns what to expect of a task on a unit with this load.
    fn expect(
        &self,
        task: &ReadyTask,
        known: &[Option<f64>; KINDS],
        load: Load,
        unit: &UnitView,
        view: &View<'_>,
    ) -> Expected {
        let factor = self.paces.factor(unit.id.index());
        let (of_kind_ns, trial) = self.execution(task, known, unit.kind);
        let (backlog_ns, execution_ns) = (load.backlog_ns() * factor, of_kind_ns * factor);
        let spaces = unit.spaces.iter().map(|space| self.copy(*space, view.missing_bytes(task.id, *space)));
        let (copied_ns, copy) =
            spaces.min_by(|one, other| one.0.total_cmp(&other.0)).unwrap_or((0.0, (SpaceId::HOST, 0.0)));
        let (_, copy_ns) = copy;
        // Other tasks run while this one waits for the link.
        let end_ns = backlog_ns.max(copied_ns - copy_ns) + copy_ns + execution_ns;
        let (ns, body_ns) = ((end_ns - backlog_ns) / factor, execution_ns);
        Expected { unit: unit.id, kind: unit.kind, ns, trial, body_ns, end_ns, copy, before: self.queued }
    }

    /// Takes the first task of a unit's own queue.
    pub(super) fn first(&mut self, unit: UnitId, view: &View<'_>) -> Option<TaskId> {
        let task = self.queues.pop(unit)?;
        Some(self.give(&task, unit, view))
    }

    /// Takes, for an idle unit, the last task of the queue that would end last, if a device's factor has changed since
    /// and this unit ends the task earlier.
    pub(super) fn steal(&mut self, unit: UnitId, view: &View<'_>) -> Option<TaskId> {
        let thief = view.units.get(unit.index()).filter(|unit| !unit.spaces.is_empty())?; // it is not lost
        if self.queues.is_empty() || !self.idle.may_take(unit) {
            return None;
        }
        let end_ns = |unit: UnitId| self.loads.load(unit).backlog_ns() * self.paces.factor(unit.index());
        let queues = self.queues.filled().iter().map(|unit| (end_ns(unit), Reverse(unit)));
        let (last_ns, Reverse(victim)) =
            queues.max_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)))?;
        let task = self.queues.last(victim).filter(|task| task.runs_on(unit))?;
        let known = self.model.estimates_ns(&task.name, task.bytes);
        let expected = self.expect(task, &known, self.loads.load(unit), thief, view);
        let is_older = self.expected.get(&task.id).is_some_and(|of_it| of_it.before < self.queued_at_change);
        if !is_older || expected.trial || expected.end_ns >= last_ns {
            self.idle.rest(unit);
            return None;
        }
        let task = self.queues.pop_last(victim)?;
        self.forget(task.id, &task.name);
        self.loads.change(victim, |load| load.tasks -= 1);
        self.charge(&task, Expected { end_ns: f64::NAN, ..expected });
        Some(self.give(&task, unit, view))
    }

    /// Counts a task as given to a unit, which reports its number of tasks (`in_flight`) afterwards.
    fn give(&mut self, task: &ReadyTask, unit: UnitId, view: &View<'_>) -> TaskId {
        self.loads.change(unit, |load| load.tasks -= 1);
        if let Some(position) = &task.position {
            self.affinity.note(position, unit, || view.missing_at(task.id, unit));
        }
        task.id
    }

    /// Returns when a copy of this many bytes to a memory would end, after all copies already queued to that memory.
    /// Also returns the memory and the time of the copy alone.
    fn copy(&self, space: SpaceId, bytes: u64) -> (f64, (SpaceId, f64)) {
        let copy_ns = self.copies.copy_ns(space, bytes);
        let waits_ns = self.links_ns.get(space.index()).copied().filter(|_| copy_ns > 0.0).unwrap_or(0.0);
        (waits_ns + copy_ns, (space, copy_ns))
    }

    /// Returns the task's time on a unit kind, by the `known` times on each kind, and whether running it there would be
    /// a trial.
    fn execution(&self, task: &ReadyTask, known: &[Option<f64>; KINDS], kind: UnitKind) -> (f64, bool) {
        if let Some(ns) = known[kind as usize] {
            return (ns, false);
        }
        let units = self.of_kind.map_or(0, |of_kind| of_kind[kind as usize]);
        let trials = self.trials.get(&(task.name.clone(), kind)).copied().unwrap_or(0);
        if trials < units {
            return (0.0, true);
        }
        (known.iter().copied().flatten().min_by(f64::total_cmp).unwrap_or(UNKNOWN_NS), false)
    }
}

impl Policy for Eft {
    fn name(&self) -> &'static str {
        "eft"
    }

    fn ready(&mut self, task: ReadyTask, view: &View<'_>) {
        self.of_kind.get_or_insert_with(|| {
            let mut of_kind = [0; KINDS];
            for unit in view.units {
                of_kind[unit.kind as usize] += 1;
                self.paces.add(unit.kind);
                self.idle.add(unit);
            }
            of_kind
        });
        let least: SmallVec<[_; 4]> = self.loads.least(&task.units, view).collect();
        let known = self.model.estimates_ns(&task.name, task.bytes);
        let offers = least.into_iter().map(|(load, unit)| (load.tasks, self.expect(&task, &known, load, unit, view)));
        let best = offers.min_by(|(tasks, one), (other_tasks, other)| {
            one.end_ns.total_cmp(&other.end_ns).then((tasks, one.unit).cmp(&(other_tasks, other.unit)))
        });
        let Some((_, expected)) = best else { return };
        self.queued += 1;
        self.charge(&task, expected);
        self.queues.push(expected.unit, task);
    }

    fn next(&mut self, unit: UnitId, view: &View<'_>) -> Option<TaskId> {
        self.first(unit, view).or_else(|| self.steal(unit, view))
    }

    fn wanted(&self) -> Option<UnitSet> {
        let mut wanted = self.queues.filled().clone();
        if !self.queues.is_empty() {
            self.idle.extend(&mut wanted);
        }
        Some(wanted)
    }

    fn in_flight(&mut self, unit: UnitId, tasks: usize) {
        let queued = self.queues.len(unit);
        self.loads.change(unit, |load| load.tasks = queued + tasks);
        self.idle.in_flight(unit, tasks);
    }

    fn finished(&mut self, sample: &Sample) {
        let Some(Expected { kind, .. }) = self.forget(sample.task, &sample.name) else { return };
        let (unit, elapsed_ns) = (sample.unit.index(), sample.elapsed_ns as f64);
        if let Some(of_kind_ns) = self.model.mean_ns(&sample.name, kind, sample.bytes)
            && self.paces.learn(unit, elapsed_ns / of_kind_ns)
        {
            self.queued_at_change = self.queued;
            self.idle.wake();
        }
        self.model.learn(&sample.name, kind, sample.bytes, elapsed_ns / self.paces.factor(unit));
    }

    fn failed(&mut self, sample: &Sample) {
        self.forget(sample.task, &sample.name);
    }

    fn copied(&mut self, copy: &CopySample) {
        self.copies.learn_alone(copy);
    }

    fn affinity(&self) -> Option<AffinityStatistics> {
        Some(self.affinity.statistics())
    }

    fn model(&self) -> Option<&Model> {
        Some(&self.model)
    }

    fn estimate(&self, task: TaskId, _: UnitId) -> Estimate {
        let known = self.expected.get(&task).filter(|expected| !expected.trial);
        let (body_ns, end_ns) = (known.map(|known| known.body_ns), known.map(|known| known.end_ns));
        Estimate { body_ns, end_ns: end_ns.filter(|ns| ns.is_finite()), ..Estimate::unknown(self.name()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units() -> Vec<UnitView> {
        let unit = |id, kind, space| UnitView { id: UnitId(id), kind, spaces: vec![SpaceId(space)], in_flight: 0 };
        vec![unit(0, UnitKind::Cpu, 0), unit(1, UnitKind::Cpu, 0), unit(2, UnitKind::Emulated, 1)]
    }

    fn known(cpu_ns: f64, device_ns: f64) -> Eft {
        let mut model = Model::default();
        model.learn("t", UnitKind::Cpu, 0, cpu_ns);
        model.learn("t", UnitKind::Emulated, 0, device_ns);
        Eft::new(model, LinkEstimate { latency_ns: 100.0, bytes_per_s: 1e9 })
    }

    /// Returns the unit chosen for each task.
    fn placed(policy: &mut Eft, tasks: u64, missing: &dyn Fn(TaskId, SpaceId) -> u64) -> Vec<u16> {
        let units = units();
        let view = View { units: &units, missing_bytes: missing };
        (0..tasks).for_each(|id| policy.ready(ReadyTask::of(id, &[true; 3]), &view));
        (0..tasks).map(|id| policy.expected[&TaskId(id)].unit.0).collect()
    }

    fn finish(policy: &mut Eft, task: u64, unit: u16, elapsed_ns: u64) {
        policy.finished(&Sample::of(TaskId(task), UnitId(unit), elapsed_ns));
    }

    #[test]
    fn fast_unit_fills_up_until_a_slow_one_would_finish_earlier() {
        // A task takes 100 ns on the device, so the device gets three tasks before its 400 ns exceed a CPU unit's 350
        // ns.
        let order = placed(&mut known(350.0, 100.0), 9, &|_, _| 0);
        assert_eq!(order, [2, 2, 2, 0, 1, 2, 2, 2, 0]);
    }

    #[test]
    fn copy_times_count() {
        // Copying 1000 bytes to the device takes 100 ns + 1000 ns.
        let order = placed(&mut known(1000.0, 100.0), 3, &|_, space| if space.is_host() { 0 } else { 1000 });
        assert_eq!(order, [0, 1, 2], "1000 here, 1200 there; then 2000 here");
    }

    #[test]
    fn unknown_kind_is_tried_and_then_known() {
        let mut policy = Eft::default();
        assert_eq!(placed(&mut policy, 4, &|_, _| 0), [0, 1, 2, 0], "as many free trials as units of the kind");
        for (task, unit, ns) in [(0, 0, 500_000), (1, 1, 500_000), (2, 2, 1000), (3, 0, 500_000)] {
            finish(&mut policy, task, unit, ns);
        }
        assert!((0..3).all(|unit| policy.loads.load(UnitId(unit)).backlog_ns() == 0.0));
        assert_eq!(placed(&mut policy, 5, &|_, _| 0), [2; 5]);
        assert_eq!(policy.model().unwrap().estimate_ns("t", UnitKind::Emulated, 0), Some(1000.0));
    }

    #[test]
    fn device_that_slows_down_gets_fewer_tasks() {
        let unit = |id| UnitView { id: UnitId(id), kind: UnitKind::Gpu, spaces: vec![SpaceId(1 + id)], in_flight: 0 };
        let units = [unit(0), unit(1)];
        let view = View { units: &units, missing_bytes: &|_, _| 0 };
        let mut policy = Eft::default();
        let mut on_slow = Vec::new();
        for round in 0..24 {
            let tasks = 10 * round..10 * round + 10;
            tasks.clone().for_each(|id| policy.ready(ReadyTask::of(id, &[true; 2]), &view));
            let order: Vec<u16> = tasks.clone().map(|id| policy.expected[&TaskId(id)].unit.0).collect();
            on_slow.push(order.iter().filter(|unit| **unit == 0).count());
            for (task, unit) in tasks.zip(order) {
                finish(&mut policy, task, unit, if round >= 8 && unit == 0 { 4000 } else { 1000 });
            }
        }
        assert_eq!([on_slow[7], on_slow[23]], [5, 2], "{on_slow:?}");
        let kind_ns = policy.model.estimate_ns("t", UnitKind::Gpu, 0).unwrap();
        assert!(kind_ns < 1250.0, "the other device is as fast as before: {kind_ns}");
    }

    #[test]
    fn idle_device_takes_tasks_queued_before_another_slowed_down() {
        let unit = |id| UnitView { id: UnitId(id), kind: UnitKind::Gpu, spaces: vec![SpaceId(1 + id)], in_flight: 0 };
        let units = [unit(0), unit(1)];
        let view = |missing| View { units: &units, missing_bytes: missing };
        let here = view(&|_, _| 0);
        let mut model = Model::default();
        model.learn("t", UnitKind::Gpu, 0, 1000.0);
        let mut policy = Eft::new(model, LinkEstimate { latency_ns: 0.0, bytes_per_s: 1e9 });
        (0..10).for_each(|id| policy.ready(ReadyTask::of(id, &[true; 2]), &here));
        let run = |policy: &mut Eft, unit, elapsed_ns| {
            let task = policy.next(UnitId(unit), &here).unwrap();
            finish(policy, task.0, unit, elapsed_ns);
        };
        (0..5).for_each(|_| run(&mut policy, 1, 1000));
        assert_eq!(policy.next(UnitId(1), &here), None, "unit 0 is as fast as expected");
        assert!(policy.wanted().is_some_and(|wanted| !wanted.contains(UnitId(1))));
        run(&mut policy, 0, 4000);
        assert!(policy.wanted().is_some_and(|wanted| wanted.contains(UnitId(1))));
        assert_eq!(policy.next(UnitId(1), &view(&|_, _| 9000)), None, "the copy takes 9000");
        run(&mut policy, 0, 4000);
        assert_eq!(policy.next(UnitId(1), &here), Some(TaskId(8)));
        let tasks = |policy: &Eft| [0, 1].map(|unit| policy.loads.load(UnitId(unit)).tasks);
        policy.in_flight(UnitId(1), 1);
        assert_eq!((tasks(&policy), policy.loads.load(UnitId(0)).backlog_ns() < 2500.0), ([2, 1], true));
        assert_eq!(policy.next(UnitId(1), &here), None, "it is busy");
        assert_eq!(policy.estimate(TaskId(8), UnitId(1)).end_ns, None, "it was to end on unit 0");
        finish(&mut policy, 8, 1, 1000);
        policy.in_flight(UnitId(1), 0);
        assert_eq!(policy.loads.load(UnitId(1)).backlog_ns(), 0.0);
        policy.occupy(UnitId(1), 1e6);
        policy.ready(ReadyTask::of(10, &[true; 2]), &here);
        policy.occupy(UnitId(1), -1e6);
        assert_eq!(policy.expected[&TaskId(10)].unit, UnitId(0));
        assert_eq!(policy.next(UnitId(1), &here), None, "task 10 was queued after the change");
    }

    #[test]
    fn queue_of_a_unit_is_sorted_by_priority() {
        let mut policy = known(1e9, 1.0);
        let units = units();
        let view = View { units: &units, missing_bytes: &|_, _| 0 };
        for (id, priority) in [(0, 0), (1, 3), (2, 0), (3, 3)] {
            policy.ready(ReadyTask { priority, ..ReadyTask::of(id, &[true; 3]) }, &view);
        }
        let order: Vec<_> = std::iter::from_fn(|| policy.next(UnitId(2), &view)).map(|task| task.0).collect();
        assert_eq!(order, [1, 3, 0, 2]);
        assert_eq!(policy.next(UnitId(0), &view), None, "no stealing: the others would finish later");
    }
}
