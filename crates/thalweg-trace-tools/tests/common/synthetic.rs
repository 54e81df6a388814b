//! Synthetic traces for tests: a run on some CPU units and a unit with two devices, with everything that a trace
//! can contain.

use std::collections::HashMap;
use thalweg_trace_tools::{
    Copy, Data, Decision, Dependence, Drop, DropReason, Memory, Note, NoteKind, Outcome, Site, State, StateKind, Task,
    Trace, Unit,
};

/// Names that are difficult for text formats.
pub(crate) const NAMES: [&str; 7] =
    ["gemm", "say \"hi\"\tthere", "<script>alert(1)</script>", "a,b\nc:d", "crab 🦀", "", " \t"];

/// Random numbers that are the same in each run.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % end
    }
}

fn empty_task(number: u64, site: usize, submitted: u64) -> Task {
    Task { number, site, submitted, ..Task::default() }
}

/// A run of at least `tasks` tasks on `cpus` CPU units and on a unit with two devices.
///
/// Each task depends on up to three earlier ones. Some tasks fail, some never run, some are within a task that waits,
/// and some overlap on a device.
pub(crate) fn synthetic(tasks: usize, cpus: usize, seed: u64) -> Trace {
    let mut random = Random(seed);
    let mut trace = frame(cpus);
    // The time at which each CPU unit becomes free.
    let mut free = vec![0; cpus];
    let mut device_free = [0, 0];
    for at in 0..tasks {
        let submitted = at as u64 * 90 + random.below(50);
        let mut task = empty_task(3 + at as u64 * 2, random.below(NAMES.len() as u64) as usize, submitted);
        let mut ready = submitted;
        for _ in 0..random.below(4).min(at as u64) {
            let from = at - 1 - random.below(at.min(16) as u64) as usize;
            let data = (random.below(2) == 0).then(|| random.below(5));
            trace.dependences.push(Dependence { from, to: at, data, carries_value: random.below(2) == 0 });
            ready = ready.max(trace.tasks[from].finished.unwrap_or(0));
        }
        if random.below(50) == 0 {
            trace.notes.push(Note { at: ready, task: at, kind: NoteKind::Poisoned });
        } else {
            let duration = random.below(400);
            let unit = random.below(cpus as u64 + 1) as usize;
            let start = match free.get_mut(unit) {
                Some(free) => {
                    let start = ready.max(*free);
                    if start > *free {
                        let kind = if start - *free > 200 { StateKind::Sleep } else { StateKind::Search };
                        trace.states.push(State { start: *free, end: start, kind, unit: Some(unit), thread: unit + 1 });
                    }
                    *free = start + duration;
                    start
                }
                None => {
                    let device = random.below(2) as usize;
                    task.device = Some(device);
                    task.stream = (at % 5 > 0).then(|| 3 + at % 2);
                    (task.policy, task.expected) = (Some(0), (at % 4 > 0).then_some(duration / 2 + 50));
                    task.expected_end = task.expected.map(|expected| expected + 7);
                    // The next body may begin before this one has ended.
                    let start = ready.max(device_free[device]);
                    device_free[device] = start + duration / 2;
                    copies(&mut trace, &mut random, (ready, start), device + 1);
                    start
                }
            };
            (task.start, task.end, task.unit) = (Some(start), Some(start + duration), Some(unit));
            task.finished = task.end;
            task.ready = (random.below(2) == 0).then_some(ready);
            task.outcome = Some(if random.below(40) == 0 { Outcome::Failed } else { Outcome::Done });
        }
        task.submitter = (at % 3 > 0).then_some(at % 2);
        trace.tasks.push(task);
    }
    add_nested(&mut trace, cpus);
    add_waits(&mut trace);
    sort(&mut trace);
    trace
}

