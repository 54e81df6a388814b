//! Comparison of two runs, side by side and by task name. It never judges whether a difference is noise.

use super::tables::{Align, columns};
use super::{LONGEST_NAME, line, wrapped};
use crate::Trace;
use crate::analysis::{Activity, Analysis, NameUse};
use crate::text::{bytes, duration, one_line, percent};
use std::collections::BTreeMap;

/// The number of task names to list, namely those whose total times differ most.
const NAMES: usize = 20;

/// A run with a label.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// The label, such as the name of its file.
    pub label: &'a str,
    /// The trace of the run.
    pub trace: &'a Trace,
    /// The analysis of that trace.
    pub analysis: &'a Analysis,
}

/// Returns a comparison of two runs: their times and shares, then each task name.
///
/// Differences describe the second run relative to the first: `+5 ms` means that it takes 5 ms longer, and `0.5×`
/// that it takes half the time.
pub fn compare(first: &Run<'_>, second: &Run<'_>) -> String {
    let mut lines = vec![line("first", &one_line(first.label, 90)), line("second", &one_line(second.label, 90))];
    for run in [first, second] {
        let problem = run.trace.problem.iter().map(|problem| format!("{}: {problem}", run.label));
        lines.extend(problem.map(|problem| line("incomplete", &one_line(&problem, 180))));
    }
    lines.push(String::new());
    lines.extend(whole_runs(first, second));
    lines.push(String::new());
    lines.extend(names(first.analysis, second.analysis));
    lines.push(String::new());
    lines.extend(wrapped("first", &first.analysis.verdict.sentence));
    lines.extend(wrapped("second", &second.analysis.verdict.sentence));
    lines.iter().map(|line| format!("{}\n", line.trim_end())).collect()
}

fn whole_runs(first: &Run<'_>, second: &Run<'_>) -> Vec<String> {
    let mut rows = vec![row(["", "first", "second", "difference", "ratio"])];
    let both = [first.analysis, second.analysis];
    let mut times = |name: &str, of: &dyn Fn(&Analysis) -> u64| {
        let [one, other] = both.map(of);
        rows.push(vec![name.to_owned(), duration(one), duration(other), longer(one, other), ratio(one, other)]);
    };
    times("makespan", &Analysis::makespan);
    times("critical path", &|analysis| analysis.critical_ns);
    times("mean body", &Analysis::mean_body);
    times("delay (p50)", &|analysis| analysis.wait_p50);
    times("delay (p99)", &|analysis| analysis.wait_p99);
    for activity in Activity::ALL {
        let [one, other] = both.map(|analysis| percent(analysis.shares.get(activity), analysis.unit_time()));
        let more = match other - one {
            more if more.abs() < 0.05 => "same".to_owned(),
            more => format!("{more:+.1} points").replace('-', "−"),
        };
        let [one, other] = [one, other].map(|share| format!("{share:.1} %"));
        rows.push(vec![activity.title().to_owned(), one, other, more, String::new()]);
    }
    let tasks = [first.trace, second.trace].map(|trace| trace.tasks.len() as u64);
    for (name, [one, other]) in
        [("tasks", tasks), ("failed", both.map(Analysis::failed)), ("not run", both.map(Analysis::unrun))]
    {
        rows.push(vec![name.to_owned(), one.to_string(), other.to_string(), more(one, other), ratio(one, other)]);
    }
    let [one, other] = both.map(|analysis| analysis.copied().0);
    rows.push(vec!["bytes copied".to_owned(), bytes(one), bytes(other), signed(one, other, bytes), ratio(one, other)]);
    columns(&[Align::Left, Align::Right, Align::Right, Align::Right, Align::Right], rows)
}

fn names(first: &Analysis, second: &Analysis) -> Vec<String> {
    let mut names: BTreeMap<&str, [Option<&NameUse>; 2]> = BTreeMap::new();
    for (which, analysis) in [first, second].into_iter().enumerate() {
        analysis.names.iter().for_each(|name| names.entry(&name.name).or_default()[which] = Some(name));
    }
    let number = |name: Option<&NameUse>, of: fn(&NameUse) -> u64| name.map_or(0, of);
    let totals = |[one, other]: [Option<&NameUse>; 2]| [one, other].map(|name| number(name, |name| name.total));
    let mut names: Vec<_> = names.into_iter().collect();
    names.sort_by_key(|(_, both)| {
        let [one, other] = totals(*both);
        std::cmp::Reverse(one.abs_diff(other))
    });
    let mut rows = vec![row(["task name", "count", "", "total", "", "difference", "mean", "", "ratio", "p99", ""])];
    rows.push(row(["", "first", "second", "first", "second", "", "first", "second", "", "first", "second"]));
    rows.extend(names.iter().take(NAMES).map(|(name, both)| {
        let [count, mean, p99] = [|name: &NameUse| name.count, |name: &NameUse| name.mean, |name: &NameUse| name.p99]
            .map(|of: fn(&NameUse) -> u64| both.map(|name| number(name, of)));
        let [one, other] = totals(*both);
        let mut row = vec![one_line(name, LONGEST_NAME)];
        row.extend(count.map(|count| count.to_string()));
        row.extend([duration(one), duration(other), longer(one, other)]);
        row.extend([duration(mean[0]), duration(mean[1]), ratio(mean[0], mean[1])]);
        row.extend(p99.map(duration));
        row
    }));
    if names.len() > NAMES {
        rows.push(vec![format!("and {} with less difference", names.len() - NAMES)]);
    }
    let align: Vec<Align> = (0..11).map(|column| if column == 0 { Align::Left } else { Align::Right }).collect();
    columns(&align, rows)
}

fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_owned).to_vec()
}

/// Formats the second number minus the first, with its sign.
fn signed(one: u64, other: u64, format: fn(u64) -> String) -> String {
    let sign = match other.cmp(&one) {
        std::cmp::Ordering::Less => "−",
        std::cmp::Ordering::Equal => return "same".to_owned(),
        std::cmp::Ordering::Greater => "+",
    };
    format!("{sign}{}", format(one.abs_diff(other)))
}

fn longer(one: u64, other: u64) -> String {
    signed(one, other, duration)
}

fn more(one: u64, other: u64) -> String {
    signed(one, other, |number| number.to_string())
}

/// Formats the second number divided by the first.
fn ratio(one: u64, other: u64) -> String {
    if one == 0 || other == 0 { String::new() } else { format!("{:.2}×", other as f64 / one as f64) }
}
