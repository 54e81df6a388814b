//! `bottom-level`: list scheduling of graphs without an iteration space. The task with the longest path to the end of
//! the graph goes first, to the unit where it ends earliest.
//!
//! The policy is notified of tasks and their predecessors at submission, so it knows the graph submitted so far. For
//! each task it computes the *bottom level*: the longest path from the task to the end of the graph, in measured times
//! (`window.rs`, `../kernels.rs`). It combines ideas from three lines of work:
//!
//! - *HEFT* (Topcuoglu et al. 2002): the task with the highest bottom level goes first, to the unit where it ends
//!   earliest. StarPU's `dmdas` does this with priorities supplied by the program; `bottom-level` needs no such
//!   priorities.
//! - *One queue for units that are alike*: a task is bound to a unit only when a unit has room. A task's expected wait
//!   counts only queued work that is at least as urgent (`lookahead.rs`), not all queued work. So an urgent task is not
//!   sent to a slow unit because of work that it would overtake.
//! - *Heteroprio* (Agullo et al. 2016) and *MultiPrio* (Tayeb et al. 2024): a unit without queued tasks steals the
//!   tasks that lose least by running on it. In `bottom-level`, it does so only if it finishes them before the original
//!   units would have finished all their work.
//!
//! Copy costs are computed from the bytes that a memory lacks and from measured copy times (`copies.rs`); copies
//! overlap with waiting. If a memory lacks more of a task's data when the task is given out than when it was queued,
//! replicas must have been evicted, so the memory counts as short. In that case, among the most urgent tasks, the one
//! whose data are present goes first (in the spirit of DARTS: Gonthier et al. 2022).
//!
//! If a join waits for very many tasks at once, the levels of these tasks do not include the tasks that wait for them.
//! The policy never reads a clock: the work left on a unit is the sum of its unfinished tasks' estimates.
//!
//! Sums of estimates are in times of the unit kind. A group's factor (`../paces.rs`) multiplies them when they are
//! used, so a device that slows down is known to need longer for the tasks that it already has. Cores share one queue,
//! from which a slow core takes fewer tasks, so they need no factors.

mod lookahead;
mod state;
mod steal;
mod window;

use super::copies::Copies;
use super::kernels::{KernelId, Kernels};
use super::paces::Paces;
use super::{
    Affinity, AffinityStatistics, CopySample, Estimate, LinkEstimate, Model, Policy, ReadyTask, Sample, SubmittedTask,
    UnitSet, View,
};
use crate::ids::{TaskId, UnitId};
use crate::machine::UnitKind;
use lookahead::Ahead;
use state::{Group, Known, Moment, Offer, Queued, Rank, Set, Stage};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;
use window::{Spot, Window};

/// Number of tasks to compare: by missing bytes at the front of a queue if memory is short, by a thief's loss at its
/// end.
const COMPARED: usize = 8;
/// Number of tasks for which a memory still counts as short after it last lost data.
const SHORT_FOR: u32 = 64;

/// The `bottom-level` policy; see the module documentation.
///
/// ```
/// use thalweg::prelude::*;
/// use thalweg::sched::{BottomLevel, LinkEstimate, Model, Policy, ReadyTask, SubmittedTask, UnitView, View};
/// let units = [UnitView { id: UnitId(0), kind: UnitKind::Cpu, spaces: vec![SpaceId::HOST], in_flight: 0 }];
/// let view = View::new(&units, &|_, _| 0);
/// let mut policy = BottomLevel::new(Model::default(), LinkEstimate::default());
/// for (id, after) in [(0, vec![]), (1, vec![]), (2, vec![TaskId(1)])] {
///     policy.submitted(&SubmittedTask { after: &after, ..SubmittedTask::new(TaskId(id), &"t".into()) });
/// }
/// (0..2).for_each(|id| policy.ready(ReadyTask::new(TaskId(id), "t", [true]), &view));
/// let both = [policy.next(UnitId(0), &view), policy.next(UnitId(0), &view)];
/// assert!(both.contains(&Some(TaskId(0))) && both.contains(&Some(TaskId(1))), "{both:?}");
/// ```
#[derive(Debug, Default)]
pub struct BottomLevel {
    model: Model,
    copies: Copies,
    kernels: Kernels,
    /// The paces of the groups.
    paces: Paces,
    window: Window<Known>,
    groups: Vec<Group>,
    /// Index of each unit's group.
    group_of: Vec<usize>,
    sets: Vec<Set>,
    /// Number of events so far that may change which task some unit gets.
    changes: u64,
    /// Number of events so far that may change how many bytes a memory lacks.
    moves: u64,
    /// Whether some tasks run on only a part of a group of identical units.
    is_mixed: bool,
    affinity: Affinity,
}

