//! `auto`: `eft` for the tasks at or near an index of an iteration space, `bottom-level` for all others.
//!
//! The tasks of a time step are ready together and none of them is urgent, so the best unit is the one where a task
//! ends first. In a graph the order matters as much as the unit. A program may have both: each ready task is in the
//! charge of exactly one policy. A task of an iteration space is bound to a unit when it is ready, and any other when a
//! unit takes it. From then on it is work of that unit for the other policy, too. A unit takes the tasks that are bound
//! to it first, as both policies assume; an idle unit takes tasks of a graph before those bound to other units.
//! `bottom-level` is notified of all tasks and learns from all of them, because a path of the graph may lead through an
//! iteration space.

use super::{
    AffinityStatistics, BottomLevel, CopySample, Eft, Estimate, LinkEstimate, Model, Policy, ReadyTask, Sample,
    SubmittedTask, UnitSet, View,
};
use crate::ids::{TaskId, UnitId};
use rustc_hash::FxHashMap;

/// The `auto` policy; see the module documentation.
///
/// ```
/// use thalweg::prelude::*;
/// use thalweg::sched::{Auto, LinkEstimate, Model, Policy, ReadyTask, UnitView, View};
/// let units = [UnitView { id: UnitId(0), kind: UnitKind::Cpu, spaces: vec![SpaceId::HOST], in_flight: 0 }];
/// let view = View::new(&units, &|_, _| 0);
/// let mut policy = Auto::new(&Model::default(), LinkEstimate::default());
/// policy.ready(ReadyTask::new(TaskId(0), "t", [true]), &view);
/// assert_eq!(policy.next(UnitId(0), &view), Some(TaskId(0)));
/// ```
#[derive(Debug)]
pub struct Auto {
    spaces: Eft,
    graphs: BottomLevel,
    /// The tasks that count as work of a unit for the policy that is not in charge of them.
    bound: FxHashMap<TaskId, Bound>,
}

#[derive(Debug, Clone, Copy)]
struct Bound {
    unit: UnitId,
    /// The time by the unit's kind.
    ns: u64,
    of_space: bool,
}

impl Auto {
    /// Creates the policy with known task times and a link speed that is assumed until copies are measured.
    pub fn new(model: &Model, link: LinkEstimate) -> Self {
        let (spaces, graphs) = (Eft::new(model.clone(), link), BottomLevel::new(model.clone(), link));
        Self { spaces, graphs, bound: FxHashMap::default() }
    }

    /// Lets the load that `bottom-level` sees include a task of a space.
    fn bind(&mut self, task: TaskId, view: &View<'_>) {
        if let Some((unit, ns)) = self.spaces.load_of(task) {
            self.graphs.occupy(unit, ns, view);
            self.bound.insert(task, Bound { unit, ns, of_space: true });
        }
    }

    /// Removes a task from the load that the other policy sees.
    fn unbind(&mut self, task: TaskId) {
        match self.bound.remove(&task) {
            Some(Bound { unit, ns, of_space: true }) => self.graphs.release(unit, ns),
            Some(Bound { unit, ns, .. }) => self.spaces.occupy(unit, -(ns as f64)),
            None => {}
        }
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
        self.graphs.submitted(task);
    }

    fn ready(&mut self, task: ReadyTask, view: &View<'_>) {
        if task.position.is_none() && task.near.is_none() {
            return self.graphs.ready(task, view);
        }
        let id = task.id;
        self.spaces.ready(task, view);
        self.bind(id, view);
    }

    fn next(&mut self, unit: UnitId, view: &View<'_>) -> Option<TaskId> {
        if let Some(task) = self.spaces.first(unit, view) {
            return Some(task);
        }
        let Some(task) = self.graphs.next(unit, view) else {
            let task = self.spaces.steal(unit, view)?;
            self.unbind(task);
            self.bind(task, view);
            return Some(task);
        };
        if let Some(ns) = self.graphs.load_of(task) {
            self.spaces.occupy(unit, ns as f64);
            self.bound.insert(task, Bound { unit, ns, of_space: false });
        }
        Some(task)
    }

    fn wanted(&self) -> Option<UnitSet> {
        let mut wanted = self.graphs.wanted()?;
        wanted.extend(&self.spaces.wanted()?);
        Some(wanted)
    }

    fn in_flight(&mut self, unit: UnitId, tasks: usize) {
        self.spaces.in_flight(unit, tasks);
        self.graphs.in_flight(unit, tasks);
    }

    fn finished(&mut self, sample: &Sample) {
        self.unbind(sample.task);
        self.spaces.finished(sample);
        self.graphs.finished(sample);
    }

    fn failed(&mut self, sample: &Sample) {
        self.unbind(sample.task);
        self.spaces.failed(sample);
        self.graphs.failed(sample);
    }

    fn skipped(&mut self, task: TaskId) {
        self.graphs.skipped(task);
    }

    fn copied(&mut self, copy: &CopySample) {
        self.spaces.copied(copy);
        self.graphs.copied(copy);
    }

    fn data_moved(&mut self) {
        self.graphs.data_moved();
    }

    fn affinity(&self) -> Option<AffinityStatistics> {
        self.spaces.affinity()
    }

    fn model(&self) -> Option<&Model> {
        self.graphs.model()
    }

    fn estimate(&self, task: TaskId, unit: UnitId) -> Estimate {
        let of_graph = self.bound.get(&task).is_some_and(|bound| !bound.of_space);
        let policy: &dyn Policy = if of_graph { &self.graphs } else { &self.spaces };
        policy.estimate(task, unit)
    }
}

#[cfg(test)]
mod tests;
