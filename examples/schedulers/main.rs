//! Repetition of the article's evaluation, which asks which work distribution makes CPUs and GPUs together faster than
//! GPUs alone.
//!
//! Runs BT-MZ, SP-MZ and LU-MZ under every scheduler on every configuration of the article (González Tallada and
//! Morancho, Frontiers in High Performance Computing 2, 2024, figures 10, 12 and 14 to 16), on a simulated machine.
//! Prints both periods and their speed-ups, and writes them next to the article's figures (`--page`). With `--real`
//! it runs on this machine's cores and on emulated devices that are slower than a core.
//!
//! ```text
//! cargo run --profile bench --example schedulers -- --out evaluation
//! cargo run --release --example schedulers -- --class W --real
//! cargo run --profile bench --example schedulers -- --suite --out evaluation
//! cargo run --profile bench --example schedulers -- --seeds 30 --out evaluation
//! ```

mod bound;
mod chart;
#[path = "../common/mod.rs"]
#[allow(dead_code, reason = "this program has its own flags")]
mod common;
mod configurations;
mod evaluation;
mod evolution;
mod graphs;
mod interval;
mod moving;
mod published;
mod rivals;
mod seeds;
mod suite;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use npb::mz::{Benchmark, Class, Fuse, Norms, run_serially};
use rayon::prelude::*;
use thalweg::SimulatedMachine;

use bound::Machine;
use common::{Result, integer};
use configurations::{Configuration, SCHEDULERS};
use evaluation::{Measured, Place, Row, Task};

/// Repeats the sources' evaluation of work distributions
#[derive(Parser)]
struct Options {
    /// Problem class
    #[arg(long, visible_alias = "size", value_enum, default_value = "D", hide_possible_values = true)]
    class: Class,
    /// Benchmarks, separated by commas
    #[arg(long = "benchmark", value_enum, value_delimiter = ',', default_value = "bt,sp,lu")]
    benchmarks: Vec<Benchmark>,
    /// Schedulers, separated by commas [default: all]
    #[arg(long = "scheduler", value_name = "NAME", value_delimiter = ',', value_parser = SCHEDULERS)]
    schedulers: Vec<String>,
    /// Machine to simulate
    #[arg(long, value_name = "FILE", default_value = "machines/epyc7742-2xmi50.toml")]
    simulate: PathBuf,
    /// Run on this machine's cores and emulated devices instead
    #[arg(long, conflicts_with = "simulate")]
    real: bool,
    /// Speed of an emulated device relative to a core, at most 1
    #[arg(long, value_name = "FACTOR", default_value = "0.5", requires = "real")]
    speed: f64,
    /// Run the suite instead: other programs and machines, compared by their time over a lower bound. TEXT selects
    /// the programs whose names contain it
    #[arg(long, value_name = "TEXT", num_args = 0..=1, default_missing_value = "", conflicts_with_all = ["real", "from"])]
    suite: Option<String>,
    /// Run factorizations on machines that others measured, with the schedulers of others as baselines, and write
    /// graphs.csv. TEXT selects the cases whose names contain it
    #[arg(long, value_name = "TEXT", num_args = 0..=1, default_missing_value = "", conflicts_with_all = ["real", "from", "suite"])]
    graphs: Option<String>,
    /// Run the summary's configurations and schedulers with this many seeds for the noise, and write seeds.csv. With
    /// `--graphs`, the number of its seeds [default: 30]
    #[arg(long, value_name = "N", value_parser = integer(1..=1000), conflicts_with_all = ["real", "from", "suite"])]
    seeds: Option<usize>,
    /// Run on machines that change during a run and with too little memory, compare with an oracle that knows, and
    /// write moving.csv. TEXT selects the cases whose names contain it
    #[arg(long, value_name = "TEXT", num_args = 0..=1, default_missing_value = "", conflicts_with_all = ["real", "from", "suite", "graphs", "seeds"])]
    moving: Option<String>,
    /// Maximum number of time steps in which a scheduler can settle, before those that count
    #[arg(long, value_name = "N", default_value = "250", value_parser = integer(0..=10_000))]
    steps: usize,
    /// Write evaluation.csv, a chart per benchmark, and the steps of `clustered-guided` to this folder
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Update the tables of these pages, separated by commas
    #[arg(long, value_name = "FILES", value_delimiter = ',', conflicts_with = "real")]
    page: Vec<PathBuf>,
    /// Read the measurements from an evaluation.csv instead of running
    #[arg(long, value_name = "FILE", conflicts_with_all = ["real", "check"])]
    from: Option<PathBuf>,
    /// Fail if a run differs from this evaluation.csv
    #[arg(long, value_name = "FILE", conflicts_with = "real")]
    check: Option<PathBuf>,
}

/// The scheduler whose runs take longest, because it settles late.
const LONGEST: &str = "guided-runtime";

/// One run.
#[derive(Clone, Copy)]
struct Run {
    configuration: Configuration,
    scheduler: &'static str,
}

