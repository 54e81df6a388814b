//! Schedulers of other projects and papers, as baselines: written from the papers, small, and told the mean time of
//! each task in advance.
//!
//! | baseline | source |
//! | --- | --- |
//! | [`list::heft`], [`list::cpop`] | Topcuoglu, Hariri & Wu 2002, §4: the upward rank, and both ranks |
//! | [`dmdas::Dmdas`] | StarPU's `dmda` with sorted queues (Augonnet et al. 2011), by upward ranks |
//! | [`heteroprio::makespan_ns`] | Agullo, Beaumont et al. 2016; Beaumont et al. 2017 |
//!
//! HEFT, CPOP and dmdas run in the simulation, with its noise, links and copies. HeteroPrio aborts running tasks, which
//! no driver can do, so it is a calculation by mean times without copies. This favours it.

pub(crate) mod dmdas;
pub(crate) mod heteroprio;
pub(crate) mod list;
pub(crate) mod planned;
pub(crate) mod ranks;

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

    /// Returns the mean time to pass one unit of data between two different units.
    pub(crate) fn mean_link(&self) -> f64 {
        let pairs = self.units() * (self.units() - 1);
        self.link.iter().flatten().sum::<f64>() / pairs.max(1) as f64
    }
}
