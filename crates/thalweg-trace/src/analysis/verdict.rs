//! The verdict: one sentence that says what limits a run, with figures and a remedy.
//!
//! A run that computes most of the time is busy. Otherwise a critical path that takes most of the makespan limits it,
//! because nothing else could shorten the run. Otherwise the largest share of the units' time does that was lost.

use super::shares::Lost;
use super::timeline::Activity;
use super::{Analysis, NameUse};
use crate::text::{bytes, counted, duration, percent, share};
use crate::{NoteKind, Trace};
use std::collections::HashMap;

/// Computing at least this share of the time is busy, in percent.
const BUSY: f64 = 85.0;
/// A critical path of at least this share of the makespan limits the run, in percent.
const CRITICAL: f64 = 80.0;

/// What limits a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Limit {
    /// No body ran.
    #[default]
    Nothing,
    /// The units compute most of the time.
    Busy,
    /// Tasks come too slowly.
    Submission,
    /// The program waits for tasks and submits none meanwhile, or has submitted all and few are left.
    Waits,
    /// Tasks are small compared with the runtime's work for each.
    Runtime,
    /// Tasks wait for each other.
    Dependence,
    /// Tasks wait for copies.
    Copy,
    /// Tasks wait for memory.
    Memory,
    /// Units idle although tasks are ready.
    Imbalance,
}

impl Limit {
    /// The word that begins the verdict, such as `submission-bound`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing ran",
            Self::Busy => "busy",
            Self::Submission => "submission-bound",
            Self::Waits => "held up by waits",
            Self::Runtime => "runtime-bound",
            Self::Dependence => "dependence-bound",
            Self::Copy => "copy-bound",
            Self::Memory => "memory-bound",
            Self::Imbalance => "imbalanced",
        }
    }
}

/// What limits a run, in words.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verdict {
    /// What limits it.
    pub limit: Limit,
    /// One sentence: what limits the run, figures, and a remedy after a semicolon.
    pub sentence: String,
}

/// What the sentence is made from.
struct Case<'a> {
    trace: &'a Trace,
    analysis: &'a Analysis,
    lost: &'a Lost,
}

pub(super) fn of(trace: &Trace, analysis: &Analysis, lost: &Lost) -> Verdict {
    let case = Case { trace, analysis, lost };
    let limit = case.limit();
    let text = match limit {
        Limit::Nothing => case.nothing(),
        Limit::Busy => case.busy(),
        Limit::Submission => case.submission(),
        Limit::Waits => case.waits(),
        Limit::Runtime => case.runtime(),
        Limit::Dependence => case.dependence(),
        Limit::Copy => case.copy(),
        Limit::Memory => case.memory(),
        Limit::Imbalance => case.imbalance(),
    };
    Verdict { limit, sentence: format!("{}: {text}", limit.name()) }
}

