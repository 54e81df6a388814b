//! Cost of a task: time per empty task and bytes per pending task, compared with other runtimes in the same run. Each
//! task graph stresses one mechanism.
//!
//! `cargo bench --bench overhead -- --help` lists the arguments. The bench prints a table for each number of workers,
//! followed by the goals; `--json FILE` writes the rows `{problem, contender, workers, ns_per_task, bytes_per_task,
//! ...}`.
//!
//! Results are not checked, because bodies are empty. Dependences are checked by the tests and by the bench `metg`,
//! whose tasks check their inputs.

mod contenders;
mod goals;
#[path = "../harness/mod.rs"]
mod harness;
mod problems;

use std::error::Error;
use std::num::NonZeroUsize;
use std::process::ExitCode;

use clap::Parser;
use serde::Serialize;

use contenders::{Answer, RAYON, THALWEG, TRACED, is_rival, offers};
use goals::Case;
use harness::{
    Campaign, Common, Contender, Failure, Launch, Series, Table, Workshop, agree, answer, exit, least, median,
    write_json,
};
use problems::Problem;

/// Number of random accesses that are compared with every C contender before anything is measured.
const COMPARED: usize = 1000;

/// Time per empty task and bytes per pending task, compared with other runtimes
#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(flatten)]
    common: Common,

    /// Run only these problems, separated by commas [default: all]
    #[arg(long, value_enum, value_name = "NAME", value_delimiter = ',')]
    problem: Vec<Problem>,

    /// Number of empty tasks per pass; wavefront uses 4/5 of it, memory 5 times as many [default: 200000]
    #[arg(long, value_name = "N")]
    tasks: Option<NonZeroUsize>,

    /// Number of timed passes per run, of which the fastest counts
    #[arg(long, value_name = "N", default_value = "3")]
    passes: NonZeroUsize,

    #[command(subcommand)]
    child: Option<Child>,
}

#[derive(Debug, clap::Subcommand)]
enum Child {
    /// Internal: measures a contender written in Rust, in a child process
    #[command(hide = true)]
    Contender { name: String, problem: Problem, tasks: usize, workers: usize, passes: usize },
}

/// A row of the JSON file.
#[derive(Debug, Serialize)]
struct Row {
    problem: &'static str,
    contender: &'static str,
    workers: usize,
    /// The median over repetitions.
    ns_per_task: f64,
    /// The least over repetitions.
    best_ns: f64,
    /// The median over repetitions; in `memory` only.
    bytes_per_task: Option<f64>,
    tasks: usize,
    /// Whether the contender orders tasks by their data on this number of workers. Thalweg's goals refer only to
    /// contenders that do.
    tracks_dependences: bool,
    /// Time per task in each repetition, in nanoseconds.
    samples: Vec<f64>,
}

fn main() -> ExitCode {
    exit(run(&Arguments::parse()))
}

fn run(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    let Some(Child::Contender { name, problem, tasks, workers, passes }) = &arguments.child else {
        return bench(arguments);
    };
    let answer = contenders::run(name, *problem, *tasks, *workers, *passes)?;
    println!("{}", serde_json::to_string(&answer)?);
    // In `memory`, tasks are still pending on other threads; exiting abandons them.
    std::process::exit(0);
}

fn bench(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    let common = &arguments.common;
    let workshop = Workshop::new()?;
    let mut all = vec![Contender::this_bench(THALWEG), Contender::this_bench(TRACED), Contender::this_bench(RAYON)];
    all.extend(workshop.contenders("overhead"));
    let mut campaign = Campaign::new(all, &common.contender)?;
    campaign.require(agree_on_draws);

    let mut cases = Vec::new();
    let mut rows = Vec::new();
    for workers in common.workers.iter().map(|workers| workers.get()) {
        for problem in chosen(&arguments.problem) {
            let series = measure(&mut campaign, arguments, problem, workers);
            rows.extend(series.iter().filter_map(|series| row(problem, workers, series)));
            cases.push(Case { problem, workers, times: series.into_iter().map(times).collect() });
        }
        print_table(&campaign.names(), &rows, workers);
    }
    goals::print(&cases);
    print_notes(&campaign.names(), &cases);
    if let Some(path) = &common.json {
        write_json(path, &rows)?;
    }
    Ok(campaign.conclude())
}

