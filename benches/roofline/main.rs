//! Roofline analysis: compares every stage of BT, SP, LU, CG and Jacobi's method with the machine's limits, and
//! measures the runtime's overhead in each stage.
//!
//! `cargo bench --bench roofline -- --class W,A --units 1,2 --out DIR` prints the tables and writes `roofline.md`,
//! `roofline.json` and the picture `roofline.svg`. Without `--bench`, as under `cargo test`, it only proves that
//! everything runs, on the smallest class.
//!
//! The minimum work of a stage is derived in `stages` and must be updated whenever the stage changes.
//!
//! | files | contents |
//! | --- | --- |
//! | `machine` | measured bandwidths, operations and gathers per second |
//! | `stages` | work and time of every stage |
//! | `roof` | the bound, and how near a stage comes |
//! | `report`, `plot` | tables, figures, picture |
//! | `crew` | threads, each on its own core |

mod class;
mod crew;
mod machine;
mod plot;
mod report;
mod roof;
mod stages;
#[path = "../harness/statistics.rs"]
#[allow(dead_code)] // this bench uses only the median
mod statistics;

use std::error::Error;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use npb::mz::Benchmark;

use class::Class;
use crew::Crew;
use machine::Machine;
use report::Report;
use roof::Row;
use stages::{Effort, Measured};

/// Compares every stage of the benchmarks with the limits of the machine
#[derive(Debug, Parser)]
struct Arguments {
    /// Problem classes, separated by commas [default: W,A]
    #[arg(long = "class", value_enum, value_delimiter = ',')]
    classes: Vec<Class>,
    /// Numbers of one-core units to run with, separated by commas
    #[arg(long, value_name = "N", value_delimiter = ',', default_values = ["1", "2"])]
    units: Vec<NonZeroUsize>,
    /// Programs, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_value = "bt,sp,lu,cg,jacobi")]
    program: Vec<Program>,
    /// Write roofline.md, roofline.json and roofline.svg into this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Minimum number of passes of each stage, and number of repetitions of each program and its plain loop [default:
    /// 5]
    #[arg(long, value_name = "N")]
    repetitions: Option<NonZeroUsize>,
    /// Passed by `cargo bench`; without it everything is as small as possible
    #[arg(long, hide = true)]
    bench: bool,
}

/// A program with stages.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Program {
    Bt,
    Sp,
    Lu,
    Cg,
    Jacobi,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let quick = !arguments.bench;
    let default: &[Class] = if quick { &[Class::S] } else { &[Class::W, Class::A] };
    let classes = if arguments.classes.is_empty() { default } else { &arguments.classes };
    let repetitions = arguments.repetitions.map_or(if quick { 1 } else { 5 }, NonZeroUsize::get);
    let effort = Effort { passes: repetitions, repetitions, seconds: if quick { 0.0 } else { 0.5 } };

    let mut report = Report { processor: report::processor(), machines: Vec::new(), rows: Vec::new() };
    for units in arguments.units.iter().map(|units| units.get()) {
        let crew = Crew::new(units)?;
        let machine = Machine::measure(&crew, quick);
        let mut measured = Vec::new();
        for &class in classes {
            for &program in &arguments.program {
                eprintln!("{units} units: class {}, {program:?}", class.letter());
                measured.extend(program.measure(&crew, class, effort)?);
            }
        }
        // The machine is measured both before and after everything else, because a disturbance is unlikely to affect
        // both measurements.
        let machine = machine.or(&Machine::measure(&crew, quick));
        report.rows.extend(measured.into_iter().map(|measured| Row::new(&machine, measured)));
        report.machines.push(machine);
    }
    println!("{}", report.text());
    if let Some(folder) = &arguments.out {
        std::fs::create_dir_all(folder)
            .and_then(|()| report.write(folder))
            .map_err(|error| format!("cannot write to {}: {error}; try another folder", folder.display()))?;
        plot::draw(&report, &folder.join("roofline.svg"))?;
    }
    Ok(())
}

impl Program {
    fn measure(self, crew: &Crew, class: Class, effort: Effort) -> Result<Vec<Measured>, Box<dyn Error>> {
        match self {
            Self::Bt => stages::mz::measure(crew, Benchmark::Bt, class, effort),
            Self::Sp => stages::mz::measure(crew, Benchmark::Sp, class, effort),
            Self::Lu => stages::mz::measure(crew, Benchmark::Lu, class, effort),
            Self::Cg => stages::cg::measure(crew, class, effort),
            Self::Jacobi => stages::jacobi::measure(crew, class, effort),
        }
    }
}
