//! `thalweg sim`: replays the tasks of a trace on simulated machines.
//!
//! [`measured`] determines the times of the recorded tasks, [`machine`] transfers them to a machine, [`program`]
//! derives the order of submissions and waits, [`replay`] runs the result, and [`compare`] sets it next to real runs.
//! This file contains the options and the table.

mod compare;
mod links;
mod machine;
mod measured;
mod program;
mod regions;
mod replay;

use clap::Args;
use machine::{MachineFile, Scale, Target};
use measured::Measured;
use program::Program;
use replay::{Run, Units};
use std::collections::BTreeSet;
use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use thalweg::machine::UnitKind;
use thalweg::sched::NAMES;
use thalweg::{Builder, Runtime};
use thalweg_trace::Trace;

/// The scheduler used for a check if the recorded scheduler cannot be built from its name.
const DEFAULT: &str = "stealing";
/// The largest number of names that a remark lists.
const MOST_NAMES: usize = 5;

const AFTER_HELP: &str = "\
A task takes its measured time on the kind of unit where it ran. On other kinds it takes that time divided by the
factor of --scale, or else the time of its name in the machine file, relative to the file's time on the kind where it
ran. It runs on all kinds for which it has a time. The guide's chapter on simulation has the details.";

/// Options of `thalweg sim`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Options {
    /// A trace, recorded with THALWEG_TRACE=FILE and THALWEG_TRACE_ACCESSES=1
    file: PathBuf,
    /// Machine files; without this, a machine like the recorded one
    #[arg(long, value_name = "FILE,...", value_delimiter = ',')]
    machine: Vec<PathBuf>,
    /// Schedulers with their parameters, as in eft,dynamic:chunk=2; without this, the recorded one
    #[arg(long, value_name = "NAME,...")]
    scheduler: Vec<String>,
    /// Units of the machines, as in 4:CPU:1,2:GPU:1; without this, the whole machine
    #[arg(long)]
    units: Option<String>,
    /// How many times as fast as measured tasks run on a kind of unit, as in GPU=20
    #[arg(long, value_name = "KIND=FACTOR", value_delimiter = ',', value_parser = factor)]
    scale: Vec<(UnitKind, f64)>,
    /// Writes a trace of each simulated run: FILE for the first, and for the n-th a name that ends with -n
    #[arg(long, value_name = "FILE")]
    trace_out: Option<PathBuf>,
    /// Traces of other real runs of the program: simulates their units and schedulers, and prints the ratio of the
    /// simulated makespan to the measured ones
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with = "machine")]
    compare: Vec<PathBuf>,
}

fn factor(text: &str) -> Result<(UnitKind, f64), String> {
    let (kind, factor) = text.split_once('=').ok_or("there is no `=`; write KIND=FACTOR, such as GPU=20")?;
    let known = || UnitKind::ALL.map(UnitKind::keyword).join(", ");
    let kind = UnitKind::from_keyword(kind.trim())
        .ok_or_else(|| format!("`{kind}` is no kind of unit; try one of {}", known()))?;
    let factor = factor.trim().parse().ok().filter(|factor| (1e-6..=1e6).contains(factor));
    Ok((kind, factor.ok_or("the factor is no number from 1e-6 to 1e6; try one such as GPU=20")?))
}

/// A line of the output table.
struct Line {
    machine: String,
    scheduler: String,
    run: Run,
}