fn chosen(problems: &[Problem]) -> Vec<Problem> {
    if problems.is_empty() { <Problem as clap::ValueEnum>::value_variants().to_vec() } else { problems.to_vec() }
}

/// Checks that a C contender draws the same accesses for `random`.
fn agree_on_draws(name: &str, launch: &Launch) -> Result<(), Failure> {
    if [THALWEG, TRACED, RAYON].contains(&name) {
        return Ok(());
    }
    let words = ["list".to_owned(), COMPARED.to_string()];
    agree(launch, &words, &problems::listing(COMPARED))
}

fn measure(campaign: &mut Campaign, arguments: &Arguments, problem: Problem, workers: usize) -> Vec<Series<Answer>> {
    let tasks = arguments.tasks.map_or_else(|| arguments.common.default_size(200_000, 2_000), NonZeroUsize::get);
    let tasks = problem.tasks(tasks);
    let words = [problem.name().to_owned(), tasks.to_string(), workers.to_string(), arguments.passes.to_string()];
    // One repetition of `memory` is enough: memory use does not vary, and libomp needs half a minute for a million
    // readers of one data object.
    let repetitions = match problem {
        Problem::Memory => 1,
        _ => arguments.common.repetitions(),
    };
    campaign.run(
        &format!("{problem}, {workers} worker(s)"),
        repetitions,
        |name| offers(name, problem, workers).is_ok(),
        |_, launch| {
            let answer: Answer = answer(launch, &words, workers)?;
            if answer.tasks == tasks {
                Ok(answer)
            } else {
                Err(Failure::Wrong(format!("ran {} tasks, not {tasks}", answer.tasks)))
            }
        },
        |answer| answer.bytes_per_task.unwrap_or(answer.ns_per_task),
    )
}

fn times(series: Series<Answer>) -> Series<f64> {
    Series { contender: series.contender, samples: series.samples.iter().map(|answer| answer.ns_per_task).collect() }
}

fn row(problem: Problem, workers: usize, series: &Series<Answer>) -> Option<Row> {
    let samples: Vec<f64> = series.samples.iter().map(|answer| answer.ns_per_task).collect();
    let bytes: Vec<f64> = series.samples.iter().filter_map(|answer| answer.bytes_per_task).collect();
    Some(Row {
        problem: problem.name(),
        contender: series.contender,
        workers,
        ns_per_task: median(&samples)?,
        best_ns: least(samples.iter().copied())?,
        bytes_per_task: median(&bytes),
        tasks: series.samples[0].tasks,
        tracks_dependences: [THALWEG, TRACED].contains(&series.contender) || is_rival(series.contender, workers),
        samples,
    })
}

/// Prints problems as rows and contenders as columns: bytes in the row of `memory`, nanoseconds in all others.
fn print_table(contenders: &[&str], rows: &[Row], workers: usize) {
    let mut table = Table::new("problem", contenders);
    let memory = Problem::Memory.name();
    let mut problems: Vec<&str> = rows.iter().map(|row| row.problem).collect();
    problems.dedup();
    for problem in <Problem as clap::ValueEnum>::value_variants() {
        let problem = problem.name();
        let of = |contender: &&str| {
            let row = rows
                .iter()
                .find(|row| row.workers == workers && row.problem == problem && row.contender == *contender)?;
            let figure = if problem == memory { row.bytes_per_task? } else { row.ns_per_task };
            Some(format!("{figure:.0}"))
        };
        if problems.contains(&problem) {
            let unit = if problem == memory { "bytes" } else { "ns" };
            table.row(&format!("{problem}, {unit}"), contenders.iter().map(of));
        }
    }
    table.print(&format!("Per empty task, {workers} worker(s)"));
}

/// Prints why a figure is missing from the tables.
fn print_notes(contenders: &[&str], cases: &[Case]) {
    println!();
    for contender in contenders {
        let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
        for case in cases {
            let Err(why) = offers(contender, case.problem, case.workers) else {
                continue;
            };
            let label = case.problem.name();
            match reasons.iter_mut().find(|(reason, _)| *reason == why) {
                Some((_, labels)) if labels.contains(&label) => {}
                Some((_, labels)) => labels.push(label),
                None => reasons.push((why, vec![label])),
            }
        }
        for (why, labels) in reasons {
            println!("not offered: {contender}: {}: {why}", labels.join(", "));
        }
    }
}
