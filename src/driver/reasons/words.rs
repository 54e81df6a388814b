//! Textual descriptions of tasks that wait for no other task through an edge: such a task runs, or it waits for its
//! turn, for memory, for copies, or for a unit.
//!
//! This module holds no locks. Placement is queried only after the task has been found.

use super::WaitStep;
use super::scan::{Root, Spot, Standing};
use crate::depend::{ReadyStage, Shortfall, TaskRef};
use crate::driver::shared::Shared;
use crate::engine::{CopyWait, MemoryWait, Whereabouts};
use crate::error::TaskFailure;
use crate::ids::{TaskId, UnitId};
use crate::task::resource::amount;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of tasks, units or copies named in one clause.
const MOST_NAMED: usize = 4;

/// The facts that are known when a task is described.
pub(super) struct Scene<'a> {
    pub(super) shared: &'a Shared,
    pub(super) roots: &'a [Root],
    /// For each running task, the minimum time for which it has been running.
    pub(super) since: &'a FxHashMap<TaskId, Duration>,
}

/// Describes a task that has ended.
pub(super) fn ended(failure: Option<Arc<TaskFailure>>) -> String {
    match failure {
        None => "has ended".to_owned(),
        Some(failure) => format!("has ended without success: {failure}"),
    }
}

/// Describes a task that no scan has met. If `many` is given, the scans stopped after visiting that many tasks.
pub(super) fn not_found(shared: &Shared, task: &TaskRef, many: Option<usize>) -> String {
    let waits = match task.blockers().filter(|_| !task.is_in_rounds()) {
        Some(0) => "waits for no other task, and is in no queue".to_owned(),
        Some(1) => "waits for another task, which is not among those that run or wait in a queue".to_owned(),
        Some(n) => format!("waits for {n} tasks, which are not among those that run or wait in a queue"),
        None => "waits for other tasks".to_owned(),
    };
    let pending = shared.progress.pending();
    match many {
        Some(many) => format!("{waits}; {pending} tasks are pending, and only {many} of them were looked at"),
        None => format!("{waits}; it may be moving from one queue to the next, so ask again"),
    }
}

