//! `auto`: whichever of the others would be fastest for this program on this machine.
//!
//! It begins with `bottom-level`, which tries tasks on all kinds of unit, and records the program: tasks, what they come
//! after, the regions they work on, their times, those of copies. When it knows enough it runs that program under each
//! candidate, in a simulation by those times ([`simulate`]), and goes on with the best; again when there have been four times
//! as many tasks, a few times in all. What it took and what it expected of the others, it says ([`Choice`]).
//!
//! To choose among algorithms by what they are expected to do is Rice's problem (1976). Of loops, schedulers have been chosen by
//! simulation during the run before (SimAS: Mohammed & Ciorba 2020).
//!
//! A change of policy happens between two calls: the new one is told of all tasks that have not ended, and gets charge of those
//! that are ready. Tasks of instances that have begun by then it gets without their places: it would see them in part, and
//! measure them so.

mod record;
mod simulate;

use super::any_distribution::distributed;
use super::copies::Copies;
use super::kernels::Kernels;
use super::{
    AffinityStatistics, BottomLevel, Certified, ClusteredGuided, CopySample, Dynamic, Eft, LinkEstimate, LowerBound,
    Model, Policy, ReadyTask, Sample, Stealing, SubmittedTask, View,
};
use crate::ids::{TaskId, UnitId};
use crate::machine::UnitKind;
use record::Record;
use std::collections::BTreeMap;
use std::fmt;

/// When the first choice is made, in tasks that have run, for each unit and in all.
const FIRST: (usize, usize) = (4, 64);
/// The next one after so many times as many.
const AGAIN: usize = 4;
/// So often.
const CHOICES: usize = 5;
/// The present policy stays if no other is expected to be faster by more than this part.
const ALIKE: f64 = 0.05;

/// What `auto` took, and why.
///
/// ```
/// use thalweg::sched::Choice;
/// let choice = Choice { taken: "eft", expected_ns: vec![("bottom-level", 2_000_000), ("eft", 1_500_000)] };
/// assert_eq!(choice.to_string(), "eft taken: 1.500 ms expected; bottom-level 2.000 ms");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The scheduler's name.
    pub taken: &'static str,
    /// What a time step, or the graph so far, was expected to take under each candidate, in nanoseconds.
    pub expected_ns: Vec<(&'static str, u64)>,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |ns: u64| ns as f64 / 1e6;
        write!(f, "{} taken", self.taken)?;
        if let Some((_, ns)) = self.expected_ns.iter().find(|(name, _)| *name == self.taken) {
            write!(f, ": {:.3} ms expected", ms(*ns))?;
        }
        let others = self.expected_ns.iter().filter(|(name, _)| *name != self.taken);
        for (n, (name, ns)) in others.enumerate() {
            write!(f, "{} {name} {:.3} ms", if n == 0 { ";" } else { "," }, ms(*ns))?;
        }
        Ok(())
    }
}

/// A scheduler to choose from.
type Candidate = (&'static str, fn(&Setting<'_>) -> Box<dyn Policy>);

/// What candidates are made of.
struct Setting<'a> {
    units: usize,
    model: &'a Model,
    copies: &'a Copies,
    kernels: &'a Kernels,
}

const BEGINS_WITH: Candidate = ("bottom-level", |with| {
    Box::new(BottomLevel::knowing(with.model.clone(), with.copies.clone(), with.kernels.clone()))
});

const CANDIDATES: [Candidate; 6] = [
    BEGINS_WITH,
    ("eft", |with| Box::new(Eft::knowing(with.model.clone(), with.copies.clone()))),
    ("stealing", |with| Box::new(Stealing::new(with.units))),
    ("dynamic", |_| Box::new(Dynamic::new(Dynamic::CHUNK, Dynamic::MEMO, 0))),
    ("certified", |_| distributed(Certified::default(), None)),
    ("clustered-guided", |_| distributed(ClusteredGuided::default(), None)),
];

/// See the module.
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
    /// What the policy has charge of.
    charge: BTreeMap<TaskId, ReadyTask>,
    in_flight: Vec<usize>,
    /// Of each unit, since the first task was ready.
    kinds: Vec<UnitKind>,
    finished: usize,
    next_choice: usize,
    choices: usize,
    choice: Option<Choice>,
    /// The latest instance of each space that anything is known of.
    latest: BTreeMap<u32, u64>,
    /// Tasks up to these instances have no place for the present policy.
    without_place: BTreeMap<u32, u64>,
}

impl fmt::Debug for Auto {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Auto").field("policy", &self.name).field("choice", &self.choice).finish_non_exhaustive()
    }
}

