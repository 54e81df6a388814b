//! Tests of merging the traces of ranks.

mod common;

use common::{on_units, runs, state, task};
use proptest::prelude::*;
use std::fs;
use std::path::Path;
use thalweg_trace_tools::analysis::{Activity, Analysis, Limit, Reason};
use thalweg_trace_tools::merge::{Clock, Offset, Rank, merge};
use thalweg_trace_tools::{StateKind, Trace};

/// Returns a table's rows with all references replaced by names and numbers that merging does not change. The times of
/// a rank are later than in its trace by `shift`.
fn rows(trace: &Trace, shift: i64) -> Vec<Vec<String>> {
    let at = |time: u64| time as i64 + shift;
    let of = |task: usize| format!("{} {}", trace.tasks[task].number, trace.name(task));
    let tasks = trace.tasks.iter().enumerate().map(|(index, task)| {
        let times = [task.ready, task.placed, task.reserved, task.launched, task.start, task.end, task.finished];
        let kind = task.unit.map(|unit| trace.units[unit].kind.clone());
        format!("{} {} {:?} {kind:?}", of(index), at(task.submitted), times.map(|time| time.map(at)))
    });
    let dependences = trace.dependences.iter().map(|edge| format!("{} to {}", of(edge.from), of(edge.to)));
    let copies = trace
        .copies
        .iter()
        .map(|copy| format!("{} {} {} {:?}", at(copy.start), at(copy.end), copy.bytes, copy.task.map(of)));
    let states = trace.states.iter().map(|state| {
        let kind = state.unit.map(|unit| trace.units[unit].kind.clone());
        format!("{} {} {:?} {kind:?}", at(state.start), at(state.end), state.kind)
    });
    let notes = trace.notes.iter().map(|note| format!("{} {} {:?}", at(note.at), of(note.task), note.kind));
    let mut tables: Vec<Vec<String>> =
        vec![tasks.collect(), dependences.collect(), copies.collect(), states.collect(), notes.collect()];
    tables.iter_mut().for_each(|table| table.sort());
    tables
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn merged_tables_have_the_rows_of_all_ranks(first in runs(30), second in runs(30), offset in -900_i64..900) {
        let clock = Clock(vec![Offset { at: 50, offset, error: 1 }]);
        let shifts = [offset.max(0), offset.max(0) - offset];
        let mut expected = rows(&first, shifts[0]);
        for (table, more) in expected.iter_mut().zip(rows(&second, shifts[1])) {
            table.extend(more);
            table.sort();
        }
        let ranks = [(first, Clock::default()), (second, clock)].into_iter().enumerate();
        let ranks = ranks.map(|(number, (trace, clock))| Rank { number, trace, clock });
        prop_assert_eq!(rows(&merge(ranks.collect()), 0), expected);
    }
}

fn single(at: u64) -> Trace {
    let mut trace = on_units(&["CPU"]);
    task(&mut trace, "work", at, 0, at, at);
    trace
}

#[test]
fn offset_is_interpolated_between_measurements_and_kept_outside_of_them() {
    let clock = Clock(vec![Offset { at: 100, offset: 10, error: 3 }, Offset { at: 300, offset: 30, error: 5 }]);
    for (time, expected) in [(50, 40), (100, 90), (200, 180), (300, 270), (1000, 970)] {
        let ranks = vec![
            Rank { number: 0, trace: single(0), clock: Clock::default() },
            Rank { number: 1, trace: single(time), clock: clock.clone() },
        ];
        let merged = merge(ranks);
        // The merged trace begins when rank 1 does, 10 ns before rank 0.
        assert_eq!(merged.tasks[1].submitted, expected + 10, "at {time}");
        assert_eq!(merged.facts["clock error"], "5 ns");
    }
}

