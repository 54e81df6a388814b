//! Whole programs, compared with versions without the runtime: a local alignment, a histogram, a factorization, a
//! service with small graphs, and waiting for external events.
//!
//! `cargo bench --bench programs -- --help` lists the arguments. Contenders are interleaved, run in separate processes,
//! and must produce the same answer. The plain loop runs on one core and is the baseline for per-core performance: with
//! *w* workers, a contender's rate per core is the loop's time divided by *w* times the contender's time.
//!
//! `--json FILE` writes the rows `{problem, contender, workers, figure, best, per_core, size, samples}`.

#[path = "../../examples/smith_waterman/kernel.rs"]
mod alignment;
mod cholesky;
mod goals;
#[path = "../harness/mod.rs"]
mod harness;
mod histogram;
mod idle;
#[allow(unsafe_code)] // calls C code that calls back
mod openmp;
mod problems;
mod service;
mod smith_waterman;

use std::cell::Cell;
use std::error::Error;
use std::num::NonZeroUsize;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use serde::Serialize;

use goals::Case;
use harness::{
    Campaign, Common, Contender, Failure, Series, Table, Workshop, answer, exit, least, median, median_ratio,
    write_json,
};
use problems::{Answer, PLAIN, Problem, RAYON, THALWEG};

/// Largest relative difference at which two answers count as the same. Contenders add in different orders, so their
/// rounding differs.
const SAME: f64 = 1e-9;

/// Whole programs compared with hand-written versions
#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(flatten)]
    common: Common,

    /// Run only these problems, separated by commas [default: all]
    #[arg(long, value_enum, value_name = "NAME", value_delimiter = ',')]
    problem: Vec<Problem>,

    /// Number of timed passes per run, of which the fastest counts; always 1 for the factorization
    #[arg(long, value_name = "N", default_value = "3")]
    passes: NonZeroUsize,

    #[command(subcommand)]
    child: Option<Child>,
}

#[derive(Debug, clap::Subcommand)]
enum Child {
    /// Internal: measures a contender, in a child process
    #[command(hide = true)]
    Contender { name: String, problem: Problem, size: usize, workers: usize, passes: usize },
}

/// A row of the JSON file.
#[derive(Debug, Serialize)]
struct Row {
    problem: &'static str,
    contender: &'static str,
    workers: usize,
    /// The median over repetitions, in seconds or, for the problem idle, in busy cores.
    figure: f64,
    /// The least over repetitions.
    best: f64,
    /// The plain loop's time divided by *w* times this contender's time on *w* workers: the median of the ratios within
    /// each repetition.
    per_core: Option<f64>,
    size: usize,
    /// The figure of each repetition.
    samples: Vec<f64>,
}

fn main() -> ExitCode {
    exit(run(&Arguments::parse()))
}

fn run(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    let Some(Child::Contender { name, problem, size, workers, passes }) = &arguments.child else {
        return bench(arguments);
    };
    let answer = problem.run(name, *size, *workers, *passes)?;
    println!("{}", serde_json::to_string(&answer)?);
    Ok(ExitCode::SUCCESS)
}

fn bench(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    let common = &arguments.common;
    let workshop = Workshop::new()?;
    let mut all = [THALWEG, RAYON, PLAIN].map(Contender::this_bench).to_vec();
    all.extend(workshop.openmp_libraries("programs", openmp::LIBRARY));
    let mut campaign = Campaign::new(all, &common.contender)?;

    let (mut cases, mut rows) = (Vec::new(), Vec::new());
    let chosen = if arguments.problem.is_empty() { Problem::value_variants() } else { &arguments.problem };
    for workers in common.workers.iter().map(|workers| workers.get()) {
        for &problem in chosen {
            let size = common.default_size(problem.size(), problem.smoke_size());
            let series = measure(&mut campaign, arguments, problem, size, workers);
            rows.extend(series.iter().filter_map(|one| row(problem, size, workers, one, &series)));
            cases.push(Case { problem, workers, series });
        }
    }
    print_table(&campaign.names(), &rows);
    goals::print(&cases);
    if let Some(path) = &common.json {
        write_json(path, &rows)?;
    }
    Ok(campaign.conclude())
}

fn measure(
    campaign: &mut Campaign,
    arguments: &Arguments,
    problem: Problem,
    size: usize,
    workers: usize,
) -> Vec<Series<Answer>> {
    let passes = if problem == Problem::Cholesky { 1 } else { arguments.passes.get() };
    let words = [problem.name().to_owned(), size.to_string(), workers.to_string(), passes.to_string()];
    let first = Cell::new(None);
    campaign.run(
        &format!("{problem}, {workers} worker(s)"),
        arguments.common.repetitions(),
        |name| problem.offers(name),
        |_, launch| {
            let answer: Answer = answer(launch, &words, workers)?;
            let expected: f64 = first.get().unwrap_or(answer.check);
            first.set(Some(expected));
            if (answer.check - expected).abs() <= SAME * expected.abs() {
                Ok(answer)
            } else {
                Err(Failure::Wrong(format!("its answer is {}, not {expected}", answer.check)))
            }
        },
        |answer| answer.figure,
    )
}

fn row(problem: Problem, size: usize, workers: usize, one: &Series<Answer>, all: &[Series<Answer>]) -> Option<Row> {
    let samples = figures(one);
    let per_core = all.iter().find(|other| other.contender == PLAIN).and_then(|plain| {
        Some(median_ratio(&figures(plain), &[&samples])? / if one.contender == PLAIN { 1.0 } else { workers as f64 })
    });
    let (problem, contender) = (problem.name(), one.contender);
    let (median, least) = (median(&samples)?, least(samples.iter().copied())?);
    Some(Row { problem, contender, workers, figure: median, best: least, per_core, size, samples })
}

/// Returns the measurement of each repetition.
fn figures(series: &Series<Answer>) -> Vec<f64> {
    series.samples.iter().map(|answer| answer.figure).collect()
}

/// Prints problems as rows and contenders as columns.
fn print_table(contenders: &[&str], rows: &[Row]) {
    let mut table = Table::new("problem", contenders);
    let mut cases: Vec<(&str, usize)> = rows.iter().map(|row| (row.problem, row.workers)).collect();
    cases.dedup();
    for (problem, workers) in cases {
        let of = |contender: &&str| {
            let is_this = |row: &&Row| (row.problem, row.workers, row.contender) == (problem, workers, *contender);
            let row = rows.iter().find(is_this)?;
            let per_core = row.per_core.map_or_else(String::new, |rate| format!(" ({rate:.2})"));
            Some(format!("{:.4}{per_core}", row.figure))
        };
        table.row(&format!("{problem}, {workers} worker(s)"), contenders.iter().map(of));
    }
    table.print("Seconds (rate per core to the plain loop's); of idle, cores busy");
}
