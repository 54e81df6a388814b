//! METG(50%): the smallest task with which a runtime still reaches half of the machine's peak rate, after Task
//! Bench, compared with other runtimes in the same run.
//!
//! `cargo bench --bench metg -- --help` lists the arguments. The bench prints a table for each number of workers;
//! `--json FILE` writes the rows `{pattern, contender, workers, metg_us, best_us, peak_gflops, width, steps, fields,
//! samples}`.
//!
//! The steps use several rows of cells (fields) in rotation. The number of fields is not part of a pattern, but it
//! matters to some contenders: libgomp walks the list of a cell's pending accesses, so it is slow if there are few
//! fields. By default each task has its own cell, which suits every contender; Task Bench's OpenMP and StarPU programs
//! have as many fields as points (`--fields 16`), and `--fields 2` is double buffering.
//!
//! Every task checks the ids in its inputs; a contender that violates a dependence is reported as failed and gets no
//! result.

mod contenders;
mod efficiency;
#[path = "../harness/mod.rs"]
mod harness;
mod kernel;
mod patterns;

use std::error::Error;
use std::num::NonZeroUsize;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use serde::Serialize;

use contenders::{SERIAL, THALWEG};
use efficiency::Sweep;
use harness::{
    Campaign, Common, Contender, Failure, Launch, Series, Table, Workshop, agree, answer, exit, least, median,
    median_ratio, tracks_dependences, write_json,
};
use patterns::{Grid, Pattern};

/// Number of grid steps whose patterns are compared with every C contender before anything is measured.
const COMPARED: usize = 12;
/// Number of times that the plain loop's rate is measured for each number of workers, before the sweeps.
const PEAKS: usize = 5;

/// METG(50%), the smallest task that reaches half of the peak, compared with other runtimes
#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(flatten)]
    common: Common,

    /// Run only these patterns, separated by commas [default: all]
    #[arg(long, value_enum, value_name = "NAME", value_delimiter = ',')]
    pattern: Vec<Pattern>,

    /// Number of points of the grid
    #[arg(long, value_name = "N", default_value = "16")]
    width: NonZeroUsize,

    /// Number of steps of the grid [default: 1000]
    #[arg(long, value_name = "N")]
    steps: Option<NonZeroUsize>,

    /// Number of rows of cells that the steps use in rotation, at least 2 [default: the number of steps]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..))]
    fields: Option<u32>,

    #[command(subcommand)]
    child: Option<Child>,
}

#[derive(Debug, clap::Subcommand)]
enum Child {
    /// Internal: measures a contender written in Rust, in a child process
    #[command(hide = true)]
    Contender { name: String, pattern: Pattern, width: usize, steps: usize, fields: usize, workers: usize, peak: f64 },
    /// Internal: measures the rate of a plain loop, in a child process
    #[command(hide = true)]
    Peak { workers: usize },
}

/// A row of the JSON file.
#[derive(Debug, Serialize)]
struct Row {
    pattern: &'static str,
    contender: &'static str,
    workers: usize,
    /// The median over repetitions.
    metg_us: f64,
    /// The least over repetitions.
    best_us: f64,
    /// The peak: the highest rate reached in this run on this number of workers.
    peak_gflops: f64,
    width: usize,
    steps: usize,
    fields: usize,
    /// METG of each repetition, in microseconds.
    samples: Vec<f64>,
}

fn main() -> ExitCode {
    exit(run(&Arguments::parse()))
}

fn run(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    match &arguments.child {
        Some(Child::Contender { name, pattern, width, steps, fields, workers, peak }) => {
            let grid = Grid::new(*pattern, *width, *steps, *fields);
            let sweep = contenders::run(name, grid, *workers, *peak)?;
            println!("{}", serde_json::to_string(&sweep)?);
            Ok(ExitCode::SUCCESS)
        }
        Some(Child::Peak { workers }) => {
            println!("{}", kernel::plain_rate(*workers));
            Ok(ExitCode::SUCCESS)
        }
        None => bench(arguments),
    }
}

fn bench(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    let common = &arguments.common;
    let workshop = Workshop::new()?;
    let mut all = vec![Contender::this_bench(THALWEG)];
    all.extend(workshop.contenders("metg"));
    all.push(Contender::this_bench(SERIAL));
    let mut campaign = Campaign::new(all, &common.contender)?;
    campaign.require(|name, launch| agree_on_patterns(arguments, name, launch));

    let mut rows = Vec::new();
    for workers in common.workers.iter().map(|workers| workers.get()) {
        let plain = peak(workers)?;
        // On a busy machine, the rate measured with several threads at once may be too low. The end of a sweep is
        // therefore determined by the better of the two rates, while efficiencies refer to the highest rate that was
        // actually reached.
        let told = plain.max(peak(1)? * workers as f64);
        let sweeps: Vec<_> = chosen(&arguments.pattern)
            .into_iter()
            .map(|pattern| (pattern, measure(&mut campaign, arguments, pattern, workers, told)))
            .collect();
        let highest = sweeps
            .iter()
            .flat_map(|(_, series)| series)
            .flat_map(|series| series.samples.iter().map(Sweep::best_rate))
            .fold(plain, f64::max);
        for (pattern, series) in &sweeps {
            for series in series {
                match row(arguments, *pattern, workers, highest, series) {
                    Some(row) => rows.push(row),
                    None => println!(
                        "no METG: {}, {}, {workers} worker(s): half of the peak is out of reach",
                        series.contender,
                        pattern.name()
                    ),
                }
            }
        }
        print_table(&campaign.names(), &rows, workers, highest);
    }
    if let Some(path) = &common.json {
        write_json(path, &rows)?;
    }
    Ok(campaign.conclude())
}

