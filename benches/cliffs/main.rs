//! Costs that must not explode: the cost of a task or an event at a size n and at 8n, and its growth.
//!
//! `cargo bench --bench cliffs -- --help` lists the arguments. The bench prints a table; `--json FILE` writes rows
//! `{cliff, what, unit, small, large, cost_small, cost_large, growth, bound, within}`; `--check` fails if a cost is
//! beyond its bound. A cost per task that does not depend on the size has a growth of 1; if every task looks at all
//! others, the growth is 8.
//!
//! Each measurement runs in a separate process, so that cliffs do not share memory or threads. Each process has a time
//! limit, so a hang is reported as a failure. The sizes are small enough that even a quadratic cost stays within this
//! limit.

mod cliffs;
#[path = "../harness/mod.rs"]
mod harness;
mod meter;

use std::error::Error;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use serde::Serialize;

use cliffs::{ALL, Bound, Cliff};
use harness::{Launch, Table, answer_within, exit, least, write_json};

/// Time limit of one measurement.
const LIMIT: Duration = Duration::from_secs(60);

/// Ratio of the larger size to the smaller.
const FACTOR: usize = 8;

/// Growth of costs from a size n to 8n
#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Arguments {
    /// Run only cliffs whose names contain one of these words, separated by commas [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,

    /// Fail if a cost is beyond its bound
    #[arg(long)]
    check: bool,

    /// Write the rows to FILE as a JSON array
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Number of interleaved measurements of each size, and the smallest one counts [default: 3]
    #[arg(long, value_name = "N")]
    repetitions: Option<NonZeroUsize>,

    /// Smaller size to use instead of each cliff's default; `--only moving --size 125000` measures a million tasks
    #[arg(long, value_name = "N")]
    size: Option<NonZeroUsize>,

    /// Passed by `cargo bench`; without it each size is measured once
    #[arg(long, hide = true)]
    bench: bool,

    #[command(subcommand)]
    child: Option<Child>,
}

#[derive(Debug, clap::Subcommand)]
enum Child {
    /// Internal: measures one cliff at one size, in a child process
    #[command(hide = true)]
    Measure { cliff: String, size: usize },
}

/// A row of the JSON file.
#[derive(Debug, Serialize)]
struct Row {
    cliff: &'static str,
    /// What the sizes count, and what is measured.
    what: &'static str,
    unit: &'static str,
    small: usize,
    large: usize,
    /// Lowest cost over the repetitions; absent if a measurement failed.
    cost_small: Option<f64>,
    cost_large: Option<f64>,
    growth: Option<f64>,
    /// The bound in words.
    bound: String,
    within: Option<bool>,
}

fn main() -> ExitCode {
    exit(run(&Arguments::parse()))
}

fn run(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    if let Some(Child::Measure { cliff, size }) = &arguments.child {
        let cliff = ALL.iter().find(|known| known.name == cliff).ok_or_else(|| format!("no cliff {cliff:?}"))?;
        println!("{}", (cliff.measure)(*size)?);
        // Exit without waiting for tasks that the measurement has left pending.
        std::process::exit(0);
    }
    let is_chosen =
        |cliff: &&Cliff| arguments.only.is_empty() || arguments.only.iter().any(|part| cliff.name.contains(part));
    let chosen: Vec<&Cliff> = ALL.iter().filter(is_chosen).collect();
    if chosen.is_empty() {
        let names: Vec<&str> = ALL.iter().map(|cliff| cliff.name).collect();
        return Err(format!("--only: no cliff has such a name; there are {}", names.join(", ")).into());
    }
    let repetitions = arguments.repetitions.map_or(if arguments.bench { 3 } else { 1 }, NonZeroUsize::get);
    let (mut rows, mut failures) = (Vec::new(), Vec::new());
    for cliff in chosen {
        let size = arguments.size.map_or(cliff.size, NonZeroUsize::get);
        let row = measure(cliff, size, repetitions, &mut failures)?;
        eprintln!("{}", line(&row));
        rows.push(row);
    }
    print_table(&rows);
    failures.iter().for_each(|failure| println!("failed: {failure}"));
    let above: Vec<&str> = rows.iter().filter(|row| row.within == Some(false)).map(|row| row.cliff).collect();
    if !above.is_empty() {
        println!("{} of {} beyond their bounds: {}", above.len(), rows.len(), above.join(", "));
    }
    if let Some(path) = &arguments.json {
        write_json(path, &rows)?;
    }
    let is_sound = failures.is_empty() && (above.is_empty() || !arguments.check);
    Ok(if is_sound { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Measures this size and the larger one, alternating.
fn measure(cliff: &Cliff, size: usize, repetitions: usize, failures: &mut Vec<String>) -> Result<Row, Box<dyn Error>> {
    let launch = Launch::this_bench_as("measure", cliff.name)?;
    let sizes = [size, size * FACTOR];
    let mut samples = [Vec::new(), Vec::new()];
    'measuring: for _ in 0..repetitions {
        for (size, samples) in sizes.iter().zip(&mut samples) {
            match answer_within::<f64>(&launch, &[size.to_string()], 1, LIMIT) {
                Ok(sample) => samples.push(sample),
                Err(failure) => {
                    failures.push(format!("{} at {size}: {failure}", cliff.name));
                    break 'measuring;
                }
            }
        }
    }
    let [cost_small, cost_large] = samples.map(least);
    let growth = cost_small.zip(cost_large).map(|(small, large)| large / small).filter(|growth| growth.is_finite());
    let (bound, within) = match cliff.bound {
        Bound::Growth(most) => (format!("growth {most}"), growth.map(|growth| growth <= most)),
        Bound::Most(most) => (format!("{most} at 8n"), cost_large.map(|large| large <= most)),
    };
    Ok(Row {
        cliff: cliff.name,
        what: cliff.what,
        unit: cliff.unit,
        small: sizes[0],
        large: sizes[1],
        cost_small,
        cost_large,
        growth,
        bound,
        within,
    })
}

/// Formats the line that is printed as soon as a cliff is measured.
fn line(row: &Row) -> String {
    let verdict = match row.within {
        Some(true) => "within its bound",
        Some(false) => "beyond its bound",
        None => "no figure",
    };
    format!("{}: {verdict}", row.cliff)
}

fn print_table(rows: &[Row]) {
    let mut table = Table::new("cliff", &["n", "at n", "at 8n", "unit", "growth", "bound", "within"]);
    let figure = |cost: f64| if cost < 100.0 { format!("{cost:.2}") } else { format!("{cost:.0}") };
    for row in rows {
        table.row(
            row.cliff,
            [
                Some(row.small.to_string()),
                row.cost_small.map(figure),
                row.cost_large.map(figure),
                Some(row.unit.to_owned()),
                row.growth.map(|growth| format!("{growth:.2}")),
                Some(row.bound.clone()),
                row.within.map(|within| if within { "yes" } else { "NO" }.to_owned()),
            ],
        );
    }
    table.print("Costs at n and at 8n (least of the repetitions)");
    println!();
    rows.iter().for_each(|row| println!("{}: {}", row.cliff, row.what));
}
