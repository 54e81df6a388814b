//! Tests of verdicts on runs that each contain one planted performance problem.

mod common;

use common::{after, copy, data, on_units, stages, state, task};
use thalweg_trace_tools::analysis::{Analysis, Limit};
use thalweg_trace_tools::{Access, AccessMode, Copy, Memory, Note, NoteKind, Region, StateKind, Trace};

fn check(trace: &Trace, limit: Limit, words: &[&str]) {
    let verdict = Analysis::of(trace).verdict;
    assert_eq!(verdict.limit, limit, "{}", verdict.sentence);
    for words in words {
        assert!(verdict.sentence.contains(words), "no {words:?} in: {}", verdict.sentence);
    }
    assert!(verdict.sentence.starts_with(limit.name()) && !verdict.sentence.contains('\n'), "{}", verdict.sentence);
}

/// The program's thread submits a task every 8 µs, and another thread runs each task for 3 µs.
#[test]
fn slow_submitter_is_found() {
    let mut trace = on_units(&["CPU", "CPU"]);
    for number in 0..100 {
        let submitted = number * 8_000;
        task(&mut trace, "small", submitted, 1, submitted + 100, submitted + 3_100);
        state(&mut trace, StateKind::Sleep, Some(1), submitted + 3_100, submitted + 8_100);
    }
    let words = ["99 % of idle time ends with a submission", "make tasks larger than 16 µs or submit from bodies"];
    check(&trace, Limit::Submission, &words);
    for task in 1..100 {
        trace.tasks[task].parent = Some(0);
    }
    check(&trace, Limit::Submission, &["or let more bodies submit them"]);
}

/// The tasks are large, but the program works for 1 ms before it submits each of them.
#[test]
fn program_that_works_between_submissions_is_found() {
    let mut trace = on_units(&["CPU", "CPU"]);
    for number in 0..10 {
        let submitted = number * 1_000_000;
        task(&mut trace, "large", submitted, 1, submitted, submitted + 100_000);
        task(&mut trace, "large", submitted + 10, 1, submitted + 100_000, submitted + 200_000);
        task(&mut trace, "large", submitted + 20, 1, submitted + 200_000, submitted + 300_000);
        state(&mut trace, StateKind::Sleep, Some(1), submitted + 300_000, submitted + 1_000_000);
    }
    let words = ["though a task takes 100 µs and the next comes after 10 ns (medians)", "move that work into a task"];
    check(&trace, Limit::Submission, &words);
}

/// At the end of each phase, one unit runs a long task, and the program waits for it.
#[test]
fn wait_for_the_last_task_is_found() {
    let mut trace = on_units(&["CPU", "CPU"]);
    for phase in [0, 1_000_000] {
        task(&mut trace, "long", phase, 1, phase + 10, phase + 999_000);
        task(&mut trace, "short", phase + 1, 0, phase + 10, phase + 100_000);
        state(&mut trace, StateKind::Sleep, Some(0), phase + 100_000, phase + 999_500);
        state(&mut trace, StateKind::Wait, None, phase + 5, phase + 999_600);
    }
    check(&trace, Limit::Waits, &["45 % of the units' time", "split `long`, whose longest body takes 999 µs"]);
    // If a body meanwhile submits a third task in each phase, the unit waits for that body and not for the program.
    for phase in [0, 1_000_000] {
        let third = task(&mut trace, "short", phase + 800_000, 0, phase + 800_001, phase + 801_000);
        trace.tasks[third].parent = Some(0);
        trace.states.retain(|state| state.kind == StateKind::Wait || state.start != phase + 100_000);
        state(&mut trace, StateKind::Sleep, Some(0), phase + 100_000, phase + 800_000);
        state(&mut trace, StateKind::Sleep, Some(0), phase + 801_000, phase + 999_500);
    }
    check(&trace, Limit::Submission, &["ends with a submission"]);
}

