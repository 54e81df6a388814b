//! The sentences of verdicts: figures about the limit, and a remedy.

use super::shares::Lost;
use super::timeline::Activity;
use super::verdict::{CRITICAL, Limit, NOT_RUNNING, submission};
use super::{Analysis, DataTraffic, NameUse};
use crate::rows::unit_name;
use crate::text::{bytes, counted, duration, one_line, percent, share};
use crate::{NoteKind, Trace};
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

/// Maximum length of a name in characters; longer names are truncated.
const LONGEST_NAME: usize = 60;

/// The inputs from which verdict sentences are composed.
pub(super) struct Sentences<'a> {
    pub(super) trace: &'a Trace,
    pub(super) analysis: &'a Analysis,
    pub(super) lost: &'a Lost,
}

impl Sentences<'_> {
    /// Returns the sentence for a limit, without the leading name of the limit.
    pub(super) fn of(&self, limit: Limit) -> String {
        match limit {
            Limit::Nothing => self.nothing(),
            Limit::Busy => self.busy(),
            Limit::Submission => self.submission(),
            Limit::Waits => self.waits(),
            Limit::Runtime => self.runtime(),
            Limit::Cores => self.cores(),
            Limit::Dependence => self.dependence(),
            Limit::Copy => self.copy(),
            Limit::Memory => self.memory(),
            Limit::Imbalance => self.imbalance(),
        }
    }

    /// Formats `time` as a share of the total unit time.
    fn of_units(&self, time: u64) -> String {
        format!("{} of the units' time", share(time, self.analysis.unit_time()))
    }

    fn unit(&self, unit: usize) -> String {
        let kind = self.trace.units.get(unit).map(|unit| format!(" ({})", unit.kind));
        format!("{}{}", unit_name(self.trace, unit), kind.unwrap_or_default())
    }

    fn space(&self, space: usize) -> String {
        self.trace.spaces.get(space).cloned().unwrap_or_else(|| format!("space {space}"))
    }

    fn data(&self, data: u64) -> String {
        let name = self.trace.data.get(&data).map(|data| one_line(&data.name, LONGEST_NAME));
        name.unwrap_or_else(|| format!("data {data}"))
    }

    fn nothing(&self) -> String {
        match self.trace.tasks.len() as u64 {
            0 => "no task was submitted; check that the traced program reached its tasks".to_owned(),
            tasks => format!(
                "{} submitted and no body ran; look for the failure that poisoned them, or wait for them before the \
                 program ends",
                counted(tasks, "task")
            ),
        }
    }

    fn busy(&self) -> String {
        let computing = share(self.analysis.shares.computing, self.analysis.unit_time());
        let largest = self.analysis.names.first();
        largest.map_or(String::new(), |NameUse { name, total, .. }| {
            let name = one_line(name, LONGEST_NAME);
            let part = share(*total, self.analysis.in_bodies());
            format!(
                "{computing} computing; make the body of `{name}` faster, which has {part} of that time, or add units"
            )
        })
    }

    /// Returns the median time between submissions.
    fn between_submissions(&self) -> u64 {
        let mut times: Vec<u64> = self.trace.tasks.iter().map(|task| task.submitted).collect();
        times.sort_unstable();
        let mut gaps: Vec<u64> = times.windows(2).map(|two| two[1] - two[0]).collect();
        match gaps.len() / 2 {
            0 => gaps.first().copied().unwrap_or(0),
            middle => *gaps.select_nth_unstable(middle).1,
        }
    }

    fn submission(&self) -> String {
        let shares = &self.analysis.shares;
        let lost = submission(shares, self.lost);
        let (every, body) = (self.between_submissions(), self.analysis.body_p50);
        let enough = every.saturating_mul(self.analysis.units.len() as u64);
        if body >= enough {
            return format!(
                "{} passes before the program submits the next task, though a task takes {} and the next comes \
                 after {} (medians); submit tasks before the program does other work, or move that work into a task",
                self.of_units(lost),
                duration(body),
                duration(every)
            );
        }
        // A thread that submits tasks runs none, so its unit is idle, too.
        let finding = format!(
            "{} of idle time ends with a submission",
            share(lost, shares.idle().saturating_add(shares.program))
        );
        let nested = self.trace.tasks.iter().filter(|task| task.parent.is_some()).count();
        let other =
            if nested * 2 > self.trace.tasks.len() { "let more bodies submit them" } else { "submit from bodies" };
        format!("{finding}; make tasks larger than {} or {other}", duration(enough))
    }

    fn waits(&self) -> String {
        let longest = self.analysis.names.iter().max_by_key(|name| name.max);
        let (name, longest) = longest.map_or((String::new(), 0), |name| (one_line(&name.name, LONGEST_NAME), name.max));
        format!(
            "{} passes while the program waits for its last tasks and has submitted no others; submit the next tasks \
             before the wait, or split `{name}`, whose longest body takes {}",
            self.of_units(self.lost.at_waits),
            duration(longest)
        )
    }

    fn runtime(&self) -> String {
        let runtime = self.analysis.shares.runtime;
        let gap = runtime.checked_div(self.lost.gaps.len() as u64).unwrap_or(0);
        format!(
            "{} is between bodies, which take {} on average, and the gaps {}; make tasks larger than {}, or put \
             several into one",
            self.of_units(runtime),
            duration(self.analysis.mean_body()),
            duration(gap),
            duration(gap.saturating_mul(20))
        )
    }

    fn cores(&self) -> String {
        let (gaps, time) = self.lost.gaps_from(NOT_RUNNING);
        format!(
            "{} passes in {} of over {} between bodies, where the runtime needs {} (median), so the threads did not \
             run or were in a driver; keep other programs off the cores, or use fewer units",
            self.of_units(time),
            counted(gaps, "gap"),
            duration(NOT_RUNNING),
            duration(self.lost.median_gap())
        )
    }

    /// Returns the data object that causes most dependences on the critical path, and how many dependences on the
    /// path carry no value.
    fn followed(&self) -> (Option<u64>, u64) {
        // Per dependence on the path, its data object and whether it carries a value. If there are several
        // dependences between the same two tasks, one that carries a value wins.
        let path = self.analysis.critical.windows(2).map(|two| ((two[0].task, two[1].task), (None, false)));
        let mut path: HashMap<(usize, usize), (Option<u64>, bool)> = path.collect();
        for dependence in &self.trace.dependences {
            if let Some((data, carries)) = path.get_mut(&(dependence.from, dependence.to))
                && (data.is_none() || dependence.carries_value && !*carries)
            {
                (*data, *carries) = (dependence.data, *carries | dependence.carries_value);
            }
        }
        let mut numbers: HashMap<u64, u64> = HashMap::new();
        path.values().filter_map(|(data, _)| *data).for_each(|data| *numbers.entry(data).or_default() += 1);
        let most = numbers.into_iter().max_by_key(|(data, number)| (*number, Reverse(*data)));
        (most.map(|(data, _)| data), path.values().filter(|(_, carries)| !carries).count() as u64)
    }

    /// Formats the share of a data object that tasks of the critical path access on average, if the trace has accesses.
    fn accessed_part(&self, data: u64) -> Option<String> {
        let tasks: HashSet<usize> = self.analysis.critical.iter().map(|step| step.task).collect();
        let regions = self.trace.accesses.iter().filter(|access| tasks.contains(&access.task));
        let regions = regions.filter_map(|access| self.trace.regions.get(access.region?));
        let bytes: Vec<u64> = regions.filter(|region| region.data == data).map(|region| region.bytes).collect();
        let mean = bytes.iter().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes)).checked_div(bytes.len() as u64)?;
        Some(share(mean, self.trace.data.get(&data)?.bytes))
    }

    fn dependence(&self) -> String {
        let (analysis, steps) = (self.analysis, self.analysis.critical.len() as u64);
        let is_critical = percent(analysis.critical_ns, analysis.makespan()) >= CRITICAL;
        let waits = format!("{} passes in waits for predecessors", self.of_units(analysis.shares.dependence));
        if !is_critical && self.lost.throttled > analysis.shares.dependence / 2 {
            return format!(
                "{waits}, most while too many tasks are pending for the program to submit more; raise the builder's \
                 `max_pending_tasks`"
            );
        }
        let (name, time) = self.analysis.dominating(self.trace).unwrap_or_default();
        let (name, (data, ordering)) = (one_line(name, LONGEST_NAME), self.followed());
        let part = data.and_then(|data| self.accessed_part(data));
        let data = data.map(|data| self.data(data));
        let path = format!(
            "the critical path takes {} of the run in {}, {} of it in `{name}`{}",
            share(analysis.critical_ns, analysis.makespan()),
            counted(steps, "task"),
            share(time, analysis.critical_ns),
            data.as_ref().map_or(String::new(), |data| format!(", and follows {data}"))
        );
        let finding = if is_critical { path } else { format!("{waits}; {path}") };
        let part = part.map_or(String::new(), |part| format!(", of which they access {part} on average"));
        let data = data.unwrap_or_else(|| "their data".to_owned()) + &part;
        if steps > 1 && ordering * 2 >= steps - 1 {
            let number = counted(ordering, "dependence");
            return format!(
                "{finding}; {number} on it carry no value, so use a second buffer or narrow the regions of {data}"
            );
        }
        format!("{finding}; split `{name}` into tasks that run side by side, or narrow the regions of {data}")
    }

    fn copy(&self) -> String {
        let waits = format!(
            "{} passes in waits for copies",
            self.of_units(self.analysis.shares.copy.saturating_add(self.lost.copy_elsewhere))
        );
        let Some(link) = self.analysis.transfers.iter().max_by_key(|link| link.time) else {
            return format!("{waits}; run tasks where their data are");
        };
        let (from, to) = (self.space(link.from), self.space(link.to));
        let (copies, size) = (counted(link.copies, "copy"), bytes(link.bytes));
        let finding = format!("{waits}, most from {from} to {to} ({copies}, {size})");
        let pair = [(link.from, link.to), (link.to, link.from)];
        let between = |traffic: &&DataTraffic| {
            let on_pair = traffic.links.iter().filter(|link| pair.contains(&(link.from, link.to)));
            on_pair.fold(0, |bytes: u64, link| bytes.saturating_add(link.bytes))
        };
        let Some(traffic) = self.analysis.traffic.iter().max_by_key(between) else { return finding };
        let data = self.data(traffic.data);
        if traffic.returns > 1 {
            let times = traffic.returns;
            return format!(
                "{finding}; {data} moves to and fro {times} times, so run its tasks in one memory or in larger groups"
            );
        }
        format!("{finding}; {data} has the most bytes, so copy it ahead of its tasks or give them more work per byte")
    }

    fn memory(&self) -> String {
        let (_, evicted) = self.analysis.copied();
        let refused = self.trace.notes.iter().filter(|note| note.kind == NoteKind::Refused).count() as u64;
        let fullest = self.trace.memory.iter().max_by_key(|memory| memory.bytes);
        let peak = fullest.map_or(String::new(), |memory| {
            format!(" of {}, where at most {} were in use", self.space(memory.space), bytes(memory.bytes))
        });
        format!(
            "{} passes in waits for memory{peak}, with {} evicted and {refused} refusals; use smaller regions, or drop \
             data objects earlier",
            self.of_units(self.analysis.shares.memory.saturating_add(self.lost.memory_elsewhere)),
            bytes(evicted)
        )
    }

    fn imbalance(&self) -> String {
        let units = || self.analysis.units.iter().enumerate();
        let idlest = units().max_by_key(|(_, unit)| unit.shares.unit).map_or(0, |(unit, _)| unit);
        let busiest = units().max_by_key(|(_, unit)| unit.shares.computing).map_or(0, |(unit, _)| unit);
        let makespan = self.analysis.makespan();
        let of = |unit: usize, activity| share(self.analysis.units[unit].shares.get(activity), makespan);
        let finding = format!("{} is idle although tasks are ready", self.of_units(self.lost.imbalance));
        if self.analysis.units[busiest].shares.computing < makespan / 2 {
            let tasks = &self.analysis.names;
            let wait = tasks.iter().map(|name| name.wait_p50).max().unwrap_or(0);
            return format!(
                "{finding} and no unit is busy, with a delay of {} from ready to start (median of the slowest name) \
                 and bodies of {}; make tasks larger, or submit more of them at once",
                duration(wait),
                duration(self.analysis.mean_body())
            );
        }
        format!(
            "{finding}: {} computes {} of the time and is idle so for {}, while {} computes {}; try another scheduler, \
             or tasks that both can run",
            self.unit(idlest),
            of(idlest, Activity::Computing),
            of(idlest, Activity::Unit),
            self.unit(busiest),
            of(busiest, Activity::Computing)
        )
    }
}
