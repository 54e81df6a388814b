//! Measured times of a trace's tasks, by name and kind of unit.
//!
//! A task's time is the time in which its body itself ran. It excludes tasks that the unit ran while the body
//! waited, and time in which the unit slept or searched meanwhile. A device can run several tasks at once, but a
//! simulated unit runs one after the other. So at each moment, the tasks that run on a device share its time equally.
//!
//! This module deals only with the recorded machine.

use std::cmp::Reverse;
use std::collections::HashMap;
use thalweg::machine::UnitKind;
use thalweg_trace::Trace;

/// The run of a task.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Ran {
    pub(super) kind: UnitKind,
    /// The number of cores or devices in the task's unit.
    pub(super) width: usize,
    /// The time, in nanoseconds.
    pub(super) ns: f64,
}

/// The measurements of a trace.
#[derive(Debug)]
pub(super) struct Measured {
    /// The run of each task; `None` if the task did not run.
    pub(super) ran: Vec<Option<Ran>>,
    /// The names of tasks that ran, in order of first appearance.
    pub(super) names: Vec<String>,
    /// For each task, the position of its name in `names`.
    pub(super) name_of: Vec<Option<usize>>,
    /// The bytes that each task accesses, if the trace has accesses.
    pub(super) bytes: Option<Vec<u64>>,
    /// The mean number of busy cores while CPU units ran tasks, at least 1.
    pub(super) load: f64,
}

impl Measured {
    pub(super) fn of(trace: &Trace) -> Self {
        let kinds: Vec<_> = trace.units.iter().map(|unit| UnitKind::from_keyword(&unit.kind)).collect();
        let self_ns = self_times(trace, &kinds);
        let ran = |(at, task): (usize, &thalweg_trace::Task)| {
            let (unit, _, _) = (task.unit?, task.start?, task.end?);
            Some(Ran { kind: (*kinds.get(unit)?)?, width: trace.units[unit].width.max(1), ns: self_ns[at] as f64 })
        };
        let ran: Vec<_> = trace.tasks.iter().enumerate().map(ran).collect();
        let (mut names, mut numbers) = (Vec::new(), HashMap::new());
        let name_of = |(task, ran): (usize, &Option<Ran>)| {
            ran.as_ref()?;
            let name = trace.name(task);
            Some(*numbers.entry(name).or_insert_with(|| {
                names.push(name.to_owned());
                names.len() - 1
            }))
        };
        let name_of = ran.iter().enumerate().map(name_of).collect();
        let bytes = (!trace.accesses.is_empty()).then(|| {
            let mut bytes = vec![0; trace.tasks.len()];
            for access in &trace.accesses {
                bytes[access.task] += access.region.map_or(0, |region| trace.regions[region].bytes);
            }
            bytes
        });
        let load = load(trace, &ran);
        Self { ran, names, name_of, bytes, load }
    }

    /// Returns the sum of the times of all tasks in nanoseconds.
    pub(super) fn work_ns(&self) -> f64 {
        self.ran.iter().flatten().map(|ran| ran.ns).sum()
    }
}

/// Returns, for each task, the time in which its body itself ran.
fn self_times(trace: &Trace, kinds: &[Option<UnitKind>]) -> Vec<u64> {
    let mut times: Vec<u64> = trace.tasks.iter().map(|task| span(task).map_or(0, |(start, end)| end - start)).collect();
    share_devices(trace, kinds, &mut times);
    let mut spans: Vec<Vec<(u64, u64, Option<usize>)>> = vec![Vec::new(); trace.units.len()];
    let is_cpu = |unit: usize| kinds.get(unit) == Some(&Some(UnitKind::Cpu));
    for (number, task) in trace.tasks.iter().enumerate() {
        let (Some(unit), Some((start, end))) = (task.unit.filter(|unit| is_cpu(*unit)), span(task)) else { continue };
        spans[unit].push((start, end, Some(number)));
    }
    for state in &trace.states {
        let Some(unit) = state.unit.filter(|unit| is_cpu(*unit)) else { continue };
        spans[unit].push((state.start, state.end.max(state.start), None));
    }
    for spans in &mut spans {
        spans.sort_unstable_by_key(|(start, end, task)| (*start, Reverse(*end), *task));
        // At any time, a unit runs the body that began last.
        let (mut open, mut now): (Vec<(u64, Option<usize>)>, u64) = (Vec::new(), 0);
        for (start, end, task) in spans.iter().copied().chain([(u64::MAX, u64::MAX, None)]) {
            while let Some((open_end, open_task)) = open.last().copied() {
                let until = open_end.min(start);
                if let Some(task) = open_task {
                    times[task] += until.saturating_sub(now);
                }
                now = now.max(until);
                if open_end > start {
                    break;
                }
                open.pop();
            }
            now = now.max(start);
            if let Some(task) = task {
                times[task] = 0;
            }
            open.push((end, task));
        }
    }
    times
}