/// Bodies of 1 µs are separated by gaps of 2 µs. A few gaps of 5 ms are then added.
#[test]
fn small_tasks_and_stopped_threads_are_told_apart() {
    let mut trace = on_units(&["CPU", "CPU"]);
    let run = |trace: &mut Trace, tasks: u64, stop: u64| {
        let mut now = [0, 0];
        for number in 0..tasks {
            let unit = (number % 2) as usize;
            now[unit] += 3_000 + if number % 50 < 2 { stop } else { 0 };
            task(trace, "tiny", 0, unit, now[unit] - 1_000, now[unit]);
        }
        state(trace, StateKind::Wait, None, 0, now[0]);
    };
    run(&mut trace, 200, 0);
    let words = ["bodies, which take 1 µs on average, and the gaps 2 µs", "make tasks larger than 40 µs"];
    check(&trace, Limit::Runtime, &words);
    let mut trace = on_units(&["CPU", "CPU"]);
    run(&mut trace, 200, 5_000_000);
    let words =
        ["7 gaps of over 1 ms between bodies", "the runtime needs 2 µs (median)", "keep other programs off the cores"];
    check(&trace, Limit::Cores, &words);
}

/// A chain of tasks that alternate between two units.
fn chain(carries_value: bool) -> Trace {
    let mut trace = on_units(&["CPU", "CPU"]);
    data(&mut trace, 3, "data `residual`", 800);
    for number in 0..20 {
        let name = if number % 4 == 3 { "reduce" } else { "smooth" };
        let unit = number % 2;
        let start = 10 + 1_000 * number as u64;
        let made = task(&mut trace, name, number as u64, unit, start, start + 990);
        if let Some(before) = made.checked_sub(1) {
            after(&mut trace, before, made, 3, carries_value);
            state(&mut trace, StateKind::Sleep, Some(1 - unit), start, start + 990);
        }
    }
    state(&mut trace, StateKind::Wait, None, 5, 20_000);
    trace
}

#[test]
fn chain_of_tasks_is_found_with_its_data() {
    let words =
        ["takes 99 % of the run in 20 tasks, 75 % of it in `smooth`, and follows data `residual`", "split `smooth`"];
    check(&chain(true), Limit::Dependence, &words);
    let words =
        ["19 dependences on it carry no value, so use a second buffer or narrow the regions of data `residual`"];
    check(&chain(false), Limit::Dependence, &words);
    let mut trace = chain(true);
    trace.regions.push(Region { data: 3, bytes: 600, text: "[25..100]".to_owned() });
    trace.accesses.extend((0..20).map(|task| Access { task, region: Some(0), mode: AccessMode::Update }));
    check(&trace, Limit::Dependence, &["the regions of data `residual`, of which they access 75 % on average"]);
}

/// The program is not allowed to submit more, although all submitted tasks wait for one task after another.
#[test]
fn full_window_is_found() {
    let mut trace = on_units(&["CPU", "CPU"]);
    for number in 0..10_u64 {
        let start = 10 + 1_000 * number;
        let long = task(&mut trace, "head", 0, 0, start, start + 700);
        let short = task(&mut trace, "tail", 0, 1, start + 800, start + 900);
        after(&mut trace, long, short, 1, true);
        long.checked_sub(2).into_iter().for_each(|before| after(&mut trace, before, long, 2, true));
        state(&mut trace, StateKind::Sleep, Some(1), start.saturating_sub(100), start + 800);
    }
    state(&mut trace, StateKind::Throttle, Some(0), 0, 10_000);
    check(&trace, Limit::Dependence, &["too many tasks are pending", "raise the builder's `max_pending_tasks`"]);
}

#[test]
fn data_that_move_to_and_fro_are_found() {
    let mut trace = on_units(&["CPU", "GPU"]);
    data(&mut trace, 5, "data `grid`", 1 << 20);
    for number in 0..10_u64 {
        let (unit, between) = if number % 2 == 0 { (1, (0, 1)) } else { (0, (1, 0)) };
        let ready = number * 1_000;
        let made = task(&mut trace, "sweep", 0, unit, ready + 800, ready + 1_000);
        stages(&mut trace, made, [ready, ready, ready, ready + 800]);
        copy(&mut trace, 5, between, 1 << 20, ready, ready + 800);
        state(&mut trace, StateKind::Sleep, Some(unit), ready, ready + 800);
        state(&mut trace, StateKind::Sleep, Some(1 - unit), ready, ready + 1_000);
    }
    state(&mut trace, StateKind::Wait, None, 0, 10_000);
    let words = ["most from GPU 0 to host (5 copies, 5 MiB)", "data `grid` moves to and fro 5 times"];
    check(&trace, Limit::Copy, &words);
    trace.copies.retain(|copy| copy.to == 1);
    check(&trace, Limit::Copy, &["data `grid` has the most bytes"]);
}

