//! Shared parts of the example programs: the flags that describe the machine and what is displayed, and the end of a
//! run.
//!
//! Nothing here submits a task. Exit status: 0 verified or not compared, 1 not verified or failed, 2 bad values.

use std::error::Error;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use clap::builder::TypedValueParser;
use thalweg::{Builder, Eviction, Runtime, SimulatedMachine};

/// The result of a program. The error is a rejected task, a failed task, or an error outside of the runtime.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Flags common to all programs.
#[derive(Args)]
pub(crate) struct Machine {
    /// Compute units, as COUNT:KIND:SIZE terms separated by commas, such as 1:CPU:1,2:EMU:1 [default: one CPU unit
    /// per core; in a simulation, all units of the machine]
    #[arg(long, value_name = "LIST")]
    units: Option<String>,
    /// Scheduler that places the tasks
    #[arg(long, value_name = "NAME", default_value = "stealing")]
    scheduler: String,
    /// Simulate the machine described in a file: computes nothing, prints virtual times
    #[arg(long, value_name = "FILE")]
    simulate: Option<PathBuf>,
    /// Bytes of host memory for arrays; the others are in a file in `--spill-to`
    #[arg(long, value_name = "BYTES", requires = "spill_to")]
    host_memory: Option<u64>,
    /// Directory of that file, on a disk
    #[arg(long, value_name = "DIRECTORY", requires = "host_memory")]
    spill_to: Option<PathBuf>,
    /// Evict the data with the furthest next use instead of the least recently used
    #[arg(long)]
    look_ahead: bool,
    /// Write a trace of the run to a file, for `thalweg trace FILE`
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Show no progress on standard error
    #[arg(long)]
    no_progress: bool,
}

/// The outcome of a run.
pub(crate) struct Outcome {
    /// Elapsed time of the measured part.
    pub(crate) elapsed: Duration,
    /// Whether the result is correct; `None` if it was not checked.
    pub(crate) verified: Option<bool>,
}

impl Outcome {
    /// Prints the time and the verdict, and returns the exit status.
    pub(crate) fn conclude(&self) -> ExitCode {
        println!("time {:.3} s", self.elapsed.as_secs_f64());
        match self.verified {
            Some(verified) => conclude(verified),
            None => {
                println!("NOT COMPARED");
                ExitCode::SUCCESS
            }
        }
    }
}

impl Machine {
    /// Builds the runtime, runs the program on it, and prints statistics, time and verdict.
    ///
    /// The calling thread executes tasks itself while it waits, as CPU unit 0.
    #[allow(dead_code, reason = "some programs configure their runtime further")]
    pub(crate) fn run(&self, program: impl FnOnce(&Runtime) -> Result<Outcome>) -> ExitCode {
        self.run_with(|builder| builder, program)
    }

    /// Like [`run`](Self::run), but calls `describe` to configure the runtime further.
    pub(crate) fn run_with(
        &self,
        describe: impl FnOnce(Builder) -> Builder,
        program: impl FnOnce(&Runtime) -> Result<Outcome>,
    ) -> ExitCode {
        let rt = match self.build(describe) {
            Ok(rt) => rt,
            Err(error) => {
                eprintln!("error: {error}");
                return ExitCode::from(2);
            }
        };
        for warning in rt.machine().warnings() {
            eprintln!("warning: {warning}");
        }
        println!("units {}, scheduler {}", rt.machine().configuration(), self.scheduler);
        let outcome = program(&rt);
        print!("{}", rt.statistics());
        match outcome {
            // A simulation computes nothing, so there is no result to compare.
            Ok(outcome) if rt.machine().is_simulated() => Outcome { verified: None, ..outcome }.conclude(),
            Ok(outcome) => outcome.conclude(),
            Err(error) => {
                eprintln!("error: {error}");
                conclude(false)
            }
        }
    }

    fn build(&self, describe: impl FnOnce(Builder) -> Builder) -> Result<Runtime> {
        let mut builder = describe(Runtime::builder()).scheduler(&self.scheduler).use_current_thread(true);
        builder = builder.progress(!self.no_progress);
        if let Some(units) = &self.units {
            builder = builder.compute_units(units);
        }
        if let Some(file) = &self.simulate {
            let machine = SimulatedMachine::from_file(file)?;
            println!("simulated: {}", machine.name());
            builder = builder.simulate(machine);
        }
        if let (Some(bytes), Some(directory)) = (self.host_memory, &self.spill_to) {
            builder = builder.host_memory(bytes).spill_to(directory);
        }
        if self.look_ahead {
            builder = builder.eviction(Eviction::FurthestUse);
        }
        if let Some(file) = &self.trace {
            builder = builder.trace(file);
        }
        Ok(builder.build()?)
    }

    /// Returns the units given on the command line, if any.
    #[allow(dead_code, reason = "not every program needs it")]
    pub(crate) fn units(&self) -> Option<&str> {
        self.units.as_deref()
    }

    /// Returns the machine to simulate, if one is given.
    #[allow(dead_code, reason = "not every program needs it")]
    pub(crate) fn simulated(&self) -> Result<Option<SimulatedMachine>> {
        Ok(self.simulate.as_ref().map(SimulatedMachine::from_file).transpose()?)
    }

    /// Returns the number of bytes of host memory, if it is limited.
    #[allow(dead_code, reason = "not every program needs it")]
    pub(crate) fn host_memory(&self) -> Option<u64> {
        self.host_memory
    }

    /// Returns whether the run is simulated.
    #[allow(dead_code, reason = "not every program needs it")]
    pub(crate) fn is_simulated(&self) -> bool {
        self.simulate.is_some()
    }
}

/// Returns a parser of integers in a range.
pub(crate) fn integer(range: RangeInclusive<i64>) -> impl TypedValueParser<Value = usize> {
    clap::value_parser!(u32).range(range).map(|number| number as usize)
}

fn conclude(verified: bool) -> ExitCode {
    println!("{}", if verified { "VERIFIED" } else { "NOT VERIFIED" });
    if verified { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns the number of bytes that the runtime has copied between memories so far.
#[allow(dead_code, reason = "not every program needs it")]
pub(crate) fn copied_bytes(rt: &Runtime) -> u64 {
    rt.statistics().links.iter().map(|link| link.bytes).sum()
}
