//! Shared parts of the programs that divide their work between the CPU and devices: steps from which a scheduler
//! learns, the power of units, and the comparison of the CPU alone, the devices alone, and both together with the best
//! time and with the best energy (Farrelly et al. 2024, figures 12 and 13).

mod chart;
mod energies;
mod split;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use comfy_table::Table;
use thalweg::energy::Power;
use thalweg::machine::{UnitConfig, UnitTerm};
use thalweg::prelude::*;
use thalweg::sched::Distributed;

use crate::common::{Machine, Outcome, Result, integer};
use split::Split;

/// Flags of these programs, in addition to the common ones.
#[derive(Args)]
pub(crate) struct Hybrid {
    /// Number of row blocks into which the work is divided; each block is an index of an iteration space
    #[arg(long, value_name = "N", default_value = "16", value_parser = integer(1..=65_536))]
    pub(crate) blocks: usize,
    /// Number of times that the work is repeated; the scheduler learns from every repetition
    #[arg(long, value_name = "N", default_value = "4", value_parser = integer(1..=1_000_000))]
    pub(crate) steps: usize,
    /// Power of a core or device in watts, idle and busy: CPU=0.5:4,EMU=20:150
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = power)]
    power: Vec<(UnitKind, Power)>,
    /// Compare the CPU alone, the devices alone and both together, by time and by energy
    #[arg(long)]
    compare: bool,
    /// Write the comparison to this folder, as CSV and as a chart
    #[arg(long, value_name = "FOLDER", requires = "compare")]
    out: Option<PathBuf>,
    /// Sizes to compare, separated by commas [default: the one given by --size]
    #[arg(long, value_name = "LIST", value_delimiter = ',', requires = "compare", value_parser = integer(1..=1_000_000))]
    sizes: Vec<usize>,
    /// Also compare all divisions of the blocks between one CPU unit and one device, and show the fastest
    #[arg(long, requires = "compare")]
    splits: bool,
    /// Run the crates that the CPU bodies call, without the runtime, on the cores of the CPU units
    #[arg(long, conflicts_with_all = ["compare", "simulate", "scheduler"])]
    alone: bool,
    #[command(flatten)]
    pub(crate) machine: Machine,
}

fn power(text: &str) -> std::result::Result<(UnitKind, Power), String> {
    let parsed = || {
        let (kind, watts) = text.split_once('=')?;
        let (idle, busy) = watts.split_once(':')?;
        let power = Power { idle_w: idle.parse().ok()?, busy_w: busy.parse().ok()? };
        Some((UnitKind::from_keyword(kind)?, power))
    };
    parsed().ok_or_else(|| format!("`{text}` is not of the form KIND=IDLE:BUSY, such as CPU=0.5:4"))
}

/// Runs all steps of a program of the given size on a runtime, and verifies the result.
pub(crate) type Program<'a> = &'a dyn Fn(&Runtime, usize) -> Result<Done>;
/// Runs the program without a runtime, given the size, the number of cores and the number of steps.
pub(crate) type Alone<'a> = &'a dyn Fn(usize, usize, usize) -> Result<Done>;

/// A run of all steps.
pub(crate) struct Done {
    /// Time of each step.
    pub(crate) steps: Vec<Duration>,
    /// Dynamic energy of each step in joules; `None` if it is unknown.
    pub(crate) joules: Vec<Option<f64>>,
    pub(crate) verified: Option<bool>,
}

/// Runs and times the steps of a program.
pub(crate) fn each_step(rt: &Runtime, steps: usize, mut step: impl FnMut(usize) -> Result<()>) -> Result<Done> {
    let mut done = Done { steps: Vec::new(), joules: Vec::new(), verified: None };
    for n in 0..steps {
        let (start, before) = (rt.now(), dynamic_joules(rt));
        step(n)?;
        rt.wait()?;
        done.steps.push(rt.now() - start);
        done.joules.push(dynamic_joules(rt).zip(before).map(|(now, before)| now - before));
    }
    Ok(done)
}

/// Runs and times the steps of a program without a runtime.
pub(crate) fn each_step_alone(steps: usize, mut step: impl FnMut(usize)) -> Done {
    let time = |n| {
        let start = Instant::now();
        step(n);
        start.elapsed()
    };
    Done { steps: (0..steps).map(time).collect(), joules: vec![None; steps], verified: None }
}