#[test]
fn rows_are_in_the_order_of_ranks_and_named_by_them() {
    let rank = |number| Rank { number, trace: single(number as u64), clock: Clock::default() };
    let merged = merge(vec![rank(10), rank(2), rank(0)]);
    assert_eq!(merged.tasks.iter().map(|task| task.submitted).collect::<Vec<_>>(), [0, 2, 10]);
    assert_eq!(merged.spaces, ["rank 0 host", "rank 2 host", "rank 10 host"]);
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("run.html");
    thalweg_trace_tools::html::write(&merged, &page).unwrap();
    assert!(
        fs::read_to_string(page).unwrap().contains(r#"["rank 0 unit 0 CPU","rank 2 unit 0 CPU","rank 10 unit 0 CPU"]"#)
    );
}

fn ranks(traces: [Trace; 2]) -> Vec<Rank> {
    let rank = |(number, trace)| Rank { number, trace, clock: Clock::default() };
    traces.into_iter().enumerate().map(rank).collect()
}

/// Rank 0 runs ten tasks and sends a message, for which rank 1 has waited from the start.
fn sender_and_receiver(file: &str) -> Trace {
    let [mut first, mut second] = [on_units(&["CPU"]), on_units(&["CPU"])];
    (0..10).for_each(|at| _ = task(&mut first, "work", 0, 0, at * 1000, at * 1000 + 990));
    task(&mut first, "send to 1", 1, 0, 10_000, 10_010);
    let receive = task(&mut second, "receive from 0", 2, 0, 10, 20);
    second.tasks[receive].finished = Some(10_100);
    let work = task(&mut second, "work", 3, 0, 10_110, 11_000);
    common::after(&mut second, receive, work, 7, true);
    state(&mut second, StateKind::Wait, None, 5, 11_000);
    state(&mut second, StateKind::Sleep, Some(0), 20, 10_110);
    for trace in [&mut first, &mut second] {
        trace.sites.iter_mut().filter(|site| site.name != "work").for_each(|site| site.file = file.to_owned());
    }
    merge(ranks([first, second]))
}

#[test]
fn message_joins_its_sender_and_its_receiver() {
    let merged = sender_and_receiver("crates/thalweg-mpi/src/transfer.rs");
    let edges: Vec<_> = merged.dependences.iter().map(|edge| (merged.name(edge.from), merged.name(edge.to))).collect();
    assert_eq!(edges, [("send to 1", "receive from 0"), ("receive from 0", "work")]);
    let analysis = Analysis::of(&merged);
    let chain: Vec<_> = analysis.chain.iter().map(|step| merged.name(step.task)).collect();
    assert_eq!(chain[chain.len() - 4..], ["work", "send to 1", "receive from 0", "work"]);
    let received = analysis.chain[analysis.chain.len() - 2];
    assert!(matches!(received.reason, Reason::Dependence { from: 10, .. }) && received.since == 10_010, "{received:?}");
    // Tasks of a program that have the same names are not messages.
    assert_eq!(sender_and_receiver("src/main.rs").dependences.len(), 1);
}

/// A message takes 2,000 ns, in which one of the receiver's two units computes for 1,000 ns.
#[test]
fn time_of_a_message_is_hidden_by_the_tasks_of_its_receiver() {
    let [mut first, mut second] = [on_units(&["CPU"]), on_units(&["CPU", "CPU"])];
    task(&mut first, "send to 1", 1, 0, 10_000, 10_010);
    task(&mut first, "work", 1, 0, 10_010, 13_000);
    let receive = task(&mut second, "receive from 0", 2, 1, 10, 20);
    second.tasks[receive].finished = Some(12_000);
    task(&mut second, "work", 3, 0, 10_500, 11_500);
    task(&mut second, "work", 3, 0, 11_900, 11_900);
    for trace in [&mut first, &mut second] {
        let messages = trace.sites.iter_mut().filter(|site| site.name != "work");
        messages.for_each(|site| site.file = "crates/thalweg-mpi/src/transfer.rs".to_owned());
    }
    let merged = merge(ranks([first, second]));
    let analysis = Analysis::of(&merged);
    let [link] = &analysis.messages[..] else { panic!("{:?}", analysis.messages) };
    assert_eq!((&link.from[..], &link.to[..], link.messages, link.time, link.hidden), ("0", "1", 1, 2000, 500));
    let summary = thalweg_trace_tools::summary::summary(&merged, &analysis);
    let line = "messages       rank 0 → 1: 1 message, 2 µs on average, 25 % of it hidden by tasks";
    assert!(summary.lines().any(|found| found == line), "{summary}");
}

#[test]
fn idle_rank_waits_for_its_own_tasks_only() {
    let analysis = Analysis::of(&sender_and_receiver("crates/thalweg-mpi/src/transfer.rs"));
    let idle = &analysis.units[1].shares;
    // Its own task is ready for 10 ns before it starts.
    assert!(idle.get(Activity::Dependence) > 10_000 && idle.get(Activity::Unit) == 10, "{idle:?}");
    assert_eq!(analysis.verdict.limit, Limit::Dependence, "{}", analysis.verdict.sentence);
}

/// The program's thread leads unit 0 of each rank, and computes while it does not wait.
#[test]
fn program_of_another_rank_leads_no_unit() {
    let [mut first, mut second] = [single(0), on_units(&["CPU", "CPU"])];
    task(&mut first, "work", 0, 0, 900, 1000);
    task(&mut second, "work", 0, 1, 0, 1000);
    state(&mut second, StateKind::Wait, None, 0, 1000);
    let analysis = Analysis::of(&merge(ranks([first, second])));
    assert_eq!(analysis.units[0].shares.get(Activity::Program), 900);
}

#[test]
fn missing_trace_is_an_error_that_names_it() {
    let problem = Rank::read(Path::new("nowhere/run.1.thw"), 0).unwrap_err().to_string();
    assert!(problem.starts_with("cannot read trace nowhere/run.1.thw"), "{problem}");
}
