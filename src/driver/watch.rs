//! Stall reports, so that a program that waits for itself does not hang silently.
//!
//! Waiting threads check the clock before they sleep and after they wake; there is no dedicated thread. If tasks are
//! pending and none has finished for a set time, one of these threads reports what the units are doing. It does so
//! only once until another task finishes. The report does not prove a deadlock, because a body may simply take that
//! long. With a time limit for bodies, a task is also reported if it was seen running for longer than the limit
//! (`sightings.rs`), whatever else finishes.
//!
//! Units publish the tasks that they run at a cost of a load, a store and a swap of one word per task
//! (`sync/exposed.rs`).
//!
//! No user code is called while the lock of this module is held.

#![allow(unsafe_code)] // inspects the tasks that other threads run

use super::progress::Progress;
use super::reasons::PendingTasks;
use crate::depend::{Body, ExposedTask, Meta, Task};
use crate::ids::{TaskId, UnitId};
use crate::machine::Machine;
use crate::sync::CallSite;
use crate::sync::drop_quietly;
use crossbeam_utils::CachePadded;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// Default time without a finished task after which a stall is reported; the builder can override it.
pub(crate) const REPORT_AFTER: Duration = Duration::from_secs(30);

/// Number of looks at the running tasks per time limit: a task is reported at most a quarter of the limit late.
const LOOKS_PER_LIMIT: u32 = 4;

/// Maximum number of tasks written per list.
const MOST_WRITTEN: usize = 16;

/// User callback that receives stall reports.
pub(crate) type Tell = Box<dyn Fn(&Stall) + Send + Sync>;

/// Activities of a runtime in which no task has finished for a while
/// ([`Builder::on_stall`](crate::Builder::on_stall)).
///
/// `Display` writes everything as one sentence, followed by a line for each task that waits.
///
/// ```
/// use thalweg::prelude::*;
/// let quiet = Runtime::builder().compute_units("1:CPU:1").on_stall(|stall| {
///     println!("{} tasks are pending, {} are running", stall.pending, stall.running.len());
/// });
/// quiet.build()?;
/// # Ok::<(), BuildError>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Stall {
    /// The runtime's name, if it has one ([`Builder::name`](crate::Builder::name)).
    pub runtime: Option<String>,
    /// Time for which at least no task has finished.
    pub duration: Duration,
    /// Number of tasks that were submitted and have not finished.
    pub pending: u64,
    /// Tasks that the units are running. Each of them has been running since the last task finished, or began after
    /// that.
    pub running: Vec<RunningTask>,
    /// Tasks whose bodies are waiting for something in a runtime ([`RunningTask::waits_at`]), in submission order.
    /// Meanwhile their threads may run other tasks, and any lock held by such a body stays locked.
    pub waiting: Vec<RunningTask>,
    /// Tasks whose bodies have returned and that continue without a thread, because an exported region has not been
    /// returned or because their future has not been woken. The listed unit is the unit that ran the body.
    pub outside: Vec<RunningTask>,
    /// Of the running and waiting tasks, those that have run for longer than
    /// [`Builder::report_tasks_after`](crate::Builder::report_tasks_after); empty unless they are the reason for the
    /// report.
    pub overdue: Vec<RunningTask>,
    /// On machines that place tasks, the stages of the tasks that wait for memory, copies or a unit.
    pub placed: String,
    /// Reasons why tasks wait. Each task is listed below one of the tasks that it waits for.
    pub reasons: PendingTasks,
}

/// A task that a unit is running.
///
/// ```
/// use thalweg::prelude::*;
/// let builder = Runtime::builder().compute_units("1:CPU:1").on_stall(|stall| {
///     for task in &stall.running {
///         println!("{} has `{}` of {}", task.unit, task.name, task.submitted_at);
///     }
/// });
/// builder.build()?;
/// # Ok::<(), BuildError>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RunningTask {
    /// Unit that runs the task.
    pub unit: UnitId,
    /// ID of the task.
    pub task: TaskId,
    /// Name of the task.
    pub name: String,
    /// Source location where the task was submitted.
    pub submitted_at: CallSite,
    /// Regions that other tasks may be waiting for, with their access modes.
    pub holds: Vec<String>,
    /// Call site at which the task's body waits; `None` if the body does not wait.
    pub waits_at: Option<CallSite>,
}

