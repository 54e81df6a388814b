//! Traces for tests: built by hand, or random ones that a runtime could have written.

#![allow(dead_code, reason = "each test uses some of it")]

pub(crate) mod from_csv;
pub(crate) mod oracle;

use proptest::prelude::*;
use thalweg_trace_tools::{
    Access, AccessMode, Copy, Data, Dependence, Drop, DropReason, Memory, Note, NoteKind, Outcome, Region, Site, State,
    StateKind, Task, Trace, Unit,
};

/// Returns a trace with units of these kinds, led by threads as in a runtime: the program's thread leads unit 0.
pub(crate) fn on_units(kinds: &[&str]) -> Trace {
    let unit = |kind: &&str| Unit { kind: (*kind).to_owned(), width: 1 };
    let own = (1..kinds.len()).map(|unit| format!("thalweg-unit{unit}"));
    let devices = kinds.iter().filter(|kind| **kind != "CPU").enumerate();
    Trace {
        units: kinds.iter().map(unit).collect(),
        spaces: ["host".to_owned()].into_iter().chain(devices.map(|(at, kind)| format!("{kind} {at}"))).collect(),
        threads: ["main".to_owned()].into_iter().chain(own).collect(),
        ..Trace::default()
    }
}

/// Returns the index of the site for a name.
pub(crate) fn site(trace: &mut Trace, name: &str) -> usize {
    trace.sites.iter().position(|site| site.name == name).unwrap_or_else(|| {
        let line = trace.sites.len() as u32 + 10;
        trace.sites.push(Site { name: name.to_owned(), file: "src/main.rs".to_owned(), line, column: 8 });
        trace.sites.len() - 1
    })
}

/// Adds a task that ran on a unit from `start` to `end`; returns its number.
pub(crate) fn task(trace: &mut Trace, name: &str, submitted: u64, unit: usize, start: u64, end: u64) -> usize {
    let site = site(trace, name);
    let number = trace.tasks.len();
    trace.tasks.push(Task {
        number: number as u64,
        site,
        submitted,
        start: Some(start),
        end: Some(end),
        finished: Some(end),
        unit: Some(unit),
        outcome: Some(Outcome::Done),
        ..Task::default()
    });
    trace.end = trace.end.max(end);
    number
}

/// Sets when a task was placed, reserved and launched.
pub(crate) fn stages(trace: &mut Trace, task: usize, [ready, placed, reserved, launched]: [u64; 4]) {
    let task = &mut trace.tasks[task];
    (task.ready, task.placed, task.reserved, task.launched) =
        (Some(ready), Some(placed), Some(reserved), Some(launched));
}

/// Adds a dependence through a data object.
pub(crate) fn after(trace: &mut Trace, from: usize, to: usize, data: u64, carries_value: bool) {
    trace.dependences.push(Dependence { from, to, data: Some(data), carries_value });
    trace.dependences.sort_by_key(|dependence| dependence.to);
}

/// Names a data object.
pub(crate) fn data(trace: &mut Trace, number: u64, name: &str, bytes: u64) {
    trace.data.insert(number, Data { name: name.to_owned(), bytes });
}

/// Adds a state of the thread that leads a unit, or of the program's thread.
pub(crate) fn state(trace: &mut Trace, kind: StateKind, unit: Option<usize>, start: u64, end: u64) {
    trace.states.push(State { start, end, kind, unit, thread: unit.unwrap_or(0) });
    trace.states.sort_by_key(|state| state.end);
}

/// Adds a copy of a data object from a space to another.
pub(crate) fn copy(trace: &mut Trace, data: u64, (from, to): (usize, usize), bytes: u64, start: u64, end: u64) {
    trace.copies.push(Copy { start, end, waited: 0, from, to, bytes, data, task: None, evicts: false, stream: None });
    trace.copies.sort_by_key(|copy| copy.end);
}

/// Random choices from which a task is made.
type Choices = [u8; 16];

