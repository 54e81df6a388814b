//! `auto`: the policy that would be fastest for this program on this machine.
//!
//! It begins with `bottom-level`, which tries tasks on all kinds of unit, and records the program: tasks with their
//! predecessors, regions and times, the load of units meanwhile ([`load`]), and the times of copies. When it knows
//! enough, it simulates the program under each candidate by those times ([`simulate`]) and continues with the best.
//! It repeats this whenever the number of tasks has quadrupled, a few times in all. Distributions that search do so
//! in advance, by the same times ([`rehearsed`]).
//!
//! Simulations err. So for a program in time steps, `auto` measures the steps under the policy in charge, tries for
//! some steps each other policy that promises to be about as fast or faster, and ends with the one that was fastest
//! ([`watch`]). It reports the policy it took, the expected times and the measured times ([`Choice`]). All its
//! knowledge of a machine is measured, also on simulated machines.
//!
//! Choosing among algorithms by their expected performance is Rice's problem (1976). For loops, earlier work has
//! chosen schedulers by simulation during the run (SimAS: Mohammed & Ciorba 2020).
//!
//! A policy changes between two calls: the new one is notified of all tasks that have not ended, and takes charge of
//! those that are ready. It gets tasks of instances that have already begun without their places, since it would see,
//! and measure, those instances only in part.

mod load;
mod record;
mod rehearsed;
mod simulate;
mod watch;

use super::any_distribution::distributed;
use super::copies::Copies;
use super::kernels::Kernels;
use super::{
    Affinity, AffinityStatistics, BottomLevel, Certified, ClusteredGuided, CopySample, Decision, Dynamic, Eft,
    Estimate, LinkEstimate, LowerBound, Model, Policy, ReadyTask, Sample, Stealing, SubmittedTask, View,
};
use crate::ids::{TaskId, UnitId};
use crate::machine::UnitKind;
use load::Load;
use record::{Job, Program, Record};
use rehearsed::{IndexTimes, Rehearsed};
use std::collections::BTreeMap;
use std::fmt;
use watch::Watch;

/// Number of finished tasks before the first choice: per unit, and in all.
const FIRST: (usize, usize) = (4, 64);
/// Factor by which that number grows until the next choice.
const AGAIN: usize = 4;
/// Maximum number of such choices.
const CHOICES: usize = 5;
/// The present policy stays unless another is expected to be faster by more than this fraction.
const ALIKE: f64 = 0.05;

/// The policy that `auto` took, and why.
///
/// ```
/// use thalweg::sched::Choice;
/// let expected_ns = vec![("bottom-level", 2_000_000), ("eft", 1_500_000)];
/// let choice = Choice { taken: "eft", expected_ns, measured_ns: vec![("eft", 1_600_000)] };
/// assert_eq!(choice.to_string(), "eft taken: 1.600 ms measured; bottom-level 2.000 ms expected");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The scheduler's name.
    pub taken: &'static str,
    /// Expected time of a time step, or of the graph so far, under each candidate, in nanoseconds.
    pub expected_ns: Vec<(&'static str, u64)>,
    /// Measured time of a time step under each policy that was tried, in nanoseconds.
    pub measured_ns: Vec<(&'static str, u64)>,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = |name: &str| {
            let of = |known: &[(&'static str, u64)]| known.iter().find(|(other, _)| *other == name).map(|(_, ns)| *ns);
            let (measured, expected) = (of(&self.measured_ns), of(&self.expected_ns));
            let ms = |ns: u64, how: &str| format!("{:.3} ms {how}", ns as f64 / 1e6);
            measured.map(|ns| ms(ns, "measured")).or_else(|| expected.map(|ns| ms(ns, "expected"))).unwrap_or_default()
        };
        write!(f, "{} taken: {}", self.taken, known(self.taken))?;
        let others = self.expected_ns.iter().filter(|(name, _)| *name != self.taken);
        for (n, (name, _)) in others.enumerate() {
            write!(f, "{} {name} {}", if n == 0 { ";" } else { "," }, known(name))?;
        }
        Ok(())
    }
}

/// A scheduler to choose from.
type Candidate = (&'static str, fn(&Setting<'_>) -> Box<dyn Policy>);