impl Scene<'_> {
    /// Describes a root, together with the task that holds the turn for which the root waits.
    pub(super) fn step(&self, root: &Root, holder: Option<&Root>) -> WaitStep {
        let Root { id, name, location, .. } = root;
        let because = self.because(root, holder);
        WaitStep { task: *id, name: name.clone().into_owned(), submitted_at: *location, because }
    }

    fn because(&self, root: &Root, holder: Option<&Root>) -> String {
        match &root.standing {
            Standing::Begun { unit, waits_at, .. } => {
                let waits = waits_at.map_or_else(String::new, |at| format!(", and its body waits at {at}"));
                format!("runs on {}{}{waits}", self.unit(*unit), self.lasts(root.id))
            }
            Standing::Waits { .. } => "has run its body, and waits for its children".to_owned(),
            Standing::Detached(unit) => format!(
                "continues without a thread: its body has returned on {}, and a region that it lent out has not been \
                 given back, or nothing has woken its future",
                self.unit(*unit)
            ),
            Standing::At(Spot::Ready) => format!("is ready and waits for a unit: {}", self.units()),
            Standing::At(Spot::Given(unit)) => self.given(*unit),
            Standing::At(Spot::OnDevice(device)) => format!("is in the queue of {device}, which has not ended it"),
            Standing::At(Spot::Simulated(unit, since)) => {
                format!("runs on {}, for {} of simulated time", self.unit(*unit), time(*since))
            }
            Standing::Placed => match self.shared.engine.whereabouts(root.id) {
                Some(place) => self.placed(place),
                None => "has just been given to its unit".to_owned(),
            },
            Standing::Queued { region, stage, .. } => match stage {
                ReadyStage::Turn => {
                    let holder = holder.map_or_else(String::new, |root| format!(", which {} has", named(root)));
                    format!("waits for its turn at {region}{holder}")
                }
                ReadyStage::Resource(shortfall) => resource(region, shortfall, holder),
                ReadyStage::Early { before } => format!(
                    "waits to begin its reduction of {region}, so that few private copies exist at once: {} of the \
                     reduction must be combined first",
                    count(*before, "task")
                ),
                ReadyStage::Replay => "waits for the end of a replay of recorded tasks".to_owned(),
                ReadyStage::Combining { before } => format!(
                    "has run its body; its part of the reduction of {region} will be combined after that of {}",
                    count(*before, "task")
                ),
            },
        }
    }

    fn placed(&self, place: Whereabouts) -> String {
        match place {
            Whereabouts::WithPolicy { policy, units } => {
                let unit = |(unit, tasks): &(UnitId, usize)| {
                    format!("{} has {}", self.unit(*unit), count(*tasks as u64, "task"))
                };
                let of_units = list(units.iter().map(unit));
                let units = if units.is_empty() { "no unit can run it now".to_owned() } else { of_units };
                format!("is ready, and the policy `{policy}` has not given it to a unit: {units}")
            }
            Whereabouts::ForMemory { unit, memory } => self.for_memory(unit, &memory),
            Whereabouts::ForData { unit, space, copies, tasks } => {
                let of_unit = unit.map_or_else(String::new, |unit| format!(" for {}", self.unit(unit)));
                let copies = copies.iter().map(copy);
                let tasks = tasks.iter().map(|task| format!("the end of {}", self.task(*task)));
                format!("waits{of_unit} until its data are in {space}: {}", list(copies.chain(tasks)))
            }
            Whereabouts::Launched { unit, is_issued: true, .. } => {
                format!("is in the queue of a device of {}", unit.map_or_else(String::new, |unit| self.unit(unit)))
            }
            Whereabouts::Launched { unit: Some(unit), .. } => self.given(unit),
            Whereabouts::Launched { unit: None, space, .. } => format!("is carried out by the runtime in {space}"),
        }
    }

    fn for_memory(&self, unit: Option<UnitId>, memory: &MemoryWait) -> String {
        let MemoryWait { space, needed, free, capacity, leaving, holders, before } = memory;
        let of_unit = unit.map_or_else(String::new, |unit| format!(" for {}", self.unit(unit)));
        let mut words = format!(
            "waits{of_unit} for memory in {space}: it needs {} more, and {} of {} are free",
            bytes(*needed),
            bytes(*free),
            bytes(*capacity)
        );
        if !holders.is_empty() {
            let holder = |(task, held): &(TaskId, u64)| format!("{} holds {}", self.task(*task), bytes(*held));
            words += &format!("; {}", list(holders.iter().map(holder)));
        }
        if *leaving > 0 {
            words += &format!("; {} are being written back or freed", bytes(*leaving));
        }
        match before {
            0 => words,
            1 => words + "; a task is before it",
            before => words + &format!("; {before} tasks are before it"),
        }
    }

    /// Describes a task that was given to a unit but has not begun.
    fn given(&self, unit: UnitId) -> String {
        let runs = self.running_on(unit).map(|root| format!(", which runs {}", named(root)));
        format!("is in the queue of {}{}", self.unit(unit), runs.unwrap_or_default())
    }

    /// Describes what the units are doing.
    fn units(&self) -> String {
        let mut idle = 0;
        let unit = |unit: UnitId| match self.running_on(unit) {
            Some(root) => Some(format!("{} runs {}{}", self.unit(unit), named(root), self.lasts(root.id))),
            None => {
                idle += 1;
                None
            }
        };
        let units = self.shared.machine.units().iter().map(|unit| unit.id);
        let busy: Vec<_> = units.filter_map(unit).collect();
        match (idle, busy.is_empty()) {
            (0, _) => list(busy.into_iter()),
            (_, true) => "no unit runs a body".to_owned(),
            (1, false) => format!("{}; 1 unit runs no body", list(busy.into_iter())),
            (idle, false) => format!("{}; {idle} units run no body", list(busy.into_iter())),
        }
    }

    /// Returns a task whose body is running on a unit; if all bodies on the unit wait, returns one of those.
    fn running_on(&self, of: UnitId) -> Option<&Root> {
        let begun = self.roots.iter().filter(
            |root| matches!(root.standing, Standing::Begun { unit, .. } | Standing::At(Spot::Simulated(unit, _)) if unit == of),
        );
        begun.min_by_key(|root| matches!(root.standing, Standing::Begun { waits_at: Some(_), .. }))
    }

    fn unit(&self, unit: UnitId) -> String {
        format!("{unit} ({})", self.shared.machine.unit(unit).kind)
    }

    fn task(&self, task: TaskId) -> String {
        self.roots.iter().find(|root| root.id == task).map_or_else(|| task.to_string(), named)
    }

    fn lasts(&self, task: TaskId) -> String {
        let since = self.since.get(&task).filter(|since| **since >= Duration::from_millis(1));
        since.map_or_else(String::new, |since| format!(", for at least {}", time(*since)))
    }
}

