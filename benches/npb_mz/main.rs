//! BT-MZ, SP-MZ and LU-MZ: operations per second for each benchmark, class and number of threads, and the time of each
//! stage.
//!
//! `cargo bench --bench npb_mz -- --class W --json FILE` writes rows `{bench, class, threads, mops, stage_seconds,
//! ...}`. Each thread is a CPU unit of one core. Every repetition interleaves three programs: one with a task per zone
//! and step, one with a task per stage, and, on one thread, a plain loop without the runtime. The difference from the
//! plain loop is the cost of the runtime.

#[path = "../harness/report.rs"]
mod report;

use std::collections::BTreeMap;
use std::error::Error;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use npb::mz::{Benchmark, Class, Fuse, Problem, Program, Settings, Verdict, run_serially};
use serde::Serialize;
use thalweg::Runtime;

use report::Table;

/// BT-MZ, SP-MZ and LU-MZ: Mop/s by benchmark, class and threads
#[derive(Debug, Parser)]
struct Arguments {
    /// Write the rows to FILE as a JSON array
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Benchmarks, separated by commas
    #[arg(long = "benchmark", value_enum, value_delimiter = ',', default_value = "bt,sp,lu")]
    benchmarks: Vec<Benchmark>,
    /// Problem classes, separated by commas
    #[arg(long = "class", value_enum, value_delimiter = ',', default_value = "S", hide_possible_values = true)]
    classes: Vec<Class>,
    /// Thread counts to run with, separated by commas
    #[arg(long, value_name = "N", value_delimiter = ',', default_values = ["1", "2"])]
    threads: Vec<NonZeroUsize>,
    /// Number of runs of each program
    #[arg(long, value_name = "N", default_value = "3")]
    repetitions: NonZeroUsize,
    /// Passed by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
}

/// Time of each stage in seconds.
type Seconds = BTreeMap<&'static str, f64>;

/// A row of the JSON file.
#[derive(Debug, Serialize)]
struct Row {
    bench: Benchmark,
    class: Class,
    threads: usize,
    /// Millions of operations per second with one task per zone and step; the best of all repetitions.
    mops: f64,
    /// Like `mops`, with one task per stage.
    mops_stages: f64,
    /// Like `mops`, without the runtime; `None` on more than one thread.
    mops_serial: Option<f64>,
    /// Time spent in each stage, summed over all units, in the fastest run with one task per stage.
    stage_seconds: Seconds,
    /// The value of `mops` in each repetition.
    samples: Vec<f64>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    run(&arguments).map_or_else(
        |error| {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let mut rows = Vec::new();
    for &class in &arguments.classes {
        for &benchmark in &arguments.benchmarks {
            for threads in arguments.threads.iter().map(|threads| threads.get()) {
                let row = measure(benchmark, class, threads, arguments.repetitions.get())?;
                eprintln!("{:?}-MZ {:?}, {} threads: {:.0} Mop/s", row.bench, row.class, row.threads, row.mops);
                rows.push(row);
            }
        }
    }
    print_tables(&rows);
    if let Some(path) = &arguments.json {
        report::write_json(path, &rows)?;
    }
    Ok(())
}

fn measure(bench: Benchmark, class: Class, threads: usize, repetitions: usize) -> Result<Row, Box<dyn Error>> {
    let problem = bench.problem(class);
    let (mut samples, mut in_stages, mut serial) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..repetitions {
        samples.push(as_tasks(bench, &problem, threads, Fuse::Whole)?.0);
        in_stages.push(as_tasks(bench, &problem, threads, Fuse::Stages)?);
        if threads == 1 {
            let run = run_serially(bench, &problem, problem.steps, 1, Fuse::Whole);
            verify(&Verdict::new(&problem, &run.norms))?;
            serial.push(problem.operations(bench, problem.steps) / run.seconds);
        }
    }
    let best = |rates: &[f64]| rates.iter().copied().max_by(f64::total_cmp);
    let fastest = in_stages.into_iter().max_by(|a, b| a.0.total_cmp(&b.0));
    let (mops_stages, stage_seconds) = fastest.unwrap_or_default();
    let (mops, mops_serial) = (best(&samples).unwrap_or_default(), best(&serial));
    Ok(Row { bench, class, threads, mops, mops_stages, mops_serial, stage_seconds, samples })
}

/// Does a full run on `threads` one-core units. Returns its rate and the time of each stage.
fn as_tasks(bench: Benchmark, problem: &Problem, threads: usize, fuse: Fuse) -> Result<(f64, Seconds), Box<dyn Error>> {
    let rt = Runtime::builder().compute_units(format!("{threads}:CPU:1")).use_current_thread(true).build()?;
    let program =
        Program::new(&rt, bench, problem, Settings { steps: problem.steps, fuse, periods: false, replay: false });
    let (times, norms) = program.run(|| ())?;
    verify(&Verdict::new(problem, &norms))?;
    let stages = program.log().stages().0.clone();
    Ok((problem.operations(bench, problem.steps) / times.total.as_secs_f64(), stages))
}

fn verify(verdict: &Verdict) -> Result<(), String> {
    if verdict.verified() { Ok(()) } else { Err(format!("not verified:\n{verdict}")) }
}

fn print_tables(rows: &[Row]) {
    let label = |row: &Row| format!("{:?}-MZ {:?}, {} threads", row.bench, row.class, row.threads);
    let mut rates = Table::new("Mop/s, best", &["task per step", "task per stage", "no runtime", "overhead"]);
    let mut stages = Table::new("stages", &["seconds on all units"]);
    for row in rows {
        let overhead = row.mops_serial.map(|serial| format!("{:.1} %", 100.0 * (serial / row.mops - 1.0)));
        let rate = |rate: f64| Some(format!("{rate:.0}"));
        rates.row(&label(row), [rate(row.mops), rate(row.mops_stages), row.mops_serial.and_then(rate), overhead]);
        let seconds = row.stage_seconds.iter().map(|(stage, seconds)| format!("{stage} {seconds:.3}"));
        stages.row(&label(row), [Some(seconds.collect::<Vec<_>>().join(", "))]);
    }
    rates.print("Operations per second");
    stages.print("Time by stage, one task per stage");
}
