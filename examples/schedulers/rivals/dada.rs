//! DADA, "distributed affinity dual approximation" (Bleuse, Gautier, Lima, Mounié & Trystram 2014): all tasks that have
//! become ready are divided at once, first by where their data are, then by how much faster a GPU is.
//!
//! For a guess λ of the time, tasks with data in a memory go to its least busy unit until that unit has αλ of work.
//! Then tasks that take longer than λ on one kind of unit go to the other kind. The remaining tasks go to the GPUs, in
//! the order of their gain, until each GPU has λ of work, and then to the cores. A guess is accepted if no unit has
//! more than (2 + α)λ; a bisection finds the smallest. The result is at most (2 + α) times as long as the optimum.
//!
//! Work that units already have counts as if it were the start of theirs. Data are in a memory if nothing of a task is
//! missing there; the host counts only for tasks that no GPU has data of, because in the beginning everything is there.

use std::collections::VecDeque;

use thalweg::ids::{TaskId, UnitId};
use thalweg::sched::{Policy, ReadyTask, Sample, SubmittedTask, View};

use super::{Numbers, Problem};

/// Part of the time that is filled by affinity; a value within the range of the paper's experiments.
const ALPHA: f64 = 0.5;
/// Steps of the bisection.
const STEPS: usize = 30;

/// The baseline; for one run of its graph.
#[derive(Debug)]
pub(crate) struct Dada {
    problem: Problem,
    cpus: usize,
    queues: Vec<VecDeque<usize>>,
    /// Work of each unit that has not ended, queued or running.
    load_ns: Vec<f64>,
    /// Tasks that have become ready since the last division.
    fresh: Vec<usize>,
    numbers: Numbers,
}

impl Dada {
    /// Creates the policy; the first `cpus` units are cores.
    pub(crate) fn new(problem: Problem, cpus: usize) -> Self {
        let units = problem.units();
        let (queues, load_ns) = (vec![VecDeque::new(); units], vec![0.0; units]);
        Self { problem, cpus, queues, load_ns, fresh: Vec::new(), numbers: Numbers::default() }
    }

    fn divide_fresh(&mut self, view: &View<'_>) {
        let fresh = std::mem::take(&mut self.fresh);
        let near = |task: &usize| {
            let id = self.numbers.task(*task);
            let has = |unit: &usize| view.missing_at(id, UnitId(*unit as u16)) == 0;
            (self.cpus..self.problem.units()).filter(has).collect()
        };
        let tasks: Vec<Ready<'_>> =
            fresh.iter().map(|task| Ready { cost: &self.problem.cost[*task], near: near(task) }).collect();
        let units = divide(&tasks, &self.load_ns, self.cpus, ALPHA);
        for (task, unit) in fresh.into_iter().zip(units) {
            self.load_ns[unit] += self.problem.cost[task][unit];
            self.queues[unit].push_back(task);
        }
    }
}

impl Policy for Dada {
    fn name(&self) -> &'static str {
        "dada"
    }

    fn looks_ahead(&self) -> bool {
        true
    }

    fn submitted(&mut self, task: &SubmittedTask<'_>) {
        self.numbers.submitted(task.id);
    }

    fn ready(&mut self, task: ReadyTask, _: &View<'_>) {
        self.fresh.push(self.numbers.of(task.id));
    }

    fn next(&mut self, unit: UnitId, view: &View<'_>) -> Option<TaskId> {
        if !self.fresh.is_empty() {
            self.divide_fresh(view);
        }
        let task = self.queues[unit.index()].pop_front()?;
        Some(self.numbers.task(task))
    }

    fn finished(&mut self, sample: &Sample) {
        let unit = sample.unit.index();
        let took = self.problem.cost[self.numbers.of(sample.task)][unit];
        self.load_ns[unit] = (self.load_ns[unit] - took).max(0.0);
    }
}

/// A ready task: its time on each unit, and the units whose memory has its data.
#[derive(Clone, Debug)]
struct Ready<'a> {
    cost: &'a [f64],
    near: Vec<usize>,
}

