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
    /// The body's time, and the time until the task ends.
    body_ns: f64,
    end_ns: f64,
    /// The copy's destination memory and time.
    copy: (SpaceId, f64),
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

    /// Removes an ended task from the backlogs.
    fn forget(&mut self, sample: &Sample) -> Option<Expected> {
        let expected = self.expected.remove(&sample.task)?;
        self.loads.change(expected.unit, |load| load.add_ns(-expected.ns));
        let (space, copy_ns) = expected.copy;
        if let Some(link_ns) = self.links_ns.get_mut(space.index()) {
            *link_ns = (*link_ns - copy_ns).max(0.0);
        }
        if expected.trial
            && let Some(trials) = self.trials.get_mut(&(sample.name.clone(), expected.kind))
        {
            *trials -= 1;
        }
        Some(expected)
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
            view.units.iter().for_each(|unit| of_kind[unit.kind as usize] += 1);
            view.units.iter().for_each(|unit| self.paces.add(unit.kind));
            of_kind
        });
        let least: SmallVec<[_; 4]> = self.loads.least(&task.units, view).collect();
        let known = self.model.estimates_ns(&task.name, task.bytes);
        let finish = |(load, unit): (Load, &UnitView)| {
            let factor = self.paces.factor(unit.id.index());
            let (of_kind_ns, trial) = self.execution(&task, &known, unit.kind);
            let (backlog_ns, execution_ns) = (load.backlog_ns() * factor, of_kind_ns * factor);
            let spaces = unit.spaces.iter().map(|space| self.copy(*space, view.missing_bytes(task.id, *space)));
            let (copied_ns, copy) =
                spaces.min_by(|one, other| one.0.total_cmp(&other.0)).unwrap_or((0.0, (SpaceId::HOST, 0.0)));
            let (_, copy_ns) = copy;
            // Other tasks run while this one waits for the link.
            let finish_ns = backlog_ns.max(copied_ns - copy_ns) + copy_ns + execution_ns;
            let (ns, body_ns, end_ns) = ((finish_ns - backlog_ns) / factor, execution_ns, finish_ns);
            let expected = Expected { unit: unit.id, kind: unit.kind, ns, trial, body_ns, end_ns, copy };
            (finish_ns, load.tasks, expected)
        };
        let best = least.into_iter().map(finish);
        let best =
            best.min_by(|one, other| one.0.total_cmp(&other.0).then((one.1, one.2.unit).cmp(&(other.1, other.2.unit))));
        let Some((_, _, expected)) = best else { return };
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
        self.queues.push(unit, task);
    }

    fn next(&mut self, unit: UnitId, view: &View<'_>) -> Option<TaskId> {
        let task = self.queues.pop(unit)?;
        self.loads.change(unit, |load| load.tasks -= 1);
        if let Some(position) = &task.position {
            self.affinity.note(position, unit, || view.missing_at(task.id, unit));
        }
        Some(task.id)
    }

    fn wanted(&self) -> Option<UnitSet> {
        Some(self.queues.filled().clone())
    }

    fn in_flight(&mut self, unit: UnitId, tasks: usize) {
        let queued = self.queues.len(unit);
        self.loads.change(unit, |load| load.tasks = queued + tasks);
    }

    fn finished(&mut self, sample: &Sample) {
        let Some(Expected { kind, .. }) = self.forget(sample) else { return };
        let (unit, elapsed_ns) = (sample.unit.index(), sample.elapsed_ns as f64);
        if let Some(of_kind_ns) = self.model.mean_ns(&sample.name, kind, sample.bytes) {
            self.paces.learn(unit, elapsed_ns / of_kind_ns);
        }
        self.model.learn(&sample.name, kind, sample.bytes, elapsed_ns / self.paces.factor(unit));
    }

    fn failed(&mut self, sample: &Sample) {
        self.forget(sample);
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
        Estimate { body_ns, end_ns, ..Estimate::unknown(self.name()) }
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
