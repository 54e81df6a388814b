//! BT-MZ, SP-MZ and LU-MZ: the multi-zone NAS Parallel Benchmarks as dependent tasks.
//!
//! A mesh is cut into zones, which are solved in parallel and exchange their faces in every step. Runs are verified
//! against the official values; the rate uses NPB's own count of operations per second (NASA report NAS-03-010).
//!
//! ```text
//! cargo run --release --example npb_mz -- bt --class W --units 1:CPU:1,2:EMU:1
//! ```

mod common;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use common::{Machine, Outcome, Result, integer};
use npb::mz::{
    Benchmark, Class, Fuse, Periods, Problem, Program, Settings, Verdict, banner, bytes_needed, limit_lanes,
    run_serially,
};
use sysinfo::{MemoryRefreshKind, RefreshKind, System};
use thalweg::Runtime;

const MIB: f64 = (1 << 20) as f64;

/// Runs the multi-zone NAS Parallel Benchmarks as dependent tasks
#[derive(Parser)]
struct Options {
    /// Which of the three to run
    #[arg(value_enum, value_name = "BENCHMARK")]
    benchmark: Benchmark,
    /// Problem class
    #[arg(long, visible_alias = "size", value_enum, default_value = "S", hide_possible_values = true)]
    class: Class,
    /// Time steps [default: those of the class, which have reference values]
    #[arg(long, value_name = "N", value_parser = integer(1..=1_000_000))]
    niter: Option<usize>,
    /// Number of tasks that a zone's step is divided into; planes: one, with children for chunks of planes and of
    /// rows [default: whole, or step with --periods]
    #[arg(long, value_enum)]
    fuse: Option<Fuse>,
    /// Largest number of lanes in a vector: 8 (AVX-512), 4 (AVX2), 2 (NEON), 1 (portable) [default: as many as the
    /// processor has]
    #[arg(long, value_name = "N", value_parser = integer(1..=8))]
    lanes: Option<usize>,
    /// Wait for all tasks between exchange and computation, to time both periods
    #[arg(long)]
    periods: bool,
    /// Record some steps once, and replay them instead of submitting each step
    #[arg(long, conflicts_with = "periods")]
    replay: bool,
    /// Run a plain loop over the zones on one core, without the runtime
    #[arg(long, conflicts_with_all = ["units", "scheduler", "simulate", "periods", "replay"])]
    serial: bool,
    #[command(flatten)]
    machine: Machine,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let problem = options.benchmark.problem(options.class);
    let refused = match options.fuse() {
        Fuse::Planes if options.machine.is_simulated() => {
            Some("cannot simulate --fuse planes: the bodies that submit the children do not run; try --fuse step")
        }
        Fuse::Whole | Fuse::Batch if options.periods => {
            Some("cannot time the periods of whole steps: the exchange is part of each; try --fuse step")
        }
        _ => None,
    };
    if let Some(refused) = refused {
        eprintln!("error: {refused}");
        return ExitCode::from(2);
    }
    let allocates = options.serial || !options.machine.is_simulated();
    if allocates && let Err(shortage) = check_memory(&problem, options.benchmark, options.fuse()) {
        eprintln!("error: {shortage}");
        return ExitCode::from(2);
    }
    if let Some(most) = options.lanes {
        limit_lanes(most);
    }
    if options.serial {
        return options.serial(&problem).conclude();
    }
    options.machine.run(|rt| options.tasks(rt, &problem))
}

/// Rejects a problem that is too large for this machine's free memory.
fn check_memory(problem: &Problem, benchmark: Benchmark, fuse: Fuse) -> std::result::Result<(), String> {
    let points: usize = problem.points.iter().product();
    let needed = bytes_needed(problem, benchmark, fuse) as f64;
    let system =
        System::new_with_specifics(RefreshKind::nothing().with_memory(MemoryRefreshKind::nothing().with_ram()));
    let available = system.available_memory() as f64;
    if needed <= available {
        return Ok(());
    }
    Err(format!(
        "{points} points need {:.0} MiB of memory, and {:.0} MiB are available; choose a smaller class",
        needed / MIB,
        available / MIB
    ))
}

impl Options {
    fn fuse(&self) -> Fuse {
        self.fuse.unwrap_or(if self.periods { Fuse::Step } else { Fuse::Whole })
    }

    fn steps(&self, problem: &Problem) -> usize {
        self.niter.unwrap_or(problem.steps)
    }

    fn print_banner(&self, problem: &Problem) {
        print!("{}", banner(self.benchmark, self.class, self.fuse(), problem, self.steps(problem)));
    }

    fn tasks(&self, rt: &Runtime, problem: &Problem) -> Result<Outcome> {
        self.print_banner(problem);
        let settings =
            Settings { steps: self.steps(problem), fuse: self.fuse(), periods: self.periods, replay: self.replay };
        let program = Program::new(rt, self.benchmark, problem, settings);
        let (times, norms) = program.run(|| ())?;
        if !rt.machine().is_simulated() {
            print!("{}", program.log().stages());
            println!("zones changed their unit {} times", program.log().migrations());
        }
        if let Some(Periods { computation, communication }) = times.periods() {
            println!("computation period {:.4} s", computation.as_secs_f64());
            println!("communication period {:.4} s", communication.as_secs_f64());
        }
        let verdict = (!rt.machine().is_simulated()).then(|| Verdict::new(problem, &norms));
        Ok(self.judge(problem, times.total, verdict))
    }

    fn serial(&self, problem: &Problem) -> Outcome {
        self.print_banner(problem);
        let run = run_serially(self.benchmark, problem, self.steps(problem), 1, self.fuse());
        print!("{}", run.stages);
        self.judge(problem, Duration::from_secs_f64(run.seconds), Some(Verdict::new(problem, &run.norms)))
    }

    /// Prints the results of a run; there is no verdict if nothing was computed.
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
