//! The rows as CSV, written and read, and as the Markdown tables of a page.
//!
//! A page holds its tables between `<!-- table NAME -->` and `<!-- end -->`; the text in between is replaced.

use std::fmt::Write as _;
use std::path::Path;

use clap::ValueEnum;
use npb::mz::Benchmark;

use crate::common::Result;
use crate::configurations::{ARTICLES, Configuration, SCHEDULERS, SUMMARIZED};
use crate::evaluation::{Measured, Period, Row};
use crate::published::Published;

const HEAD: &str = "benchmark,configuration,cores,gpus,scheduler,computation_s,communication_s,side_by_side_s,settled_after,\
                    whole_run_computation_s,bound,speed_up_computation,speed_up_communication,speed_up_overall,overall_over_gpus_alone";

/// Formats all rows as CSV, with times in seconds.
pub(crate) fn to_csv(rows: &[Row]) -> String {
    let mut text = format!("{HEAD}\n");
    for row in rows {
        let Configuration { benchmark, cores, gpus } = row.configuration;
        let Measured { computation, communication, side_by_side, settled, whole_run } = row.measured;
        let or_nothing = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.3}"));
        let ups = [Period::Computation, Period::Communication, Period::Overall].map(|period| row.speed_up(period));
        let settled = settled.map_or_else(String::new, |steps| steps.to_string());
        let _ = writeln!(
            text,
            "{benchmark:?},{},{cores},{gpus},{},{computation:.9},{communication:.9},{side_by_side:.9},{settled},{whole_run:.9},{},{:.3},{:.3},{:.3},{}",
            row.configuration,
            row.scheduler.replace(',', ";"),
            or_nothing(row.bound),
            ups[0],
            ups[1],
            ups[2],
            or_nothing(row.over_gpus(Period::Overall)),
        );
    }
    text
}

/// Reads the rows of a CSV file.
pub(crate) fn from_csv(text: &str) -> Result<Vec<Row>> {
    let mut lines = text.lines();
    if lines.next() != Some(HEAD) {
        return Err("not a file of this program: its first line names other columns".into());
    }
    let mut runs = Vec::new();
    for line in lines {
        let fields: Vec<&str> = line.split(',').collect();
        let [
            benchmark,
            _,
            cores,
            gpus,
            scheduler,
            computation,
            communication,
            side_by_side,
            settled,
            whole_run,
            bound,
            ..,
        ] = fields[..]
        else {
            return Err(format!("too few columns: {line}").into());
        };
        let configuration = Configuration {
            benchmark: Benchmark::from_str(benchmark, true)?,
            cores: cores.parse()?,
            gpus: gpus.parse()?,
        };
        let scheduler = SCHEDULERS.iter().copied().find(|name| *name == scheduler).ok_or("unknown scheduler")?;
        let measured = Measured {
            computation: computation.parse()?,
            communication: communication.parse()?,
            side_by_side: side_by_side.parse()?,
            settled: settled.parse().ok(),
            whole_run: whole_run.parse()?,
        };
        runs.push((configuration, scheduler, measured, bound.parse().ok()));
    }
    Ok(Row::all(&runs))
}

/// Returns every table of a page: its name and its text.
pub(crate) fn all(rows: &[Row]) -> Vec<(String, String)> {
    let mut tables = Vec::new();
    for &benchmark in Benchmark::value_variants() {
        let name = |what: &str| format!("{what} {benchmark:?}").to_lowercase();
        tables.push((name("computation"), computation(rows, benchmark)));
        tables.push((name("communication"), communication(rows, benchmark)));
    }
    tables.push(("published".to_owned(), published(rows)));
    tables.push(("summary".to_owned(), summary(rows)));
    tables.push(("verdicts".to_owned(), verdicts(rows)));
    tables
}

fn row_of<'a>(rows: &'a [Row], configuration: Configuration, scheduler: &str) -> Option<&'a Row> {
    rows.iter().find(|row| row.configuration == configuration && row.scheduler == scheduler)
}