/// Returns a unit for each task, from the smallest guess that is accepted.
fn divide(tasks: &[Ready<'_>], loads: &[f64], cpus: usize, alpha: f64) -> Vec<usize> {
    let slowest = |task: &Ready<'_>| task.cost.iter().copied().fold(0.0, f64::max);
    let (mut low, mut high) = (0.0, loads.iter().copied().fold(0.0, f64::max) + tasks.iter().map(slowest).sum::<f64>());
    let mut best = try_guess(tasks, loads, cpus, alpha, high).unwrap_or_else(|| vec![0; tasks.len()]);
    for _ in 0..STEPS {
        let guess = f64::midpoint(low, high);
        match try_guess(tasks, loads, cpus, alpha, guess) {
            Some(units) => (best, high) = (units, guess),
            None => low = guess,
        }
    }
    best
}

/// Divides the tasks for a guess; `None` if a unit would get more than (2 + α) times as much, or a task takes longer
/// everywhere.
fn try_guess(tasks: &[Ready<'_>], loads: &[f64], cpus: usize, alpha: f64, guess: f64) -> Option<Vec<usize>> {
    let units = loads.len();
    let mut load = loads.to_vec();
    let mut chosen: Vec<Option<usize>> = vec![None; tasks.len()];
    let least = |load: &[f64], among: std::ops::Range<usize>| among.min_by(|a, b| load[*a].total_cmp(&load[*b]));
    for (task, chosen) in tasks.iter().zip(&mut chosen) {
        let by_load = |a: &&usize, b: &&usize| load[**a].total_cmp(&load[**b]);
        let has_room = |unit: &&usize| load[**unit] < alpha * guess && task.cost[**unit] <= guess;
        if let Some(unit) = task.near.iter().min_by(by_load).filter(has_room) {
            load[*unit] += task.cost[*unit];
            *chosen = Some(*unit);
        }
    }
    let (on_cpu, on_gpu) = (
        |task: &Ready<'_>| if cpus > 0 { task.cost[0] } else { f64::INFINITY },
        |task: &Ready<'_>| if cpus < units { task.cost[units - 1] } else { f64::INFINITY },
    );
    let mut rest: Vec<usize> = (0..tasks.len()).filter(|task| chosen[*task].is_none()).collect();
    let gain = |task: &usize| on_cpu(&tasks[*task]) / on_gpu(&tasks[*task]);
    rest.sort_by(|a, b| gain(b).total_cmp(&gain(a)).then(a.cmp(b)));
    let mut place = |task: usize, among: std::ops::Range<usize>, load: &mut [f64]| {
        let unit = least(load, among)?;
        load[unit] += tasks[task].cost[unit];
        chosen[task] = Some(unit);
        Some(())
    };
    let mut flexible = Vec::new();
    for task in rest {
        match (on_cpu(&tasks[task]) > guess, on_gpu(&tasks[task]) > guess) {
            (true, true) => return None,
            (true, false) => place(task, cpus..units, &mut load)?,
            (false, true) => place(task, 0..cpus, &mut load)?,
            (false, false) => flexible.push(task),
        }
    }
    for task in flexible {
        let has_room = (cpus..units).any(|unit| load[unit] < guess);
        place(task, if has_room { cpus..units } else { 0..cpus }, &mut load)?;
    }
    let fits = load.iter().all(|load| *load <= (2.0 + alpha) * guess);
    fits.then(|| chosen.into_iter().collect()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the least time of independent tasks, by trying all assignments.
    fn optimum(costs: &[Vec<f64>], load: &mut [f64]) -> f64 {
        let Some((first, rest)) = costs.split_first() else { return load.iter().copied().fold(0.0, f64::max) };
        let with = |unit: usize, load: &mut [f64]| {
            load[unit] += first[unit];
            let time = optimum(rest, load);
            load[unit] -= first[unit];
            time
        };
        (0..load.len()).map(|unit| with(unit, load)).fold(f64::INFINITY, f64::min)
    }

    /// The paper's guarantee, on small graphs without edges.
    #[test]
    fn division_is_at_most_two_plus_alpha_times_the_optimum() {
        let mut state = 1u64;
        let mut draw = |end: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % end
        };
        let mut worst = 0.0f64;
        for round in 0..300 {
            let (cpus, gpus) = (1 + round % 2, 1 + (round / 2) % 2);
            let alpha = [0.0, 0.5, 1.0][round % 3];
            let cost = |_| {
                let (cpu, gpu) = (1.0 + draw(100) as f64, 1.0 + draw(40) as f64);
                [vec![cpu; cpus], vec![gpu; gpus]].concat()
            };
            let costs: Vec<Vec<f64>> = (0..7).map(cost).collect();
            let near = (0..7).map(|_| (0..cpus + gpus).filter(|_| draw(4) == 0).collect::<Vec<_>>());
            let near: Vec<_> = near.collect();
            let tasks: Vec<_> = costs.iter().zip(near).map(|(cost, near)| Ready { cost, near }).collect();
            let mut load = vec![0.0; cpus + gpus];
            let least = optimum(&costs, &mut load);
            for (task, unit) in divide(&tasks, &load.clone(), cpus, alpha).into_iter().enumerate() {
                load[unit] += costs[task][unit];
            }
            let most = load.into_iter().fold(0.0, f64::max);
            assert!(most <= (2.0 + alpha) * least + 1e-6, "{most} is more than {} times {least}", 2.0 + alpha);
            worst = worst.max(most / least);
        }
        assert!(worst > 1.2, "the cases are too easy: {worst}");
    }

    #[test]
    fn affinity_decides_up_to_its_part_of_the_time() {
        let cost = vec![10.0, 10.0, 10.0];
        let near = |near: &[usize]| Ready { cost: &cost, near: near.to_vec() };
        let tasks = [near(&[2]), near(&[2]), near(&[2]), near(&[]), near(&[]), near(&[])];
        let on_2 = |alpha| divide(&tasks, &[0.0; 3], 1, alpha).iter().take(3).filter(|unit| **unit == 2).count();
        assert!(on_2(2.0) > on_2(0.0), "{} {}", on_2(2.0), on_2(0.0));
    }
}