/// Returns the time that a task adds to a level. In a large window, this is the time at the last notable change.
fn level_ns(kernels: &Kernels, kernel: KernelId, work: f64, is_large: bool) -> f64 {
    if is_large { kernels.noted_ns(kernel, work) } else { kernels.least_ns(kernel, work) }
}

impl BottomLevel {
    /// Creates the policy with known task times and a link speed that is assumed until copies are measured.
    pub fn new(model: Model, link: LinkEstimate) -> Self {
        Self { model, copies: Copies::new(link), ..Self::default() }
    }

    /// Notes that another policy has given a unit a task that takes this long by the times of the unit's kind.
    pub(super) fn occupy(&mut self, unit: UnitId, ns: u64, view: &View<'_>) {
        self.group(view);
        self.changes += 1;
        self.groups[self.group_of[unit.index()]].given_ns += ns;
    }

    /// Notes that such a task has ended.
    pub(super) fn release(&mut self, unit: UnitId, ns: u64) {
        self.changes += 1;
        self.groups[self.group_of[unit.index()]].given_ns -= ns;
    }

    /// Returns how long a task that was given to a unit takes by the times of the unit's kind.
    pub(super) fn load_of(&self, task: TaskId) -> Option<u64> {
        match self.window.get(task)?.stage {
            Stage::Given { ns, .. } => Some(ns),
            _ => None,
        }
    }

    fn note(&mut self, task: &SubmittedTask<'_>) {
        let (kernel, work) = self.kernels.of(task.name, task.bytes, task.cost, &self.model);
        self.window.insert(task.id, task.after, Known { kernel, work, stage: Stage::Waits });
    }

    /// Groups identical units.
    fn group(&mut self, view: &View<'_>) {
        for unit in view.units.iter().skip(self.group_of.len()) {
            let alike = |group: &Group| group.kind == unit.kind && group.spaces == unit.spaces;
            let group = self.groups.iter().position(alike).unwrap_or_else(|| {
                let (kind, spaces, ahead) = (unit.kind, unit.spaces.clone(), Ahead::default());
                self.paces.add(kind);
                self.groups.push(Group {
                    kind,
                    spaces,
                    units: 0,
                    members: UnitSet::default(),
                    idle: UnitSet::default(),
                    queued: 0,
                    rests: false,
                    dry_at: None,
                    given_ns: 0,
                    ahead,
                    short: 0,
                });
                self.groups.len() - 1
            });
            self.groups[group].units += 1;
            self.groups[group].members.insert(unit.id);
            self.group_of.push(group);
            if unit.in_flight == 0 {
                self.groups[group].idle.insert(unit.id);
            }
        }
    }

    fn set_of(&mut self, units: &Arc<[bool]>) -> usize {
        let known = self.sets.iter().position(|set| Arc::ptr_eq(&set.units, units));
        let known = known.or_else(|| self.sets.iter().position(|set| set.units == *units));
        known.unwrap_or_else(|| {
            let runs = |group: usize| self.group_of.iter().zip(&**units).any(|(of, runs)| *of == group && *runs);
            let queues = (0..self.groups.len()).map(|group| runs(group).then(BTreeSet::new)).collect();
            self.is_mixed |= self.group_of.iter().zip(&**units).any(|(of, on)| runs(*of) != *on);
            self.sets.push(Set { units: units.clone(), queues });
            self.sets.len() - 1
        })
    }

