//! BT-MZ, SP-MZ and LU-MZ: the multi-zone NAS Parallel Benchmarks as dependent tasks.
//!
//! A mesh is cut into zones, which are solved side by side and exchange their faces in every step. Runs are verified
//! against the official values; the rate is NPB's own count of operations per second (NASA report NAS-03-010).
//!
//! ```text
//! cargo run --release --example npb_mz -- bt --class W --units 1:CPU:1,2:EMU:1
//! ```
//!
//! | files | what is in them |
//! | --- | --- |
//! | `program`, `stages`, `log` | the run as tasks: the only part that knows of the runtime |
//! | `serial` | the same as a plain loop |
//! | `bt`, `sp`, `lu` | the three methods, on the arrays of one zone |
//! | `gpu` | the same on accelerators: the calls of the kernels in `kernels/` |
//! | `operator`, `stencil`, `physics`, `initial`, `exchange`, `norms` | what they share |
//! | `lanes`, `lines`, `rows`, `planes`, `components` | many grid lines at once in the lanes of vector registers |
//! | `classes`, `zones`, `verify` | problem sizes and reference values |

#![expect(clippy::reversed_empty_ranges, reason = "the negative ends of ndarray's slices count from the last element")]

#[macro_use]
mod lanes;

mod bt;
mod classes;
#[path = "../common/mod.rs"]
mod common;
mod components;
mod exchange;
mod gpu;
#[cfg(test)]
#[path = "tests/gpu.rs"]
mod gpu_tests;
mod initial;
mod lines;
mod log;
mod lu;
mod norms;
mod operator;
mod physics;
mod planes;
mod program;
mod report;
mod rows;
mod serial;
mod sp;
mod stages;
mod stencil;
mod stopwatch;
#[cfg(test)]
mod tests;
mod verify;
mod zones;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use thalweg::Runtime;

use classes::{Benchmark, Class, Fuse, Problem};
use common::{Machine, Outcome, Result, integer};
use program::{Periods, Program, Settings};
use verify::Verdict;

/// The multi-zone NAS Parallel Benchmarks as dependent tasks
#[derive(Parser)]
struct Options {
    /// Which of the three
    #[arg(value_enum, value_name = "BENCHMARK")]
    benchmark: Benchmark,
    /// Problem class
    #[arg(long, visible_alias = "size", value_enum, default_value = "S", hide_possible_values = true)]
    class: Class,
    /// Time steps [default: those of the class, for which there are reference values]
    #[arg(long, value_name = "N", value_parser = integer(1..=1_000_000))]
    niter: Option<usize>,
    /// How many tasks a zone's step is
    #[arg(long, value_enum, default_value = "step")]
    fuse: Fuse,
    /// Wait for all tasks between exchange and computation, to time the two periods
    #[arg(long)]
    periods: bool,
    /// Without the runtime: a plain loop over the zones on one core
    #[arg(long, conflicts_with_all = ["units", "scheduler", "simulate", "periods"])]
    serial: bool,
    #[command(flatten)]
    machine: Machine,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let problem = options.benchmark.problem(options.class);
    let allocates = options.serial || !options.machine.is_simulated();
    if allocates && let Err(shortage) = report::check_memory(&problem, options.benchmark, options.fuse) {
        eprintln!("error: {shortage}");
        return ExitCode::from(2);
    }
    if options.serial {
        return options.serial(&problem).conclude();
    }
    options.machine.run(|rt| options.tasks(rt, &problem))
}

impl Options {
    fn steps(&self, problem: &Problem) -> usize {
        self.niter.unwrap_or(problem.steps)
    }

    fn print_banner(&self, problem: &Problem) {
        print!("{}", report::banner(self.benchmark, self.class, problem, self.steps(problem)));
    }

    fn tasks(&self, rt: &Runtime, problem: &Problem) -> Result<Outcome> {
        self.print_banner(problem);
        let settings = Settings { steps: self.steps(problem), fuse: self.fuse, periods: self.periods };
        let program = Program::new(rt, self.benchmark, problem, settings);
        let bar = self.machine.progress(settings.steps);
        let (times, norms) = program.run(&bar)?;
        bar.finish_and_clear();
        if !rt.is_simulated() {
            print!("{}", program.log().stages());
            println!("zones changed their unit {} times", program.log().migrations());
        }
        if let Some(Periods { computation, communication }) = times.periods() {
            println!("computation period {:.4} s", computation.as_secs_f64());
            println!("communication period {:.4} s", communication.as_secs_f64());
        }
        let verdict = (!rt.is_simulated()).then(|| Verdict::new(problem, &norms));
        Ok(self.judge(problem, times.total, verdict))
    }

    fn serial(&self, problem: &Problem) -> Outcome {
        self.print_banner(problem);
        let run = serial::run(self.benchmark, problem, self.steps(problem), 1, self.fuse);
        print!("{}", run.stages);
        self.judge(problem, Duration::from_secs_f64(run.seconds), Some(Verdict::new(problem, &run.norms)))
    }

    /// Prints how a run went; there is no verdict where nothing was computed.
    fn judge(&self, problem: &Problem, elapsed: Duration, verdict: Option<Verdict>) -> Outcome {
        let steps = self.steps(problem);
        let verified = match verdict {
            Some(verdict) if steps == problem.steps => {
                print!("{verdict}");
                Some(verdict.verified())
            }
            Some(_) => {
                println!("there are reference values for {} steps, not for {steps}", problem.steps);
                None
            }
            None => None,
        };
        println!("{:.1} Mop/s", problem.operations(self.benchmark, steps) / elapsed.as_secs_f64());
        Outcome { elapsed, verified }
    }
}