pub(crate) fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let path = options.file.display();
    let trace = Trace::read(&options.file).map_err(|error| format!("cannot simulate {path}: {error}"))?;
    let measured = Measured::of(&trace);
    if measured.names.is_empty() {
        return Err(format!("cannot simulate {path}: it has no task that ran; try the trace of a whole run").into());
    }
    let scale: Scale = options.scale.iter().copied().collect();
    let program = Program::of(&trace, &measured);
    let like = MachineFile::like(&trace)?;
    let own = own_scheduler(&trace);
    let schedulers = schedulers(&options.scheduler, &own);
    let files: Vec<_> = options.machine.iter().map(|path| MachineFile::read(path)).collect::<Result<_, _>>()?;
    let files = if files.is_empty() { vec![like.clone()] } else { files };

    // Check all options before the first run, so that errors are reported early.
    let mut targets = Vec::new();
    for file in &files {
        let target = file.with_times(&measured, &scale)?;
        for scheduler in &schedulers {
            let rt = builder(&target, options.units.as_deref(), scheduler).build();
            let rt = rt.map_err(|error| format!("cannot simulate {path} on `{}`: {error}", file.name))?;
            check_kinds(&rt, &file.name, &target, &measured)?;
        }
        targets.push(target);
    }
    let mut remarks = program.remarks.clone();
    let (mut lines, mut number) = (Vec::new(), 0);
    for (file, target) in files.iter().zip(&targets) {
        for scheduler in &schedulers {
            let mut builder = builder(target, options.units.as_deref(), scheduler);
            if let Some(out) = &options.trace_out {
                number += 1;
                builder = builder.trace(numbered(out, number));
            }
            let run = replay::replay(&program, target, &measured.name_of, builder)
                .map_err(|error| format!("cannot simulate {path} on `{}` by {scheduler}: {error}", file.name))?;
            lines.push(Line { machine: file.name.clone(), scheduler: scheduler.clone(), run });
        }
        remarks.extend(remark_on_kinds(target, &file.name, &measured, lines.last()));
    }
    let recorded = makespan_ns(&trace);
    let units = units_of(&trace);
    let check = check(&program, &like, &measured, (&units, &own), &Scale::new());
    let mut text = String::new();
    let scheduler = trace.facts.get("scheduler").map_or("an unknown scheduler", String::as_str);
    let ran = measured.ran.iter().flatten().count();
    writeln!(text, "recorded: {ran} tasks on {units} by {scheduler}, makespan {}", time(recorded))?;
    match check {
        Ok(simulated) => {
            let error = (simulated as f64 / recorded.max(1) as f64 - 1.0) * 100.0;
            let by = if own == scheduler { String::new() } else { format!(" by {own}") };
            writeln!(text, "check: the same run simulated{by}, makespan {}, error {error:+.1} %", time(simulated))?;
        }
        Err(error) => writeln!(text, "check: {error}")?,
    }
    for (group, runs) in compare::read(&options.compare)? {
        let simulated = self::check(&program, &like, &measured, (&group.0, &group.1), &scale)?;
        writeln!(text, "{}", compare::line(&group, &runs, simulated, measured.work_ns()))?;
    }
    table(&lines, recorded, &mut text)?;
    if let Some(out) = &options.trace_out {
        let paths: Vec<_> = (1..=number).map(|number| numbered(out, number).display().to_string()).collect();
        writeln!(text, "\ntraces: {}", paths.join(", "))?;
    }
    if !remarks.is_empty() {
        writeln!(text)?;
        remarks.iter().try_for_each(|remark| writeln!(text, "{remark}"))?;
    }
    print!("{text}");
    Ok(())
}

fn builder(target: &Target, units: Option<&str>, scheduler: &str) -> Builder {
    let builder = Runtime::builder().simulate(target.machine.clone()).scheduler(scheduler);
    match units {
        Some(units) => builder.compute_units(units),
        None => builder,
    }
}

/// Simulates the program on units like the recorded ones, and returns the simulated makespan.
fn check(
    program: &Program,
    like: &MachineFile,
    measured: &Measured,
    (units, scheduler): (&str, &str),
    scale: &Scale,
) -> Result<u64, String> {
    let target = like.with_times(measured, scale)?;
    let run = replay::replay(program, &target, &measured.name_of, builder(&target, Some(units), scheduler));
    run.map(|run| run.makespan_ns).map_err(|error| format!("cannot simulate {units} by {scheduler}: {error}"))
}

/// Checks that every task has a time on at least one unit.
fn check_kinds(rt: &Runtime, machine: &str, target: &Target, measured: &Measured) -> Result<(), String> {
    let there: BTreeSet<_> = rt.machine().units().iter().map(|unit| unit.kind).collect();
    for (name, (kinds, ran_on)) in measured.names.iter().zip(&target.kinds) {
        if !kinds.iter().any(|kind| there.contains(kind)) {
            return Err(format!(
                "cannot simulate task `{name}` on `{machine}`: it ran on {} units only, and has no time on {} units; try \
                 --scale {}=FACTOR, or add its time to the machine file",
                keywords(ran_on),
                keywords(&there),
                there.first().map_or("CPU", |kind| kind.keyword()),
            ));
        }
    }
    Ok(())
}

/// Names the tasks that cannot run on some kind of unit in use.
fn remark_on_kinds(target: &Target, machine: &str, measured: &Measured, line: Option<&Line>) -> Option<String> {
    let there: Vec<_> = line?.run.busy.iter().map(|(kind, _)| *kind).collect();
    let lacks = |kinds: &[UnitKind]| there.iter().any(|kind| !kinds.contains(kind));
    let names: Vec<_> = measured.names.iter().zip(&target.kinds).filter(|(_, (kinds, _))| lacks(kinds)).collect();
    let missing: BTreeSet<_> =
        names.iter().flat_map(|(_, (kinds, _))| there.iter().filter(|kind| !kinds.contains(kind))).copied().collect();
    let kind = missing.first()?;
    let mut text: Vec<_> = names.iter().take(MOST_NAMES).map(|(name, _)| format!("`{name}`")).collect();
    if names.len() > MOST_NAMES {
        text.push(format!("{} others", names.len() - MOST_NAMES));
    }
    let (text, missing) = (text.join(", "), keywords(&missing));
    Some(format!("On `{machine}`, some tasks have no time on {missing} units: {text}. Try --scale {kind}=FACTOR."))
}

