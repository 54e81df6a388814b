//! The runs of the summary with several seeds for the noise of task times, and the confidence intervals of their
//! speed-ups.
//!
//! Seed 1 is the machine file's own, so its runs are those of the evaluation. A speed-up is over one core with the same
//! seed.

use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::path::Path;

use clap::ValueEnum;
use npb::mz::Benchmark;

use crate::Run;
use crate::common::Result;
use crate::configurations::{Configuration, SUMMARIZED};
use crate::evaluation::{Measured, Period, Row};
use crate::interval::mean;
use crate::side_by_side;
use crate::table::SEARCHES;

/// The speed-up of the computation period in one run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Took {
    configuration: String,
    scheduler: String,
    seed: u64,
    /// Number of steps after which the map had settled; `None` if it never did, so that the speed-up is the mean over a
    /// whole run.
    settled: Option<usize>,
    speed_up: f64,
}

/// Runs the configurations under each scheduler of the summary with each seed, by `measure`.
pub(crate) fn run(
    configurations: &[Configuration],
    seeds: RangeInclusive<u64>,
    measure: impl Fn(Run, u64) -> Result<Measured> + Sync,
) -> Result<Vec<Took>> {
    let one = |&(run, seed): &(Run, u64)| {
        measure(run, seed).map_err(|error| format!("{} with seed {seed}: {error}", run.configuration.title()))
    };
    let with_seeds = |run: Run| seeds.clone().map(move |seed| (run, seed));
    let is_serial = |benchmark| configurations.iter().any(|configuration| configuration.benchmark == benchmark);
    let serial = Benchmark::value_variants().iter().filter(|&&benchmark| is_serial(benchmark));
    let serial = serial.map(|&benchmark| Run { configuration: Configuration::serial(benchmark), scheduler: "static" });
    let of = |&configuration| SUMMARIZED.map(|scheduler| Run { configuration, scheduler });
    let runs: Vec<(Run, u64)> = serial.chain(configurations.iter().flat_map(of)).flat_map(with_seeds).collect();
    let measured = side_by_side(&runs, |(run, _)| run.scheduler == crate::LONGEST, one)?;
    let all: Vec<((Run, u64), Measured)> = runs.into_iter().zip(measured).collect();
    let mut took = Vec::new();
    for seed in seeds {
        let of_seed = all.iter().filter(|((_, of), _)| *of == seed);
        let runs: Vec<_> =
            of_seed.map(|((run, _), measured)| (run.configuration, run.scheduler, *measured, None)).collect();
        let rows = Row::all(&runs).into_iter().filter(|row| configurations.contains(&row.configuration));
        took.extend(rows.map(|row| Took {
            configuration: row.configuration.title(),
            scheduler: row.scheduler.to_owned(),
            seed,
            settled: row.measured.settled,
            speed_up: row.speed_up(Period::Computation),
        }));
    }
    Ok(took)
}

const HEAD: &str = "configuration,scheduler,seed,settled_after,speed_up_computation";

/// Formats rows as CSV.
pub(crate) fn to_csv(rows: &[Took]) -> String {
    let line = |Took { configuration, scheduler, seed, settled, speed_up }: &Took| {
        let settled = settled.map_or_else(String::new, |steps| steps.to_string());
        format!("{configuration},{scheduler},{seed},{settled},{speed_up:.6}\n")
    };
    std::iter::once(format!("{HEAD}\n")).chain(rows.iter().map(line)).collect()
}

/// Reads the rows of a CSV file.
pub(crate) fn from_csv(text: &str) -> Result<Vec<Took>> {
    let lines = text.strip_prefix(HEAD).ok_or("not a file of `--seeds`: its first line names other columns")?;
    let row = |line: &str| -> Result<Took> {
        let [configuration, scheduler, seed, settled, speed_up] = line.split(',').collect::<Vec<_>>()[..] else {
            return Err(format!("not five columns: {line}").into());
        };
        Ok(Took {
            configuration: configuration.to_owned(),
            scheduler: scheduler.to_owned(),
            seed: seed.parse()?,
            settled: settled.parse().ok(),
            speed_up: speed_up.parse()?,
        })
    };
    lines.lines().skip(1).map(row).collect()
}

