//! The summary of a run for a terminal, in at most 25 lines: duration, utilization, verdict, task names, and bytes
//! copied between memories.
//!
//! All numbers come from the [`Analysis`], and [`compare`] shows two runs side by side. The module never reads
//! files.

mod compare;
mod tables;

pub use compare::{Run, compare};

use crate::Trace;
use crate::analysis::{Activity, Analysis, MessageUse, NameUse, PolicyUse, UnitUse};
use crate::rows::Owner;
use crate::text::{bytes, counted, duration, one_line, ratio, share};
use std::collections::BTreeMap;
use std::path::Path;
use tables::{Align, columns};

/// Maximum line width of the verdict, in characters.
const WIDTH: usize = 110;
/// Maximum length of a name in characters; longer names are truncated.
const LONGEST_NAME: usize = 28;
/// The number of task names to list.
const NAMES: usize = 4;
/// The number of policies to list. Each takes the place of a task name.
const POLICIES: usize = 2;
/// The number of units, or kinds of units, to list.
const UNITS: usize = 3;
/// The number of links between memories to list.
const LINKS: usize = 2;

/// Returns the summary of a run, in which every line ends with a line break.
pub fn summary(trace: &Trace, analysis: &Analysis) -> String {
    let mut lines = vec![title(trace), size(trace, analysis)];
    lines.extend(trace.problem.iter().map(|problem| format!("incomplete     {}", one_line(problem, WIDTH - 15))));
    lines.extend(shares(analysis));
    lines.extend(units(trace, analysis));
    let estimates = estimates(analysis);
    lines.extend(names(trace, analysis, NAMES - estimates.len()));
    let messages = messages(analysis);
    lines.extend(if messages.is_empty() { links(trace, analysis) } else { messages });
    lines.extend(estimates);
    lines.extend(paths(trace, analysis));
    lines.extend(wrapped("verdict", &analysis.verdict.sentence));
    lines.iter().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Returns a line of text that starts with the label `word`.
fn line(word: &str, text: &str) -> String {
    format!("{word:<15}{text}")
}

/// Names the program, its scheduler and its units.
fn title(trace: &Trace) -> String {
    let fact = |name: &str| trace.facts.get(name).filter(|value| !value.is_empty());
    let program = fact("program")
        .map(|program| Path::new(program).file_name().map_or(program.into(), |name| name.to_string_lossy()));
    let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
    trace.units.iter().for_each(|unit| *kinds.entry(&unit.kind).or_default() += 1);
    let kinds: Vec<String> = kinds.iter().map(|(kind, number)| format!("{number} {kind}")).collect();
    let units = format!("{} ({})", counted(trace.units.len() as u64, "unit"), kinds.join(", "));
    let scheduler = fact("scheduler").map(|name| format!("scheduler {name}"));
    let runtime = fact("runtime").map(|name| format!("runtime {name}"));
    let simulated = fact("simulated").filter(|value| *value == "true").map(|_| "simulated".to_owned());
    let parts = [program.map(|name| name.into_owned()), runtime, scheduler, Some(units), simulated];
    let parts: Vec<String> = parts.into_iter().flatten().map(|part| one_line(&part, 60)).collect();
    line("run", &parts.join(", "))
}

/// States the duration and the number of tasks.
fn size(trace: &Trace, analysis: &Analysis) -> String {
    let tasks = counted(trace.tasks.len() as u64, "task");
    let (failed, unrun) = (analysis.failed(), analysis.unrun());
    let dependences = counted(trace.dependences.len() as u64, "dependence");
    let time = duration(analysis.makespan());
    let mean = duration(analysis.mean_body());
    line("time", &format!("{time}, {tasks} of {mean} on average, {failed} failed, {unrun} not run, {dependences}"))
}

/// Lists the activities, two per line.
fn shares(analysis: &Analysis) -> Vec<String> {
    let parts = analysis.shares.parts();
    let (left, right) = parts.split_at(parts.len() / 2);
    let cells = |(activity, time): &(Activity, u64)| {
        [activity.title().to_owned(), share(*time, analysis.unit_time()), duration(*time)]
    };
    let rows = left.iter().zip(right).enumerate().map(|(number, (left, right))| {
        let word = if number == 0 { "time of units" } else { "" };
        [word.to_owned()].into_iter().chain(cells(left)).chain([String::new()]).chain(cells(right)).collect()
    });
    let half = [Align::Left, Align::Right, Align::Right, Align::Left];
    columns(&[&[Align::Left], &half[..], &half[..3]].concat(), rows.collect())
}

/// Lists units, or kinds of units if there are many.
fn units(trace: &Trace, analysis: &Analysis) -> Vec<String> {
    let kind = |unit: usize| trace.units.get(unit).map_or("?", |unit| unit.kind.as_str());
    let mut groups: Vec<(String, Vec<&UnitUse>)> = Vec::new();
    let is_many = analysis.units.len() > UNITS;
    for (number, unit) in analysis.units.iter().enumerate() {
        let name = if is_many { kind(number).to_owned() } else { Owner::unit(number).name(trace) };
        match groups.iter_mut().find(|(known, _)| *known == name) {
            Some((_, units)) => units.push(unit),
            None => groups.push((name, vec![unit])),
        }
    }
    let left_out = groups.len().saturating_sub(UNITS);
    let lines = groups.iter().take(if left_out > 0 { UNITS - 1 } else { UNITS });
    let lines = lines.map(|(name, units)| of_units(&one_line(name, 14), units, analysis.makespan()));
    let rest = (left_out > 0).then(|| line("others", &counted(left_out as u64 + 1, "kind")));
    lines.chain(rest).collect()
}

fn of_units(name: &str, units: &[&UnitUse], makespan: u64) -> String {
    let mut shares = crate::analysis::Shares::default();
    units.iter().for_each(|unit| shares.add(&unit.shares));
    let (time, tasks) = (makespan.saturating_mul(units.len() as u64), units.iter().map(|unit| unit.tasks).sum());
    let each = || units.iter().map(|unit| unit.shares.computing);
    let spread = match (units.len(), each().min(), each().max()) {
        (2.., Some(least), Some(most)) => format!(" ({} to {})", share(least, makespan), share(most, makespan)),
        _ => String::new(),
    };
    let number = if spread.is_empty() { String::new() } else { format!("{} units, ", units.len()) };
    let lost = shares.parts().into_iter().filter(|(activity, time)| *activity != Activity::Computing && *time > 0);
    let lost = lost.max_by_key(|(_, time)| *time);
    let lost = lost.map_or(String::new(), |(activity, lost)| {
        format!(", otherwise most: {} {}", activity.title(), share(lost, time))
    });
    let computing = share(shares.computing, time);
    line(name, &format!("{number}{}, {computing} computing{spread}{lost}", counted(tasks, "task")))
}

/// Lists the `most` task names with the most time.
fn names(trace: &Trace, analysis: &Analysis, most: usize) -> Vec<String> {
    let head = ["task name", "count", "total", "mean", "p50", "p99", "max", "wait p50", "wait p99", "at"];
    let row = |name: &NameUse| {
        let site = &trace.sites[name.site];
        let file = Path::new(&site.file).file_name().map_or(String::new(), |file| file.to_string_lossy().into_owned());
        let place = if file.is_empty() { String::new() } else { one_line(&format!("{file}:{}", site.line), 24) };
        let times = [name.total, name.mean, name.p50, name.p99, name.max, name.wait_p50, name.wait_p99].map(duration);
        let failed = if name.failed > 0 { format!(" ({} failed)", name.failed) } else { String::new() };
        let cells = [one_line(&name.name, LONGEST_NAME), format!("{}{failed}", name.count)].into_iter().chain(times);
        cells.chain([place]).collect()
    };
    let mut rows: Vec<Vec<String>> = vec![head.map(str::to_owned).to_vec()];
    rows.extend(analysis.names.iter().take(most).map(row));
    let others = analysis.names.get(most..).unwrap_or_default();
    if !others.is_empty() {
        let count: u64 = others.iter().map(|name| name.count).sum();
        let total = others.iter().map(|name| name.total).fold(0, u64::saturating_add);
        rows.push(vec![counted(others.len() as u64, "other"), count.to_string(), duration(total)]);
    }
    if analysis.names.is_empty() {
        return Vec::new();
    }
    let mut align = [Align::Right; 10];
    (align[0], align[9]) = (Align::Left, Align::Left);
    columns(&align, rows)
}

/// States how well the policies that had estimates knew the durations of bodies.
fn estimates(analysis: &Analysis) -> Vec<String> {
    let policies = analysis.policies.iter().filter(|policy| policy.estimated > 0).take(POLICIES);
    let text = |of: &PolicyUse| {
        let worst =
            of.worst.iter().map(|(name, times)| format!("; worst: {} {}", one_line(name, LONGEST_NAME), ratio(*times)));
        let (median, tasks) = (ratio(of.ratio_p50), counted(of.placed, "task"));
        let text =
            format!("{}: measured {median} of the estimate in the median, for {} of {tasks}", of.policy, of.estimated);
        line("estimates", &worst.fold(text, |text, worst| text + &worst))
    };
    policies.map(text).collect()
}

/// Lists the bytes copied between memories.
fn links(trace: &Trace, analysis: &Analysis) -> Vec<String> {
    let space =
        |space: usize| trace.spaces.get(space).map_or_else(|| format!("space {space}"), |name| one_line(name, 16));
    let of_link = |link: &crate::analysis::Transfer| {
        let waited = if link.waited > 0 {
            format!(", {} of it in the link's queue", duration(link.waited))
        } else {
            String::new()
        };
        let evicted = if link.evicted > 0 { format!(", {} evicted", bytes(link.evicted)) } else { String::new() };
        let (copies, size, time) = (counted(link.copies, "copy"), bytes(link.bytes), duration(link.time));
        line(
            "copies",
            &format!("{} → {}: {size} in {copies}, {time}{waited}{evicted}", space(link.from), space(link.to)),
        )
    };
    let mut lines: Vec<String> = analysis.transfers.iter().take(LINKS).map(of_link).collect();
    let back = analysis.traffic.iter().max_by_key(|traffic| (traffic.returns, traffic.bytes));
    if let (Some(first), Some(back)) = (lines.first_mut(), back.filter(|back| back.returns > 1)) {
        let name = trace.data.get(&back.data).map_or_else(|| format!("data {}", back.data), |data| data.name.clone());
        first.push_str(&format!("; {} came back {} times", one_line(&name, LONGEST_NAME), back.returns));
    }
    let others = analysis.transfers.get(LINKS..).unwrap_or_default();
    if !others.is_empty() {
        let size = bytes(others.iter().fold(0, |sum, link| sum.saturating_add(link.bytes)));
        lines.push(line("", &format!("{}: {size}", counted(others.len() as u64, "other link"))));
    }
    lines
}

/// Lists the messages between ranks, those with the most time that is not hidden first.
fn messages(analysis: &Analysis) -> Vec<String> {
    let mut links: Vec<&MessageUse> = analysis.messages.iter().collect();
    links.sort_by_key(|link| std::cmp::Reverse(link.time - link.hidden.min(link.time)));
    let text = |way: &str, (messages, time, hidden): (u64, u64, u64)| {
        let mean = duration(time.checked_div(messages).unwrap_or(0));
        let hidden = share(hidden, time);
        line(
            "messages",
            &format!("{way}: {}, {mean} on average, {hidden} of it hidden by tasks", counted(messages, "message")),
        )
    };
    let of_link = |link: &&MessageUse| {
        text(&format!("rank {} → {}", link.from, link.to), (link.messages, link.time, link.hidden))
    };
    let mut lines: Vec<String> = links.iter().take(LINKS).map(of_link).collect();
    let others = links.get(LINKS..).unwrap_or_default();
    if !others.is_empty() {
        let sum = |of: fn(&MessageUse) -> u64| others.iter().map(|link| of(link)).fold(0, u64::saturating_add);
        let sums = (sum(|link| link.messages), sum(|link| link.time), sum(|link| link.hidden));
        lines.push(text(&counted(others.len() as u64, "other pair"), sums));
    }
    lines
}

/// States the delay before starts, the critical path, and the chain of causes that led to the end.
fn paths(trace: &Trace, analysis: &Analysis) -> Vec<String> {
    if analysis.bodies() == 0 {
        return Vec::new();
    }
    let delay = format!(
        "median {} from ready to start, 99 % of tasks at most {}",
        duration(analysis.wait_p50),
        duration(analysis.wait_p99)
    );
    let (name, time) = analysis.dominating(trace).unwrap_or_default();
    let critical = format!(
        "{} ({} of the run) in {}, {} of it in {}",
        duration(analysis.critical_ns),
        share(analysis.critical_ns, analysis.makespan()),
        counted(analysis.critical.len() as u64, "task"),
        share(time, analysis.critical_ns),
        one_line(name, LONGEST_NAME)
    );
    let mut reasons: BTreeMap<&str, u64> = BTreeMap::new();
    analysis.chain.iter().for_each(|step| *reasons.entry(step.reason.name()).or_default() += 1);
    let mut reasons: Vec<(u64, &str)> = reasons.into_iter().map(|(name, number)| (number, name)).collect();
    reasons.sort_unstable_by(|one, other| other.cmp(one));
    let reasons: Vec<String> = reasons.iter().map(|(number, name)| format!("{number} by {name}")).collect();
    let steps = counted(analysis.chain.len() as u64, "start");
    let chain = format!("{steps} led to it, the last cause of each: {}", reasons.join(", "));
    vec![line("delay", &delay), line("critical path", &critical), line("end", &chain)]
}

/// Wraps a text to at most three lines, of which the last may be overlong.
fn wrapped(word: &str, text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for part in text.split(' ') {
        let last = lines.last().expect("there is a first line");
        if !last.is_empty() && last.chars().count() + 1 + part.chars().count() > WIDTH - 15 && lines.len() < 3 {
            lines.push(String::new());
        }
        let number = lines.len();
        let last = &mut lines[number - 1];
        if !last.is_empty() {
            last.push(' ');
        }
        last.push_str(part);
    }
    lines.iter().enumerate().map(|(number, text)| line(if number == 0 { word } else { "" }, text)).collect()
}
