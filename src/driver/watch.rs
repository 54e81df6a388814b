//! What to say when nothing moves: a program that waits for itself says so, instead of saying nothing.
//!
//! The threads that wait look at the clock before they sleep and when they wake; no thread is there for it. When tasks are
//! pending and none has finished for a set time, one of them reports what the units are doing: once, until something
//! finishes again. It is a report and no verdict: a body may simply take that long.
//!
//! Nobody's code is called under the lock here.

#![allow(unsafe_code)] // looks at what other threads run

use super::progress::Progress;
use crate::depend::{Body, ExposedTask, Meta, Task};
use crate::ids::{TaskId, UnitId};
use crate::machine::Machine;
use crate::sync::drop_quietly;
use crossbeam_utils::CachePadded;
use parking_lot::Mutex;
use std::fmt;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::time::{Duration, Instant};

/// How long nothing finishes before that is reported, unless the builder says otherwise.
pub(crate) const REPORT_AFTER: Duration = Duration::from_secs(30);

/// As many tasks of a list are written.
const MOST_WRITTEN: usize = 16;

/// Who is told.
pub(crate) type Tell = Box<dyn Fn(&Stall) + Send + Sync>;

/// What a runtime was doing when no task had finished for a while ([`Builder::on_stall`](crate::Builder::on_stall)).
///
/// It reads as a sentence with everything in it.
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
    /// How long no task has finished, at least.
    pub duration: Duration,
    /// How many tasks are submitted and have not finished.
    pub pending: u64,
    /// What the units are running; each has been running at least as long as nothing has finished, or has begun since.
    pub running: Vec<RunningTask>,
    /// Tasks whose bodies wait for something of a runtime ([`RunningTask::waits_at`]), the one that was submitted first at
    /// first. Meanwhile their threads may run others, and a lock that such a body holds stays locked.
    pub waiting: Vec<RunningTask>,
    /// Tasks whose bodies have returned and that go on outside: something that they lent out is not back, or their future
    /// has not been woken. The unit is the one that ran the body.
    pub outside: Vec<RunningTask>,
    /// Where tasks are that wait for memory, copies or a unit, on machines where they are placed.
    pub placed: String,
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
    /// Where it runs.
    pub unit: UnitId,
    /// The task.
    pub task: TaskId,
    /// Its name.
    pub name: String,
    /// Where in the program it was submitted.
    pub submitted_at: &'static Location<'static>,
    /// The regions that others may be waiting for, with their modes.
    pub holds: Vec<String>,
    /// The call in which its body waits, if it does.
    pub waits_at: Option<&'static Location<'static>>,
}

impl RunningTask {
    /// A task that this unit runs, or has run.
    pub(super) fn of(unit: UnitId, task: &Task, body: &(dyn Body + 'static)) -> Self {
        let mut holds = Vec::new();
        body.accesses(&mut |access| {
            holds.push(format!("{} {} ({})", access.datum, access.datum.describe(access.block), access.mode));
        });
        let Meta { id, name, location, .. } = task.shared();
        Self { unit, task: *id, name: name.clone().into_owned(), submitted_at: location, holds, waits_at: None }
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
        let outside = ("to be ended from outside: ", &self.outside);
        let mut separator = if self.running.is_empty() { "; " } else { "" };
        for (heading, tasks) in lists.into_iter().chain([outside]).filter(|(_, tasks)| !tasks.is_empty()) {
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
            ". A body that waits for what only another task can give, or joins a thread that waits for this runtime, waits \
             for ever where no other unit is free; so does a body that wants a lock which a waiting body below it holds \
             (Context::wait_isolated may be called with a lock). If bodies simply take this long, set Builder::report_stalls_after",
        )
    }
}

/// One runtime's eye on the clock.
pub(crate) struct Watch {
    after: Option<Duration>,
    tell: Option<Tell>,
    /// The runtime's name.
    pub(super) name: Option<String>,
    seen: Mutex<Seen>,
}

struct Seen {
    finished: u64,
    since: Instant,
    reported: bool,
}

impl Watch {
    pub(crate) fn new(after: Option<Duration>, tell: Option<Tell>, name: Option<String>) -> Self {
        Self { after, tell, name, seen: Mutex::new(Seen { finished: 0, since: Instant::now(), reported: false }) }
    }

    /// To be called by a waiting thread before it sleeps: reports if there is something to report. How long the thread may
    /// sleep before it should call again. When nobody has looked for a while, the `first` one to look knows nothing yet. `stall`
    /// makes the report.
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
                *seen = Seen { finished, since: Instant::now(), reported: false };
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
                // It is a stranger's, and this thread may be running tasks further up its stack.
                drop(catch_unwind(AssertUnwindSafe(|| tell(stall))));
            }
            None => crate::log::tell(format_args!("{stall}")),
        }
    }
}

impl Drop for Watch {
    /// The closure is a user's, and the destructors of its captures may panic.
    fn drop(&mut self) {
        drop_quietly(|| drop(self.tell.take()));
    }
}

/// The tasks that these slots show: those that run, and those whose bodies wait. Slots after the units' belong to
/// guests, which stand in for unit 0.
pub(super) fn begun_tasks(
    slots: &[CachePadded<ExposedTask>],
    machine: &Machine,
) -> (Vec<RunningTask>, Vec<RunningTask>) {
    let (mut running, mut waiting) = (Vec::new(), Vec::new());
    for (slot, exposed) in slots.iter().enumerate() {
        let unit = machine.units()[if slot < machine.num_units() { slot } else { 0 }].id;
        let see = |task: &Task, body: &(dyn Body + 'static), waits_at: Option<&'static Location<'static>>| {
            let list = if waits_at.is_some() { &mut waiting } else { &mut running };
            list.push(RunningTask { waits_at, ..RunningTask::of(unit, task, body) });
        };
        // SAFETY: `Body::accesses` reads nothing that changes while the body runs: each body keeps to that.
        unsafe { exposed.look(see) };
    }
    waiting.sort_unstable_by_key(|task: &RunningTask| task.task);
    (running, waiting)
}
