//! `thalweg trace`: shows a trace as a summary, compares two, checks conditions, and converts it for other programs.

use clap::Args;
use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};
use thalweg_trace_tools::analysis::Analysis;
use thalweg_trace_tools::check::{self, Condition, failed};
use thalweg_trace_tools::merge::{Rank, merge};
use thalweg_trace_tools::summary::{Run, compare, summary};
use thalweg_trace_tools::{Trace, csv, html, paraver, perfetto};

#[derive(Debug, Args)]
#[command(after_long_help = check::HELP)]
pub(super) struct Options {
    /// Trace to read: a file that was written with THALWEG_TRACE=FILE or the builder's `trace`. Several are the ranks
    /// of a cluster, and become one timeline
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print a summary; the default unless another option is given
    #[arg(long)]
    summary: bool,
    /// Print the run next to another one, with the differences of the other one
    #[arg(long, value_name = "OTHER")]
    compare: Option<PathBuf>,
    /// Fail unless a condition such as "idle<10%" holds; can be given several times, see --help for the quantities
    #[arg(long, value_name = "CONDITION")]
    check: Vec<Condition>,
    /// Write the tables as CSV files into a folder
    #[arg(long, value_name = "FOLDER")]
    csv: Option<PathBuf>,
    /// Write the tables into an SQLite database
    #[arg(long, value_name = "FILE")]
    sqlite: Option<PathBuf>,
    /// Write a report with timeline, tables and advice: one HTML file for a browser
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write a file for ui.perfetto.dev
    #[arg(long, value_name = "FILE")]
    perfetto: Option<PathBuf>,
    /// Write PREFIX.prv, PREFIX.pcf and PREFIX.row for Paraver
    #[arg(long, value_name = "PREFIX")]
    paraver: Option<PathBuf>,
}

pub(super) fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let file = &options.files[0];
    let mut ranks = Vec::new();
    for (position, file) in options.files.iter().enumerate() {
        let rank = Rank::read(file, position)?;
        if let Some(problem) = &rank.trace.problem {
            eprintln!("thalweg: {} is incomplete: {problem}", file.display());
        }
        ranks.push(rank);
    }
    let trace = if ranks.len() == 1 { ranks.remove(0).trace } else { merge(ranks) };
    let has_converted = options.convert(&trace)?;
    let has_other = has_converted || options.compare.is_some() || !options.check.is_empty();
    if has_converted && !options.summary && options.compare.is_none() && options.check.is_empty() {
        return Ok(());
    }
    let analysis = Analysis::of(&trace);
    if options.summary || !has_other {
        print(&summary(&trace, &analysis))?;
    }
    if let Some(path) = &options.compare {
        let other = Trace::read(path)?;
        let other_analysis = Analysis::of(&other);
        let labels = [file, path].map(|path| path.display().to_string());
        let first = Run { label: &labels[0], trace: &trace, analysis: &analysis };
        let second = Run { label: &labels[1], trace: &other, analysis: &other_analysis };
        print(&compare(&first, &second))?;
    }
    check(&trace, &analysis, &options.check)
}

impl Options {
    /// Writes the requested files; returns `false` if no file was requested.
    fn convert(&self, trace: &Trace) -> Result<bool, Box<dyn Error>> {
        if let Some(folder) = &self.csv {
            csv::write(trace, folder)?;
        }
        if let Some(file) = &self.sqlite {
            write_sqlite(trace, file)?;
        }
        if let Some(file) = &self.html {
            html::write(trace, file)?;
        }
        if let Some(file) = &self.perfetto {
            perfetto::write(trace, file).map_err(cannot_write(file))?;
        }
        if let Some(prefix) = &self.paraver {
            paraver::write(trace, prefix).map_err(cannot_write(prefix))?;
        }
        let files = [&self.csv, &self.sqlite, &self.html, &self.perfetto, &self.paraver];
        Ok(files.iter().any(|file| file.is_some()))
    }
}

/// Returns a function that adds the file's name to an error.
fn cannot_write(file: &Path) -> impl Fn(std::io::Error) -> String {
    move |problem| format!("cannot write {}: {problem}; try a folder that exists", file.display())
}

#[cfg(feature = "sqlite")]
fn write_sqlite(trace: &Trace, file: &Path) -> Result<(), Box<dyn Error>> {
    Ok(thalweg_trace_tools::sqlite::write(trace, file)?)
}

#[cfg(not(feature = "sqlite"))]
fn write_sqlite(_: &Trace, file: &Path) -> Result<(), Box<dyn Error>> {
    let file = file.display();
    Err(format!(
        "cannot write {file}: this program was built without SQLite; try one built with `--features sqlite`, or --csv"
    )
    .into())
}

/// Returns an error that lists all conditions that do not hold.
fn check(trace: &Trace, analysis: &Analysis, conditions: &[Condition]) -> Result<(), Box<dyn Error>> {
    let failures: Vec<String> = failed(trace, analysis, conditions).iter().map(ToString::to_string).collect();
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\nthalweg: ").into()) }
}

/// Prints a text. It is not an error if the reader closes the pipe early, as `head` does.
fn print(text: &str) -> std::io::Result<()> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(problem) if problem.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}