    /// Recomputes the levels and reorders the queues, if enough has changed.
    fn renew(&mut self) {
        if !self.window.is_stale() {
            return;
        }
        let Self { window, kernels, sets, groups, .. } = self;
        let takes_ns = |known: &Known, is_large| level_ns(kernels, known.kernel, known.work, is_large);
        window.compute(takes_ns, |_, known, level_ns| {
            let level_bits = Reverse(level_ns.to_bits());
            let Stage::Queued(queued) = &mut known.stage else { return };
            if queued.rank.level_bits != level_bits
                && let Some(queue) = &mut sets[queued.set].queues[queued.group]
            {
                queue.remove(&queued.rank);
                let Group { ahead, rests, .. } = &mut groups[queued.group];
                ahead.take(queued.rank.level_ns(), queued.ns);
                queued.rank.level_bits = level_bits;
                ahead.add(queued.rank.level_ns(), queued.ns);
                queue.insert(queued.rank);
                *rests = false;
            }
        });
    }

    /// Returns the time of a task on a unit kind, and whether a trial is needed to measure it.
    fn takes_ns(&mut self, kernel: KernelId, work: f64, kind: UnitKind) -> (f64, bool) {
        match self.kernels.known_ns(kernel, kind, work) {
            Some(ns) => (ns, false),
            None if *self.kernels.trials(kernel, kind) == 0 => (0.0, true),
            None => (self.kernels.least_ns(kernel, work), false),
        }
    }

    /// Returns the group in which a task of this level would end earliest.
    fn best(
        &mut self,
        id: TaskId,
        level_ns: f64,
        (kernel, work): (KernelId, f64),
        set: usize,
        view: &View<'_>,
    ) -> Option<Offer> {
        let mut best: Option<Offer> = None;
        for group in 0..self.groups.len() {
            if self.sets[set].queues[group].is_none() {
                continue;
            }
            let (of_kind_ns, trial) = self.takes_ns(kernel, work, self.groups[group].kind);
            let factor = self.paces.factor(group);
            let ns = of_kind_ns * factor;
            let Group { units, given_ns, ahead, .. } = &self.groups[group];
            let is_later = |wait_ns: f64| best.as_ref().is_some_and(|best| wait_ns + ns >= best.end_ns);
            // This is a lower bound: queued work and copies can only delay the task further.
            if is_later(*given_ns as f64 * factor / *units as f64) {
                continue;
            }
            let wait_ns = (given_ns + ahead.of(level_ns)) as f64 * factor / *units as f64;
            if is_later(wait_ns) {
                continue;
            }
            let (missing, copy_ns) = self.copy(id, group, view);
            // Copies overlap with other tasks.
            let end_ns = wait_ns.max(copy_ns) + ns;
            if best.as_ref().is_none_or(|best| end_ns < best.end_ns) {
                best = Some(Offer { group, end_ns, ns: of_kind_ns, trial, missing });
            }
        }
        best
    }

    /// Returns how many bytes of a task's data the group's memory lacks, and the time to copy them.
    fn copy(&self, task: TaskId, group: usize, view: &View<'_>) -> (u64, f64) {
        let spaces = self.groups[group].spaces.iter();
        let least = spaces.map(|space| (view.missing_bytes(task, *space), *space)).min();
        least.map_or((0, 0.0), |(missing, space)| (missing, self.copies.copy_ns(space, missing)))
    }

    fn queue(&mut self, spot: Spot, queued: Queued) {
        if let Some(queue) = &mut self.sets[queued.set].queues[queued.group] {
            queue.insert(queued.rank);
        }
        self.changes += 1;
        let group = &mut self.groups[queued.group];
        group.ahead.add(queued.rank.level_ns(), queued.ns);
        (group.queued, group.rests) = (group.queued + 1, false);
        if let Some(known) = self.window.at(spot) {
            if queued.trial {
                *self.kernels.trials(known.kernel, group.kind) += 1;
            }
            known.stage = Stage::Queued(Box::new(queued));
        }
    }

