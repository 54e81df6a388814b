//! BT-MZ, SP-MZ and LU-MZ with zones over ranks, by the same tasks as on one machine (`npb_mz`).
//!
//! ```text
//! cargo build --release -p thalweg-mpi-npb-mz --examples
//! mpirun -np 4 target/release/examples/mpi_npb_mz bt --class A --units 1:CPU:1
//! ```

mod ranks;

use clap::Parser;
use npb::Result;
use npb::mz::{Benchmark, Class, Fuse, Program, Settings, Verdict, banner};
use ranks::{OWNERS, Ranks};
use std::cell::{Cell, RefCell};
use std::process::ExitCode;
use thalweg::Runtime;
use thalweg_mpi::{Cluster, Options as ClusterOptions};

/// Runs the multi-zone NAS Parallel Benchmarks on the ranks that `mpirun` has started
#[derive(Parser)]
struct Options {
    /// Which of the three to run
    #[arg(value_enum, value_name = "BENCHMARK")]
    benchmark: Benchmark,
    /// Problem class
    #[arg(long, value_enum, default_value = "S", hide_possible_values = true)]
    class: Class,
    /// Time steps [default: those of the class, which have reference values]
    #[arg(long, value_name = "N")]
    niter: Option<usize>,
    /// Number of tasks that a zone's step is divided into: whole, step or stages
    #[arg(long, value_enum, default_value = "whole")]
    fuse: Fuse,
    /// Compute units of each rank, as COUNT:KIND:SIZE terms separated by commas
    #[arg(long, value_name = "LIST", default_value = "1:CPU:1")]
    units: String,
    /// Distribution of the zones to the ranks: by size (as NPB-MZ does), in chunks, with few borders, or by measured
    /// times
    #[arg(long, value_parser = OWNERS, default_value = "size")]
    owners: String,
    /// Write a trace of each rank: RUN.0.thw, RUN.1.thw, … for RUN.thw; `thalweg trace RUN.*.thw` shows all of them
    #[arg(long, value_name = "FILE")]
    trace: Option<std::path::PathBuf>,
}

impl Options {
    /// Runs the benchmark. Returns whether the result is correct; `None` if it was not compared.
    fn run(&self, cluster: &Cluster) -> Result<Option<bool>> {
        let problem = self.benchmark.problem(self.class);
        let steps = self.niter.unwrap_or(problem.steps);
        let is_first = cluster.rank() == 0;
        if is_first {
            print!("{}", banner(self.benchmark, self.class, self.fuse, &problem, steps));
            println!("{} ranks of {}, zones by {}", cluster.ranks(), self.units, self.owners);
        }
        let ranks = Ranks::new(cluster, self.benchmark, &problem, &self.owners);
        let settings = Settings { steps, fuse: self.fuse, periods: false, replay: false };
        let program = Program::new(&ranks, self.benchmark, &problem, settings);
        let (moved, refused) = (Cell::new(0), RefCell::new(None));
        let (times, norms) = program.run(|| match ranks.rebalance(|| program.log().take_times()) {
            Ok(zones) => moved.set(moved.get() + zones),
            Err(error) => *refused.borrow_mut() = Some(error),
        })?;
        if let Some(error) = refused.into_inner() {
            return Err(error.into());
        }
        let links = cluster.links()?;
        if !is_first {
            return Ok(None);
        }
        print!("{links}");
        println!("zones changed their rank {} times", moved.get());
        let seconds = times.total.as_secs_f64();
        println!("{:.1} Mop/s", problem.operations(self.benchmark, steps) / seconds);
        println!("time {seconds:.3} s");
        if steps != problem.steps {
            println!("NOT COMPARED");
            return Ok(None);
        }
        let verdict = Verdict::new(&problem, &norms);
        println!("largest relative difference {:.1e}", verdict.difference());
        println!("{}", if verdict.verified() { "VERIFIED" } else { "NOT VERIFIED" });
        Ok(Some(verdict.verified()))
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    let builder = Runtime::builder().compute_units(&options.units).pin_threads(false);
    let settings = options.trace.iter().fold(ClusterOptions::new(), |settings, file| settings.trace(file));
    let outcome = settings.init(builder).map_err(Into::into).and_then(|cluster| options.run(&cluster));
    match outcome {
        Ok(Some(false)) => ExitCode::FAILURE,
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
