//! Costs and rates of the runtime on an accelerator: launches compared with the bare interface, kernel bandwidth
//! compared with a copy kernel, the fraction of copy time that overlaps kernels, and the cost of device memory. For
//! CUDA also the costs of the driver itself.
//!
//! `cargo bench --bench accelerator -- --units OPENCL --json FILE`; `--units` takes a kind of device: OPENCL, CUDA, HIP
//! or GPU. The bench prints a table for each question and writes rows `{question, case, contender, value, unit}`. The
//! last table compares the runtime with bare calls of the same run.

mod bandwidth;
mod bare;
mod cuda;
mod driver;
mod goals;
mod launches;
mod memory;
mod overlap;
#[path = "../harness/report.rs"]
mod report;
#[path = "../harness/statistics.rs"]
#[allow(dead_code)] // this bench uses only some of these items
mod statistics;

use clap::{Parser, ValueEnum};
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;
use thalweg::machine::UnitKind;
use thalweg::prelude::*;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Launches, bandwidth and overlap on an accelerator
#[derive(Debug, Parser)]
struct Arguments {
    /// Kind of device: OPENCL, CUDA, HIP or GPU
    #[arg(long, default_value = "OPENCL")]
    units: String,

    /// Number of tasks in a chain [default: 10000]
    #[arg(long, value_name = "N")]
    tasks: Option<usize>,

    /// Bytes per array [default: 256 MiB, or 16 MiB on OPENCL]
    #[arg(long, value_name = "N")]
    bytes: Option<usize>,

    /// Number of interleaved repetitions
    #[arg(long, value_name = "N", default_value = "5")]
    repetitions: usize,

    /// Questions to answer, separated by commas [default: all]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "QUESTION")]
    question: Vec<Question>,

    /// Write the rows to FILE as a JSON array
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Passed by `cargo bench`; without it the default sizes are those of a smoke test
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Question {
    /// What a launch costs.
    Launches,
    /// How fast kernels read and write memory.
    Bandwidth,
    /// Which share of copies is hidden by kernels.
    Overlap,
    /// The cost of device memory, by the allocator that the environment selects (CUDA and HIP).
    Memory,
    /// The costs of the driver's own calls (CUDA).
    Driver,
}

impl Question {
    fn measure(self, setting: &Setting) -> Result<Vec<Row>> {
        match self {
            Self::Launches => launches::measure(setting),
            Self::Bandwidth => bandwidth::measure(setting),
            Self::Overlap => overlap::measure(setting),
            Self::Memory => memory::measure(setting),
            Self::Driver => driver::measure(setting),
        }
    }
}

/// Sizes and number of repetitions of the measurements.
#[derive(Debug, Clone)]
pub(crate) struct Setting {
    pub(crate) units: String,
    pub(crate) kind: UnitKind,
    pub(crate) tasks: usize,
    pub(crate) bytes: usize,
    pub(crate) repetitions: usize,
    /// Whether figures are wanted, and not only a smoke test.
    pub(crate) bench: bool,
}

impl Setting {
    /// Builds a runtime with one device of the chosen kind.
    pub(crate) fn runtime(&self) -> Result<Runtime> {
        Ok(Runtime::builder().compute_units(&self.units).scheduler("dynamic").build()?)
    }
}

/// A row of the JSON file.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) question: &'static str,
    pub(crate) case: String,
    pub(crate) contender: &'static str,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
}

fn run() -> Result<()> {
    let Arguments { units, tasks, bytes, repetitions, question, json, bench } = Arguments::parse();
    let kind = UnitKind::from_keyword(&units).filter(|kind| kind.is_device()).ok_or("--units: not a kind of device")?;
    let default = |full: usize, small: usize| if bench { full } else { small };
    let large = if kind == UnitKind::OpenCl { 16 << 20 } else { 256 << 20 };
    let setting = Setting {
        units: format!("1:{kind}:1"),
        kind,
        tasks: tasks.unwrap_or_else(|| default(10_000, 100)),
        bytes: bytes.unwrap_or_else(|| default(large, 1 << 20)),
        repetitions: if bench { repetitions.max(1) } else { 1 },
        bench,
    };
    let questions = if question.is_empty() { Question::value_variants() } else { &question };
    let mut rows = Vec::new();
    for question in questions {
        rows.extend(question.measure(&setting)?);
    }
    goals::print(&rows);
    if let Some(path) = json {
        report::write_json(&path, &rows)?;
    }
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("accelerator: {error}");
            ExitCode::FAILURE
        }
    }
}