    /// Removes a task from its queue.
    fn dequeue(&mut self, kernel: KernelId, queued: &Queued) {
        if let Some(queue) = &mut self.sets[queued.set].queues[queued.group] {
            queue.remove(&queued.rank);
        }
        self.changes += 1;
        let group = &mut self.groups[queued.group];
        group.ahead.take(queued.rank.level_ns(), queued.ns);
        (group.queued, group.rests) = (group.queued - 1, false);
        if queued.trial {
            *self.kernels.trials(kernel, group.kind) -= 1;
        }
    }

    /// Returns the group's queues whose tasks the unit can run.
    fn queues(&self, group: usize, unit: UnitId) -> impl DoubleEndedIterator<Item = &BTreeSet<Rank>> {
        let of_unit = self.sets.iter().filter(move |set| set.units[unit.index()]);
        of_unit.filter_map(move |set| set.queues[group].as_ref())
    }

    /// Returns the next task to give out from the group's queues.
    fn first(&self, group: usize, unit: UnitId, view: &View<'_>) -> Option<TaskId> {
        let (first, queue) = self
            .queues(group, unit)
            .filter_map(|queue| Some((*queue.first()?, queue)))
            .min_by_key(|(first, _)| *first)?;
        if self.groups[group].short == 0 {
            return Some(first.task);
        }
        let urgent = queue.iter().take(COMPARED).filter(|rank| rank.priority == first.priority);
        urgent.min_by_key(|rank| (view.missing_at(rank.task, unit), **rank)).map(|rank| rank.task)
    }

    /// Gives a task to a unit.
    fn give(&mut self, task: TaskId, unit: UnitId, view: &View<'_>) -> Option<TaskId> {
        let group = self.group_of[unit.index()];
        let spot = self.window.find(task)?;
        let known = self.window.at(spot)?;
        let (kernel, work) = (known.kernel, known.work);
        let Stage::Queued(queued) = std::mem::replace(&mut known.stage, Stage::Waits) else { return None };
        self.dequeue(kernel, &queued);
        let missing = || view.missing_at(task, unit);
        if let Some(position) = &queued.position {
            self.affinity.note(position, unit, missing);
        }
        let kind = self.groups[group].kind;
        let (mut ns, mut trial, mut end_ns) = (queued.ns, queued.trial, queued.end_ns);
        if group != queued.group {
            let known_ns = self.kernels.known_ns(kernel, kind, work);
            (ns, trial) = (known_ns.unwrap_or_else(|| self.kernels.least_ns(kernel, work)) as u64, false);
            end_ns = f32::NAN;
        } else if kind.is_device() {
            let was_evicted = missing() > queued.missing;
            let short = &mut self.groups[group].short;
            *short = if was_evicted { SHORT_FOR } else { short.saturating_sub(1) };
        }
        self.groups[group].given_ns += ns;
        *self.kernels.trials(kernel, kind) += u32::from(trial);
        self.window.at(spot)?.stage = Stage::Given { group, ns, trial, end_ns };
        Some(task)
    }

    /// Ends a task and subtracts its estimate from its group.
    fn end(&mut self, task: TaskId) -> Option<Known> {
        self.changes += 1;
        let known = self.window.end(task)?;
        match &known.stage {
            Stage::Waits => {}
            Stage::Queued(queued) => self.dequeue(known.kernel, queued),
            &Stage::Given { group, ns, trial, .. } => {
                let group = &mut self.groups[group];
                group.given_ns -= ns;
                *self.kernels.trials(known.kernel, group.kind) -= u32::from(trial);
            }
        }
        Some(known)
    }
}

