//! Strong scaling of clusters, by simulation: NPB-MZ with zones over nodes, and a tiled Cholesky factorization.
//!
//! A node is a unit with its own memory (`EMU` in the machine file). A task runs on the owner of the regions that it
//! writes, as on the ranks of `thalweg-mpi`, with the same owner maps. Writes the times to `scaling.csv` and the
//! efficiencies as charts; `docs/scaling.md` explains the model.
//!
//! ```text
//! cargo run --release --example scaling -- --out docs/scaling
//! ```

mod chart;
mod programs;

use std::error::Error;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use programs::Kind;
use thalweg::SimulatedMachine;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Simulates programs on clusters of up to 1024 nodes
#[derive(Parser)]
struct Options {
    /// Machine files, separated by commas
    #[arg(
        long,
        value_name = "FILES",
        value_delimiter = ',',
        default_value = "docs/scaling/infiniband.toml,docs/scaling/ethernet.toml"
    )]
    machines: Vec<PathBuf>,
    /// Numbers of nodes, separated by commas
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,4,16,64,256,1024")]
    nodes: Vec<usize>,
    /// Programs, separated by commas, such as bt-E, lu-F or cholesky-64
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "lu-E,bt-E,sp-E,cholesky-64,lu-F,bt-F,sp-F"
    )]
    programs: Vec<Kind>,
    /// Write `scaling.csv` and the charts to this folder
    #[arg(long, value_name = "FOLDER", conflicts_with = "check")]
    out: Option<PathBuf>,
    /// Compare the times with this file's
    #[arg(long, value_name = "FILE")]
    check: Option<PathBuf>,
}

/// The time of a step, or of a factorization, on some nodes.
struct Row {
    machine: String,
    program: String,
    nodes: usize,
    seconds: f64,
}

impl Row {
    fn line(&self) -> String {
        format!("{},{},{},{:.9}", self.machine, self.program, self.nodes, self.seconds)
    }
}

/// Returns the file's name without its extension.
fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

impl Options {
    fn rows(&self) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        for path in &self.machines {
            let machine = SimulatedMachine::from_file(path)?;
            for kind in &self.programs {
                let mut one = None;
                for &nodes in self.nodes.iter().filter(|nodes| **nodes <= kind.most_nodes()) {
                    let seconds = kind.simulate(&machine, nodes)?.as_secs_f64();
                    let node_seconds = seconds * nodes as f64;
                    let efficiency = *one.get_or_insert(node_seconds) / node_seconds;
                    let (machine, program) = (stem(path), kind.to_string());
                    println!("{machine:<12} {program:<14} {nodes:>5} nodes {seconds:>14.6} s {efficiency:>6.3}");
                    rows.push(Row { machine, program, nodes, seconds });
                }
            }
        }
        Ok(rows)
    }

    fn run(&self) -> Result<bool> {
        let rows = self.rows()?;
        if let Some(folder) = &self.out {
            let mut text = "machine,program,nodes,seconds\n".to_owned();
            rows.iter().for_each(|row| _ = writeln!(text, "{}", row.line()));
            std::fs::write(folder.join("scaling.csv"), text)?;
            for machine in &self.machines {
                let machine = stem(machine);
                chart::draw(&machine, &rows, &folder.join(format!("{machine}.svg")))?;
            }
        }
        let Some(check) = &self.check else { return Ok(true) };
        let known = std::fs::read_to_string(check)?;
        let differs = rows.iter().find(|row| !known.lines().any(|line| line == row.line()));
        println!("{}", differs.map_or("SAME".to_owned(), |row| format!("not in the file: {}", row.line())));
        Ok(differs.is_none())
    }
}

fn main() -> ExitCode {
    match Options::parse().run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}
