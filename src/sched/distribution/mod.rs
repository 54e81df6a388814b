//! The adapter from work distributions to policies: one queue per unit, and all tasks of an index go to the unit that
//! the index is assigned to.
//!
//! An instance of an iteration space may be many tasks, several per index, and instances overlap in a dataflow
//! program. The assignment of an instance is *decided* once and holds for all its tasks. It is decided
//! - with its first ready task, for the first instance and for every instance while the distribution is steady; so
//!   nothing waits;
//! - while the distribution searches: when every index has a ready task of the instance and no task of the previous
//!   instance is under way. Tasks that exchange data between indices become ready only when their neighbours' last
//!   ones have run, so by then the previous instance is complete and measured;
//! - in any case when no unit has anything to do: then with the times measured so far.
//!
//! Invariants:
//! 1. Instances of a space are decided in ascending order. Tasks are held back only for an undecided instance, and if
//!    tasks are held back, some unit has something to do, or the next question of a unit decides.
//! 2. A task without a position, or whose unit has no body for it, is never held back. A task that is only *near* an
//!    index has no position: it goes to the unit that ran the index last, and is not measured.

mod estimates;
mod instance;

use self::estimates::Estimates;
use self::instance::Space;
use super::fpm::{Known, SharesInUse};
use super::queues::Queues;
use super::{
    Affinity, AffinityStatistics, Decision, Distribution, Estimate, LowerBound, Policy, ReadyTask, Sample, UnitSet,
    UnitView, View,
};
use crate::ids::{TaskId, UnitId};
use std::collections::BTreeMap;

/// A policy that shares out iteration spaces by a distribution; each space has its own copy of the distribution.
///
/// ```
/// use thalweg::prelude::*;
/// use thalweg::sched::{Assignment, Distributed, Distribution, Times, Workload};
///
/// /// Assigns indices cyclically: 0, 1, 2, 0, 1, 2, ...
/// #[derive(Clone)]
/// struct Cyclic;
///
/// impl Distribution for Cyclic {
///     fn name(&self) -> &'static str {
///         "cyclic"
///     }
///     fn assign(&mut self, workload: &Workload<'_>, _: Option<&Times>) -> Assignment {
///         Assignment::new((0..workload.len()).map(|index| index % workload.team.len()).collect())
///     }
///     fn is_steady(&self) -> bool {
///         true
///     }
/// }
///
/// let rt = Runtime::builder().compute_units("3:CPU:1").policy(Distributed::new(Cyclic)).build()?;
/// let data: Vec<_> = (0..7).map(|_| rt.scalar(1.0)).collect();
/// let zones = IterationSpace::new("zones", vec![1.0; 7]);
/// for _ in 0..10 {
///     zones.begin();
///     for (index, x) in data.iter().enumerate() {
///         rt.task("double", (x.inout(),)).cpu(|_, (x,)| x[0] *= 2.0).at(&zones, index).submit()?;
///     }
/// }
/// rt.wait()?;
/// let tasks: Vec<u64> = rt.statistics().tasks.iter().map(|(_, tasks)| *tasks).collect();
/// assert_eq!(tasks, [30, 20, 20]); // unit 0 has indices 0, 3 and 6
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Distributed<D> {
    prototype: D,
    spaces: BTreeMap<u64, Space<D>>,
    queues: Queues,
    held: usize,
    affinity: Affinity,
    /// What traces have, if there is a trace.
    traced: Option<Traced>,
}

#[derive(Debug, Default)]
struct Traced {
    /// The decisions since they were taken.
    decisions: Vec<Decision>,
    estimates: Estimates,
}

impl<D: Distribution + Clone> Distributed<D> {
    /// Creates a policy from `distribution`, which must not have assigned anything yet.
    pub fn new(distribution: D) -> Self {
        Self {
            prototype: distribution,
            spaces: BTreeMap::new(),
            queues: Queues::default(),
            held: 0,
            affinity: Affinity::new(),
            traced: None,
        }
    }

    fn queue(&mut self, wanted: UnitId, task: ReadyTask) {
        let unit = task.unit_from(wanted).unwrap_or(wanted);
        self.queues.push(unit, task);
    }