impl Policy for BottomLevel {
    fn name(&self) -> &'static str {
        "bottom-level"
    }

    fn looks_ahead(&self) -> bool {
        true
    }

    fn submitted(&mut self, task: &SubmittedTask<'_>) {
        self.note(task);
    }

    fn ready(&mut self, task: ReadyTask, view: &View<'_>) {
        self.group(view);
        if self.window.find(task.id).is_none() {
            let ReadyTask { id, name, bytes, cost, .. } = &task;
            self.note(&SubmittedTask { bytes: *bytes, cost: *cost, ..SubmittedTask::new(*id, name) });
        }
        self.renew();
        self.changes += 1;
        let Some(spot) = self.window.find(task.id) else { return };
        let Some(&mut Known { kernel, work, .. }) = self.window.at(spot) else { return };
        let set = self.set_of(&task.units);
        let level_ns = level_ns(&self.kernels, kernel, work, self.window.is_large()) + self.window.behind_ns(spot);
        let Some(Offer { group, ns, trial, missing, end_ns }) = self.best(task.id, level_ns, (kernel, work), set, view)
        else {
            return;
        };
        let ns = (if trial { self.kernels.least_ns(kernel, work) } else { ns }) as u64;
        let rank = Rank { priority: Reverse(task.priority), level_bits: Reverse(level_ns.to_bits()), task: task.id };
        self.queue(
            spot,
            Queued { set, group, rank, ns, end_ns: end_ns as f32, trial, missing, position: task.position },
        );
    }

    fn next(&mut self, unit: UnitId, view: &View<'_>) -> Option<TaskId> {
        self.group(view);
        let group = *self.group_of.get(unit.index())?;
        let asking = &view.units[unit.index()];
        let busy = asking.in_flight > 0;
        let task = match self.first(group, unit, view) {
            // The first free core takes this task, unless its data would have to be copied meanwhile.
            Some(task) if busy && !asking.kind.is_device() && view.missing_at(task, unit) == 0 => {
                self.groups[group].rests = true;
                return None;
            }
            Some(task) => task,
            None if busy => return None,
            // Another unit of the group has already searched and found no task to steal.
            None if self.is_dry(group) && !view.is_idle() => return None,
            None => self.steal(asking, view)?,
        };
        self.give(task, unit, view)
    }

    fn wanted(&self) -> Option<UnitSet> {
        self.who_may_get_one()
    }

    fn in_flight(&mut self, unit: UnitId, tasks: usize) {
        let Some(group) = self.group_of.get(unit.index()) else { return }; // `group` reads it when it adds the unit
        let idle = &mut self.groups[*group].idle;
        if tasks == 0 { idle.insert(unit) } else { idle.remove(unit) }
    }

    fn finished(&mut self, sample: &Sample) {
        let Some(Known { kernel, work, .. }) = self.end(sample.task) else { return };
        let Some(&group) = self.group_of.get(sample.unit.index()) else { return };
        let (kind, elapsed_ns) = (self.groups[group].kind, sample.elapsed_ns as f64);
        if let Some(of_kind_ns) = self.kernels.known_ns(kernel, kind, work) {
            self.paces.learn(group, elapsed_ns / of_kind_ns);
        }
        let of_kind_ns = elapsed_ns / self.paces.factor(group);
        self.model.learn(&sample.name, kind, sample.bytes, of_kind_ns);
        if self.kernels.learn(kernel, kind, work, of_kind_ns) {
            self.window.changed();
        }
    }

    fn failed(&mut self, sample: &Sample) {
        self.end(sample.task);
    }

    fn skipped(&mut self, task: TaskId) {
        self.end(task);
    }

    fn copied(&mut self, copy: &CopySample) {
        self.changes += 1;
        self.copies.learn(copy);
    }

    fn data_moved(&mut self) {
        self.moves += 1;
    }

    fn affinity(&self) -> Option<AffinityStatistics> {
        Some(self.affinity.statistics())
    }

    fn model(&self) -> Option<&Model> {
        Some(&self.model)
    }

    fn estimate(&self, task: TaskId, _: UnitId) -> Estimate {
        let unknown = Estimate::unknown(self.name());
        match self.window.get(task).map(|known| &known.stage) {
            Some(&Stage::Given { group, ns, trial: false, end_ns }) => {
                let end_ns = Some(f64::from(end_ns)).filter(|end_ns| end_ns.is_finite());
                Estimate { body_ns: Some(ns as f64 * self.paces.factor(group)), end_ns, ..unknown }
            }
            _ => unknown,
        }
    }
}

#[cfg(test)]
mod tests;