/// Waits for copies take 9 ms. The runtime's work takes 7 ms, and the thread does not run for another 7 ms.
#[test]
fn copies_are_found_although_other_programs_use_the_cores() {
    let mut trace = on_units(&["GPU"]);
    data(&mut trace, 5, "data `grid`", 1 << 20);
    for number in 0..10_u64 {
        let between = if number % 2 == 0 { (0, 1) } else { (1, 0) };
        let ready = number * 1_000_000;
        let made = task(&mut trace, "sweep", 0, 0, ready + 900_000, ready + 1_000_000);
        stages(&mut trace, made, [ready, ready, ready, ready + 900_000]);
        copy(&mut trace, 5, between, 1 << 20, ready, ready + 900_000);
        state(&mut trace, StateKind::Sleep, Some(0), ready, ready + 900_000);
    }
    let mut now = 10_000_000;
    for number in 0..3500 {
        now += 3_000 + if number % 700 == 0 { 1_400_000 } else { 0 };
        task(&mut trace, "tiny", 10_000_000, 0, now - 1_000, now);
    }
    state(&mut trace, StateKind::Wait, None, 0, now);
    check(&trace, Limit::Copy, &["data `grid` moves to and fro"]);
}

#[test]
fn short_memory_is_found() {
    let mut trace = on_units(&["CPU", "GPU"]);
    for number in 0..10_u64 {
        let ready = number * 1_000;
        let made = task(&mut trace, "sweep", 0, 1, ready + 900, ready + 1_000);
        stages(&mut trace, made, [ready, ready, ready + 850, ready + 870]);
        state(&mut trace, StateKind::Sleep, Some(1), ready, ready + 900);
        trace.memory.push(Memory { at: ready, space: 1, bytes: 3 << 30 });
    }
    trace.copies.push(Copy {
        start: 5,
        end: 30,
        waited: 0,
        from: 1,
        to: 0,
        bytes: 2048,
        data: 1,
        task: None,
        evicts: true,
        stream: None,
    });
    trace.notes.push(Note { at: 100, task: 2, kind: NoteKind::Refused });
    state(&mut trace, StateKind::Sleep, Some(0), 0, 10_000);
    let words = ["waits for memory of GPU 0, where at most 3 GiB were in use, with 2 KiB evicted and 1 refusals"];
    check(&trace, Limit::Memory, &words);
}

#[test]
fn unit_that_gets_no_tasks_is_found() {
    let mut trace = on_units(&["CPU", "CPU"]);
    for number in 0..10_u64 {
        task(&mut trace, "block", 0, 1, number * 1_000, number * 1_000 + 990);
    }
    task(&mut trace, "block", 0, 0, 0, 500);
    state(&mut trace, StateKind::Wait, None, 0, 10_000);
    state(&mut trace, StateKind::Sleep, Some(0), 500, 10_000);
    let words = ["unit 0 (CPU) computes 5.0 % of the time and is idle so for 85 %, while unit 1 (CPU) computes 99 %"];
    check(&trace, Limit::Imbalance, &words);
}

/// Fetching results long after the last task does not count towards the time of the run.
#[test]
fn late_copies_belong_to_the_program() {
    let mut trace = on_units(&["CPU", "GPU"]);
    state(&mut trace, StateKind::Wait, None, 0, 10_000);
    task(&mut trace, "a", 0, 0, 0, 9_990);
    task(&mut trace, "b", 0, 1, 0, 9_990);
    copy(&mut trace, 1, (1, 0), 64, 10_050, 10_080);
    assert_eq!(Analysis::of(&trace).end, 10_080);
    copy(&mut trace, 1, (1, 0), 64, 50_000, 50_030);
    assert_eq!(Analysis::of(&trace).end, 10_080);
    check(&trace, Limit::Busy, &["99 % computing"]);
}

#[test]
fn busy_run_is_called_busy() {
    let mut trace = on_units(&["CPU"]);
    state(&mut trace, StateKind::Wait, None, 0, 1_000);
    task(&mut trace, "a\nb", 0, 0, 0, 900);
    task(&mut trace, "c", 0, 0, 910, 1_000);
    check(&trace, Limit::Busy, &["99 % computing; make the body of `a\\nb` faster, which has 91 % of that time"]);
}

#[test]
fn tasks_that_never_ran_are_reported() {
    let mut trace = on_units(&["CPU"]);
    task(&mut trace, "a", 0, 0, 0, 1);
    trace.tasks[0].start = None;
    trace.tasks[0].end = None;
    check(&trace, Limit::Nothing, &["1 task submitted and no body ran; look for the failure"]);
}