/// Mark of a value of a scheduler that still searches.
pub(crate) const SEARCHES: &str = "~";

/// Formats the speed-ups of the computation period under all schedulers.
fn computation(rows: &[Row], benchmark: Benchmark) -> String {
    let head = format!("{benchmark:?}-MZ").to_uppercase();
    speed_ups(&head, rows, &Configuration::all(benchmark), &SCHEDULERS, &Configuration::to_string)
}

/// Formats the speed-ups of the hybrid configurations with the fewest and the most cores, under the article's
/// schedulers and the best of ours.
fn summary(rows: &[Row]) -> String {
    let all: Vec<Configuration> =
        Benchmark::value_variants().iter().flat_map(|&benchmark| Configuration::summarized(benchmark)).collect();
    speed_ups("", rows, &all, &SUMMARIZED, &|configuration| configuration.title())
}

/// Formats the speed-ups of the computation period, with values within 2 % of the best in bold.
fn speed_ups(
    head: &str,
    rows: &[Row],
    configurations: &[Configuration],
    schedulers: &[&str],
    name: &dyn Fn(&Configuration) -> String,
) -> String {
    let mut text = format!("| {head} | bound | {} |\n", schedulers.join(" | "));
    let _ = writeln!(text, "|{}", " --- |".repeat(schedulers.len() + 2));
    for &configuration in configurations {
        let up = |scheduler: &str| row_of(rows, configuration, scheduler).map(|row| row.speed_up(Period::Computation));
        let mark = |scheduler: &str| match row_of(rows, configuration, scheduler) {
            Some(row) if row.still_searches() => SEARCHES,
            _ => "",
        };
        let best = schedulers.iter().filter_map(|scheduler| up(scheduler)).fold(0.0, f64::max);
        let several = schedulers.iter().filter(|scheduler| up(scheduler).is_some()).count() > 1;
        let Some(bound) = row_of(rows, configuration, "static").and_then(|row| row.bound) else { continue };
        let cell = |scheduler: &&str| match up(scheduler) {
            Some(value) if several && value >= 0.98 * best => format!(" **{}{value:.1}** |", mark(scheduler)),
            Some(value) => format!(" {}{value:.1} |", mark(scheduler)),
            None => " |".to_owned(),
        };
        let cells: String = schedulers.iter().map(cell).collect();
        let _ = writeln!(text, "| {} | {bound:.1} |{cells}", name(&configuration));
    }
    text
}

/// Formats milliseconds of the communication period, one zone after the other and in parallel.
fn communication(rows: &[Row], benchmark: Benchmark) -> String {
    let shown = &SCHEDULERS[..crate::configurations::CHARTED];
    let mut text = format!("| {}-MZ | {} |\n", format!("{benchmark:?}").to_uppercase(), shown.join(" | "));
    let _ = writeln!(text, "|{}", " --- |".repeat(shown.len() + 1));
    for configuration in Configuration::all(benchmark) {
        let cell = |scheduler: &&str| match row_of(rows, configuration, scheduler) {
            Some(Row { measured, .. }) => {
                format!(" {:.1}, {:.1} |", 1e3 * measured.communication, 1e3 * measured.side_by_side)
            }
            None => " |".to_owned(),
        };
        if row_of(rows, configuration, "static").is_some() {
            let _ = writeln!(text, "| {configuration} |{}", shown.iter().map(cell).collect::<String>());
        }
    }
    text
}

/// Formats each range of the article with the one found here.
fn published(rows: &[Row]) -> String {
    let mut text = "| where | speed-up | article | here | |\n| --- | --- | --- | --- | --- |\n".to_owned();
    for range in &Published::get().range {
        let Some([least, most]) = range.found(rows) else { continue };
        let here =
            if (most - least).abs() < 0.005 { format!("{least:.2}") } else { format!("{least:.2} to {most:.2}") };
        let mark = if range.still_searches(rows) { SEARCHES } else { "" };
        let (place, label, reported) = (&range.place, range.label(), range.reported());
        let _ = writeln!(text, "| {place} | {label} | {reported} | {mark}{here} | {} |", range.verdict([least, most]));
    }
    let _ = write!(text, "\n{}", verdicts(rows));
    text
}

