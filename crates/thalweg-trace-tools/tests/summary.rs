//! Tests of the terminal summary: its numbers are recomputed from the CSV files, and its size is bounded.

mod common;

use common::from_csv::read;
use common::oracle::{activity, longest_to};
use common::{copy, on_units, runs, task};
use proptest::prelude::*;
use std::collections::BTreeMap;
use thalweg_trace_tools::analysis::{Activity, Analysis};
use thalweg_trace_tools::summary::{Run, compare, summary};
use thalweg_trace_tools::text::{bytes, duration, ratio, share};
use thalweg_trace_tools::{Copy, Outcome, StateKind, Task, Trace, Unit, csv};

fn summary_of(trace: &Trace) -> String {
    summary(trace, &Analysis::of(trace))
}

/// Returns the lines of a summary, with runs of spaces collapsed.
fn lines(trace: &Trace) -> Vec<String> {
    summary_of(trace).lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

fn time(task: &Task) -> Option<u64> {
    Some(task.end? - task.start?)
}

/// Returns the given percentile of the values.
fn percentile(mut values: Vec<u64>, percent: usize) -> u64 {
    values.sort_unstable();
    let covering = (1..=values.len()).find(|number| number * 100 >= values.len() * percent);
    covering.map_or(0, |number| values[number - 1])
}

/// Returns when a run began and ended.
fn bounds(trace: &Trace) -> (u64, u64) {
    let begin = trace.tasks.iter().map(|task| task.submitted).min().unwrap();
    let ends = trace.tasks.iter().map(|task| task.finished.or(task.end).unwrap_or(task.submitted));
    let mut last = ends.max().unwrap();
    let near = (last - begin) / 100;
    while let Some(copy) = trace.copies.iter().find(|copy| copy.start <= last + near && copy.end > last) {
        last = copy.end;
    }
    let waits = trace.states.iter().filter(|state| state.kind == StateKind::Wait && state.start <= last);
    (begin, waits.map(|wait| wait.end).max().unwrap_or(0).max(last))
}

/// Returns, for each policy with estimates, its name, the begin of its line, and the possible ends: several names may
/// have equally bad estimates.
fn estimates(trace: &Trace) -> Vec<(String, String, Vec<String>)> {
    let median = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len().div_ceil(2) - 1]
    };
    let of_policy = |(number, policy): (usize, &String)| {
        let placed: Vec<usize> =
            (0..trace.tasks.len()).filter(|task| trace.tasks[*task].policy == Some(number)).collect();
        let times = |task: &Task| Some((time(task)?.max(1) as f64) / (task.expected?.max(1) as f64));
        let mut by_name = BTreeMap::<&str, Vec<f64>>::new();
        for task in placed.iter().filter(|task| trace.tasks[**task].outcome == Some(Outcome::Done)) {
            times(&trace.tasks[*task])
                .into_iter()
                .for_each(|of| by_name.entry(trace.name(*task)).or_default().push(of));
        }
        let all: Vec<f64> = by_name.values().flatten().copied().collect();
        let by_name: Vec<(&str, f64)> = by_name.into_iter().map(|(name, of)| (name, median(of))).collect();
        let factor = |of: f64| of.max(1.0 / of);
        let worst = by_name.iter().map(|(_, of)| factor(*of)).fold(0.0, f64::max);
        let worst = by_name.into_iter().filter(|(_, of)| factor(*of) > worst * 0.999_999);
        let clean = |name: &str| name.replace('\n', "\\n").replace('\t', "\\t");
        let ends = worst.map(|(name, of)| format!("; worst: {} {}", clean(name), ratio(of))).collect();
        let tasks = if placed.len() == 1 { "1 task".to_owned() } else { format!("{} tasks", placed.len()) };
        let count = all.len();
        (count > 0).then(|| {
            let median = ratio(median(all));
            let begin =
                format!("estimates {policy}: measured {median} of the estimate in the median, for {count} of {tasks}");
            (policy.clone(), begin, ends)
        })
    };
    trace.policies.iter().enumerate().filter_map(of_policy).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn numbers_follow_from_the_csv_files(trace in runs(24)) {
        prop_assume!(trace.tasks.iter().any(|task| task.start.is_some()));
        let folder = tempfile::tempdir().unwrap();
        csv::write(&trace, folder.path()).unwrap();
        let (lines, trace) = (lines(&trace), read(folder.path()));
        let has = |line: &str| prop_assert_has(&lines, line);
        let (begin, end) = bounds(&trace);
        let (makespan, units) = (end - begin, trace.units.len() as u64);
        let bodies: Vec<u64> = trace.tasks.iter().filter_map(time).collect();
        let mean = |times: &[u64]| duration(times.iter().sum::<u64>() / times.len() as u64);

        let failed = trace.tasks.iter().filter(|task| task.outcome == Some(Outcome::Failed)).count();
        let plural = |number: usize, noun: &str| format!("{number} {noun}{}", if number == 1 { "" } else { "s" });
        has(&format!(
            "time {}, {} of {} on average, {failed} failed, {} not run, {}",
            duration(makespan),
            plural(trace.tasks.len(), "task"),
            mean(&bodies),
            trace.tasks.len() - bodies.len(),
            plural(trace.dependences.len(), "dependence")
        ))?;

        let mut spent = vec![BTreeMap::<Activity, u64>::new(); trace.units.len()];
        for (unit, spent) in spent.iter_mut().enumerate() {
            (begin..end).for_each(|at| *spent.entry(activity(&trace, unit, at)).or_default() += 1);
        }
        for what in Activity::ALL {
            let all: u64 = spent.iter().filter_map(|spent| spent.get(&what)).sum();
            let cell = format!("{} {} {}", what.title(), share(all, units * makespan), duration(all));
            prop_assert!(lines.iter().any(|line| line.contains(&cell)), "no {:?} in {:#?}", cell, lines);
        }
        for (unit, spent) in spent.iter().enumerate() {
            let tasks = trace.tasks.iter().filter(|task| task.unit == Some(unit)).count();
            let computing = share(spent.get(&Activity::Computing).copied().unwrap_or(0), makespan);
            let (kind, tasks) = (&trace.units[unit].kind, plural(tasks, "task"));
            let begin = format!("unit {unit} {kind} {tasks}, {computing} computing");
            let line = lines.iter().find(|line| line.starts_with(&begin));
            prop_assert!(line.is_some(), "no {:?} in {:#?}", begin, lines);
            let lost = spent.iter().filter(|(what, _)| **what != Activity::Computing).map(|(_, time)| *time).max();
            let ends = lost.is_none_or(|lost| line.unwrap().ends_with(&format!(" {}", share(lost, makespan))));
            prop_assert!(ends, "{:?} lost by unit {} in {:#?}", lost, unit, lines);
        }

        let mut names = BTreeMap::<&str, Vec<usize>>::new();
        (0..trace.tasks.len()).for_each(|task| names.entry(trace.name(task)).or_default().push(task));
        let total = |tasks: &[usize]| tasks.iter().filter_map(|task| time(&trace.tasks[*task])).sum::<u64>();
        let mut by_total: Vec<_> = names.iter().collect();
        by_total.sort_by_key(|(name, tasks)| (std::cmp::Reverse(total(tasks)), **name));
        let wait = |task: &usize| trace.tasks[*task].start.map(|start| start - trace.tasks[*task].ready.unwrap());
        let policies = estimates(&trace);
        for (policy, begin, ends) in &policies {
            let line = lines.iter().find(|line| line.starts_with(begin));
            prop_assert!(line.is_some(), "no {:?} in {:#?}", begin, lines);
            prop_assert!(ends.iter().any(|end| line.unwrap().ends_with(end)), "{policy}: {:?} in {:#?}", ends, lines);
        }
        prop_assert_eq!(lines.iter().filter(|line| line.starts_with("estimates ")).count(), policies.len());
        for (name, tasks) in by_total.iter().take(4 - policies.len()) {
            let times: Vec<u64> = tasks.iter().filter_map(|task| time(&trace.tasks[*task])).collect();
            let waits: Vec<u64> = tasks.iter().filter_map(wait).collect();
            let failed = tasks.iter().filter(|task| trace.tasks[**task].outcome == Some(Outcome::Failed)).count();
            let failed = if failed > 0 { format!(" ({failed} failed)") } else { String::new() };
            let name = name.replace('\n', "\\n").replace('\t', "\\t");
            let figures = [
                times.iter().sum::<u64>(),
                times.iter().sum::<u64>().checked_div(times.len() as u64).unwrap_or(0),
                percentile(times.clone(), 50),
                percentile(times.clone(), 99),
                times.iter().copied().max().unwrap_or(0),
                percentile(waits.clone(), 50),
                percentile(waits, 99),
            ];
            let figures = figures.map(duration).join(" ");
            let row = format!("{name} {}{failed} {figures} main.rs:", times.len());
            prop_assert!(lines.iter().any(|line| line.starts_with(&row)), "no {:?} in {:#?}", row, lines);
        }

        let mut links = BTreeMap::<(usize, usize), Vec<&Copy>>::new();
        trace.copies.iter().for_each(|copy| links.entry((copy.from, copy.to)).or_default().push(copy));
        for ((from, to), copies) in links {
            let sum = |of: fn(&Copy) -> u64| copies.iter().map(|copy| of(copy)).sum::<u64>();
            let evicted = sum(|copy| if copy.evicts { copy.bytes } else { 0 });
            let evicted = if evicted > 0 { format!(", {} evicted", bytes(evicted)) } else { String::new() };
            let begin = format!(
                "copies {} → {}: {} in {} {}, {}{evicted}",
                trace.spaces[from],
                trace.spaces[to],
                bytes(sum(|copy| copy.bytes)),
                copies.len(),
                if copies.len() == 1 { "copy" } else { "copies" },
                duration(sum(|copy| copy.end - copy.start))
            );
            prop_assert!(lines.iter().any(|line| line.starts_with(&begin)), "no {:?} in {:#?}", begin, lines);
        }
        let objects = trace.copies.iter().map(|copy| copy.data).collect::<std::collections::BTreeSet<_>>();
        let number = |object: u64, to: usize| {
            trace.copies.iter().filter(|copy| (copy.data, copy.to) == (object, to)).count()
        };
        let back = objects.iter().map(|object| number(*object, 0).min(number(*object, 1))).max().unwrap_or(0);
        let says_so = lines.iter().any(|line| line.ends_with(&format!(" came back {back} times")));
        prop_assert_eq!(says_so, back > 1 && trace.spaces.len() > 1, "{:#?}", lines);

        let waits: Vec<u64> = (0..trace.tasks.len()).filter_map(|task| wait(&task)).collect();
        let [half, most] = [50, 99].map(|percent| duration(percentile(waits.clone(), percent)));
        has(&format!("delay median {half} from ready to start, 99 % of tasks at most {most}"))?;
        let longest = (0..trace.tasks.len()).map(|task| longest_to(&trace, task)).max().unwrap();
        let begin = format!("critical path {} ({} of the run) in ", duration(longest), share(longest, makespan));
        prop_assert!(lines.iter().any(|line| line.starts_with(&begin)), "no {:?} in {:#?}", begin, lines);
        let end = lines.iter().find(|line| line.starts_with("end ")).unwrap();
        let counted = |part: &str| part.split(' ').next().unwrap().parse::<u64>().unwrap();
        let (all, causes) = end["end ".len()..].split_once(" led to it, the last cause of each: ").unwrap();
        prop_assert_eq!(counted(all), causes.split(", ").map(counted).sum::<u64>());
    }

    #[test]
    fn summary_has_at_most_25_lines(trace in runs(60)) {
        prop_assert!(summary_of(&trace).lines().count() <= 25, "{}", summary_of(&trace));
    }
}

