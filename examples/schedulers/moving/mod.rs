//! Moving ground: policies on machines that change during a run, with tasks that change, and with too little memory.
//!
//! *Regret* is the time over the shortest in hindsight: that of all schedulers, or of the oracle. The oracle knows the
//! speeds of all units at all times and the noise of each task. It is a list schedule with these times: HEFT for a
//! graph, and the longest tasks first for a time step. It runs in the same simulation, and is not optimal.
//!
//! Policies that learn have learned when the measured part begins, and nothing has changed before it. The schedulers of
//! others know the mean times of an undisturbed machine.

mod graph;
mod ground;
mod memory;
mod recorder;
mod steps;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use crate::common::Result;
use crate::side_by_side;
use ground::Ground;

/// Number of seeds for the noise.
const SEEDS: u64 = 5;
/// The name of the schedule that is computed from the true times.
const ORACLE: &str = "oracle";
/// Time between the runs of one schedule, whose times only give the order, in nanoseconds.
const APART: f64 = 1e15;

/// The result of a run: its time over the shortest in hindsight, or the bytes that it moved over the lower bound.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Took {
    table: &'static str,
    case: String,
    scheduler: String,
    seed: u64,
    ratio: f64,
}

impl Took {
    /// Returns the rows of a case with one seed from the times of its schedulers.
    fn over_shortest(table: &'static str, case: &str, seed: u64, times: &[(&str, f64)]) -> Vec<Self> {
        let shortest = times.iter().map(|(_, time)| *time).fold(f64::INFINITY, f64::min);
        let row = |(scheduler, time): &(&str, f64)| {
            let (case, scheduler) = (case.to_owned(), (*scheduler).to_owned());
            Self { table, case, scheduler, seed, ratio: time / shortest }
        };
        times.iter().map(row).collect()
    }
}

/// The programs.
#[derive(Clone, Copy, Debug)]
enum Program {
    Graph(graph::Program),
    Steps(steps::Program),
    Memory,
}

/// Runs the cases whose names contain `only`.
pub(crate) fn run(machines: &Path, only: &str) -> Result<Vec<Took>> {
    let graphs = graph::Program::ALL.map(Program::Graph).into_iter();
    let steps = steps::Program::ALL.map(Program::Steps).into_iter();
    let programs: Vec<Program> = graphs.chain(steps).chain([Program::Memory]).collect();
    let one = |program: &Program| {
        let rows = match program {
            Program::Graph(program) => program.run(machines, only),
            Program::Steps(program) => program.run(only),
            Program::Memory => memory::run(machines, only),
        };
        rows.map_err(|error| format!("{program:?}: {error}"))
    };
    Ok(side_by_side(&programs, |program| matches!(program, Program::Graph(_)), one)?.into_iter().flatten().collect())
}

const HEAD: &str = "table,case,scheduler,seed,ratio";

/// Formats rows as CSV.
pub(crate) fn to_csv(rows: &[Took]) -> String {
    let line = |Took { table, case, scheduler, seed, ratio }: &Took| {
        format!("{table},{},{scheduler},{seed},{ratio:.6}\n", case.replace(',', ";"))
    };
    std::iter::once(format!("{HEAD}\n")).chain(rows.iter().map(line)).collect()
}

/// Returns the tables of the page by name: a row per scheduler, and a column per case.
pub(crate) fn tables(rows: &[Took]) -> Vec<(String, String)> {
    let mut by_table: BTreeMap<&str, Vec<&Took>> = BTreeMap::new();
    rows.iter().for_each(|row| by_table.entry(row.table).or_default().push(row));
    by_table.into_iter().map(|(name, rows)| (format!("moving-{name}"), table(name, &rows))).collect()
}

fn table(name: &str, rows: &[&Took]) -> String {
    let (mut cases, mut schedulers): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    for row in rows {
        if !cases.contains(&row.case.as_str()) {
            cases.push(&row.case);
        }
        if !schedulers.contains(&row.scheduler.as_str()) {
            schedulers.push(&row.scheduler);
        }
    }
    let mut text = format!("| scheduler | {} |\n|", cases.join(" | "));
    text += &" --- |".repeat(1 + cases.len());
    text.push('\n');
    for scheduler in schedulers {
        let _ = write!(text, "| `{scheduler}` |");
        for case in &cases {
            let of = rows.iter().filter(|row| row.scheduler == scheduler && row.case == *case);
            let (count, sum) = of.fold((0.0, 0.0), |(count, sum), row| (count + 1.0, sum + row.ratio));
            let mean: f64 = sum / count;
            let _ = if name == "memory" {
                write!(text, " {mean:.2} |")
            } else {
                write!(text, " {:+.1} % |", 100.0 * (mean - 1.0))
            };
        }
        text.push('\n');
    }
    text
}

/// Writes the CSV file.
pub(crate) fn write(rows: &[Took], folder: &Path) -> Result<()> {
    Ok(std::fs::write(folder.join("moving.csv"), to_csv(rows))?)
}
