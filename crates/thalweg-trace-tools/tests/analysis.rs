//! Compares the analysis with definitions that are evaluated moment by moment, and with all paths of small graphs.

mod common;

use common::oracle::{activity, longest_to};
use common::{after, copy, on_units, runs, stages, state, task};
use proptest::prelude::*;
use thalweg_trace_tools::analysis::{Activity, Analysis, Reason, Shares, timeline};
use thalweg_trace_tools::{StateKind, Trace};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn shares_follow_the_definitions_moment_by_moment(trace in runs(24)) {
        let analysis = Analysis::of(&trace);
        let mut sums = vec![std::collections::BTreeMap::<Activity, u64>::new(); trace.units.len()];
        for (unit, sums) in sums.iter_mut().enumerate() {
            for at in analysis.begin..analysis.end {
                *sums.entry(activity(&trace, unit, at)).or_default() += 1;
            }
        }
        for (unit, sums) in sums.iter().enumerate() {
            for (activity, time) in analysis.units[unit].shares.parts() {
                prop_assert_eq!(time, sums.get(&activity).copied().unwrap_or(0), "unit {}: {:?}", unit, activity);
            }
        }
    }

    #[test]
    fn shares_add_up_to_the_time_of_units(trace in runs(60)) {
        let analysis = Analysis::of(&trace);
        for unit in &analysis.units {
            prop_assert_eq!(unit.shares.total(), analysis.makespan());
        }
        prop_assert_eq!(analysis.shares.total(), trace.units.len() as u64 * analysis.makespan());
        let mut sum = Shares::default();
        analysis.units.iter().for_each(|unit| sum.add(&unit.shares));
        prop_assert_eq!(sum, analysis.shares);
        let mut stretches = std::collections::BTreeMap::<(usize, Activity), u64>::new();
        timeline(&trace, |stretch| {
            *stretches.entry((stretch.unit, stretch.activity)).or_default() += stretch.end - stretch.start;
        });
        for (unit, used) in analysis.units.iter().enumerate() {
            for (activity, time) in used.shares.parts() {
                prop_assert_eq!(time, stretches.get(&(unit, activity)).copied().unwrap_or(0));
            }
        }
    }

    #[test]
    fn critical_path_is_longest_of_all_paths(trace in runs(12)) {
        let analysis = Analysis::of(&trace);
        let longest = (0..trace.tasks.len()).map(|task| longest_to(&trace, task)).max().unwrap_or(0);
        prop_assert_eq!(analysis.critical_ns, longest);
        prop_assert!(longest <= analysis.makespan());
        let span = |task: usize| trace.tasks[task].start.zip(trace.tasks[task].end);
        let duration = |task: usize| span(task).map_or(0, |(start, end)| end - start);
        prop_assert_eq!(analysis.critical.iter().map(|step| duration(step.task)).sum::<u64>(), longest);
        for two in analysis.critical.windows(2) {
            let mut edges = trace.dependences.iter().map(|edge| (edge.from, edge.to));
            prop_assert!(edges.any(|edge| edge == (two[0].task, two[1].task)));
        }
    }

    #[test]
    fn chain_goes_from_the_last_end_from_cause_to_cause(trace in runs(40)) {
        let analysis = Analysis::of(&trace);
        let last = trace.tasks.iter().filter(|task| task.start.is_some()).filter_map(|task| task.finished).max();
        prop_assert_eq!(analysis.chain.last().map(|step| trace.tasks[step.task].finished), last.map(Some));
        for two in analysis.chain.windows(2) {
            prop_assert_eq!(two[1].reason.task(), Some(two[0].task));
            prop_assert!(two[1].since <= trace.tasks[two[1].task].start.unwrap());
        }
        for step in &analysis.chain {
            if let Reason::Dependence { from, data } = step.reason {
                let mut edges = trace.dependences.iter().map(|edge| (edge.from, edge.to, edge.data));
                prop_assert!(edges.any(|edge| edge == (from, step.task, data)));
            }
        }
    }

    /// Contradictory times may change figures, but never the sums.
    #[test]
    fn damaged_traces_are_analysed(
        mut trace in runs(20),
        times in prop::collection::vec(prop_oneof![9 => 0..60_000_u64, 1 => any::<u64>()], 400),
        swap in any::<bool>(),
    ) {
        let mut times = times.into_iter().cycle();
        let mut some = |value: Option<u64>| value.and(times.next());
        for task in &mut trace.tasks {
            task.submitted = some(Some(0)).unwrap();
            (task.ready, task.placed, task.reserved) = (some(task.ready), some(task.placed), some(task.reserved));
            (task.launched, task.start) = (some(task.launched), some(task.start));
            (task.end, task.finished) = (some(task.end), some(task.finished));
            task.unit = task.unit.map(|unit| unit + 3 * usize::from(task.submitted % 16 == 0));
        }
        for state in &mut trace.states {
            (state.start, state.end) = (some(Some(0)).unwrap(), some(Some(0)).unwrap());
        }
        if swap {
            trace.dependences.iter_mut().step_by(2).for_each(|edge| std::mem::swap(&mut edge.from, &mut edge.to));
        }
        let analysis = Analysis::of(&trace);
        prop_assert!(analysis.units.iter().all(|unit| unit.shares.total() == analysis.makespan()));
        let (mut unit, mut until) = (0, analysis.begin);
        timeline(&trace, |stretch| {
            if stretch.unit != unit {
                assert_eq!(until, analysis.end);
                (unit, until) = (stretch.unit, analysis.begin);
            }
            assert!(stretch.start == until && stretch.end > until);
            until = stretch.end;
        });
        prop_assert_eq!(until, analysis.end);
        prop_assert!(thalweg_trace_tools::summary::summary(&trace, &analysis).lines().count() <= 25);
    }
}