/// Knowledge from which candidates are built.
struct Setting<'a> {
    units: usize,
    model: &'a Model,
    copies: &'a Copies,
    kernels: &'a Kernels,
    index_ns: Option<IndexTimes>,
}

const BEGINS_WITH: Candidate = ("bottom-level", |with| {
    Box::new(BottomLevel::knowing(with.model.clone(), with.copies.clone(), with.kernels.clone()))
});

const CANDIDATES: [Candidate; 6] = [
    BEGINS_WITH,
    ("eft", |with| Box::new(Eft::knowing(with.model.clone(), with.copies.clone()))),
    ("stealing", |with| Box::new(Stealing::new(with.units))),
    ("dynamic", |_| Box::new(Dynamic::new(Dynamic::CHUNK, Dynamic::MEMO, 0))),
    ("certified", |with| distributed(Rehearsed::new(Certified::default(), with.index_ns.as_ref()), None)),
    ("clustered-guided", |with| distributed(Rehearsed::new(ClusteredGuided::default(), with.index_ns.as_ref()), None)),
];

/// The `auto` policy; see the module documentation.
///
/// ```
/// use thalweg::prelude::*;
/// use thalweg::sched::{Auto, LinkEstimate, Model, Policy, ReadyTask, UnitView, View};
/// let units = [UnitView { id: UnitId(0), kind: UnitKind::Cpu, spaces: vec![SpaceId::HOST], in_flight: 0 }];
/// let view = View::new(&units, &|_, _| 0);
/// let mut policy = Auto::new(1, Model::default(), LinkEstimate::default());
/// policy.ready(ReadyTask::new(TaskId(0), "t", [true]), &view);
/// assert_eq!(policy.next(UnitId(0), &view), Some(TaskId(0)));
/// assert_eq!(policy.choice(), None); // too few tasks to choose by
/// ```
pub struct Auto {
    units: usize,
    policy: Box<dyn Policy>,
    name: &'static str,
    model: Model,
    copies: Copies,
    record: Record,
    /// The ready tasks that the policy is in charge of.
    charge: BTreeMap<TaskId, ReadyTask>,
    in_flight: Vec<usize>,
    load: Load,
    watch: Watch,
    /// Whether the policy in charge has been watched long enough since the last choice.
    is_judged: bool,
    finished: usize,
    next_choice: usize,
    choices: usize,
    /// Whether a choice has been made based on a recurring instance.
    recurs: bool,
    choice: Option<Choice>,
    affinity: Affinity,
    /// Whether the decisions of work distributions are collected.
    collects: bool,
    /// The latest known instance of each space.
    latest: BTreeMap<u64, u64>,
    /// Tasks up to these instances are passed to the present policy without their position.
    without_place: BTreeMap<u64, u64>,
}

impl fmt::Debug for Auto {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Auto").field("policy", &self.name).field("choice", &self.choice).finish_non_exhaustive()
    }
}

impl Auto {
    /// Creates the policy for this many units, with prior knowledge and the link speed assumed until copies are
    /// measured.
    pub fn new(units: usize, model: Model, link: LinkEstimate) -> Self {
        let ((name, begins_with), copies) = (BEGINS_WITH, Copies::new(link));
        Self {
            units,
            policy: begins_with(&Setting {
                units,
                model: &model,
                copies: &copies,
                kernels: &Kernels::default(),
                index_ns: None,
            }),
            name,
            model,
            copies,
            record: Record::default(),
            charge: BTreeMap::new(),
            in_flight: vec![0; units],
            load: Load::default(),
            watch: Watch::default(),
            is_judged: false,
            finished: 0,
            next_choice: FIRST.1.max(FIRST.0 * units),
            choices: 0,
            recurs: false,
            choice: None,
            affinity: Affinity::new(),
            collects: false,
            latest: BTreeMap::new(),
            without_place: BTreeMap::new(),
        }
    }