impl Done {
    /// Returns the time and the energy of the step with the median time among the second half of the steps, when the
    /// scheduler has learned all it can.
    fn typical(&self) -> (f64, Option<f64>) {
        let mut late: Vec<usize> = (self.steps.len() / 2..self.steps.len()).collect();
        late.sort_by_key(|step| self.steps[*step]);
        let step = late[(late.len() - 1) / 2];
        (self.steps[step].as_secs_f64(), self.joules[step])
    }

    fn print_steps(&self) {
        for (n, (step, joules)) in self.steps.iter().zip(&self.joules).enumerate() {
            let joules = joules.map_or_else(String::new, |joules| format!(", {joules:.3} J"));
            println!("step {n}: {:.6} s{joules}", step.as_secs_f64());
        }
    }
}

/// Returns the energy that all units have used so far, or `None` unless the power or a meter is known for every unit.
fn dynamic_joules(rt: &Runtime) -> Option<f64> {
    let energy = rt.statistics().energy;
    let all = rt.machine().units().iter().all(|unit| energy.iter().any(|known| known.units.contains(&unit.id)));
    energy.iter().filter(|_| all).map(|known| known.dynamic_j).sum::<Option<f64>>().filter(|_| all)
}

/// One line of the comparison.
pub(crate) struct Row {
    pub(crate) size: usize,
    pub(crate) who: &'static str,
    units: String,
    scheduler: String,
    /// Time of a typical step.
    pub(crate) seconds: f64,
    pub(crate) joules: Option<f64>,
}

impl Hybrid {
    /// Runs the program or the comparison, as the flags request.
    pub(crate) fn run(&self, name: &str, size: usize, program: Program<'_>, alone: Alone<'_>) -> ExitCode {
        if self.compare {
            return self.compare(name, size, program).unwrap_or_else(refuse);
        }
        if self.alone {
            return self.run_alone(size, alone).unwrap_or_else(refuse);
        }
        self.machine.run_with(
            |builder| self.describe(builder),
            |rt| {
                let done = program(rt, size)?;
                done.print_steps();
                Ok(Outcome { elapsed: done.steps[done.steps.len() - 1], verified: done.verified })
            },
        )
    }

    fn run_alone(&self, size: usize, alone: Alone<'_>) -> Result<ExitCode> {
        let units: Option<UnitConfig> = self.machine.units().map(str::parse).transpose()?;
        let all = || std::thread::available_parallelism().map_or(1, usize::from);
        let cores = units.map_or_else(all, |units| units.terms().iter().map(|term| term.count * term.size).sum());
        let done = alone(size, cores, self.steps)?;
        done.print_steps();
        Ok(Outcome { elapsed: done.steps[done.steps.len() - 1], verified: done.verified }.conclude())
    }

    fn describe(&self, builder: thalweg::Builder) -> thalweg::Builder {
        self.power.iter().fold(builder, |builder, (kind, power)| builder.power(*kind, *power))
    }

