//! Tiled factorizations on machines whose task times StarPU's developers measured, under this library's policies for
//! graphs and under the schedulers of others ([`rivals`](crate::rivals)).
//!
//! Each case is run with several seeds for the noise of task times. *Cold* is the first run, *warm* the third, each on
//! fresh data; the baselines know the mean times in advance, so they have one value for both. The measure is the time
//! over a lower bound: the longest path, or the area (all work divided among the units as if it were divisible),
//! whichever is longer, without copies.

mod chart;
pub(crate) mod programs;
mod statistics;

use std::path::Path;

use thalweg::{Runtime, SimulatedMachine};

use crate::bound::Machine;
use crate::common::Result;
use crate::rivals::{Problem, dada::Dada, dmdas::Dmdas, heteroprio, list, multiprio::MultiPrio, planned::Planned};
use crate::side_by_side;
use crate::suite::least::area_ns;
use programs::{Graph, Kind};

/// This library's policies. `auto` schedules graphs as `bottom-level` does.
pub(crate) const POLICIES: [&str; 3] = ["bottom-level", "eft", "stealing"];
/// The schedulers of others.
pub(crate) const RIVALS: [&str; 6] = ["heft", "cpop", "dmdas", "multiprio", "dada", "heteroprio"];
/// Standard deviation of a task's time, as a fraction of its mean.
pub(crate) const DEVIATION: f64 = 0.02;
/// Number of runs of a policy that learns.
const RUNS: usize = 3;

/// The machines, with their numbers of cores and of GPUs. One core leads each GPU.
const MACHINES: [(&str, usize, usize); 4] =
    [("mirage", 12, 3), ("attila", 12, 3), ("idgraf", 12, 8), ("sirocco", 24, 4)];

/// A graph on a machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Case {
    pub(crate) kind: Kind,
    pub(crate) machine: &'static str,
    pub(crate) cpus: usize,
    pub(crate) gpus: usize,
}

impl Case {
    fn all() -> Vec<Self> {
        let kinds = [4, 8, 12, 16, 24, 32].map(Kind::Cholesky).into_iter().chain([4, 8, 12, 16, 24].map(Kind::Lu));
        let on = |kind| MACHINES.map(|(machine, cores, gpus)| Self { kind, machine, cpus: cores - gpus, gpus });
        kinds.flat_map(on).collect()
    }

    pub(crate) fn name(self) -> String {
        format!("{} on {}", self.kind, self.machine)
    }

    /// Returns the graph with the mean times of its tasks and links on the machine.
    pub(crate) fn problem(self, graph: &Graph, times: &Machine) -> Problem {
        let units = self.cpus + self.gpus;
        let cost = graph.tasks.iter().map(|task| {
            let ([cpu, gpu], _) = times.task_ns(task.name, 1.0, 0.0, self.cpus);
            (0..units).map(|unit| if unit < self.cpus { cpu } else { gpu }).collect()
        });
        let hops = |one: usize, other: usize| match (one < self.cpus, other < self.cpus) {
            _ if one == other => 0.0,
            (true, true) => 0.0,
            (false, false) => 2.0,
            _ => 1.0,
        };
        let byte_ns = times.byte_ns();
        let link = (0..units).map(|one| (0..units).map(|other| byte_ns * hops(one, other)).collect()).collect();
        let data = |before: &usize| (*before, graph.tile_bytes as f64);
        let after = graph.tasks.iter().map(|task| task.after.iter().map(data).collect()).collect();
        Problem { cost: cost.collect(), after, link }
    }
}

/// The times of a case under a scheduler with one seed, relative to the bound.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Took {
    pub(crate) case: String,
    pub(crate) scheduler: String,
    pub(crate) seed: u64,
    pub(crate) cold: f64,
    pub(crate) warm: f64,
}

/// Runs the cases whose names contain `only`.
pub(crate) fn run(machines: &Path, only: &str, seeds: usize) -> Result<Vec<Took>> {
    let cases: Vec<Case> = Case::all().into_iter().filter(|case| case.name().contains(only)).collect();
    let one = |case: &Case| measure(*case, machines, seeds).map_err(|error| format!("{}: {error}", case.name()));
    Ok(side_by_side(&cases, |case| case.kind.is_large(), one)?.into_iter().flatten().collect())
}

