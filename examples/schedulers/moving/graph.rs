//! Factorizations on moving ground.

use std::path::Path;

use thalweg::{Builder, Runtime};
use toml::Table;

use super::recorder::Recorder;
use super::{APART, Ground, ORACLE, SEEDS, Took};
use crate::bound::Machine;
use crate::common::Result;
use crate::graphs::Case;
use crate::graphs::programs::{Graph, Kind};
use crate::rivals::list::{Schedule, heft, heft_with};
use crate::rivals::{Problem, dada::Dada, dmdas::Dmdas, multiprio::MultiPrio, planned::Planned};

/// This library's policies, and those of others.
const SCHEDULERS: [&str; 7] = ["bottom-level", "eft", "stealing", "heft", "dmdas", "multiprio", "dada"];
/// Number of runs. The last one counts.
const RUNS: usize = 3;

/// A factorization on `mirage`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Program(Kind);

/// The graph and the machine, shared by all runs of a program.
struct Setting {
    case: Case,
    graph: Graph,
    problem: Problem,
    byte_ns: f64,
    file: Table,
}

impl Program {
    pub(super) const ALL: [Self; 2] = [Self(Kind::Cholesky(16)), Self(Kind::Lu(12))];

    /// Runs the cases whose names contain `only`.
    pub(super) fn run(self, machines: &Path, only: &str) -> Result<Vec<Took>> {
        let Self(kind) = self;
        let case = Case { kind, machine: "mirage", cpus: 9, gpus: 3 };
        let path = machines.join("mirage.toml");
        let (times, file) = (Machine::from_file(&path)?, std::fs::read_to_string(&path)?.parse()?);
        let graph = kind.graph();
        let setting = Setting { case, problem: case.problem(&graph, &times), byte_ns: times.byte_ns(), graph, file };
        let steady_ns = heft(&setting.problem).iter().map(|(_, _, end)| *end).fold(0.0, f64::max);
        let mut rows = Vec::new();
        for ground in Ground::all(steady_ns) {
            let name = format!("{kind}, {}", ground.name);
            if !name.contains(only) {
                continue;
            }
            for seed in 0..SEEDS {
                let oracle = setting.oracle(&ground, seed)?;
                let planned = |builder: Builder| Ok(builder.policy(setting.planned(oracle.clone())));
                let mut times = vec![(ORACLE, setting.time_ns(&ground, seed, planned)?)];
                for scheduler in SCHEDULERS {
                    let took = setting.time_ns(&ground, seed, |builder| setting.with(builder, scheduler))?;
                    times.push((scheduler, took));
                }
                rows.extend(Took::over_shortest("graphs", &name, seed, &times));
            }
        }
        Ok(rows)
    }
}

impl Setting {
    fn with(&self, builder: Builder, scheduler: &str) -> Result<Builder> {
        let (problem, cpus) = (self.problem.repeated(RUNS), self.case.cpus);
        Ok(match scheduler {
            "heft" => builder.policy(self.planned(heft(&self.problem))),
            "dmdas" => builder.policy(Dmdas::new(problem, self.byte_ns)),
            "multiprio" => builder.policy(MultiPrio::new(problem, cpus)),
            "dada" => builder.policy(Dada::new(problem, cpus)),
            own => builder.scheduler(own),
        })
    }

    /// Returns a policy that follows HEFT's schedule in all runs but the last.
    fn planned(&self, last: Schedule) -> Planned {
        let usual = heft(&self.problem);
        let of_run = |run: usize| if run + 1 == RUNS { &last } else { &usual };
        let later = |run: usize| {
            let shift = run as f64 * APART;
            of_run(run).iter().map(move |(unit, start, end)| (*unit, start + shift, end + shift))
        };
        let schedule: Schedule = (0..RUNS).flat_map(later).collect();
        Planned::new("planned", &schedule, self.problem.units())
    }

    /// Returns the time of the last of several runs. The changes are counted from its start, which a run without
    /// changes shows.
    fn time_ns(&self, ground: &Ground, seed: u64, with: impl Fn(Builder) -> Result<Builder>) -> Result<f64> {
        let runtime = |start_ns| -> Result<Runtime> {
            let units = format!("{}:CPU:1,{}:GPU:1", self.case.cpus, self.case.gpus);
            let builder = Runtime::builder().compute_units(units).simulate(ground.machine(&self.file, start_ns, seed)?);
            Ok(with(builder)?.build()?)
        };
        let start_ns = if ground.changes.is_empty() {
            0.0
        } else {
            let rt = runtime(None)?;
            self.runs(&rt, RUNS - 1)?;
            rt.now().as_nanos() as f64
        };
        self.runs(&runtime(Some(start_ns))?, RUNS)
    }

    /// Runs the graph several times, and returns the time of the last run. All data stay until the end, because the
    /// tasks that release data would be numbered, too.
    fn runs(&self, rt: &Runtime, runs: usize) -> Result<f64> {
        let data: Vec<_> = (0..runs).map(|_| self.graph.data(rt)).collect();
        data.iter().try_fold(0.0, |_, data| self.graph.run(rt, data))
    }

    /// Returns HEFT's schedule with the true times of the last run.
    fn oracle(&self, ground: &Ground, seed: u64) -> Result<Schedule> {
        let recorder = Recorder::default();
        let recorded = recorder.took.clone();
        let machine = ground.machine(&self.file, None, seed)?;
        let rt = Runtime::builder().compute_units("1:GPU:1").simulate(machine).policy(recorder).build()?;
        self.runs(&rt, RUNS)?;
        let took = recorded.lock().map_err(|error| error.to_string())?;
        let (cost, cpus) = (&self.problem.cost, self.case.cpus);
        let gpu = self.problem.units() - 1;
        let last = took.len() - cost.len();
        let factor = |task: usize| took[last + task] / cost[task][gpu];
        let kind = |unit: usize| if unit < cpus { (false, unit) } else { (true, unit - cpus) };
        let takes = |task: usize, unit: usize, start: f64| {
            ground.end_ns(kind(unit), start, factor(task) * cost[task][unit]) - start
        };
        Ok(heft_with(&self.problem, &takes))
    }
}