fn prop_assert_has(lines: &[String], line: &str) -> Result<(), TestCaseError> {
    prop_assert!(lines.iter().any(|other| other == line), "no {:?} in {:#?}", line, lines);
    Ok(())
}

/// Returns a run with many kinds of units, task names and links, and with a problem.
fn large() -> Trace {
    let mut trace = on_units(&["CPU", "GPU", "FPGA", "EMU", "NPU", "CPU"]);
    trace.units.extend((0..100).map(|_| Unit { kind: "CPU".to_owned(), width: 1 }));
    trace.problem = Some("byte 1: this\nis\n".to_owned() + &"long ".repeat(100));
    trace.facts.insert("program".to_owned(), "/a/b\n/".to_owned() + &"p".repeat(300));
    for number in 0..40 {
        let name = format!("name {number} {}\n\t<script>🦀", "x".repeat(100));
        let made = task(&mut trace, &name, number * 10, number as usize % 106, number * 10, number * 10 + 30);
        trace.tasks[made].outcome = Some(Outcome::Failed);
        copy(&mut trace, number, (number as usize % 4, number as usize % 5), 1 << number, 5, 9);
    }
    trace
}

#[test]
fn large_run_fits_the_terminal() {
    let text = summary_of(&large());
    assert!(text.lines().count() <= 25, "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 200), "{text}");
    for words in ["incomplete     byte 1: this\\nis", "36 others", "3 kinds", "other links", "(1 failed)", "102 units"]
    {
        assert!(text.contains(words), "no {words:?} in {text}");
    }
}

#[test]
fn empty_run_has_a_summary() {
    for trace in [Trace::default(), on_units(&["CPU"])] {
        let text = summary_of(&trace);
        assert!(text.contains("0 ns, 0 tasks") && text.contains("nothing ran: no task was submitted"), "{text}");
    }
}

#[test]
fn comparison_says_how_the_second_run_differs() {
    let run = |length: u64, extra: &str| {
        let mut trace = on_units(&["CPU"]);
        for number in 0..10 {
            task(&mut trace, "both", 0, 0, number * length, (number + 1) * length);
        }
        task(&mut trace, extra, 0, 0, 10 * length, 10 * length + 500);
        let analysis = Analysis::of(&trace);
        (trace, analysis)
    };
    let [first, second] = [run(1_000, "old"), run(1_500, "new")];
    let labels = ["before.thw", "after.thw"];
    let text = compare(
        &Run { label: labels[0], trace: &first.0, analysis: &first.1 },
        &Run { label: labels[1], trace: &second.0, analysis: &second.1 },
    );
    let lines: Vec<String> = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for line in [
        "first before.thw",
        "second after.thw",
        "makespan 10.5 µs 15.5 µs +5 µs 1.48×",
        "both 10 10 10 µs 15 µs +5 µs 1 µs 1.5 µs 1.50× 1 µs 1.5 µs",
        "old 1 0 500 ns 0 ns −500 ns 500 ns 0 ns 500 ns 0 ns",
        "new 0 1 0 ns 500 ns +500 ns 0 ns 500 ns 0 ns 500 ns",
        "computing 100.0 % 100.0 % same",
        "tasks 11 11 same 1.00×",
        "bytes copied 0 B 0 B same",
    ] {
        assert!(lines.iter().any(|other| other == line), "no {line:?} in {text}");
    }
}

#[test]
fn comparison_of_many_names_is_cut() {
    let (large, empty) = (large(), Trace::default());
    let (analyses, labels) = ([Analysis::of(&large), Analysis::of(&empty)], ["large", "empty"]);
    let text = compare(
        &Run { label: labels[0], trace: &large, analysis: &analyses[0] },
        &Run { label: labels[1], trace: &empty, analysis: &analyses[1] },
    );
    assert!(text.contains("and 20 with less difference") && text.contains("incomplete     large: byte 1"), "{text}");
}