/// Sets the times of tasks on devices to their shares.
fn share_devices(trace: &Trace, kinds: &[Option<UnitKind>], times: &mut [u64]) {
    for unit in (0..kinds.len()).filter(|unit| kinds[*unit].is_some_and(UnitKind::is_device)) {
        let on_unit = trace.tasks.iter().enumerate().filter(|(_, task)| task.unit == Some(unit));
        let ends = on_unit.filter_map(|(task, of)| {
            let (start, end) = span(of)?;
            Some([(start, false, task), (end, true, task)])
        });
        let mut changes: Vec<(u64, bool, usize)> = ends.flatten().collect();
        changes.sort_unstable();
        // The share of a task that ran all the time, and how large it was when a task began.
        let (mut share, mut since, mut running) = (0.0, 0, 0u32);
        let mut began = vec![0.0; times.len()];
        for (at, is_end, task) in changes {
            share += (at - since) as f64 / f64::from(running.max(1));
            since = at;
            if is_end {
                running -= 1;
                times[task] = (share - began[task]).round() as u64;
            } else {
                running += 1;
                began[task] = share;
            }
        }
    }
}

fn span(task: &thalweg_trace::Task) -> Option<(u64, u64)> {
    let (start, end) = (task.start?, task.end?);
    Some((start, end.max(start)))
}

/// Returns the average number of busy cores while a task ran.
fn load(trace: &Trace, ran: &[Option<Ran>]) -> f64 {
    let mut changes = Vec::new();
    for (task, ran) in trace.tasks.iter().zip(ran) {
        let (Some(Ran { kind: UnitKind::Cpu, width, .. }), Some((start, end))) = (ran, span(task)) else { continue };
        changes.extend([(start, *width as i64), (end, -(*width as i64))]);
    }
    changes.sort_unstable();
    let (mut busy, mut since, mut core_ns, mut weighted) = (0i64, 0, 0.0, 0.0);
    for (at, change) in changes {
        let during = (at - since) as f64;
        core_ns += busy as f64 * during;
        weighted += (busy * busy) as f64 * during;
        (busy, since) = (busy + change, at);
    }
    if core_ns > 0.0 { f64::max(weighted / core_ns, 1.0) } else { 1.0 }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use thalweg_trace::{Site, State, StateKind, Task, Unit};

    pub(in super::super) fn task(start: u64, end: u64) -> Task {
        Task {
            number: start,
            start: Some(start),
            end: Some(end),
            finished: Some(end),
            unit: Some(0),
            ..Task::default()
        }
    }

    #[test]
    fn time_of_a_body_excludes_nested_bodies_and_sleep() {
        let site = Site { name: "t".to_owned(), file: String::new(), line: 0, column: 0 };
        let sleep = |start, end| State { start, end, kind: StateKind::Sleep, unit: Some(0), thread: 0 };
        let trace = Trace {
            units: vec![Unit { kind: "CPU".to_owned(), width: 1 }],
            sites: vec![site],
            tasks: vec![task(0, 100), task(10, 30), task(15, 20), task(100, 110)],
            states: vec![sleep(40, 55), sleep(120, 130)],
            ..Trace::default()
        };
        let measured = Measured::of(&trace);
        let times: Vec<_> = measured.ran.iter().map(|ran| ran.unwrap().ns).collect();
        assert_eq!(times, [65.0, 15.0, 5.0, 10.0]);
        assert_eq!((measured.names.len(), measured.name_of[3], measured.bytes), (1, Some(0), None));
    }

    #[test]
    fn tasks_that_overlap_on_a_device_share_its_time() {
        let site = Site { name: "t".to_owned(), file: String::new(), line: 0, column: 0 };
        let tasks = vec![task(0, 100), task(40, 100), task(100, 110), task(120, 120)];
        let units = vec![Unit { kind: "OPENCL".to_owned(), width: 1 }];
        let measured = Measured::of(&Trace { units, sites: vec![site], tasks, ..Trace::default() });
        let times: Vec<_> = measured.ran.iter().map(|ran| ran.unwrap().ns).collect();
        assert_eq!(times, [70.0, 30.0, 10.0, 0.0]);
        assert_eq!(measured.work_ns(), 110.0);
    }

    #[test]
    fn load_is_that_which_tasks_met() {
        let unit = || Unit { kind: "CPU".to_owned(), width: 1 };
        let site = Site { name: "t".to_owned(), file: String::new(), line: 0, column: 0 };
        let other = Task { unit: Some(1), ..task(0, 10) };
        let tasks = vec![task(0, 10), other, task(10, 30)];
        let trace = Trace { units: vec![unit(), unit()], sites: vec![site], tasks, ..Trace::default() };
        // Two cores were busy for ten nanoseconds, and one core for twenty.
        assert_eq!(Measured::of(&trace).load, (2.0 * 20.0 + 20.0) / 40.0);
    }
}