/// Formats the mean speed-ups with their confidence intervals, next to the bound of each configuration.
pub(crate) fn table(rows: &[Took], bound: &dyn Fn(Configuration) -> Option<f64>) -> String {
    let mut text = format!("|  | bound | {} |\n|", SUMMARIZED.join(" | "));
    text += &" --- |".repeat(2 + SUMMARIZED.len());
    text.push('\n');
    for configuration in Benchmark::value_variants().iter().flat_map(|&all| Configuration::summarized(all)) {
        let title = configuration.title();
        let of_case: Vec<&Took> = rows.iter().filter(|row| row.configuration == title).collect();
        if of_case.is_empty() {
            continue;
        }
        let cells = SUMMARIZED.map(|scheduler| {
            let runs = of_case.iter().filter(|row| row.scheduler == scheduler);
            let mark = if runs.clone().any(|row| row.settled.is_none()) { SEARCHES } else { "" };
            (mark, mean(&runs.map(|row| row.speed_up).collect::<Vec<_>>()))
        });
        let best = cells.iter().map(|(_, (mean, _))| *mean).fold(f64::NEG_INFINITY, f64::max);
        let _ = write!(text, "| {title} | {:.1} |", bound(configuration).unwrap_or(f64::NAN));
        for (mark, (mean, interval)) in cells {
            let bold = if mean >= 0.98 * best { "**" } else { "" };
            let _ = write!(text, " {bold}{mark}{mean:.2}{bold} ± {interval:.2} |");
        }
        text.push('\n');
    }
    text
}

/// Returns the table of a page with its name.
pub(crate) fn tables(rows: &[Took], bound: &dyn Fn(Configuration) -> Option<f64>) -> Result<Vec<(String, String)>> {
    // Use the rounded numbers from the CSV text, so that the page follows from the file.
    Ok(vec![("seeds".to_owned(), table(&from_csv(&to_csv(rows))?, bound))])
}

/// Writes the CSV file.
pub(crate) fn write(rows: &[Took], folder: &Path) -> Result<()> {
    Ok(std::fs::write(folder.join("seeds.csv"), to_csv(rows))?)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use thalweg::SimulatedMachine;

    use super::*;
    use crate::bound::Machine;
    use crate::{Options, table};

    fn path(name: &str) -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
    }

    fn file(name: &str) -> String {
        std::fs::read_to_string(path(name)).expect(name)
    }

    #[test]
    fn runs_repeat_the_recorded_digits() {
        let machine = SimulatedMachine::from_file(path("machines/epyc7742-2xmi50.toml")).unwrap();
        let options = Options::parse_from(["schedulers"]);
        let configuration = Configuration { benchmark: Benchmark::Lu, cores: 16, gpus: 1 };
        let rows = run(&[configuration], 1..=3, |run, seed| options.measure_with(&machine, run, seed)).unwrap();
        let known = file("docs/evaluation/seeds.csv");
        assert_eq!(rows.len(), 3 * SUMMARIZED.len());
        for line in to_csv(&rows).lines() {
            assert!(known.lines().any(|known| known == line), "{line}");
        }
    }

    #[test]
    fn first_seed_is_that_of_the_evaluation() {
        let rows = from_csv(&file("docs/evaluation/seeds.csv")).unwrap();
        let evaluation = table::from_csv(&file("docs/evaluation/evaluation.csv")).unwrap();
        let first: Vec<&Took> = rows.iter().filter(|row| row.seed == 1).collect();
        assert!(!first.is_empty());
        for row in first {
            let is_same = |known: &&Row| known.configuration.title() == row.configuration;
            let known = evaluation.iter().filter(is_same).find(|known| known.scheduler == row.scheduler).unwrap();
            assert_eq!(row.settled, known.measured.settled, "{row:?}");
            assert!((row.speed_up - known.speed_up(Period::Computation)).abs() < 2e-6, "{row:?}");
        }
    }

    #[test]
    fn page_has_the_intervals_of_the_recorded_runs() {
        let text = file("docs/evaluation/seeds.csv");
        let rows = from_csv(&text).unwrap();
        assert_eq!(to_csv(&rows), text);
        let machine = Machine::from_file(&path("machines/epyc7742-2xmi50.toml")).unwrap();
        let tables = tables(&rows, &|configuration| machine.bound(configuration, npb::mz::Class::D)).unwrap();
        let page = file("docs/evaluation/tables.md");
        assert!(page.contains("<!-- table seeds -->"));
        assert!(table::fill(&page, &tables).unwrap() == page, "update the table; docs/evaluation/tables.md says how");
    }
}
