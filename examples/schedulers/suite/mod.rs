//! The suite: programs of several kinds on several machines under every scheduler, compared by their time over a
//! lower bound.
//!
//! Programs with time steps run until their map has settled, and then some steps are measured. Graphs run three times
//! on fresh data, and only the last run counts, because by then schedulers that learn have learned enough.

mod chart;
pub(crate) mod least;
mod programs;

use std::fmt::Write as _;
use std::path::Path;

use npb::mz::{Benchmark, Class};
use thalweg::{Runtime, SimulatedMachine};

use crate::bound::Machine;
use crate::common::Result;
use crate::{LONGEST, side_by_side};
use programs::Kind;

/// The schedulers of the suite: all schedulers that do not need figures about the machine.
pub(crate) const SCHEDULERS: [&str; 16] = [
    "auto",
    "bottom-level",
    "certified",
    "certified:team=auto",
    "eft",
    "stealing",
    "dynamic",
    "priority",
    "static",
    "static-pcf",
    "pcf-static",
    "pcf-guided",
    "guided-sizes",
    "guided-runtime",
    "clustered-guided",
    "adjacency",
];

/// Number of steps that count.
const COUNTED: usize = 5;
/// Maximum number of steps before those that count.
const MOST: usize = 40;
/// Number of runs of a graph.
const RUNS: usize = 3;

/// A program on a machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    kind: Kind,
    machine: &'static str,
    /// Number of CPU units, and of cores of each.
    cpu: (usize, usize),
    gpus: usize,
}

const fn case(kind: Kind, machine: &'static str, cpu: (usize, usize), gpus: usize) -> Case {
    Case { kind, machine, cpu, gpus }
}

const ARTICLE: &str = "epyc7742-2xmi50";
const DGX: &str = "dgx-like";
const LAPTOP: &str = "laptop";
const XEON: &str = "xeon-4xk40";

/// All cases of the suite.
pub(crate) const CASES: [Case; 16] = [
    case(Kind::Zones(Benchmark::Bt, Class::D), ARTICLE, (62, 1), 2),
    case(Kind::Zones(Benchmark::Sp, Class::D), ARTICLE, (62, 1), 2),
    case(Kind::Zones(Benchmark::Lu, Class::D), ARTICLE, (1, 62), 2),
    case(Kind::Zones(Benchmark::Lu, Class::E), DGX, (2, 60), 8),
    case(Kind::Zones(Benchmark::Bt, Class::C), LAPTOP, (7, 1), 1),
    case(Kind::Zones(Benchmark::Sp, Class::C), LAPTOP, (7, 1), 1),
    case(Kind::Stencil(16), DGX, (120, 1), 8),
    case(Kind::Cholesky(8), XEON, (20, 1), 4),
    case(Kind::Cholesky(12), XEON, (20, 1), 4),
    case(Kind::Cholesky(16), XEON, (20, 1), 4),
    case(Kind::Cholesky(24), XEON, (20, 1), 4),
    case(Kind::Lu(8), XEON, (20, 1), 4),
    case(Kind::Lu(16), XEON, (20, 1), 4),
    case(Kind::Drawn(1), XEON, (20, 1), 4),
    case(Kind::Drawn(2), XEON, (20, 1), 4),
    case(Kind::Drawn(3), XEON, (20, 1), 4),
];

impl Case {
    fn units(self) -> String {
        let (units, cores) = self.cpu;
        format!("{units}:CPU:{cores},{}:GPU:1", self.gpus)
    }

    fn file(self, folder: &Path) -> std::path::PathBuf {
        folder.join(format!("{}.toml", self.machine))
    }
}

/// The result of a case under a scheduler.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Took {
    program: String,
    machine: String,
    units: String,
    scheduler: String,
    seconds: f64,
    least: f64,
}

impl Took {
    fn ratio(&self) -> f64 {
        self.seconds / self.least
    }
}

/// Runs the cases whose names contain `only`, under all schedulers.
pub(crate) fn run(machines: &Path, only: &str) -> Result<Vec<Took>> {
    let wanted = |case: &&Case| case.kind.to_string().contains(only);
    let all: Vec<(Case, &str)> =
        CASES.iter().filter(wanted).flat_map(|case| SCHEDULERS.map(|scheduler| (*case, scheduler))).collect();
    let one = |(case, scheduler): &(Case, &'static str)| {
        measure(*case, scheduler, machines).map_err(|error| format!("{} under {scheduler}: {error}", case.kind))
    };
    Ok(side_by_side(&all, |(_, scheduler)| *scheduler == LONGEST, one)?)
}

fn measure(case: Case, scheduler: &str, machines: &Path) -> Result<Took> {
    let file = case.file(machines);
    let machine = SimulatedMachine::from_file(&file)?;
    let rt = Runtime::builder().compute_units(case.units()).scheduler(scheduler).simulate(machine).build()?;
    let seconds = if case.kind.has_steps() { step(&rt, case.kind)? } else { graph(&rt, case.kind)? };
    let least = least::least_ns(case.kind, &Machine::from_file(&file)?, case.cpu, case.gpus);
    Ok(Took {
        program: case.kind.to_string(),
        machine: case.machine.to_owned(),
        units: case.units(),
        scheduler: scheduler.to_owned(),
        seconds,
        least: least.ok_or("the machine has no times for this program")? / 1e9,
    })
}