fn chosen(patterns: &[Pattern]) -> Vec<Pattern> {
    if patterns.is_empty() { Pattern::value_variants().to_vec() } else { patterns.to_vec() }
}

fn steps(arguments: &Arguments) -> usize {
    arguments.steps.map_or_else(|| arguments.common.default_size(1000, 20), NonZeroUsize::get)
}

/// Returns the number of rows of cells that the steps use in rotation.
fn fields(arguments: &Arguments) -> usize {
    arguments.fields.map_or_else(|| steps(arguments).max(2), |fields| fields as usize)
}

/// Checks that a C contender generates the same patterns as this bench.
fn agree_on_patterns(arguments: &Arguments, name: &str, launch: &Launch) -> Result<(), Failure> {
    if [THALWEG, SERIAL].contains(&name) {
        return Ok(());
    }
    let width = arguments.width.get();
    Pattern::value_variants().iter().try_for_each(|pattern| {
        let words = ["list", pattern.name(), &width.to_string(), &COMPARED.to_string()].map(str::to_owned);
        agree(launch, &words, &Grid::new(*pattern, width, COMPARED, COMPARED).listing())
    })
}

/// Returns the best rate of a plain loop on `workers` threads, in operations per second.
fn peak(workers: usize) -> Result<f64, Box<dyn Error>> {
    let launch = Launch { leading: vec!["peak".to_owned()], ..Launch::this_bench(SERIAL)? };
    let mut highest: f64 = 0.0;
    for _ in 0..PEAKS {
        highest = highest.max(answer(&launch, &[workers.to_string()], workers)?);
    }
    Ok(highest)
}

fn measure(
    campaign: &mut Campaign,
    arguments: &Arguments,
    pattern: Pattern,
    workers: usize,
    peak: f64,
) -> Vec<Series<Sweep>> {
    let (width, steps) = (arguments.width.get(), steps(arguments));
    let words = [
        pattern.name().to_owned(),
        width.to_string(),
        steps.to_string(),
        fields(arguments).to_string(),
        workers.to_string(),
        peak.to_string(),
    ];
    campaign.run(
        &format!("{}, {workers} worker(s)", pattern.name()),
        arguments.common.repetitions(),
        // The serial loop has only one worker, so it is only compared with the peak of one worker.
        |name| name != SERIAL || workers == 1,
        |_, launch| {
            let sweep: Sweep = answer(launch, &words, workers)?;
            if sweep.tasks != width * steps {
                return Err(Failure::Wrong(format!("ran {} tasks, not {}", sweep.tasks, width * steps)));
            }
            Ok(sweep)
        },
        |sweep| sweep.metg_us(workers, peak).unwrap_or(f64::INFINITY),
    )
}

/// Returns the row of a series, or `None` if the contender did not reach half of the highest rate of all contenders.
fn row(arguments: &Arguments, pattern: Pattern, workers: usize, peak: f64, series: &Series<Sweep>) -> Option<Row> {
    let samples: Option<Vec<f64>> = series.samples.iter().map(|sweep| sweep.metg_us(workers, peak)).collect();
    let samples = samples?;
    Some(Row {
        pattern: pattern.name(),
        contender: series.contender,
        workers,
        metg_us: median(&samples)?,
        best_us: least(samples.iter().copied())?,
        peak_gflops: peak / 1e9,
        width: arguments.width.get(),
        steps: steps(arguments),
        fields: fields(arguments),
        samples,
    })
}

/// Prints patterns as rows and contenders as columns, and the ratio of Thalweg to the best contender with data
/// dependences in the same repetition.
fn print_table(contenders: &[&str], rows: &[Row], workers: usize, peak: f64) {
    let columns: Vec<&str> = contenders.iter().copied().chain(["thalweg / best"]).collect();
    let mut table = Table::new("pattern", &columns);
    for pattern in Pattern::value_variants() {
        let of = |contender: &str| {
            rows.iter()
                .find(|row| row.workers == workers && row.pattern == pattern.name() && row.contender == contender)
        };
        let rivals: Vec<&[f64]> = contenders
            .iter()
            .filter(|name| ![THALWEG, SERIAL].contains(name) && tracks_dependences(name, workers))
            .filter_map(|name| of(name).map(|row| row.samples.as_slice()))
            .collect();
        let ratio = of(THALWEG).and_then(|ours| median_ratio(&ours.samples, &rivals));
        let mut figures: Vec<Option<String>> =
            contenders.iter().map(|name| of(name).map(|row| format!("{:.2}", row.metg_us))).collect();
        if figures.iter().all(Option::is_none) {
            continue;
        }
        figures.push(ratio.map(|ratio| format!("{ratio:.2}")));
        table.row(pattern.name(), figures);
    }
    table.print(&format!("METG(50%) in µs, {workers} worker(s), peak {:.2} Gflop/s", peak / 1e9));
}
