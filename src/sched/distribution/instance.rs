//! An iteration space under a distribution: its instances, from their first ready task to their times.

use crate::ids::UnitId;
use crate::sched::{
    Assignment, Distribution, Neighbour, Position, ReadyTask, Sample, State, Team, Times, View, Workload,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Number of decided instances that are remembered. Tasks of older ones follow the present assignment.
const REMEMBERED: usize = 64;

#[derive(Debug)]
pub(super) struct Space<D> {
    distribution: D,
    /// The unit in every slot.
    team: Vec<UnitId>,
    counts: Team,
    weights: Arc<[f64]>,
    neighbours: Option<Arc<[Vec<Neighbour>]>>,
    present: Option<Arc<Assignment>>,
    /// The last decided instance.
    decided: Option<u64>,
    instances: BTreeMap<u64, Instance>,
    /// Number of tasks per instance, as counted in the last complete one.
    usual: Option<usize>,
    /// Number of tasks that had run of the last instance whose successor was decided because all units were idle.
    when_idle: Option<usize>,
}

#[derive(Debug)]
struct Instance {
    assignment: Option<Arc<Assignment>>,
    held: Vec<ReadyTask>,
    arrived: Vec<bool>,
    missing: usize,
    open: usize,
    finished: usize,
    index_ns: Vec<f64>,
    /// Energy of every slot; `None` if some task's energy is unknown.
    slot_j: Option<Vec<f64>>,
}

impl Instance {
    fn new(len: usize, slots: usize) -> Self {
        Self {
            assignment: None,
            held: Vec::new(),
            arrived: vec![false; len],
            missing: len,
            open: 0,
            finished: 0,
            index_ns: vec![0.0; len],
            slot_j: Some(vec![0.0; slots]),
        }
    }

    fn times(&self, slots: usize) -> Option<Times> {
        let assignment = self.assignment.as_ref().filter(|_| self.finished > 0)?;
        Some(Times::of(assignment, slots, self.index_ns.clone()).with_energy(self.slot_j.clone()))
    }
}

impl<D: Distribution> Space<D> {
    /// Creates the space; its team consists of the units that its first task runs on.
    pub(super) fn new(distribution: D, first: &ReadyTask, position: &Position, view: &View<'_>) -> Self {
        let units = view.units.iter().filter(|unit| first.runs_on(unit.id));
        let (devices, cpus): (Vec<_>, Vec<_>) = units.partition(|unit| unit.kind.is_device());
        let counts = Team { cpus: cpus.len(), devices: devices.len() };
        Self {
            distribution,
            team: cpus.into_iter().chain(devices).map(|unit| unit.id).collect(),
            counts,
            weights: position.weights.clone(),
            neighbours: position.neighbours.clone(),
            present: None,
            decided: None,
            instances: BTreeMap::new(),
            usual: None,
            when_idle: None,
        }
    }

    /// Returns the space's distribution.
    pub(super) fn distribution(&self) -> &D {
        &self.distribution
    }

    /// Accepts a ready task: returns it with its unit, or holds it back if its instance is undecided.
    pub(super) fn arrive(&mut self, task: ReadyTask, position: &Position) -> Option<(UnitId, ReadyTask)> {
        let late = self.decided.is_some_and(|decided| position.instance < decided);
        let new = || Instance::new(self.weights.len(), self.team.len());
        let instance = self.instances.entry(position.instance).or_insert_with(new);
        if instance.assignment.is_none() && late {
            instance.assignment.clone_from(&self.present);
        }
        instance.open += 1;
        if !std::mem::replace(&mut instance.arrived[position.index], true) {
            instance.missing -= 1;
        }
        match &instance.assignment {
            Some(assignment) => Some((self.team[assignment.slots()[position.index]], task)),
            None => {
                instance.held.push(task);
                None
            }
        }
    }

    /// Returns the unit that a position is assigned to.
    pub(super) fn unit_of(&self, position: &Position) -> Option<UnitId> {
        let of_instance = self.instances.get(&position.instance).and_then(|instance| instance.assignment.as_ref());
        let slot = *of_instance.or(self.present.as_ref())?.slots().get(position.index)?;
        self.team.get(slot).copied()
    }

    /// Notes that a task has run. Times of tasks that ran on another unit, for want of a body, do not count: those
    /// tasks cannot be moved.
    pub(super) fn finished(&mut self, position: &Position, sample: &Sample) {
        let in_its_place = self.unit_of(position) == Some(sample.unit);
        let slot = self.team.iter().position(|unit| *unit == sample.unit);
        let Some(instance) = self.instances.get_mut(&position.instance) else { return };
        instance.open = instance.open.saturating_sub(1);
        instance.finished += 1;
        if in_its_place {
            instance.index_ns[position.index] += sample.elapsed_ns as f64;
        }
        instance.slot_j = instance.slot_j.take().zip(sample.energy_j).map(|(mut joules, energy)| {
            slot.into_iter().for_each(|slot| joules[slot] += energy);
            joules
        });
        if self.distribution.is_steady()
            && self.usual == Some(instance.finished)
            && let Some(times) = instance.times(self.team.len())
        {
            let workload = workload(self.counts, &self.weights, self.neighbours.as_ref());
            self.distribution.observe(&workload, &times);
        }
    }

    /// Decides all instances that can be decided, or at least one if all units are idle; returns the tasks that were
    /// held back.
    ///
    /// Calls `tell` for each decided instance, with the state of the search and the number of indices that CPU units
    /// get.
    pub(super) fn decide(
        &mut self,
        mut idle: bool,
        mut tell: impl FnMut(u64, State, usize),
    ) -> Vec<(UnitId, ReadyTask)> {
        let mut released = Vec::new();
        while let Some(number) = self.first_undecided() {
            let Some(assignment) = self.assignment_for(number, idle) else { break };
            idle = false;
            let Some(instance) = self.instances.get_mut(&number) else { break };
            for task in instance.held.drain(..) {
                let index = task.position.as_ref().map_or(0, |position| position.index);
                released.push((self.team[assignment.slots()[index]], task));
            }
            let pivot = assignment.slots().iter().filter(|slot| **slot < self.counts.cpus).count();
            tell(number, self.distribution.search_state(), pivot);
            instance.assignment = Some(assignment.clone());
            (self.present, self.decided) = (Some(assignment), Some(number));
            while self.instances.len() > REMEMBERED
                && self.instances.keys().next().is_some_and(|oldest| *oldest < number)
            {
                self.instances.pop_first();
            }
        }
        released
    }

    fn first_undecided(&self) -> Option<u64> {
        let undecided = self.instances.iter().rev().take_while(|(_, instance)| instance.assignment.is_none());
        undecided.last().map(|(number, _)| *number)
    }

    /// Returns the assignment for the first undecided instance, if it is time to decide.
    fn assignment_for(&mut self, number: u64, idle: bool) -> Option<Arc<Assignment>> {
        let workload = workload(self.counts, &self.weights, self.neighbours.as_ref());
        let Some(present) = &self.present else {
            return Some(assign(&mut self.distribution, &workload, None));
        };
        if self.distribution.is_steady() {
            return Some(present.clone());
        }
        let before = self.decided.and_then(|decided| self.instances.get(&decided));
        let finished = before.map_or(0, |before| before.finished);
        let complete = self.instances[&number].missing == 0 && before.is_none_or(|before| before.open == 0);
        if !complete {
            // All units may be idle for a moment in the middle of an instance. If the same number of tasks had run
            // the last time, the instance is complete.
            let measured = self.when_idle == Some(finished) || self.usual == Some(finished);
            self.when_idle = idle.then_some(finished).or(self.when_idle);
            if !idle || !measured {
                return idle.then(|| present.clone());
            }
        }
        self.usual = Some(finished);
        let times = before.and_then(|before| before.times(self.team.len()));
        Some(match times {
            Some(times) => assign(&mut self.distribution, &workload, Some(&times)),
            None => present.clone(),
        })
    }
}

/// Asks the distribution for an assignment.
///
/// # Panics
/// Panics if the assignment does not name a slot of the team for every index.
fn assign(distribution: &mut impl Distribution, workload: &Workload<'_>, times: Option<&Times>) -> Arc<Assignment> {
    let assignment = distribution.assign(workload, times);
    let (name, slots, units) = (distribution.name(), assignment.slots(), workload.team.len());
    let (assigned, len) = (slots.len(), workload.len());
    assert!(
        assigned == len,
        "distribution `{name}` assigned {assigned} indices of a space of {len}; try one slot for each"
    );
    let outside = slots.iter().position(|slot| *slot >= units);
    assert!(
        outside.is_none(),
        "distribution `{name}` assigned index {} to a slot outside its team of {units} units; try slots below that",
        outside.unwrap_or_default()
    );
    Arc::new(assignment)
}

fn workload<'a>(team: Team, weights: &'a [f64], neighbours: Option<&'a Arc<[Vec<Neighbour>]>>) -> Workload<'a> {
    Workload { team, weights, neighbours: neighbours.map(|neighbours| &**neighbours) }
}