impl RunningTask {
    /// Describes a task that this unit is running or has run.
    pub(super) fn of(unit: UnitId, task: &Task, body: &(dyn Body + 'static)) -> Self {
        let mut holds = Vec::new();
        body.accesses(&mut |access| {
            holds.push(format!("{} {} ({})", access.datum, access.datum.describe(access.block), access.mode));
        });
        let Meta { id, name, location, .. } = task.shared();
        Self { unit, task: *id, name: name.clone().into_owned(), submitted_at: *location, holds, waits_at: None }
    }
}

impl fmt::Display for RunningTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}`, submitted at {}, on {}", self.task, self.name, self.submitted_at, self.unit)?;
        let holds = (!self.holds.is_empty()).then(|| format!("holds {}", self.holds.join(", ")));
        let waits = self.waits_at.map(|place| format!("waits at {place}"));
        let clauses: Vec<_> = holds.into_iter().chain(waits).collect();
        if clauses.is_empty() { Ok(()) } else { write!(f, ", which {}", clauses.join(" and ")) }
    }
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = &self.runtime {
            write!(f, "runtime `{name}`: ")?;
        }
        let tasks = if self.pending == 1 { "1 task is" } else { &format!("{} tasks are", self.pending) };
        write!(f, "{tasks} pending, and none has finished for {:.1} s; ", self.duration.as_secs_f64())?;
        if self.running.is_empty() {
            f.write_str("no unit is running a body")?;
        }
        let lists = [("running: ", &self.running), ("waiting in a body: ", &self.waiting)];
        let outside = [("detached: ", &self.outside), ("beyond the time limit: ", &self.overdue)];
        let mut separator = if self.running.is_empty() { "; " } else { "" };
        for (heading, tasks) in lists.into_iter().chain(outside).filter(|(_, tasks)| !tasks.is_empty()) {
            write!(f, "{separator}{heading}")?;
            for (i, task) in tasks.iter().take(MOST_WRITTEN).enumerate() {
                write!(f, "{}{task}", if i > 0 { "; " } else { "" })?;
            }
            if let Some(more @ 1..) = tasks.len().checked_sub(MOST_WRITTEN) {
                write!(f, "; and {more} more")?;
            }
            separator = "; ";
        }
        if !self.placed.is_empty() {
            write!(f, "; placed: {}", self.placed)?;
        }
        f.write_str(
            ". A body that waits for something only another task can provide, or joins a thread that waits for this \
             runtime, waits forever if no other unit is free; so does a body that needs a lock held by a waiting \
             body below it (Context::wait_isolated may be called while holding a lock). If bodies simply take \
             this long, set Builder::report_stalls_after",
        )?;
        if self.reasons.any_waits() {
            f.write_str(". What waits, and for what:")?;
            self.reasons.write_tasks(f)?;
        }
        Ok(())
    }
}

/// Monitors the progress of one runtime.
pub(crate) struct Watch {
    after: Option<Duration>,
    /// The time that no body should run for.
    limit: Option<Duration>,
    tell: Option<Tell>,
    /// Name of the runtime, if it has one.
    pub(super) name: Option<String>,
    seen: Mutex<Seen>,
}

struct Seen {
    finished: u64,
    since: Instant,
    reported: bool,
    /// The tasks that were beyond the time limit at the last look. Each was reported once.
    overdue: Vec<TaskId>,
}

impl Watch {
    pub(crate) fn new([after, limit]: [Option<Duration>; 2], tell: Option<Tell>, name: Option<String>) -> Self {
        let seen = Seen { finished: 0, since: Instant::now(), reported: false, overdue: Vec::new() };
        Self { after, limit, tell, name, seen: Mutex::new(seen) }
    }

    /// Reports tasks that have been seen running for longer than the limit, each once. Returns how long the calling
    /// thread may sleep before it should call this again. `sight` returns for how long tasks have been seen.
    pub(super) fn overdue(
        &self,
        sight: impl FnOnce() -> FxHashMap<TaskId, Duration>,
        stall: impl FnOnce(&[TaskId], Duration) -> Stall,
    ) -> Option<Duration> {
        let limit = self.limit?;
        let mut late: Vec<_> = sight().into_iter().filter(|(_, seen)| *seen >= limit).map(|(task, _)| task).collect();
        let (is_news, since) = {
            let mut seen = self.seen.lock();
            let is_news = late.iter().any(|task| !seen.overdue.contains(task));
            seen.overdue.clone_from(&late);
            (is_news, seen.since.elapsed())
        };
        if is_news {
            late.sort_unstable();
            self.report(&stall(&late, since));
        }
        Some((limit / LOOKS_PER_LIMIT).max(Duration::from_millis(1)))
    }

    /// If there is a stall, reports it. Returns how long the calling thread may sleep before it should call this
    /// again. A waiting thread must call this before it sleeps. If no thread has checked for a while, the `first`
    /// thread to do so starts a new measurement. `stall` creates the report.
    pub(super) fn look(
        &self,
        progress: &Progress,
        first: bool,
        stall: impl FnOnce(Duration) -> Stall,
    ) -> Option<Duration> {
        let after = self.after?;
        let duration = {
            let mut seen = self.seen.lock();
            let finished = progress.finished();
            if first || finished != seen.finished || progress.pending() == 0 {
                (seen.finished, seen.since, seen.reported) = (finished, Instant::now(), false);
            }
            let duration = seen.since.elapsed();
            if seen.reported {
                return Some(after);
            }
            if duration < after {
                return Some(after - duration);
            }
            seen.reported = true;
            duration
        };
        self.report(&stall(duration));
        Some(after)
    }

    fn report(&self, stall: &Stall) {
        match &self.tell {
            Some(tell) => {
                log!(warn, "{stall}");
                // The user's callback may panic, and this thread may be running tasks further up its stack, so the
                // panic must not propagate.
                drop(catch_unwind(AssertUnwindSafe(|| tell(stall))));
            }
            None => crate::log::tell(format_args!("{stall}")),
        }
    }
}

impl Drop for Watch {
    /// Dropping may run the user's code: the destructors of the callback's captures may panic.
    fn drop(&mut self) {
        drop_quietly(|| drop(self.tell.take()));
    }
}

/// Returns the tasks that these slots show: running tasks, and tasks whose bodies wait. Slots after those of the units
/// belong to guests, which stand in for unit 0's host.
pub(super) fn begun_tasks(
    slots: &[CachePadded<ExposedTask>],
    machine: &Machine,
) -> (Vec<RunningTask>, Vec<RunningTask>) {
    let (mut running, mut waiting) = (Vec::new(), Vec::new());
    for (slot, exposed) in slots.iter().enumerate() {
        let unit = machine.units()[if slot < machine.num_units() { slot } else { 0 }].id;
        let see = |task: &Task, body: &(dyn Body + 'static), waits_at: Option<CallSite>, _: bool| {
            let list = if waits_at.is_some() { &mut waiting } else { &mut running };
            list.push(RunningTask { waits_at, ..RunningTask::of(unit, task, body) });
        };
        // SAFETY: `see` calls no method of the body except `Body::accesses`. The trait's contract, which every
        // implementation upholds, lets other threads call it while the body runs.
        unsafe { exposed.look(see) };
    }
    waiting.sort_unstable_by_key(|task: &RunningTask| task.task);
    (running, waiting)
}