    /// Makes a choice if one is due: when an instance first recurs, when the policy in charge has been watched long
    /// enough, and at intervals.
    fn choose(&mut self, view: &View<'_>) {
        self.load.units(view.units.iter().map(|unit| unit.kind));
        let recurs = self.latest.values().any(|instance| *instance >= 2);
        let begins_to_recur = recurs && !std::mem::replace(&mut self.recurs, recurs);
        let is_judged = std::mem::take(&mut self.is_judged);
        let is_due = self.finished >= self.next_choice && self.choices < CHOICES;
        if is_due {
            self.next_choice *= AGAIN;
            self.choices += 1;
        }
        if is_judged && self.watch.is_experienced() {
            return self.go_on(view);
        }
        if !(begins_to_recur || is_judged || is_due) {
            return;
        }
        let Some(program) = self.record.program() else { return };
        // While policies are watched, and afterwards, there is nothing to choose unless the program has changed.
        if !is_judged && !self.watch.recurs(program.per_instance()) && recurs {
            return;
        }
        let index_ns = self.index_ns(&program);
        let kernels = self.record.kernels().clone();
        let with = self.setting(&kernels, index_ns.clone());
        let mut expected = Vec::new();
        for (name, candidate) in &CANDIDATES {
            let times = (&kernels, &self.load);
            let ns = simulate::run(&program, &mut *candidate(&with), view.units, times, &self.copies);
            expected.extend(ns.map(|ns| (*name, ns)));
        }
        let of = |name: &str| expected.iter().find(|(other, _)| *other == name).map_or(f64::INFINITY, |(_, ns)| *ns);
        let best = expected.iter().min_by(|one, other| one.1.total_cmp(&other.1));
        let Some(&(best, best_ns)) = best else { return };
        let by_simulation = if best_ns < of(self.name) * (1.0 - ALIKE) { best } else { self.name };
        let taken = self.watch.next(&expected, self.name).unwrap_or(by_simulation);
        let expected_ns = expected.iter().map(|(name, ns)| (*name, *ns as u64)).collect();
        self.choice = Some(Choice { taken, expected_ns, measured_ns: self.watch.seen_ns() });
        if taken != self.name {
            self.change_to(taken, index_ns, view);
        }
    }

    /// Continues with the policy that promises most by the latest simulation, or that was fastest.
    fn go_on(&mut self, view: &View<'_>) {
        let Some(choice) = &mut self.choice else { return };
        let expected: Vec<_> = choice.expected_ns.iter().map(|(name, ns)| (*name, *ns as f64)).collect();
        choice.taken = self.watch.next(&expected, self.name).unwrap_or(self.name);
        choice.measured_ns = self.watch.seen_ns();
        let taken = choice.taken;
        if taken != self.name {
            let index_ns = self.record.program().and_then(|program| self.index_ns(&program));
            self.change_to(taken, index_ns, view);
        }
    }

    /// Returns the present knowledge from which candidates are built.
    fn setting<'a>(&'a self, kernels: &'a Kernels, index_ns: Option<IndexTimes>) -> Setting<'a> {
        Setting { units: self.units, model: &self.model, copies: &self.copies, kernels, index_ns }
    }

    /// Returns the time of every index on a CPU unit and on the fastest kind of device.
    fn index_ns(&mut self, program: &Program) -> Option<IndexTimes> {
        let kernels = self.record.kernels();
        let takes_ns = |job: &Job| {
            let (kernel, work) = job.kernel;
            [false, true].map(|is_device| {
                let kinds = UnitKind::ALL.into_iter().filter(|kind| kind.is_device() == is_device);
                let known = kinds.filter_map(|kind| self.load.full_ns(kernel, kind, work));
                known.min_by(f64::total_cmp).unwrap_or_else(|| kernels.least_ns(kernel, work))
            })
        };
        program.index_ns(takes_ns).map(Into::into)
    }

    /// Puts another policy in charge.
    fn change_to(&mut self, name: &str, index_ns: Option<IndexTimes>, view: &View<'_>) {
        let Some((name, candidate)) = CANDIDATES.iter().find(|(other, _)| *other == name) else { return };
        let kernels = self.record.kernels().clone();
        self.policy = candidate(&self.setting(&kernels, index_ns));
        if self.collects {
            self.policy.collect_decisions();
        }
        self.name = name;
        self.watch.begin();
        self.hand_over(view);
    }

    /// Gives a new policy charge of all ready tasks.
    fn hand_over(&mut self, view: &View<'_>) {
        self.without_place.clone_from(&self.latest);
        if self.policy.looks_ahead() {
            self.record.tell(|task| self.policy.submitted(task));
        }
        (0..self.in_flight.len()).for_each(|unit| self.policy.in_flight(UnitId(unit as u16), self.in_flight[unit]));
        for task in self.charge.values() {
            self.policy.ready(self.shown(task.clone()), view);
        }
    }

