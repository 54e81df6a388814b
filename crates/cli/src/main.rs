//! The `thalweg` program: what a user asks of the runtime from a shell.

mod doctor;
mod kernel;
mod topo;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Thalweg, a dataflow task-graph runtime.
#[derive(Debug, Parser)]
#[command(name = "thalweg", version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Shows the cores and devices of this machine, how fast they are reached, and why others are not there
    Doctor(doctor::Options),
    /// Prints the kernels that an annotated function becomes
    Kernel(kernel::Options),
    /// Shows physical and logical cores, NUMA nodes and accelerators, and which cores units would get
    Topo(topo::Options),
}

fn main() -> ExitCode {
    let Arguments { command } = Arguments::parse();
    let result = match command {
        Command::Doctor(options) => doctor::run(&options).map_err(Into::into),
        Command::Kernel(options) => kernel::run(&options),
        Command::Topo(options) => topo::run(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("thalweg: {error}");
            ExitCode::FAILURE
        }
    }
}