/// Generates random traces that a runtime could have written, with times below some hundred nanoseconds. Units run
/// one body at a time, and a task starts after its predecessors have ended.
pub(crate) fn runs(most_tasks: usize) -> impl Strategy<Value = Trace> {
    let tasks = prop::collection::vec(any::<Choices>(), 0..=most_tasks);
    let states = prop::collection::vec((0..4_u8, any::<u8>(), 0..40_u8), 0..12);
    let copies = prop::collection::vec((0..4_u64, any::<bool>(), 0..200_u64, 0..20_u64, any::<bool>()), 0..8);
    (1..4_usize, tasks, states, copies, any::<bool>()).prop_map(|(units, tasks, states, copies, is_simulated)| {
        let mut trace = on_units(&["CPU", "GPU", "CPU"][..units]);
        trace.facts.insert("simulated".to_owned(), is_simulated.to_string());
        let (mut now, mut free) = (0, vec![0; units]);
        for choices in tasks {
            run_task(&mut trace, choices, &mut now, &mut free);
        }
        for (what, start, length) in states {
            let unit = usize::from(start) % units;
            let (kind, unit) = match what {
                0 => (StateKind::Search, Some(unit)),
                1 => (StateKind::Sleep, Some(unit)),
                2 => (StateKind::Throttle, Some(0)),
                _ => (StateKind::Wait, None),
            };
            state(&mut trace, kind, unit, start.into(), u64::from(start) + u64::from(length));
        }
        for (object, is_back, start, length, evicts) in copies {
            let to = trace.spaces.len() - 1;
            let between = if is_back { (to, 0) } else { (0, to) };
            copy(&mut trace, object, between, 100 + start, start, start + length);
            let task = trace.tasks.len().checked_sub(1 + object as usize);
            trace.copies.iter_mut().filter(|copy| copy.start == start).for_each(|copy| {
                (copy.task, copy.evicts) = (task, evicts);
                copy.stream = Some(object as usize).filter(|stream| *stream < 3);
            });
            if evicts {
                let reasons = [DropReason::Evicted, DropReason::WrittenBack, DropReason::Released, DropReason::Lost];
                let why = reasons[object as usize];
                trace.drops.push(Drop { at: start, space: to, bytes: 100 + start, data: object, why });
            }
        }
        for object in 0..4 {
            data(&mut trace, object, &format!("data `{object}, \"quoted\"`"), 1000);
        }
        let modes = [AccessMode::Read, AccessMode::Write, AccessMode::Concurrent, AccessMode::Order];
        for number in 0..trace.tasks.len() {
            let region = Some(number % 5).filter(|region| *region < 4);
            trace.accesses.push(Access { task: number, region, mode: modes[number % 4] });
        }
        trace.regions.extend((0..4).map(|data| Region { data, bytes: 100 * data, text: format!("[0..{data}, 3]") }));
        let bytes = trace.copies.iter().map(|copy| Memory { at: copy.end, space: copy.to, bytes: copy.bytes });
        trace.memory = bytes.collect();
        trace.drops.sort_by_key(|drop| drop.at);
        trace
    })
}

fn run_task(trace: &mut Trace, choices: Choices, now: &mut u64, free: &mut [u64]) {
    let [gap, name, unit, first, second, third, kind, placed, reserved, launched, delay, length, fate, parent, ..] =
        choices.map(u64::from);
    *now += gap % 8;
    let (number, unit) = (trace.tasks.len(), unit as usize % free.len());
    let names = ["gemm", "a \"b\", c", "line\nbreak\t<script>", "🦀", "trsm"];
    let predecessors: Vec<usize> = [first, second, third]
        .into_iter()
        .map(|far| far as usize % 12 + 1)
        .filter_map(|far| number.checked_sub(far))
        .collect();
    let given_up = |task: usize| trace.notes.iter().find(|note| note.task == task).map(|note| note.at);
    let ended = |task: &usize| trace.tasks[*task].finished.or_else(|| given_up(*task));
    let ready = predecessors.iter().filter_map(ended).max().unwrap_or(0).max(*now);
    // A task with a predecessor that never ends does not run.
    let fate = if predecessors.iter().any(|task| ended(task).is_none()) { 2 } else { fate % 12 };
    let placed = ready + placed % 4;
    let reserved = placed + reserved % 4;
    let launched = reserved + launched % 6;
    let is_placed = kind % 2 == 0;
    let may_start = if is_placed { launched } else { ready };
    let start = may_start.max(free[unit]) + delay % 5;
    let end = start + length % 24;
    task(trace, names[name as usize % 5], *now, unit, start, end);
    if is_placed {
        stages(trace, number, [ready, placed, reserved, launched]);
        if trace.policies.is_empty() {
            trace.policies = ["eft", "bottom-level", "unused"].map(str::to_owned).to_vec();
        }
        let task = &mut trace.tasks[number];
        task.policy = Some(name as usize % 3).filter(|policy| *policy < 2);
        task.expected = task.policy.filter(|_| length % 5 > 0).map(|_| length % 7 * 4);
        task.expected_end = task.expected.filter(|_| gap % 2 == 0).map(|expected| expected + gap % 9);
    }
    for from in predecessors {
        after(trace, from, number, name % 4, kind % 4 < 3);
    }
    let task = &mut trace.tasks[number];
    task.device = (unit == 1).then_some(0);
    task.stream = task.device.map(|_| 3 + name as usize % 2);
    task.submitter = Some(name as usize % 2).filter(|_| parent % 5 > 0);
    task.parent = number.checked_sub(1 + parent as usize % 20).filter(|_| parent % 3 == 0);
    match fate {
        0 | 1 => {
            let kinds = [NoteKind::Poisoned, NoteKind::Cancelled];
            trace.notes.push(Note { at: ready, task: number, kind: kinds[fate as usize] });
            trace.notes.sort_by_key(|note| note.at);
        }
        2 => {}
        3 => (task.outcome, free[unit]) = (Some(Outcome::Failed), end),
        4 => (task.outcome, task.finished, free[unit]) = (Some(Outcome::Detached), Some(end + 7), end),
        _ => free[unit] = end,
    }
    if fate < 3 {
        let task = &mut trace.tasks[number];
        (task.start, task.end, task.finished, task.unit, task.device, task.outcome) = Default::default();
        task.stream = None;
    }
}
