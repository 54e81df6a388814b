//! Schedulers of other projects and papers, as baselines: written from the papers, small, and told the mean time of
//! each task in advance.
//!
//! | baseline | source |
//! | --- | --- |
//! | [`list::heft`], [`list::cpop`] | Topcuoglu, Hariri & Wu 2002, §4: the upward rank, and both ranks |
//! | [`dmdas::Dmdas`] | StarPU's `dmda` with sorted queues (Augonnet et al. 2011), by upward ranks |
//! | [`multiprio::MultiPrio`] | Tayeb, Bramas, Faverge & Guermouche 2024 |
//! | [`dada::Dada`] | Bleuse, Gautier, Lima, Mounié & Trystram 2014 |
//! | [`heteroprio::makespan_ns`] | Agullo, Beaumont et al. 2016; Beaumont et al. 2017 |
//!
//! All except HeteroPrio run in the simulation, with its noise, links and copies. HeteroPrio aborts running tasks,
//! which no driver can do, so it is a calculation by mean times without copies. This favours it. MultiPrio and DADA are
//! simplified, as their heads say. A scheduler named CCP is missing: no public source was found that describes it.

pub(crate) mod dada;
pub(crate) mod dmdas;
pub(crate) mod heteroprio;
pub(crate) mod list;
pub(crate) mod multiprio;
pub(crate) mod planned;
pub(crate) mod ranks;

use thalweg::ids::TaskId;

/// The numbers of tasks in the order of their submission, from 0. The runtime has numbered other tasks before them.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    first: Option<TaskId>,
}

impl Numbers {
    /// Counts a task that is submitted.
    pub(crate) fn submitted(&mut self, task: TaskId) {
        self.first.get_or_insert(task);
    }

    /// Returns the number of a submitted task.
    pub(crate) fn of(&self, task: TaskId) -> usize {
        (task.0 - self.before()) as usize
    }

    /// Returns the task with a number.
    pub(crate) fn task(&self, number: usize) -> TaskId {
        TaskId(self.before() + number as u64)
    }

    fn before(&self) -> u64 {
        self.first.map_or(0, |first| first.0)
    }
}

/// A graph to schedule, with the time of each task on each unit.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    /// Time of each task on each unit.
    pub(crate) cost: Vec<Vec<f64>>,
    /// Predecessors of each task, with the amount of data that each passes on. They come before the task.
    pub(crate) after: Vec<Vec<(usize, f64)>>,
    /// Time to pass one unit of data from one unit to another; 0 if they share a memory.
    pub(crate) link: Vec<Vec<f64>>,
}

impl Problem {
    /// Returns the number of units.
    pub(crate) fn units(&self) -> usize {
        self.link.len()
    }

    /// Returns a task's mean time over all units.
    pub(crate) fn mean_cost(&self, task: usize) -> f64 {
        self.cost[task].iter().sum::<f64>() / self.units() as f64
    }

    /// Returns the problem of running the graph several times, one run after the other in the order of tasks.
    pub(crate) fn repeated(&self, runs: usize) -> Self {
        let tasks = self.cost.len();
        let shifted = |run: usize| {
            let shift = move |(before, data): &(usize, f64)| (before + run * tasks, *data);
            self.after.iter().map(move |after| after.iter().map(shift).collect())
        };
        let after = (0..runs).flat_map(shifted).collect();
        let cost = (0..runs).flat_map(|_| self.cost.iter().cloned()).collect();
        Self { cost, after, link: self.link.clone() }
    }

    /// Returns the mean time to pass one unit of data between two different units.
    pub(crate) fn mean_link(&self) -> f64 {
        let pairs = self.units() * (self.units() - 1);
        self.link.iter().flatten().sum::<f64>() / pairs.max(1) as f64
    }
}