fn measure(case: Case, machines: &Path, seeds: usize) -> Result<Vec<Took>> {
    let file = machines.join(format!("{}.toml", case.machine));
    let (machine, times) = (SimulatedMachine::from_file(&file)?, Machine::from_file(&file)?);
    let graph = case.kind.graph();
    let units = case.cpus + case.gpus;
    let (problem, byte_ns) = (case.problem(&graph, &times), times.byte_ns());
    let least = least_ns(&graph, &problem, case);
    let (heft, cpop) = (list::heft(&problem), list::cpop(&problem));
    let heteroprio = heteroprio::makespan_ns(&problem, case.cpus);
    let mut rows = Vec::new();
    for seed in 0..seeds as u64 {
        let machine = || machine.clone().with_noise(seed, DEVIATION);
        let builder = || {
            let units = format!("{}:CPU:1,{}:GPU:1", case.cpus, case.gpus);
            Runtime::builder().compute_units(units).simulate(machine())
        };
        let mut row = |scheduler: &str, [cold, warm]: [f64; 2]| {
            let (case, scheduler) = (case.name(), scheduler.to_owned());
            rows.push(Took { case, scheduler, seed, cold: cold / least, warm: warm / least });
        };
        for scheduler in POLICIES {
            let rt = builder().scheduler(scheduler).build()?;
            let runs = (0..RUNS).map(|_| graph.run(&rt, &graph.data(&rt))).collect::<Result<Vec<f64>>>()?;
            row(scheduler, [runs[0], runs[RUNS - 1]]);
        }
        for scheduler in RIVALS {
            let builder = match scheduler {
                "heft" => builder().policy(Planned::new("heft", &heft, units)),
                "cpop" => builder().policy(Planned::new("cpop", &cpop, units)),
                "dmdas" => builder().policy(Dmdas::new(problem.clone(), byte_ns)),
                "multiprio" => builder().policy(MultiPrio::new(problem.clone(), case.cpus)),
                "dada" => builder().policy(Dada::new(problem.clone(), case.cpus)),
                _ => {
                    row(scheduler, [heteroprio; 2]);
                    continue;
                }
            };
            let rt = builder.build()?;
            row(scheduler, [graph.run(&rt, &graph.data(&rt))?; 2]);
        }
    }
    Ok(rows)
}

/// Returns the lower bound: the longest path with each task where it is fastest, or the area.
fn least_ns(graph: &Graph, problem: &Problem, case: Case) -> f64 {
    let both = |task: usize| [problem.cost[task][0], problem.cost[task][case.cpus]];
    let mut ends: Vec<f64> = Vec::new();
    for (task, node) in graph.tasks.iter().enumerate() {
        let begin = node.after.iter().map(|before| ends[*before]).fold(0.0, f64::max);
        ends.push(begin + both(task).into_iter().fold(f64::INFINITY, f64::min));
    }
    let path = ends.into_iter().fold(0.0, f64::max);
    let alike = (0..graph.tasks.len()).map(|task| (both(task), 1.0)).collect();
    path.max(area_ns(alike, case.cpus as f64, case.gpus as f64))
}

const HEAD: &str = "case,scheduler,seed,cold,warm";

/// Formats rows as CSV.
pub(crate) fn to_csv(rows: &[Took]) -> String {
    let line = |row: &Took| {
        let Took { case, scheduler, seed, cold, warm } = row;
        format!("{},{scheduler},{seed},{cold:.6},{warm:.6}\n", case.replace(',', ";"))
    };
    std::iter::once(format!("{HEAD}\n")).chain(rows.iter().map(line)).collect()
}

/// Returns the tables of a page by name.
pub(crate) fn tables(rows: &[Took]) -> Vec<(String, String)> {
    vec![("graphs".to_owned(), statistics::by_case(rows)), ("graphs-summary".to_owned(), statistics::summary(rows))]
}

/// Writes the CSV file and the profile plot.
pub(crate) fn write(rows: &[Took], folder: &Path) -> Result<()> {
    std::fs::write(folder.join("graphs.csv"), to_csv(rows))?;
    chart::draw(rows, &folder.join("graphs.svg"))
}