fn main() -> ExitCode {
    let options = Options::parse();
    options.run().map_or_else(
        |error| {
            eprintln!("error: {error}");
            ExitCode::from(2)
        },
        |()| ExitCode::SUCCESS,
    )
}

impl Options {
    fn run(&self) -> Result<()> {
        if let Some(only) = &self.suite {
            return self.run_suite(only);
        }
        if let Some(only) = &self.graphs {
            return self.run_graphs(only);
        }
        if let Some(only) = &self.moving {
            return self.run_moving(only);
        }
        if let Some(seeds) = self.seeds {
            return self.run_seeds(seeds as u64);
        }
        if let Some(path) = &self.from {
            return self.write(&table::from_csv(&std::fs::read_to_string(path)?)?);
        }
        let place = if self.real {
            Place::Real { speed: self.speed }
        } else {
            Place::Simulated(SimulatedMachine::from_file(&self.simulate)?)
        };
        let runs: Vec<Run> = self.benchmarks.iter().flat_map(|&benchmark| self.runs(benchmark)).collect();
        let style = ProgressStyle::with_template("{bar:40} {pos}/{len} runs, {eta} left")?;
        let bar = ProgressBar::new(runs.len() as u64).with_style(style);
        // In a simulation nothing is computed, so there is nothing to compare.
        let real = self.benchmarks.iter().filter(|_| self.real);
        let expected: Vec<(Benchmark, Norms)> = real.map(|&benchmark| (benchmark, self.expected(benchmark))).collect();
        let one = |run: &Run| -> std::result::Result<(Run, Measured), String> {
            let measured =
                self.measure(&place, *run, &expected).map_err(|error| format!("{}: {error}", run.configuration))?;
            bar.inc(1);
            Ok((*run, measured))
        };
        // Simulations run in parallel; real runs need the machine for themselves.
        let measured: Vec<(Run, Measured)> = if self.real {
            runs.iter().map(one).collect::<std::result::Result<_, _>>()?
        } else {
            side_by_side(&runs, |run| run.scheduler == LONGEST, one)?
        };
        bar.finish_and_clear();
        let machine = (!self.real).then(|| Machine::from_file(&self.simulate)).transpose()?;
        let bound = |configuration| machine.as_ref()?.bound(configuration, self.class);
        let measured: Vec<_> = measured
            .into_iter()
            .map(|(Run { configuration, scheduler }, measured)| {
                (configuration, scheduler, measured, bound(configuration))
            })
            .collect();
        let rows = Row::all(&measured);
        table::print(&rows);
        if self.real {
            println!("VERIFIED: the results of all {} runs are those of the plain loop", measured.len());
        }
        if let Some(path) = &self.check {
            same(&table::to_csv(&rows), path)?;
        }
        if let (Place::Simulated(machine), Some(folder)) = (&place, &self.out) {
            std::fs::create_dir_all(folder)?;
            evolution::write(machine, folder)?;
        }
        self.write(&rows)
    }

    /// Runs the factorizations with the baselines; compares and writes them like the evaluation.
    fn run_graphs(&self, only: &str) -> Result<()> {
        let machines = self.simulate.parent().unwrap_or_else(|| std::path::Path::new("."));
        let rows = graphs::run(machines, only, self.seeds.unwrap_or(30))?;
        let tables = graphs::tables(&rows);
        tables.iter().for_each(|(_, table)| println!("{table}"));
        self.publish(&tables, &graphs::to_csv(&rows), |folder| graphs::write(&rows, folder))
    }

    /// Runs the summary with several seeds; compares and writes the rows like the evaluation.
    fn run_seeds(&self, seeds: u64) -> Result<()> {
        let machine = SimulatedMachine::from_file(&self.simulate)?;
        let configurations: Vec<Configuration> =
            self.benchmarks.iter().flat_map(|&benchmark| Configuration::summarized(benchmark)).collect();
        let rows = seeds::run(&configurations, 1..=seeds, |run, seed| self.measure_with(&machine, run, seed))?;
        let machine = Machine::from_file(&self.simulate)?;
        let tables = seeds::tables(&rows, &|configuration| machine.bound(configuration, self.class))?;
        tables.iter().for_each(|(_, table)| println!("{table}"));
        self.publish(&tables, &seeds::to_csv(&rows), |folder| seeds::write(&rows, folder))
    }

    /// Runs on moving ground; compares and writes the rows like the evaluation.
    fn run_moving(&self, only: &str) -> Result<()> {
        let machines = self.simulate.parent().unwrap_or_else(|| std::path::Path::new("."));
        let rows = moving::run(machines, only)?;
        let tables = moving::tables(&rows);
        tables.iter().for_each(|(name, table)| println!("{name}\n{table}"));
        self.publish(&tables, &moving::to_csv(&rows), |folder| moving::write(&rows, folder))
    }

    /// Runs the suite; compares and writes it like the evaluation.
    fn run_suite(&self, only: &str) -> Result<()> {
        let machines = self.simulate.parent().unwrap_or_else(|| std::path::Path::new("."));
        let rows = suite::run(machines, only)?;
        println!("{}", suite::table(&rows));
        let tables = [("suite".to_owned(), suite::table(&rows))];
        self.publish(&tables, &suite::to_csv(&rows), |folder| suite::write(&rows, folder))
    }