impl Auto {
    /// For this many units, with what is known already, and how fast links are taken to be until copies are measured.
    pub fn new(units: usize, model: Model, link: LinkEstimate) -> Self {
        let ((name, begins_with), copies) = (BEGINS_WITH, Copies::new(link));
        Self {
            units,
            policy: begins_with(&Setting { units, model: &model, copies: &copies, kernels: &Kernels::default() }),
            name,
            model,
            copies,
            record: Record::default(),
            charge: BTreeMap::new(),
            in_flight: vec![0; units],
            kinds: Vec::new(),
            finished: 0,
            next_choice: FIRST.1.max(FIRST.0 * units),
            choices: 0,
            choice: None,
            latest: BTreeMap::new(),
            without_place: BTreeMap::new(),
        }
    }

    /// Chooses, if it is time to.
    fn choose(&mut self, view: &View<'_>) {
        if self.finished < self.next_choice || self.choices == CHOICES {
            return;
        }
        self.next_choice *= AGAIN;
        self.choices += 1;
        let Some(program) = self.record.program() else { return };
        let kernels = self.record.kernels().clone();
        let with = Setting { units: self.units, model: &self.model, copies: &self.copies, kernels: &kernels };
        let mut expected = Vec::new();
        for (name, candidate) in &CANDIDATES {
            let ns = simulate::run(&program, &mut *candidate(&with), view.units, &kernels, &self.copies);
            expected.extend(ns.map(|ns| (*name, ns)));
        }
        let of = |name: &str| expected.iter().find(|(other, _)| *other == name).map_or(f64::INFINITY, |(_, ns)| *ns);
        let best = expected.iter().min_by(|one, other| one.1.total_cmp(&other.1));
        let Some(&(best, best_ns)) = best else { return };
        let taken = if best_ns < of(self.name) * (1.0 - ALIKE) { best } else { self.name };
        let expected_ns = expected.iter().map(|(name, ns)| (*name, *ns as u64)).collect();
        self.choice = Some(Choice { taken, expected_ns });
        if taken != self.name
            && let Some((name, candidate)) = CANDIDATES.iter().find(|(name, _)| *name == taken)
        {
            self.policy = candidate(&with);
            self.name = name;
            self.hand_over(view);
        }
    }

    /// Gives a new policy charge of all that is ready.
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

    /// A task as the present policy sees it.
    fn shown(&self, mut task: ReadyTask) -> ReadyTask {
        let begun = |space: u32| self.without_place.get(&space);
        if task.place.as_ref().is_some_and(|place| begun(place.space).is_some_and(|begun| place.instance <= *begun)) {
            task.place = None;
        }
        task
    }

    fn shown_sample(&self, sample: &Sample) -> Sample {
        let mut sample = sample.clone();
        let begun = |space: u32| self.without_place.get(&space);
        if sample.place.as_ref().is_some_and(|place| begun(place.space).is_some_and(|begun| place.instance <= *begun)) {
            sample.place = None;
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
        let known = self.kinds.len();
        self.kinds.extend(view.units.iter().skip(known).map(|unit| unit.kind));
        self.record.ready(&task);
        if let Some(place) = &task.place {
            let latest = self.latest.entry(place.space).or_default();
            *latest = (*latest).max(place.instance);
        }
        self.charge.insert(task.id, task.clone());
        let task = self.shown(task);
        self.policy.ready(task, view);
    }

    fn next(&mut self, unit: UnitId, view: &View<'_>) -> Option<TaskId> {
        self.choose(view);
        let task = self.policy.next(unit, view)?;
        self.charge.remove(&task);
        Some(task)
    }

    fn in_flight(&mut self, unit: UnitId, tasks: usize) {
        if let Some(known) = self.in_flight.get_mut(unit.index()) {
            *known = tasks;
        }
        self.policy.in_flight(unit, tasks);
    }

    fn finished(&mut self, sample: &Sample) {
        self.finished += 1;
        let elapsed_ns = sample.elapsed_ns as f64;
        if let Some(&kind) = self.kinds.get(sample.unit.index()) {
            self.model.learn(&sample.name, kind, sample.bytes, elapsed_ns);
            if let Some((kernel, work)) = self.record.ended(sample.task) {
                self.record.kernels().learn(kernel, kind, work, elapsed_ns);
            }
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
        self.copies.learn(copy);
        self.policy.copied(copy);
    }

    fn data_moved(&mut self) {
        self.policy.data_moved();
    }

    fn affinity(&self) -> Option<AffinityStatistics> {
        self.policy.affinity()
    }

    fn bound(&self) -> Option<LowerBound> {
        self.policy.bound()
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