    /// Returns a task as the present policy should see it.
    fn shown(&self, mut task: ReadyTask) -> ReadyTask {
        let begun = |space: u64| self.without_place.get(&space);
        if task
            .position
            .as_ref()
            .is_some_and(|position| begun(position.space).is_some_and(|begun| position.instance <= *begun))
        {
            task.position = None;
        }
        task
    }

    fn shown_sample(&self, sample: &Sample) -> Sample {
        let mut sample = sample.clone();
        let begun = |space: u64| self.without_place.get(&space);
        if sample
            .position
            .as_ref()
            .is_some_and(|position| begun(position.space).is_some_and(|begun| position.instance <= *begun))
        {
            sample.position = None;
        }
        sample
    }
}

impl Policy for Auto {
    fn name(&self) -> &'static str {
        "auto"
    }

    fn looks_ahead(&self) -> bool {
        true
    }

    fn submitted(&mut self, task: &SubmittedTask<'_>) {
        self.record.submitted(task, &self.model);
        if self.policy.looks_ahead() {
            self.policy.submitted(task);
        }
    }

    fn skipped(&mut self, task: TaskId) {
        self.record.ended(task);
        self.policy.skipped(task);
    }

    fn ready(&mut self, task: ReadyTask, view: &View<'_>) {
        self.choose(view);
        self.record.ready(&task);
        if let Some(position) = &task.position {
            let latest = self.latest.entry(position.space).or_default();
            *latest = (*latest).max(position.instance);
        }
        self.charge.insert(task.id, task.clone());
        let task = self.shown(task);
        self.policy.ready(task, view);
    }

    fn next(&mut self, unit: UnitId, view: &View<'_>) -> Option<TaskId> {
        self.choose(view);
        let task = self.policy.next(unit, view)?;
        if let Some(position) = self.charge.remove(&task).and_then(|task| task.position) {
            self.affinity.note(&position, unit, || view.missing_at(task, unit));
        }
        Some(task)
    }

    fn in_flight(&mut self, unit: UnitId, tasks: usize) {
        if let Some(known) = self.in_flight.get_mut(unit.index()) {
            *known = tasks;
        }
        self.load.in_flight(unit, tasks);
        self.policy.in_flight(unit, tasks);
    }

    fn finished(&mut self, sample: &Sample) {
        self.finished += 1;
        let (elapsed_ns, work) = (sample.elapsed_ns as f64, self.record.ended(sample.task));
        if let Some(kind) = self.load.kind(sample.unit) {
            self.model.learn(&sample.name, kind, sample.bytes, elapsed_ns);
            if let Some((kernel, work)) = work {
                self.record.kernels().learn(kernel, kind, work, elapsed_ns);
            }
        }
        self.is_judged |= self.watch.ended(sample, self.name, self.record.is_at_rest());
        if let Some(work) = work {
            self.load.ended(sample.unit, self.watch.now_ns(), elapsed_ns, work);
        }
        let sample = self.shown_sample(sample);
        self.policy.finished(&sample);
    }

    fn failed(&mut self, sample: &Sample) {
        self.record.ended(sample.task);
        let sample = self.shown_sample(sample);
        self.policy.failed(&sample);
    }

    fn copied(&mut self, copy: &CopySample) {
        self.copies.learn_alone(copy);
        self.policy.copied(copy);
    }

    fn data_moved(&mut self) {
        self.policy.data_moved();
    }

    fn affinity(&self) -> Option<AffinityStatistics> {
        Some(self.affinity.statistics())
    }

    fn bound(&self) -> Option<LowerBound> {
        self.policy.bound()
    }

    fn collect_decisions(&mut self) {
        self.collects = true;
        self.policy.collect_decisions();
    }

    fn take_decisions(&mut self) -> Vec<Decision> {
        self.policy.take_decisions()
    }

    fn estimate(&self, task: TaskId, unit: UnitId) -> Estimate {
        self.policy.estimate(task, unit)
    }

    fn model(&self) -> Option<&Model> {
        Some(&self.model)
    }

    fn choice(&self) -> Option<&Choice> {
        self.choice.as_ref()
    }
}

#[cfg(test)]
mod tests;