/// A trace without events.
pub(crate) fn frame(cpus: usize) -> Trace {
    let facts = [("program", "/bin/a b\"c"), ("process", "42"), ("runtime", ""), ("started", "1795980697613447078")];
    let site = |(line, name): (u32, &str)| Site { name: name.to_owned(), file: "src/x.rs".to_owned(), line, column: 5 };
    let unit = |kind: &str, width| Unit { kind: kind.to_owned(), width };
    let mut units = vec![unit("CPU", 1); cpus];
    units.push(unit("EMU", 2));
    Trace {
        facts: facts.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        units,
        policies: vec!["eft".to_owned()],
        spaces: ["host", "EMU 0", "EMU 1"].map(str::to_owned).to_vec(),
        threads: std::iter::once("main".to_owned()).chain((0..cpus).map(|cpu| format!("unit{cpu}"))).collect(),
        sites: (1..).zip(NAMES).map(site).collect(),
        data: (0..4).map(|number| (number, Data { name: format!("A{number}\n"), bytes: 1 << number })).collect(),
        ..Trace::default()
    }
}

fn copies(trace: &mut Trace, random: &mut Random, (start, end): (u64, u64), space: usize) {
    let waited = random.below(end - start + 1);
    let (from, to) = if random.below(2) == 0 { (0, space) } else { (space, 0) };
    let (bytes, data, evicts) = (random.below(1 << 20), random.below(5), random.below(8) == 0);
    trace.copies.push(Copy {
        start,
        end,
        waited,
        from,
        to,
        bytes,
        data,
        task: trace.tasks.len().checked_sub(1),
        evicts,
        stream: (bytes % 2 == 0).then_some(space),
    });
    if evicts {
        let why = DropReason::WrittenBack;
        trace.drops.push(Drop { at: start, space: from, bytes, data, why });
    }
    trace.memory.push(Memory { at: end, space, bytes: random.below(1 << 30) });
}

/// A task that waits in its body while its thread runs another.
fn add_nested(trace: &mut Trace, cpus: usize) {
    if cpus == 0 {
        return;
    }
    let begin = trace.tasks.iter().filter_map(|task| task.end).max().unwrap_or(0);
    let (at, number) = (trace.tasks.len(), trace.tasks.last().map_or(3, |task| task.number + 1));
    let spans = [(begin, begin + 100), (begin + 20, begin + 60)];
    for (step, (start, end)) in (0..).zip(spans) {
        let mut task = empty_task(number + step, 0, start);
        (task.start, task.end, task.finished) = (Some(start), Some(end), Some(end));
        (task.unit, task.outcome) = (Some(0), Some(Outcome::Done));
        task.parent = (step == 1).then_some(at);
        trace.tasks.push(task);
    }
    let kind = StateKind::Wait;
    trace.states.push(State { start: begin + 10, end: begin + 70, kind, unit: Some(0), thread: 1 });
}

fn add_waits(trace: &mut Trace) {
    let end = trace.tasks.iter().filter_map(|task| task.end).max().unwrap_or(0);
    for (start, kind) in [(0, StateKind::Throttle), (end / 2, StateKind::Wait)] {
        trace.states.push(State { start, end: start + end / 2, kind, unit: None, thread: 0 });
    }
    let space = "cells".to_owned();
    trace.decisions.push(Decision { at: end / 2, space, instance: 7, state: 2, pivot: 640 });
    trace.end = end + 10;
}

fn sort(trace: &mut Trace) {
    trace.dependences.sort_by_key(|dependence| dependence.to);
    trace.sort_by_time();
}

/// Returns the unusual traces that every exporter must handle, each with a short description.
pub(crate) fn odd_traces() -> Vec<(&'static str, Trace)> {
    let mut damaged = synthetic(50, 2, 5);
    damaged.problem = Some("byte 77: \"odd\" <b>\nend".to_owned());
    let mut unframed = synthetic(50, 2, 6);
    (unframed.units, unframed.spaces, unframed.threads) = Default::default();
    (unframed.data, unframed.facts) = (HashMap::new(), HashMap::new());
    let mut idle = frame(2);
    idle.sites.truncate(1);
    idle.tasks = vec![empty_task(0, 0, 0), empty_task(1, 0, 4)];
    idle.end = 9;
    vec![
        ("empty", Trace::default()),
        ("without tasks", frame(3)),
        ("of tasks that never ran", idle),
        ("with a problem", damaged),
        ("without names", unframed),
        ("of one task", synthetic(1, 1, 1)),
        ("of devices only", synthetic(200, 0, 3)),
        ("of many tasks", synthetic(3000, 4, 2)),
    ]
}