#[test]
fn empty_trace_has_no_time() {
    for trace in [Trace::default(), on_units(&["CPU", "GPU"])] {
        let analysis = Analysis::of(&trace);
        assert_eq!((analysis.makespan(), analysis.shares, analysis.critical_ns), (0, Shares::default(), 0));
        assert!(analysis.names.is_empty() && analysis.chain.is_empty());
        assert!(analysis.verdict.sentence.starts_with("nothing ran: no task was submitted;"), "{:?}", analysis.verdict);
    }
}

#[test]
fn causes_of_starts_are_told_apart() {
    let mut trace = on_units(&["CPU", "GPU"]);
    let first = task(&mut trace, "first", 0, 0, 5, 100);
    let freed = task(&mut trace, "freed", 1, 0, 101, 150);
    let followed = task(&mut trace, "followed", 2, 1, 103, 160);
    let copied = task(&mut trace, "copied", 3, 1, 200, 300);
    let fitted = task(&mut trace, "fitted", 4, 1, 400, 500);
    let late = task(&mut trace, "late", 600, 0, 601, 700);
    after(&mut trace, first, followed, 7, true);
    after(&mut trace, followed, copied, 8, true);
    stages(&mut trace, copied, [160, 161, 162, 199]);
    stages(&mut trace, fitted, [300, 301, 390, 395]);
    copy(&mut trace, 8, (0, 1), 64, 163, 198);
    state(&mut trace, StateKind::Wait, None, 10, 590);
    trace.tasks[fitted].submitted = 300;
    let analysis = Analysis::of(&trace);
    let steps: Vec<_> = analysis.chain.iter().map(|step| (step.task, step.reason, step.since)).collect();
    assert_eq!(steps.last(), Some(&(late, Reason::Submission { after: Some(fitted) }, 600)));
    assert_eq!(steps[0], (fitted, Reason::Memory { after: None }, 390));
    let path: Vec<_> = analysis.critical.iter().map(|step| (step.task, step.reason)).collect();
    let (by_data, by_copy) =
        (Reason::Dependence { from: first, data: Some(7) }, Reason::Copy { after: Some(followed) });
    assert_eq!(path, [(first, Reason::Submission { after: None }), (followed, by_data), (copied, by_copy)]);
    assert_eq!(analysis.critical_ns, 95 + 57 + 100);
    // Without the later tasks, the chain ends with the task that waited for its unit.
    trace.tasks.truncate(freed + 1);
    trace.dependences.clear();
    let step = *Analysis::of(&trace).chain.last().unwrap();
    assert_eq!((step.task, step.reason, step.since), (freed, Reason::Unit { after: first }, 100));
}

/// In a simulation, a program submits tasks and waits for them at the same time at which its last wait has ended.
#[test]
fn chain_leads_through_waits_that_touch_each_other() {
    let mut trace = on_units(&["CPU", "CPU"]);
    let first = task(&mut trace, "first", 0, 0, 0, 100);
    let second = task(&mut trace, "second", 100, 1, 100, 200);
    state(&mut trace, StateKind::Wait, None, 0, 100);
    state(&mut trace, StateKind::Wait, None, 100, 200);
    let chain: Vec<_> = Analysis::of(&trace).chain.iter().map(|step| (step.task, step.reason)).collect();
    let submission = |after| Reason::Submission { after };
    assert_eq!(chain, [(first, submission(None)), (second, submission(Some(first)))]);
}