/// Formats how many ranges have each verdict.
fn verdicts(rows: &[Row]) -> String {
    let number = |word: &str| {
        let found = Published::get().range.iter().filter_map(|range| Some(range.verdict(range.found(rows)?)));
        found.filter(|verdict| *verdict == word).count()
    };
    let words = ["agrees", "within", "overlaps", "below", "above", "input"];
    words.map(|word| format!("{} {word}", number(word))).join(", ") + ".\n"
}

/// Returns a page with these tables filled in.
pub(crate) fn fill(page: &str, tables: &[(String, String)]) -> Result<String> {
    let mut filled = page.to_owned();
    for (name, table) in tables {
        let begin = format!("<!-- table {name} -->\n");
        let Some(start) = filled.find(&begin).map(|at| at + begin.len()) else { continue };
        let end = filled[start..].find("<!-- end -->").ok_or_else(|| format!("table {name} has no end"))?;
        filled.replace_range(start..start + end, &format!("\n{table}\n"));
    }
    Ok(filled)
}

/// Updates a page's tables.
pub(crate) fn update(page: &Path, tables: &[(String, String)]) -> Result<()> {
    let filled = fill(&std::fs::read_to_string(page)?, tables)?;
    Ok(std::fs::write(page, filled)?)
}

/// Prints the tables of each benchmark.
pub(crate) fn print(rows: &[Row]) {
    for &benchmark in Benchmark::value_variants() {
        if rows.iter().any(|row| row.configuration.benchmark == benchmark) {
            println!("{}\n{}", computation(rows, benchmark), communication(rows, benchmark));
        }
    }
    println!("The first {} schedulers are the article's.", ARTICLES.len());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str) -> String {
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)).expect(name)
    }

    #[test]
    fn page_has_the_tables_of_its_measurements() {
        let rows = from_csv(&file("docs/evaluation/evaluation.csv")).unwrap();
        let (pages, tables) = (["docs/evaluation.md", "docs/evaluation/tables.md"].map(file), all(&rows));
        for (name, _) in &tables {
            assert!(pages.iter().any(|page| page.contains(&format!("<!-- table {name} -->"))), "{name}");
        }
        for page in pages {
            assert!(fill(&page, &tables).unwrap() == page, "update the tables; docs/evaluation.md says how");
        }
    }

    #[test]
    fn recorded_speed_ups_are_within_the_bound() {
        let rows = from_csv(&file("docs/evaluation/evaluation.csv")).unwrap();
        for row in rows.iter().filter(|row| row.bound.is_some()) {
            let (bound, found) = (row.bound.unwrap_or_default(), row.speed_up(Period::Computation));
            assert!(found <= 1.01 * bound, "{} {}: {found} of {bound}", row.configuration, row.scheduler);
        }
    }

    #[test]
    fn csv_round_trips_and_pages_keep_their_text() {
        let text = file("docs/evaluation/evaluation.csv");
        assert_eq!(to_csv(&from_csv(&text).unwrap()), text);
        let tables = [("a".to_owned(), "| new |\n".to_owned()), ("b".to_owned(), String::new())];
        let page = "before\n<!-- table a -->\nold\n<!-- end -->\nafter\n";
        let filled = fill(page, &tables).unwrap();
        assert_eq!(filled, "before\n<!-- table a -->\n\n| new |\n\n<!-- end -->\nafter\n");
        assert_eq!(fill(&filled, &tables).unwrap(), filled);
        assert!(fill("<!-- table a -->\n", &tables).is_err());
        assert!(from_csv("a,b\n").is_err());
    }
}
