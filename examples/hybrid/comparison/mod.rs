//! What programs share that divide one work between CPU and devices: steps that a scheduler learns from, the power of units,
//! and the comparison of a CPU alone, devices alone and both, best in time and best in energy (Farrelly et al. 2024, figures
//! 12 and 13).

mod chart;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use comfy_table::Table;
use thalweg::energy::Power;
use thalweg::machine::{UnitConfig, UnitTerm};
use thalweg::prelude::*;

use crate::common::{Machine, Outcome, Result, integer};

/// The flags of these programs beside those that all have.
#[derive(Args)]
pub(crate) struct Hybrid {
    /// Blocks of rows that the work is divided into; each is an index of an iteration space
    #[arg(long, value_name = "N", default_value = "64", value_parser = integer(1..=65_536))]
    pub(crate) blocks: usize,
    /// How often the work is done: the scheduler learns from one time to the next
    #[arg(long, value_name = "N", default_value = "4", value_parser = integer(1..=1_000_000))]
    pub(crate) steps: usize,
    /// What a core or device uses, in watts, idle and busy: CPU=0.5:4,EMU=20:150
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = power)]
    power: Vec<(UnitKind, Power)>,
    /// Compare the CPU alone, devices alone and both, by time and by energy
    #[arg(long)]
    compare: bool,
    /// Write the comparison of these sizes to this folder, as CSV and as a chart
    #[arg(long, value_name = "FOLDER", requires = "compare")]
    out: Option<PathBuf>,
    /// Sizes to compare, separated by commas [default: the size]
    #[arg(long, value_name = "LIST", value_delimiter = ',', requires = "compare", value_parser = integer(1..=1_000_000))]
    sizes: Vec<usize>,
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

/// A program of such steps, of a given size; done on a runtime, verified.
pub(crate) type Program<'a> = &'a dyn Fn(&Runtime, usize) -> Result<Done>;

/// A run of all steps.
pub(crate) struct Done {
    /// What each step took.
    pub(crate) steps: Vec<Duration>,
    /// Dynamic energy of each step in joules, if it is known.
    pub(crate) joules: Vec<Option<f64>>,
    pub(crate) verified: Option<bool>,
}

/// Times the steps of a program.
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

/// What all units whose power or meter is known have used so far; none if that of some is not.
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
    scheduler: &'static str,
    /// Of the last step: by then the scheduler has learned what it can.
    pub(crate) seconds: f64,
    pub(crate) joules: Option<f64>,
}

impl Hybrid {
    /// Runs the program, or compares.
    pub(crate) fn run(&self, name: &str, size: usize, program: Program<'_>) -> ExitCode {
        if self.compare {
            return self.compare(name, size, program).unwrap_or_else(|error| {
                eprintln!("error: {error}");
                ExitCode::from(2)
            });
        }
        self.machine.run_with(
            |builder| self.describe(builder),
            |rt| {
                let done = program(rt, size)?;
                for (n, (step, joules)) in done.steps.iter().zip(&done.joules).enumerate() {
                    let joules = joules.map_or_else(String::new, |joules| format!(", {joules:.3} J"));
                    println!("step {n}: {:.6} s{joules}", step.as_secs_f64());
                }
                Ok(Outcome { elapsed: done.steps[done.steps.len() - 1], verified: done.verified })
            },
        )
    }

    fn describe(&self, builder: thalweg::Builder) -> thalweg::Builder {
        self.power.iter().fold(builder, |builder, (kind, power)| builder.power(*kind, *power))
    }

    fn compare(&self, name: &str, size: usize, program: Program<'_>) -> Result<ExitCode> {
        let simulated = self.machine.simulated()?;
        let units =
            self.machine.units().ok_or("a comparison needs --units of CPU and devices, such as 1:CPU:1,1:EMU:1")?;
        let parts = Parts::of(&units.parse()?)?;
        let sizes = if self.sizes.is_empty() { vec![size] } else { self.sizes.clone() };
        let (mut rows, mut verified) = (Vec::new(), Some(true));
        for size in sizes {
            for (who, units, scheduler) in [
                ("CPU alone", &parts.cpu, "static"),
                ("devices alone", &parts.devices, "static"),
                ("both, equal", &parts.both, "static"),
                ("both, by time", &parts.both, "fpm"),
                ("both, by energy", &parts.both, "fpm:objective=energy"),
                ("both, by energy within 1.5 times", &parts.both, "fpm:objective=pareto,budget=1.5x"),
            ] {
                let builder = self.describe(Runtime::builder()).compute_units(units).scheduler(scheduler);
                let builder = builder.submitter_hosts_unit(true);
                let builder = match &simulated {
                    Some(machine) => builder.simulate(machine.clone()),
                    None => builder,
                };
                let done = program(&builder.build()?, size)?;
                verified = verified.zip(done.verified).map(|(all, this)| all && this);
                let last = done.steps.len() - 1;
                let (seconds, joules) = (done.steps[last].as_secs_f64(), done.joules[last]);
                rows.push(Row { size, who, units: units.clone(), scheduler, seconds, joules });
            }
        }
        print(&rows);
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

/// The units of a comparison.
struct Parts {
    cpu: String,
    devices: String,
    both: String,
}

impl Parts {
    /// The CPU alone has the cores that else lead devices, as further units or, where it is one unit, as part of it.
    fn of(config: &UnitConfig) -> Result<Self> {
        let (devices, cpus): (Vec<UnitTerm>, Vec<UnitTerm>) =
            config.terms().iter().partition(|term| term.kind.is_device());
        let hosting: usize = devices.iter().map(|term| term.count).sum();
        if cpus.is_empty() || devices.is_empty() {
            return Err(format!("{config} has not both CPU and devices to compare; try 1:CPU:1,1:EMU:1").into());
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
        let cells = [row.size.to_string(), row.who.to_owned(), row.units.clone(), row.scheduler.to_owned()];
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
