//! Which work distribution makes CPUs and GPUs together faster than GPUs alone: the evaluation of the sources, again.
//!
//! Runs BT-MZ, SP-MZ and LU-MZ under every scheduler on every configuration of the article (González Tallada and
//! Morancho, Frontiers in High Performance Computing 2, 2024, figures 10, 12 and 14 to 16), on a simulated machine;
//! prints both periods and their speed-ups, and beside them the ranges that the article reports. With `--real` it runs on
//! this machine's cores and on emulated devices that are slower than a core.
//!
//! ```text
//! cargo run --release --example schedulers -- --class D --out evaluation
//! cargo run --release --example schedulers -- --class W --real
//! ```

#[path = "../common/mod.rs"]
#[allow(dead_code, reason = "this program has flags of its own")]
mod common;
mod configurations;
mod evaluation;
mod published;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use npb::mz::{Benchmark, Class, Fuse, Norms, run_serially};
use rayon::prelude::*;
use thalweg::SimulatedMachine;

use common::{Result, integer};
use configurations::{Configuration, SCHEDULERS};
use evaluation::{Measured, Place, Row};

/// The sources' evaluation of work distributions, again
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
    /// The machine that is simulated
    #[arg(long, value_name = "FILE", default_value = "machines/epyc7742-2xmi50.toml")]
    simulate: PathBuf,
    /// Run on this machine's cores and emulated devices instead
    #[arg(long, conflicts_with = "simulate")]
    real: bool,
    /// How fast an emulated device is beside a core, at most 1
    #[arg(long, value_name = "FACTOR", default_value = "0.5", requires = "real")]
    speed: f64,
    /// Time steps of a run; the last 8 count, when the distributions have found their answer
    #[arg(long, value_name = "N", default_value = "56", value_parser = integer(8..=10_000))]
    steps: usize,
    /// Write evaluation.csv and a chart per benchmark to this folder
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

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
        // Simulations run side by side; real runs need the machine for themselves.
        let measured: Vec<(Run, Measured)> = if self.real {
            runs.iter().map(one).collect::<std::result::Result<_, _>>()?
        } else {
            runs.par_iter().map(one).collect::<std::result::Result<_, _>>()?
        };
        bar.finish_and_clear();
        let rows = rows(&measured);
        report::print_rows(&rows);
        if self.real {
            println!("VERIFIED: the results of all {} runs are those of the plain loop", measured.len());
        }
        if !self.real && self.class == Class::D {
            report::print_ranges(&rows);
        }
        let Some(folder) = &self.out else { return Ok(()) };
        std::fs::create_dir_all(folder)?;
        report::write_csv(&rows, &folder.join("evaluation.csv"))?;
        for &benchmark in &self.benchmarks {
            let name = format!("{benchmark:?}_mz.svg").to_lowercase();
            report::draw(benchmark, &rows, &folder.join(name))?;
        }
        println!("written to {}", folder.display());
        Ok(())
    }

    /// Every configuration of a benchmark under every scheduler, or under one where there is no choice.
    fn runs(&self, benchmark: Benchmark) -> Vec<Run> {
        let configurations =
            if self.real { Configuration::on_this_machine(benchmark) } else { Configuration::all(benchmark) };
        let wanted = |scheduler: &&str| self.schedulers.is_empty() || self.schedulers.iter().any(|s| s == scheduler);
        let mut runs = Vec::new();
        for configuration in configurations {
            // What others are compared with runs under `static`.
            let is_base = configuration.cores == 0 || !configuration.has_choice();
            let schedulers = SCHEDULERS.iter().copied();
            let chosen: Vec<&str> = if is_base { vec!["static"] } else { schedulers.filter(wanted).collect() };
            runs.extend(chosen.into_iter().map(|scheduler| Run { configuration, scheduler }));
        }
        runs
    }

    /// What a run of so many steps has to result in, by a plain loop.
    fn expected(&self, benchmark: Benchmark) -> Norms {
        run_serially(benchmark, &benchmark.problem(self.class), self.steps, 1, Fuse::Step).norms
    }

    fn measure(
        &self,
        place: &Place,
        Run { configuration, scheduler }: Run,
        expected: &[(Benchmark, Norms)],
    ) -> Result<Measured> {
        let units = if self.real { configuration.units().replace("GPU", "EMU") } else { configuration.units() };
        let scheduler = configuration.scheduler(scheduler);
        let benchmark = configuration.benchmark;
        let norms = expected.iter().find(|(of, _)| *of == benchmark).map(|(_, norms)| norms);
        evaluation::run(place, benchmark, self.class, &units, &scheduler, self.steps, norms)
    }
}

/// Each run beside what it is compared with.
fn rows(measured: &[(Run, Measured)]) -> Vec<Row> {
    let of = |wanted: Configuration| {
        let found = measured.iter().find(|(run, _)| run.configuration == wanted && run.scheduler == "static");
        found.map(|(_, measured)| *measured)
    };
    let row = |(run, measured): &(Run, Measured)| {
        let Run { configuration, scheduler } = *run;
        let serial = of(Configuration::serial(configuration.benchmark))?;
        let gpus_alone = (configuration.gpus > 0).then(|| of(configuration.gpus_alone())).flatten();
        Some(Row { configuration, scheduler, measured: *measured, serial, gpus_alone })
    };
    measured.iter().filter_map(row).collect()
}