/// Describes a task that waits for a resource that another task has some of.
fn resource(name: &str, shortfall: &Shortfall, holder: Option<&Root>) -> String {
    let Shortfall { needed, free, capacity, before } = *shortfall;
    let [needed, free, capacity] = [needed, free, capacity].map(amount);
    let mut words = format!("waits for {name}: it needs {needed}, and {free} of {capacity} are free");
    if let Some(root) = holder {
        words += &format!("; {} has some", named(root));
    }
    match before {
        0 => words,
        1 => words + "; a task is before it",
        before => words + &format!("; {before} tasks are before it"),
    }
}

fn named(root: &Root) -> String {
    format!("{} `{}`", root.id, root.name)
}

fn copy(copy: &CopyWait) -> String {
    let CopyWait { region, between: (from, to), bytes: size, is_write_back } = copy;
    let why = if *is_write_back { ", which makes room" } else { "" };
    format!("a copy of {region} from {from} to {to} ({}{why})", bytes(*size))
}

/// Formats a count of things.
fn count(number: u64, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// Formats the first few of several clauses.
fn list(clauses: impl Iterator<Item = String>) -> String {
    let clauses: Vec<String> = clauses.collect();
    let more = clauses.len().saturating_sub(MOST_NAMED);
    let mut words = clauses[..clauses.len() - more].join("; ");
    if more > 0 {
        words += &format!("; and {more} more");
    }
    words
}

/// Formats a number of bytes with a suitable unit.
pub(crate) fn bytes(bytes: u64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB"];
    let (mut value, mut unit) = (bytes as f64, 0);
    while value >= 1000.0 && unit + 1 < units.len() {
        (value, unit) = (value / 1000.0, unit + 1);
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", units[unit]) }
}

/// Formats a duration with a suitable unit.
pub(crate) fn time(time: Duration) -> String {
    match time.as_secs_f64() {
        seconds if seconds >= 0.1 => format!("{seconds:.1} s"),
        seconds => format!("{:.3} ms", seconds * 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_times_have_units_of_their_size() {
        assert_eq!(
            [0, 999, 1000, 8_000_000, 12_345_678_901].map(bytes),
            ["0 B", "999 B", "1.0 kB", "8.0 MB", "12.3 GB"]
        );
        let times = [1_500, 99_000_000, 100_000_000, 61_000_000_000].map(Duration::from_nanos).map(time);
        assert_eq!(times, ["0.002 ms", "99.000 ms", "0.1 s", "61.0 s"]);
    }

    #[test]
    fn long_lists_are_cut() {
        let clauses = |n: usize| list((0..n).map(|n| n.to_string()));
        assert_eq!(
            (clauses(0), clauses(4), clauses(6)),
            (String::new(), "0; 1; 2; 3".into(), "0; 1; 2; 3; and 2 more".into())
        );
    }
}
