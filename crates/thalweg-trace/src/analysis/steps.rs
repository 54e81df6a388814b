//! The flags of all units by time: for which kinds of units tasks wait or are ready, what the program does, and whether
//! copies are under way.
//!
//! A kind of unit can run the tasks whose names ran on that kind. A kind that ran nothing counts as able to run all.

use super::prepare::Prepared;
use super::spans::union;
use crate::Trace;
use std::collections::HashMap;

/// Flags of the run.
pub(super) const WAIT: u8 = 1;
pub(super) const THROTTLE: u8 = 2;
pub(super) const COPYING: u8 = 4;

/// What is the case for all units from a time on.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Step {
    pub(super) at: u64,
    /// Kinds of units that have tasks which wait for predecessors.
    pub(super) waiting: u64,
    /// Kinds of units that have tasks which are ready and wait neither for memory nor for copies.
    pub(super) ready: u64,
    /// Kinds of units that have tasks which wait for memory.
    pub(super) memory: u64,
    /// Kinds of units that have tasks which wait for copies.
    pub(super) copy: u64,
    pub(super) flags: u8,
}

/// Kinds of units by numbers below 64.
pub(super) struct Kinds {
    of_units: Vec<u32>,
    /// Per site, a bit for each kind that can run its tasks.
    of_sites: Vec<u64>,
}

impl Kinds {
    pub(super) fn new(trace: &Trace) -> Self {
        let mut numbers: HashMap<&str, u32> = HashMap::new();
        let mut number = |kind| {
            let next = numbers.len().min(62) as u32;
            *numbers.entry(kind).or_insert(next)
        };
        let of_units: Vec<u32> = trace.units.iter().map(|unit| number(unit.kind.as_str())).collect();
        let mut of_sites = vec![0; trace.sites.len()];
        let kind = |unit: usize| of_units.get(unit).copied().unwrap_or(63);
        for task in &trace.tasks {
            if let (Some(_), Some(unit)) = (task.start, task.unit) {
                of_sites[task.site] |= 1 << kind(unit);
            }
        }
        let used = of_sites.iter().fold(0, |used, kinds| used | kinds);
        of_sites.iter_mut().for_each(|kinds| *kinds = if *kinds == 0 { u64::MAX } else { *kinds | !used });
        Self { of_units, of_sites }
    }

    pub(super) fn of_unit(&self, unit: usize) -> u32 {
        self.of_units.get(unit).copied().unwrap_or(63)
    }
}

/// What a task waits for.
#[derive(Clone, Copy)]
enum Wait {
    Predecessors,
    Unit,
    Memory,
    Copies,
}

/// Something that changes for all units.
#[derive(Clone, Copy)]
enum Change {
    Flag(u8),
    /// One more or one less task of a group waits.
    Number(u16, Wait, i8),
}

/// The flags of all units by time. The first step is at 0.
pub(super) fn steps(prepared: &Prepared<'_>, kinds: &Kinds) -> Vec<Step> {
    let mut groups: Vec<u64> = kinds.of_sites.clone();
    groups.sort_unstable();
    groups.dedup();
    let group = |mask: &u64| groups.binary_search(mask).expect("every mask has a group").min(u16::MAX.into()) as u16;
    let group_of: Vec<u16> = kinds.of_sites.iter().map(group).collect();
    let mut changes: Vec<(u64, Change)> = Vec::new();
    let copying = union(prepared.trace.copies.iter().map(|copy| (copy.start, copy.end)).collect());
    for (spans, flag) in [(&prepared.waits, WAIT), (&prepared.throttles, THROTTLE), (&copying, COPYING)] {
        changes.extend(spans.iter().flat_map(|(start, end)| [*start, *end]).map(|at| (at, Change::Flag(flag))));
    }
    for (number, task) in prepared.trace.tasks.iter().enumerate() {
        let gone = prepared.gone[number];
        let ready = prepared.ready[number].min(gone);
        let mut wait = |from: u64, until: u64, wait| {
            if from < until {
                let change = |number| Change::Number(group_of[task.site], wait, number);
                changes.extend([(from, change(1)), (until, change(-1))]);
            }
        };
        wait(task.submitted, ready, Wait::Predecessors);
        match prepared.stages(number) {
            None => wait(ready, gone, Wait::Unit),
            Some([placed, reserved, launched, start]) => {
                wait(ready, placed, Wait::Unit);
                wait(placed, reserved, Wait::Memory);
                wait(reserved, launched, Wait::Copies);
                wait(launched, start, Wait::Unit);
            }
        }
    }
    changes.sort_unstable_by_key(|(at, _)| *at);
    let mut now = Step { at: 0, waiting: 0, ready: 0, memory: 0, copy: 0, flags: 0 };
    let mut steps = vec![now];
    let mut numbers = [(); 4].map(|()| vec![0_i64; groups.len()]);
    for (at, change) in changes {
        if now.at != at {
            push_step(&mut steps, now);
            now.at = at;
        }
        match change {
            Change::Flag(flag) => now.flags ^= flag,
            Change::Number(group, wait, change) => {
                let numbers = &mut numbers[wait as usize];
                numbers[usize::from(group)] += i64::from(change);
                let some = numbers.iter().zip(&groups).filter(|(number, _)| **number > 0);
                let kinds = some.fold(0, |kinds, (_, mask)| kinds | mask);
                match wait {
                    Wait::Predecessors => now.waiting = kinds,
                    Wait::Unit => now.ready = kinds,
                    Wait::Memory => now.memory = kinds,
                    Wait::Copies => now.copy = kinds,
                }
            }
        }
    }
    push_step(&mut steps, now);
    steps
}

/// Appends a step that changes something.
fn push_step(steps: &mut Vec<Step>, now: Step) {
    let last = steps.last_mut().expect("there is a first step");
    if last.at == now.at {
        *last = now;
    } else if *last != (Step { at: last.at, ..now }) {
        steps.push(now);
    }
}