/// Returns the mean time of some steps, once the map has settled.
fn step(rt: &Runtime, kind: Kind) -> Result<f64> {
    let program = kind.prepare(rt)?;
    let migrations = || rt.statistics().affinity.map_or(0, |counts| counts.migrations);
    let (mut last, mut unchanged) = (u64::MAX, 0);
    for _ in 0..MOST {
        program.submit(rt)?;
        rt.wait()?;
        let now = migrations();
        unchanged = if now == last { unchanged + 1 } else { 0 };
        last = now;
        if unchanged == 2 * COUNTED {
            break;
        }
    }
    let start = rt.now();
    for _ in 0..COUNTED {
        program.submit(rt)?;
    }
    rt.wait()?;
    Ok((rt.now() - start).as_secs_f64() / COUNTED as f64)
}

/// Returns the time of the last of several runs.
fn graph(rt: &Runtime, kind: Kind) -> Result<f64> {
    let mut took = 0.0;
    for _ in 0..RUNS {
        let program = kind.prepare(rt)?;
        let start = rt.now();
        program.submit(rt)?;
        rt.wait()?;
        took = (rt.now() - start).as_secs_f64();
    }
    Ok(took)
}

const HEAD: &str = "program,machine,units,scheduler,seconds,least_s,ratio";

/// Formats rows as CSV.
pub(crate) fn to_csv(rows: &[Took]) -> String {
    let mut text = format!("{HEAD}\n");
    for row in rows {
        let Took { program, machine, units, scheduler, seconds, least } = row;
        let (program, units) = (program.replace(',', ";"), units.replace(',', " "));
        let _ = writeln!(text, "{program},{machine},{units},{scheduler},{seconds:.9},{least:.9},{:.4}", row.ratio());
    }
    text
}

/// Reads rows from CSV.
#[cfg(test)]
fn from_csv(text: &str) -> Result<Vec<Took>> {
    let mut lines = text.lines();
    if lines.next() != Some(HEAD) {
        return Err("not a file of this suite: its first line names other columns".into());
    }
    let row = |line: &str| -> Result<Took> {
        let [program, machine, units, scheduler, seconds, least, _] = line.split(',').collect::<Vec<_>>()[..] else {
            return Err(format!("not {} columns: {line}", HEAD.split(',').count()).into());
        };
        Ok(Took {
            program: program.replace(';', ","),
            machine: machine.to_owned(),
            units: units.replace(' ', ","),
            scheduler: scheduler.to_owned(),
            seconds: seconds.parse()?,
            least: least.parse()?,
        })
    };
    lines.map(row).collect()
}

/// Formats the table of a page: time over the bound, with values within 2 % of the best in bold.
pub(crate) fn table(rows: &[Took]) -> String {
    let mut text = format!("| program | machine | bound | {} |\n", SCHEDULERS.join(" | "));
    let _ = writeln!(text, "|{}", " --- |".repeat(SCHEDULERS.len() + 3));
    for of_case in rows.chunk_by(|one, other| (&one.program, &one.machine) == (&other.program, &other.machine)) {
        let best = of_case.iter().map(Took::ratio).fold(f64::INFINITY, f64::min);
        let cell = |scheduler: &str| match of_case.iter().find(|row| row.scheduler == scheduler) {
            Some(row) if row.ratio() <= 1.02 * best => format!(" **{:.2}** |", row.ratio()),
            Some(row) => format!(" {:.2} |", row.ratio()),
            None => " |".to_owned(),
        };
        let first = &of_case[0];
        let cells: String = SCHEDULERS.iter().map(|scheduler| cell(scheduler)).collect();
        let _ = writeln!(text, "| {} | {} | {:.1} ms |{cells}", first.program, first.machine, 1e3 * first.least);
    }
    text
}

/// Writes the CSV file and the chart.
pub(crate) fn write(rows: &[Took], folder: &Path) -> Result<()> {
    std::fs::write(folder.join("suite.csv"), to_csv(rows))?;
    chart::draw(rows, &folder.join("suite.svg"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured() -> Vec<Took> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/evaluation/suite.csv");
        from_csv(&std::fs::read_to_string(path).unwrap()).unwrap()
    }

    #[test]
    fn recorded_suite_is_complete_and_within_the_bound() {
        let rows = measured();
        assert_eq!(rows.len(), CASES.len() * SCHEDULERS.len());
        for row in &rows {
            assert!(row.ratio() > 0.98, "{} under {}: {}", row.program, row.scheduler, row.ratio()); // noise is 2 %
        }
        assert_eq!(from_csv(&to_csv(&rows)).unwrap(), rows);
    }

    #[test]
    fn auto_is_as_fast_as_schedulers_without_parameters() {
        let rows = measured();
        let by_case = rows.chunk_by(|one, other| (&one.program, &one.machine) == (&other.program, &other.machine));
        for (case, of_case) in CASES.iter().zip(by_case) {
            let of = |name: &str| of_case.iter().find(|row| row.scheduler == name).map_or(f64::INFINITY, Took::ratio);
            let best = ["stealing", "dynamic", "eft"].map(of).into_iter().fold(f64::INFINITY, f64::min);
            let (program, auto) = (&of_case[0].program, of("auto"));
            assert!(auto <= 1.05 * best, "{program}: {auto} of {best}");
            match case.kind.has_steps() {
                true => assert!((auto / of("eft") - 1.0).abs() < 0.03, "{program}: {auto} of {}", of("eft")),
                false => assert_eq!(auto, of("bottom-level"), "{program}"),
            }
        }
    }
}
