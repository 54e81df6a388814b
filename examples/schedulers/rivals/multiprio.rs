//! MultiPrio (Tayeb, Bramas, Faverge & Guermouche 2024): every kind of unit has a heap of all ready tasks, sorted by
//! how much is gained if that kind runs the task.
//!
//! - *Gain.* The time saved over the best other kind (a negative number on a slower kind), scaled to 0 to 1 by the
//!   largest difference seen so far. Equal gains are sorted by the *normalized out-degree*: the sum over a task's
//!   successors of one over the number of their predecessors.
//! - *Locality.* Of the first tasks of a heap whose gain is close to the highest, a unit takes the one with most of its
//!   data in the unit's memory.
//! - *Pop condition.* A unit of a slower kind takes a task only if it ends the task before the fastest kind would have
//!   done all ready work that it is best for. Otherwise the task leaves the heap of the slower kind.
//!
//! Here each kind of unit has one heap, and not each memory; bytes missing stand for the data in a memory.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use thalweg::ids::{TaskId, UnitId};
use thalweg::sched::{Policy, ReadyTask, SubmittedTask, View};

use super::{Numbers, Problem};

/// Number of tasks among which locality decides.
const NEAREST: usize = 10;
/// How far below the highest gain their gains may be.
const CLOSE: f64 = 0.8;

/// The baseline; for one run of its graph.
#[derive(Debug)]
pub(crate) struct MultiPrio {
    problem: Problem,
    cpus: usize,
    /// The normalized out-degree of each task, relative to the largest.
    degree: Vec<f64>,
    /// For cores and GPUs: the ready tasks by descending gain and degree.
    heaps: [BTreeSet<(Reverse<(u64, u64)>, usize)>; 2],
    /// For cores and GPUs: the work of the ready tasks that they are best for, per unit.
    best_for_ns: [f64; 2],
    largest_ns: f64,
    numbers: Numbers,
}

impl MultiPrio {
    /// Creates the policy; the first `cpus` units are cores.
    pub(crate) fn new(problem: Problem, cpus: usize) -> Self {
        let degree = degrees(&problem);
        let heaps = [BTreeSet::new(), BTreeSet::new()];
        Self { problem, cpus, degree, heaps, best_for_ns: [0.0; 2], largest_ns: 0.0, numbers: Numbers::default() }
    }

    /// Returns the time on cores and on GPUs.
    fn takes(&self, task: usize) -> [f64; 2] {
        let cost = &self.problem.cost[task];
        [cost[0], cost[cost.len() - 1]]
    }

    fn units(&self, kind: usize) -> usize {
        if kind == 0 { self.cpus } else { self.problem.units() - self.cpus }
    }

    /// Returns the faster kind.
    fn best(&self, task: usize) -> usize {
        let [cpu, gpu] = self.takes(task);
        usize::from(self.cpus == 0 || gpu < cpu && self.units(1) > 0)
    }

    /// Returns whether a unit of this kind may take the task.
    fn may_take(&self, task: usize, kind: usize) -> bool {
        let best = self.best(task);
        kind == best || self.best_for_ns[best] > self.takes(task)[kind]
    }

    fn add(&mut self, task: usize) {
        let takes = self.takes(task);
        self.largest_ns = self.largest_ns.max((takes[0] - takes[1]).abs());
        for kind in 0..2 {
            let key = Reverse((gain(takes, kind, self.largest_ns).to_bits(), self.degree[task].to_bits()));
            self.heaps[kind].insert((key, task));
        }
        let best = self.best(task);
        self.best_for_ns[best] += takes[best] / self.units(best) as f64;
    }

    fn remove(&mut self, task: usize) {
        self.heaps.iter_mut().for_each(|heap| heap.retain(|(_, other)| *other != task));
        let best = self.best(task);
        self.best_for_ns[best] = (self.best_for_ns[best] - self.takes(task)[best] / self.units(best) as f64).max(0.0);
    }
}

/// Returns the gain of a kind, from 0 to 1: above 1/2 for the faster kind, and below for the slower.
fn gain(takes: [f64; 2], kind: usize, largest: f64) -> f64 {
    if largest == 0.0 { 0.5 } else { (takes[1 - kind] - takes[kind] + largest) / (2.0 * largest) }
}

/// Returns the normalized out-degrees, relative to the largest.
fn degrees(problem: &Problem) -> Vec<f64> {
    let mut degree = vec![0.0f64; problem.cost.len()];
    for after in &problem.after {
        after.iter().for_each(|(before, _)| degree[*before] += 1.0 / after.len() as f64);
    }
    let largest = degree.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    degree.iter().map(|degree| degree / largest).collect()
}

impl Policy for MultiPrio {
    fn name(&self) -> &'static str {
        "multiprio"
    }

    fn looks_ahead(&self) -> bool {
        true
    }

    fn submitted(&mut self, task: &SubmittedTask<'_>) {
        self.numbers.submitted(task.id);
    }

    fn ready(&mut self, task: ReadyTask, _: &View<'_>) {
        self.add(self.numbers.of(task.id));
    }

    fn next(&mut self, unit: UnitId, view: &View<'_>) -> Option<TaskId> {
        let kind = usize::from(unit.index() >= self.cpus);
        let missing = |task: usize| view.missing_at(self.numbers.task(task), unit);
        loop {
            let (Reverse((highest, _)), _) = self.heaps[kind].first()?;
            let least = f64::from_bits(*highest) * CLOSE;
            let close = self.heaps[kind].iter().take(NEAREST);
            let close = close.take_while(|(Reverse((gain, _)), _)| f64::from_bits(*gain) >= least);
            let &(key, task) = close.min_by_key(|(_, task)| missing(*task))?;
            if self.may_take(task, kind) {
                self.remove(task);
                return Some(self.numbers.task(task));
            }
            self.heaps[kind].remove(&(key, task));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(times: &[[f64; 2]]) -> Problem {
        Problem {
            cost: times.iter().map(|times| times.to_vec()).collect(),
            after: vec![vec![]; times.len()],
            link: vec![vec![0.0; 2]; 2],
        }
    }

    #[test]
    fn gain_is_scaled_by_the_largest_difference() {
        assert_eq!([0, 1].map(|kind| gain([20.0, 10.0], kind, 40.0)), [0.375, 0.625]);
        assert_eq!([0, 1].map(|kind| gain([50.0, 10.0], kind, 40.0)), [0.0, 1.0]);
        assert_eq!([0, 1].map(|kind| gain([5.0, 5.0], kind, 40.0)), [0.5, 0.5]);
    }

    #[test]
    fn out_degree_counts_a_shared_successor_in_part() {
        // Task 0 alone releases 2; tasks 0 and 1 release 3 together.
        let mut problem = problem(&[[1.0, 1.0]; 4]);
        (problem.after[2], problem.after[3]) = (vec![(0, 0.0)], vec![(0, 0.0), (1, 0.0)]);
        assert_eq!(degrees(&problem), [1.0, 1.0 / 3.0, 0.0, 0.0]);
    }

    #[test]
    fn slower_unit_takes_a_task_only_if_the_faster_one_is_busy_for_longer() {
        let mut policy = MultiPrio::new(problem(&[[25.0, 10.0]; 3]), 1);
        (0..2).for_each(|task| policy.add(task));
        assert!(!policy.may_take(0, 0), "the GPU does both in 20");
        policy.add(2);
        assert!(policy.may_take(0, 0), "the GPU needs 30");
        policy.remove(0);
        assert!(!policy.may_take(1, 0) && policy.may_take(1, 1));
    }
}
