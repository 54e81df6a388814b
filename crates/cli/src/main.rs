//! The `thalweg` program: command-line tools for users of the runtime.

mod doctor;
mod kernel;
mod sim;
mod topo;
mod trace;

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
    /// Shows the cores and devices of this machine, measures the devices, and explains why others are unavailable
    Doctor(doctor::Options),
    /// Prints the kernels generated from an annotated function
    Kernel(kernel::Options),
    /// Simulates the tasks of a trace on other machines and with other schedulers
    Sim(sim::Options),
    /// Shows physical and logical cores, NUMA nodes and accelerators, and the cores that units would get
    Topo(topo::Options),
    /// Shows a trace: a summary of where the time went, comparisons, conditions, and files for other programs
    Trace(Box<trace::Options>),
}

fn main() -> ExitCode {
    let Arguments { command } = Arguments::parse();
    let result = match command {
        Command::Doctor(options) => doctor::run(&options).map_err(Into::into),
        Command::Kernel(options) => kernel::run(&options),
        Command::Sim(options) => sim::run(&options),
        Command::Topo(options) => topo::run(&options),
        Command::Trace(options) => trace::run(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("thalweg: {error}");
            ExitCode::FAILURE
        }
    }
}