fn keywords<'a>(kinds: impl IntoIterator<Item = &'a UnitKind>) -> String {
    kinds.into_iter().map(|kind| kind.keyword()).collect::<Vec<_>>().join(", ")
}

/// Returns the recorded scheduler, or the default one if the recorded one was custom or needs parameters.
fn own_scheduler(trace: &Trace) -> String {
    let name = trace.facts.get("scheduler").map_or(DEFAULT, String::as_str);
    let works = || Runtime::builder().compute_units("1:CPU:1").scheduler(name).use_current_thread(true).build().is_ok();
    if NAMES.contains(&name) && works() { name.to_owned() } else { DEFAULT.to_owned() }
}

/// Splits a list of schedulers. After a comma, a word that is not a scheduler's name is a parameter of the
/// preceding scheduler.
fn schedulers(given: &[String], own: &str) -> Vec<String> {
    let mut schedulers: Vec<String> = Vec::new();
    for list in given {
        let mut is_first = true;
        for word in list.split(',') {
            let name = word.split(':').next().unwrap_or_default().trim();
            match schedulers.last_mut().filter(|last| !is_first && last.contains(':') && !NAMES.contains(&name)) {
                Some(last) => *last = format!("{last},{word}"),
                None => schedulers.push(word.trim().to_owned()),
            }
            is_first = false;
        }
    }
    if schedulers.is_empty() { vec![own.to_owned()] } else { schedulers }
}

/// Returns the units that a trace was recorded on.
fn units_of(trace: &Trace) -> String {
    let unit = |units: Units, unit: &thalweg_trace::Unit| {
        units.and(UnitKind::from_keyword(&unit.kind).unwrap_or(UnitKind::Cpu), unit.width)
    };
    trace.units.iter().fold(Units::default(), unit).text()
}

/// Returns the time from the first submission until the last task ended.
fn makespan_ns(trace: &Trace) -> u64 {
    let first = trace.tasks.iter().map(|task| task.submitted).min().unwrap_or(0);
    trace.tasks.iter().filter_map(|task| task.finished).max().unwrap_or(0).saturating_sub(first)
}

fn numbered(path: &Path, number: usize) -> PathBuf {
    if number == 1 {
        return path.to_owned();
    }
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(format!("-{number}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

fn table(lines: &[Line], recorded: u64, text: &mut String) -> std::fmt::Result {
    let head = ["machine", "units", "scheduler", "makespan", "speed-up", "busy", "copied"].map(str::to_owned);
    let row = |Line { machine, scheduler, run }: &Line| {
        let speed_up = format!("{:.2}", recorded as f64 / run.makespan_ns.max(1) as f64);
        let busy = run.busy.iter().map(|(kind, part)| format!("{kind} {:.1} %", part * 100.0)).collect::<Vec<_>>();
        let (machine, units, scheduler) = (machine.clone(), run.units.clone(), scheduler.clone());
        [machine, units, scheduler, time(run.makespan_ns), speed_up, busy.join(", "), bytes(run.bytes_copied)]
    };
    let rows: Vec<_> = std::iter::once(head).chain(lines.iter().map(row)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    writeln!(text)?;
    for row in &rows {
        let cells = row.iter().enumerate().map(|(column, cell)| match column {
            3 | 4 | 6 => format!("{cell:>width$}", width = width(column)),
            _ => format!("{cell:<width$}", width = width(column)),
        });
        writeln!(text, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    Ok(())
}

fn time(ns: u64) -> String {
    match ns as f64 {
        ns if ns < 1e6 => format!("{:.3} us", ns / 1e3),
        ns if ns < 1e9 => format!("{:.3} ms", ns / 1e6),
        ns => format!("{:.3} s", ns / 1e9),
    }
}

fn bytes(bytes: u64) -> String {
    match bytes as f64 {
        bytes if bytes < 1e3 => format!("{bytes} B"),
        bytes if bytes < 1e6 => format!("{:.1} kB", bytes / 1e3),
        bytes if bytes < 1e9 => format!("{:.1} MB", bytes / 1e6),
        bytes => format!("{:.1} GB", bytes / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_stay_with_their_scheduler() {
        let given = ["eft,dynamic:chunk=2,memo=3,static".to_owned(), "fastest,eft:bytes_per_s=1e9".to_owned()];
        let expected = ["eft", "dynamic:chunk=2,memo=3", "static", "fastest", "eft:bytes_per_s=1e9"];
        assert_eq!(schedulers(&given, "auto"), expected);
        assert_eq!(schedulers(&[], "auto"), ["auto"]);
    }

    #[test]
    fn further_traces_have_numbered_names() {
        let path = Path::new("out/run.thw");
        assert_eq!((numbered(path, 1), numbered(path, 3)), (path.to_owned(), "out/run-3.thw".into()));
    }
}