    /// Compares the rows with the requested file, and writes the requested files and pages.
    fn publish(
        &self,
        tables: &[(String, String)],
        csv: &str,
        write: impl FnOnce(&std::path::Path) -> Result<()>,
    ) -> Result<()> {
        if let Some(path) = &self.check {
            same(csv, path)?;
        }
        if let Some(folder) = &self.out {
            std::fs::create_dir_all(folder)?;
            write(folder)?;
        }
        self.page.iter().try_for_each(|page| table::update(page, tables))
    }

    /// Writes the requested page and files.
    fn write(&self, rows: &[Row]) -> Result<()> {
        // Use the rounded numbers from the CSV text, so that `--from` writes the same pages.
        let tables = table::all(&table::from_csv(&table::to_csv(rows))?);
        self.page.iter().try_for_each(|page| table::update(page, &tables))?;
        let Some(folder) = &self.out else { return Ok(()) };
        std::fs::create_dir_all(folder)?;
        std::fs::write(folder.join("evaluation.csv"), table::to_csv(rows))?;
        for &benchmark in &self.benchmarks {
            let name = format!("{benchmark:?}_mz.svg").to_lowercase();
            chart::draw(benchmark, rows, &folder.join(name))?;
        }
        println!("written to {}", folder.display());
        Ok(())
    }

    /// Returns every configuration of a benchmark under every scheduler, or under one if there is no choice.
    fn runs(&self, benchmark: Benchmark) -> Vec<Run> {
        let configurations =
            if self.real { Configuration::on_this_machine(benchmark) } else { Configuration::all(benchmark) };
        let wanted = |scheduler: &&str| self.schedulers.is_empty() || self.schedulers.iter().any(|s| s == scheduler);
        let mut runs = Vec::new();
        for configuration in configurations {
            // The baselines run under `static`.
            let is_base = configuration.cores == 0 || !configuration.has_choice();
            let schedulers = SCHEDULERS.iter().copied();
            let chosen: Vec<&str> = if is_base { vec!["static"] } else { schedulers.filter(wanted).collect() };
            runs.extend(chosen.into_iter().map(|scheduler| Run { configuration, scheduler }));
        }
        runs
    }

    /// Computes the expected results of a run in a plain loop.
    fn expected(&self, benchmark: Benchmark) -> Norms {
        run_serially(benchmark, &benchmark.problem(self.class), evaluation::all_steps(self.steps), 1, Fuse::Step).norms
    }

    /// Measures a run on a machine with this seed for its noise.
    fn measure_with(&self, machine: &SimulatedMachine, run: Run, seed: u64) -> Result<Measured> {
        self.measure(&Place::Simulated(machine.clone().with_noise(seed, graphs::DEVIATION)), run, &[])
    }

    fn measure(
        &self,
        place: &Place,
        Run { configuration, scheduler }: Run,
        expected: &[(Benchmark, Norms)],
    ) -> Result<Measured> {
        let units = if self.real { configuration.units().replace("GPU", "EMU") } else { configuration.units() };
        let steps = if self.real { self.steps } else { Configuration::steps(scheduler, self.steps) };
        let scheduler = configuration.scheduler(scheduler);
        let benchmark = configuration.benchmark;
        let norms = expected.iter().find(|(of, _)| *of == benchmark).map(|(_, norms)| norms);
        let task = Task { benchmark, class: self.class, units: &units, scheduler: &scheduler, steps };
        evaluation::run(place, task, norms)
    }
}

/// Runs `one` for all items on all cores, long ones first, and returns the results in the order of the items.
fn side_by_side<T: Sync, R: Send>(
    all: &[T],
    is_long: impl Fn(&T) -> bool,
    one: impl Fn(&T) -> std::result::Result<R, String> + Sync,
) -> std::result::Result<Vec<R>, String> {
    let mut in_turn: Vec<(usize, &T)> = all.iter().enumerate().collect();
    in_turn.sort_by_key(|(_, item)| !is_long(item));
    // One item at a time, so that an idle thread takes the next.
    let done = in_turn.into_iter().par_bridge().map(|(at, item)| Ok((at, one(item)?)));
    let mut done: Vec<(usize, R)> = done.collect::<std::result::Result<_, String>>()?;
    done.sort_unstable_by_key(|(at, _)| *at);
    Ok(done.into_iter().map(|(_, result)| result).collect())
}

/// Checks that all lines are in a file, which must hold because simulations are reproducible to the last digit.
fn same(here: &str, path: &std::path::Path) -> Result<()> {
    let known = std::fs::read_to_string(path)?;
    let known: std::collections::BTreeSet<&str> = known.lines().collect();
    match here.lines().find(|line| !known.contains(line)) {
        Some(line) => Err(format!("{} has no such line: {line}", path.display()).into()),
        None => {
            println!("SAME: {} rows are those of {}", here.lines().count() - 1, path.display());
            Ok(())
        }
    }
}