impl Case<'_> {
    fn bodies(&self) -> u64 {
        self.analysis.names.iter().map(|name| name.count).sum()
    }

    fn limit(&self) -> Limit {
        let (analysis, shares) = (self.analysis, &self.analysis.shares);
        if self.bodies() == 0 {
            return Limit::Nothing;
        }
        if percent(shares.computing, analysis.unit_time()) >= BUSY {
            return Limit::Busy;
        }
        if percent(analysis.critical_ns, analysis.makespan()) >= CRITICAL && analysis.critical.len() > 1 {
            return Limit::Dependence;
        }
        let losses = [
            (shares.submission - self.lost.at_waits + shares.program, Limit::Submission),
            (self.lost.at_waits, Limit::Waits),
            (shares.runtime, Limit::Runtime),
            (shares.dependence, Limit::Dependence),
            (shares.copy, Limit::Copy),
            (shares.memory, Limit::Memory),
            (shares.unit, Limit::Imbalance),
        ];
        let largest = losses.into_iter().filter(|(time, _)| *time > 0).max_by_key(|(time, _)| *time);
        largest.map_or(Limit::Busy, |(_, limit)| limit)
    }

    /// A share of the time of all units.
    fn of_units(&self, time: u64) -> String {
        share(time, self.analysis.unit_time())
    }

    /// The name with the most time.
    fn largest(&self) -> Option<&NameUse> {
        self.analysis.names.iter().find(|name| name.count > 0)
    }

    fn mean_body(&self) -> u64 {
        let total: u64 = self.analysis.names.iter().map(|name| name.total).sum();
        total.checked_div(self.bodies()).unwrap_or(0)
    }

    fn unit(&self, unit: usize) -> String {
        match self.trace.units.get(unit) {
            Some(known) => format!("unit {unit} ({})", known.kind),
            None => format!("unit {unit}"),
        }
    }

    fn space(&self, space: usize) -> String {
        self.trace.spaces.get(space).cloned().unwrap_or_else(|| format!("space {space}"))
    }

    fn data(&self, data: u64) -> String {
        self.trace.data.get(&data).map_or_else(|| format!("data {data}"), |data| data.name.clone())
    }

    fn nothing(&self) -> String {
        match self.trace.tasks.len() {
            0 => "no task was submitted; check that the traced program reached its tasks".to_owned(),
            tasks => format!(
                "{} submitted and none ran; look for the failure that poisoned them, or wait for them before the \
                 program ends",
                counted(tasks as u64, "task")
            ),
        }
    }

    fn busy(&self) -> String {
        let computing = self.of_units(self.analysis.shares.computing);
        let total: u64 = self.analysis.names.iter().map(|name| name.total).sum();
        match self.largest() {
            Some(name) => format!(
                "{computing} computing; make the body of `{}` faster, which has {} of that time, or add units",
                name.name,
                share(name.total, total)
            ),
            None => format!("{computing} computing"),
        }
    }

    /// The mean time between submissions, without the time in which the program waited.
    fn between_submissions(&self) -> u64 {
        let tasks = &self.trace.tasks;
        let mut gaps: Vec<u64> =
            tasks.windows(2).map(|two| two[1].submitted.saturating_sub(two[0].submitted)).collect();
        if gaps.is_empty() {
            return 0;
        }
        let middle = gaps.len() / 2;
        *gaps.select_nth_unstable(middle).1
    }

    fn submission(&self) -> String {
        let shares = &self.analysis.shares;
        let missing = shares.submission - self.lost.at_waits;
        let finding = if missing >= shares.program {
            let idle = shares.idle() + shares.program;
            format!("{} of idle time ends with a submission", share(missing + shares.program, idle))
        } else {
            format!(
                "the thread that submits takes {} of the units' time for the program itself",
                self.of_units(shares.program)
            )
        };
        let (every, body) = (self.between_submissions(), self.mean_body());
        let enough = every * self.analysis.units.len() as u64;
        if body < enough {
            format!("{finding}; make tasks larger than {} or submit from bodies", duration(enough))
        } else {
            format!(
                "{finding}, though a task comes every {} and takes {}; submit tasks before the program does other \
                 work, or move that work into a task",
                duration(every),
                duration(body)
            )
        }
    }

    fn waits(&self) -> String {
        let longest = self.analysis.names.iter().filter(|name| name.count > 0).max_by_key(|name| name.max);
        let (name, longest) = longest.map_or(("", 0), |name| (name.name.as_str(), name.max));
        format!(
            "{} of the units' time passes while the program waits for the last tasks and has submitted no others; \
             submit the next tasks before the wait, or split `{name}`, whose longest body takes {}",
            self.of_units(self.lost.at_waits),
            duration(longest)
        )
    }

    fn runtime(&self) -> String {
        let gap = self.analysis.shares.runtime.checked_div(self.bodies()).unwrap_or(0);
        format!(
            "{} of the units' time is between bodies, {} for a body of {} on average; make tasks larger than {}, or \
             put several into one",
            self.of_units(self.analysis.shares.runtime),
            duration(gap),
            duration(self.mean_body()),
            duration(gap * 20)
        )
    }

    /// The task name with the most time on the critical path, with that time.
    fn dominating(&self) -> (&str, u64) {
        let mut times: HashMap<&str, u64> = HashMap::new();
        for step in &self.analysis.critical {
            let task = &self.trace.tasks[step.task];
            let time = task.start.zip(task.end).map_or(0, |(start, end)| end.saturating_sub(start));
            *times.entry(self.trace.name(step.task)).or_default() += time;
        }
        times.into_iter().max_by(|one, other| (one.1, other.0).cmp(&(other.1, one.0))).unwrap_or(("", 0))
    }

    /// The data object that most dependences of the critical path are about; how many are, and how many of all only
    /// order.
    fn followed(&self) -> (Option<(u64, u64)>, u64) {
        let edges: HashMap<(usize, usize), usize> =
            self.analysis.critical.windows(2).map(|two| ((two[0].task, two[1].task), 0)).collect();
        let mut found: HashMap<(usize, usize), (Option<u64>, bool)> = HashMap::new();
        for dependence in &self.trace.dependences {
            let key = (dependence.from, dependence.to);
            if edges.contains_key(&key) {
                let (data, carries) = found.entry(key).or_insert((dependence.data, dependence.carries_value));
                if dependence.carries_value && !*carries {
                    (*data, *carries) = (dependence.data, true);
                }
            }
        }
        let mut numbers: HashMap<u64, u64> = HashMap::new();
        found.values().filter_map(|(data, _)| *data).for_each(|data| *numbers.entry(data).or_default() += 1);
        let most = numbers.into_iter().max_by_key(|(data, number)| (*number, std::cmp::Reverse(*data)));
        (most, found.values().filter(|(_, carries)| !carries).count() as u64)
    }

    fn dependence(&self) -> String {
        let (analysis, steps) = (self.analysis, self.analysis.critical.len() as u64);
        let path = share(analysis.critical_ns, analysis.makespan());
        let (name, time) = self.dominating();
        let (followed, ordering) = self.followed();
        let data = followed.map(|(data, _)| self.data(data));
        let finding = format!(
            "the critical path takes {path} of the run in {}, {} of it in `{name}`{}",
            counted(steps, "task"),
            share(time, analysis.critical_ns),
            data.as_ref().map_or(String::new(), |data| format!(", and follows {data}"))
        );
        let what = data.unwrap_or_else(|| "the data".to_owned());
        if percent(analysis.critical_ns, analysis.makespan()) < CRITICAL
            && self.lost.throttled * 2 > analysis.shares.dependence
        {
            return format!(
                "{} of the units' time all submitted tasks wait for predecessors while the program is held back; \
                 raise the number of tasks that may be pending (`window`)",
                self.of_units(analysis.shares.dependence)
            );
        }
        let remedy = if steps > 1 && ordering * 2 >= steps - 1 {
            format!(
                "{} of its dependences carry no value, so narrow the regions of {what} or use a second buffer",
                ordering
            )
        } else {
            format!("split `{name}` into tasks that run side by side, or narrow their regions of {what}")
        };
        if percent(analysis.critical_ns, analysis.makespan()) < CRITICAL {
            let idle = self.of_units(analysis.shares.dependence);
            return format!("{idle} of the units' time passes in waits for predecessors; {finding}; {remedy}");
        }
        format!("{finding}; {remedy}")
    }

    fn copy(&self) -> String {
        let waits =
            format!("{} of the units' time passes in waits for copies", self.of_units(self.analysis.shares.copy));
        let Some(link) = self.analysis.transfers.iter().max_by_key(|link| link.time) else {
            return format!("{waits}; run tasks where their data are");
        };
        let (from, to) = (self.space(link.from), self.space(link.to));
        let finding =
            format!("{waits}, most from {from} to {to} ({}, {})", counted(link.copies, "copy"), bytes(link.bytes));
        let pair = [(link.from, link.to), (link.to, link.from)];
        let between = |traffic: &&super::DataTraffic| {
            let on_pair = traffic.links.iter().filter(|link| pair.contains(&(link.from, link.to)));
            on_pair.fold(0, |bytes: u64, link| bytes.saturating_add(link.bytes))
        };
        match self.analysis.traffic.iter().max_by_key(between) {
            Some(traffic) if traffic.returns > 1 => format!(
                "{finding}; {} moves to and fro {} times, so run its tasks in one memory or in larger groups",
                self.data(traffic.data),
                traffic.returns
            ),
            Some(traffic) => format!(
                "{finding}; {} has the most bytes, so copy it ahead of its tasks or give tasks more work per byte",
                self.data(traffic.data)
            ),
            None => format!("{finding}; run tasks where their data are"),
        }
    }

    fn memory(&self) -> String {
        let evicted = self.analysis.transfers.iter().fold(0, |sum: u64, link| sum.saturating_add(link.evicted));
        let refused = self.trace.notes.iter().filter(|note| note.kind == NoteKind::Refused).count() as u64;
        let mut peaks: HashMap<usize, u64> = HashMap::new();
        for memory in &self.trace.memory {
            let peak = peaks.entry(memory.space).or_default();
            *peak = memory.bytes.max(*peak);
        }
        let fullest = peaks.into_iter().max_by_key(|(space, peak)| (*peak, std::cmp::Reverse(*space)));
        let peak = fullest.map_or(String::new(), |(space, peak)| {
            format!(" (at most {} were in use in {})", bytes(peak), self.space(space))
        });
        format!(
            "{} of the units' time passes in waits for memory{peak}, {} were evicted and {} refused; use smaller \
             regions, or give data objects free earlier",
            self.of_units(self.analysis.shares.memory),
            bytes(evicted),
            counted(refused, "task")
        )
    }

    fn imbalance(&self) -> String {
        let units = || self.analysis.units.iter().enumerate();
        let idlest = units().max_by_key(|(_, unit)| unit.shares.unit).map_or(0, |(unit, _)| unit);
        let busiest = units().max_by_key(|(_, unit)| unit.shares.computing).map_or(0, |(unit, _)| unit);
        let makespan = self.analysis.makespan();
        let of = |unit: usize, activity| share(self.analysis.units[unit].shares.get(activity), makespan);
        format!(
            "{} of the units' time passes idle although tasks are ready; {} computes {} of the time and is idle {} so, \
             while {} computes {}; try another scheduler, or tasks that both can run",
            self.of_units(self.analysis.shares.unit),
            self.unit(idlest),
            of(idlest, Activity::Computing),
            of(idlest, Activity::Unit),
            self.unit(busiest),
            of(busiest, Activity::Computing)
        )
    }
}