    fn compare(&self, name: &str, size: usize, program: Program<'_>) -> Result<ExitCode> {
        let simulated = self.machine.simulated()?;
        let units =
            self.machine.units().ok_or("a comparison needs --units with CPU and devices, such as 1:CPU:1,1:EMU:1")?;
        let units: UnitConfig = units.parse()?;
        if self.splits && units.terms().iter().map(|term| term.count).sum::<usize>() != 2 {
            return Err(format!("cannot compare all splits of {units}: needs two units; try 1:CPU:1,1:EMU:1").into());
        }
        let parts = Parts::of(&units)?;
        let sizes = if self.sizes.is_empty() { vec![size] } else { self.sizes.clone() };
        let (mut rows, mut verified) = (Vec::new(), Some(true));
        for size in sizes {
            let mut measure = |who, units: &str, scheduler: &str, split: Option<Split>| -> Result<Row> {
                let builder = self.describe(Runtime::builder()).compute_units(units).use_current_thread(true);
                let builder = match split {
                    Some(split) => builder.policy(Distributed::new(split)),
                    None => builder.scheduler(scheduler),
                };
                let builder = match &simulated {
                    Some(machine) => builder.simulate(machine.clone()),
                    None => builder,
                };
                let done = program(&builder.build()?, size)?;
                verified = verified.zip(done.verified).map(|(all, this)| all && this);
                let ((seconds, joules), units) = (done.typical(), units.to_owned());
                Ok(Row { size, who, units, scheduler: scheduler.to_owned(), seconds, joules })
            };
            for (who, units, scheduler) in [
                ("CPU alone", &parts.cpu, "static"),
                ("devices alone", &parts.devices, "static"),
                ("both, equal", &parts.both, "static"),
                ("both, by time", &parts.both, "fpm"),
                ("both, by energy", &parts.both, "fpm:objective=energy"),
                ("both, by energy within 1.5 times", &parts.both, "fpm:objective=pareto,budget=1.5x"),
            ] {
                rows.push(measure(who, units, scheduler, None)?);
            }
            if self.splits {
                let all = (0..=self.blocks).map(|on_cpu| {
                    let scheduler = format!("{on_cpu} of {} blocks to the CPU", self.blocks);
                    measure("both, the fastest split", &parts.both, &scheduler, Some(Split { on_cpu }))
                });
                let all = all.collect::<Result<Vec<_>>>()?;
                rows.extend(all.into_iter().min_by(|one, other| one.seconds.total_cmp(&other.seconds)));
            }
        }
        print(&rows);
        energies::report(&rows, self.blocks, &units);
        if let Some(folder) = &self.out {
            std::fs::create_dir_all(folder)?;
            std::fs::write(folder.join(format!("{name}.csv")), to_csv(&rows))?;
            chart::draw(name, &rows, &folder.join(format!("{name}.svg")))?;
            println!("written to {}", folder.display());
        }
        let verified = verified.filter(|_| simulated.is_none());
        let words = verified.map_or("NOT COMPARED", |verified| if verified { "VERIFIED" } else { "NOT VERIFIED" });
        println!("{words}");
        Ok(if verified == Some(false) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

fn refuse(error: Box<dyn std::error::Error>) -> ExitCode {
    eprintln!("error: {error}");
    ExitCode::from(2)
}

/// The unit configurations that a comparison runs on.
struct Parts {
    cpu: String,
    devices: String,
    both: String,
}

impl Parts {
    /// Splits a configuration. The configuration with the CPU alone also gets the cores that otherwise host devices,
    /// either as additional units or, if there is only one CPU unit, as part of this unit.
    fn of(config: &UnitConfig) -> Result<Self> {
        let (devices, cpus): (Vec<UnitTerm>, Vec<UnitTerm>) =
            config.terms().iter().partition(|term| term.kind.is_device());
        let hosting: usize = devices.iter().map(|term| term.count).sum();
        if cpus.is_empty() || devices.is_empty() {
            return Err(format!("cannot compare {config}: CPU and devices are needed; try 1:CPU:1,1:EMU:1").into());
        }
        let join = |terms: &[UnitTerm]| {
            let term = |UnitTerm { count, kind, size }: &UnitTerm| format!("{count}:{kind}:{size}");
            terms.iter().map(term).collect::<Vec<_>>().join(",")
        };
        let cpu = match cpus.as_slice() {
            [one] if one.count == 1 => join(&[UnitTerm { size: one.size + hosting, ..*one }]),
            all => join(&[all, &[UnitTerm { count: hosting, kind: UnitKind::Cpu, size: 1 }]].concat()),
        };
        let devices = join(&devices);
        Ok(Self { cpu, devices, both: config.to_string() })
    }
}

fn joules(row: &Row) -> String {
    row.joules.map_or_else(|| "unknown".to_owned(), |joules| format!("{joules:.3}"))
}

fn print(rows: &[Row]) {
    let mut table = Table::new();
    table.set_header(["size", "who", "units", "scheduler", "seconds", "dynamic joules"]);
    for row in rows {
        let cells = [row.size.to_string(), row.who.to_owned(), row.units.clone(), row.scheduler.clone()];
        table.add_row(cells.into_iter().chain([format!("{:.6}", row.seconds), joules(row)]).collect::<Vec<_>>());
    }
    println!("{table}");
}

fn to_csv(rows: &[Row]) -> String {
    let line = |row: &Row| {
        format!("{};{};{};{};{:.9};{}\n", row.size, row.who, row.units, row.scheduler, row.seconds, joules(row))
    };
    std::iter::once("size;who;units;scheduler;seconds;dynamic_joules\n".to_owned())
        .chain(rows.iter().map(line))
        .collect()
}