    /// Returns the least busy unit that runs a task. For a task near an index that has not run yet, returns the least
    /// busy unit among those that lack the fewest bytes.
    fn unit_without_place(&self, task: &ReadyTask, view: &View<'_>) -> Option<UnitId> {
        let missing = |unit: UnitId| task.near.map_or(0, |_| view.missing_at(task.id, unit));
        let cost = |unit: &&UnitView| (missing(unit.id), self.queues.len(unit.id) + unit.in_flight, unit.id);
        let units = view.units.iter().filter(|unit| task.runs_on(unit.id));
        units.min_by_key(cost).map(|unit| unit.id)
    }

    /// Decides all instances of a space that can be decided, and queues the tasks held back for them.
    fn decide(&mut self, space: u64, idle: bool) {
        let Some(state) = self.spaces.get_mut(&space) else { return };
        let released = state.decide(idle, |instance, state, pivot| {
            if let Some(traced) = &mut self.traced {
                traced.decisions.push(Decision { space, instance, state, pivot });
            }
        });
        self.held -= released.len();
        for (unit, task) in released {
            self.queue(unit, task);
        }
    }
}

impl<D: Distribution + Clone> Policy for Distributed<D> {
    fn name(&self) -> &'static str {
        self.prototype.name()
    }

    fn ready(&mut self, task: ReadyTask, view: &View<'_>) {
        let Some(position) = task.position.clone() else {
            let unit = self.affinity.unit_beside(&task).or_else(|| self.unit_without_place(&task, view));
            return self.queues.push(unit.unwrap_or(UnitId(0)), task);
        };
        let prototype = &self.prototype;
        let state =
            self.spaces.entry(position.space).or_insert_with(|| Space::new(prototype.clone(), &task, &position, view));
        match state.arrive(task, &position) {
            Some((unit, task)) => self.queue(unit, task),
            None => {
                self.held += 1;
                self.decide(position.space, false);
            }
        }
    }

    fn next(&mut self, unit: UnitId, view: &View<'_>) -> Option<TaskId> {
        if self.held > 0 && self.queues.is_empty() && view.is_idle() {
            let spaces: Vec<u64> = self.spaces.keys().copied().collect();
            spaces.into_iter().for_each(|space| self.decide(space, true));
        }
        let task = self.queues.pop(unit)?;
        if let Some(position) = &task.position
            && self.spaces.get(&position.space).is_some_and(|state| state.unit_of(position) == Some(unit))
        {
            self.affinity.note(position, unit, || view.missing_at(task.id, unit));
        }
        self.traced.iter_mut().for_each(|traced| traced.estimates.give(&task, unit));
        Some(task.id)
    }

    fn wanted(&self) -> Option<UnitSet> {
        Some(self.queues.filled().clone())
    }

    fn finished(&mut self, sample: &Sample) {
        let Some(position) = &sample.position else { return };
        self.traced.iter_mut().filter(|_| sample.elapsed_ns > 0).for_each(|of| of.estimates.learn(position, sample));
        if let Some(state) = self.spaces.get_mut(&position.space) {
            state.finished(position, sample);
            self.decide(position.space, false);
        }
    }

    fn failed(&mut self, sample: &Sample) {
        self.finished(&Sample { elapsed_ns: 0, ..sample.clone() });
    }

    fn affinity(&self) -> Option<AffinityStatistics> {
        Some(self.affinity.statistics())
    }

    fn collect_decisions(&mut self) {
        self.traced.get_or_insert_default();
    }

    fn take_decisions(&mut self) -> Vec<Decision> {
        self.traced.as_mut().map(|traced| std::mem::take(&mut traced.decisions)).unwrap_or_default()
    }

    fn estimate(&self, task: TaskId, _: UnitId) -> Estimate {
        let body_ns = self.traced.as_ref().and_then(|traced| traced.estimates.of(task));
        Estimate { body_ns, ..Estimate::unknown(self.name()) }
    }

    /// Returns the bound of the iteration space with the largest gap.
    fn bound(&self) -> Option<LowerBound> {
        let bounds = self.spaces.values().filter_map(|space| space.distribution().bound());
        bounds.max_by(|one, other| one.gap().total_cmp(&other.gap()))
    }

    /// Returns the profiles of the first iteration space.
    fn profiles(&self) -> Option<Known> {
        self.spaces.values().find_map(|space| space.distribution().profiles())
    }

    /// Returns the shares of the first iteration space.
    fn shares(&self) -> Option<&SharesInUse> {
        self.spaces.values().find_map(|space| space.distribution().shares())
    }
}

#[cfg(test)]
mod tests;
