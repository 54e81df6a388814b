//! A trace in memory: tables of events, with all times in nanoseconds since the runtime was built.

pub use crate::record::{Between as StateKind, End as Outcome, Happened as NoteKind, Mode as AccessMode};
use std::collections::HashMap;

/// A run.
///
/// Tasks are in the order of submission; every other table refers to them by their position in `tasks`.
///
/// ```no_run
/// use thalweg_trace::Trace;
/// let trace = Trace::read("run.thw".as_ref())?;
/// let busy: u64 = trace.tasks.iter().filter_map(|task| Some(task.end? - task.start?)).sum();
/// println!("{} tasks ran for {} ms in all", trace.tasks.len(), busy / 1_000_000);
/// # Ok::<(), thalweg_trace::ReadError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Trace {
    /// Facts about the run: `program`, `process`, `runtime`, `version`, `scheduler`, `configuration`, `started` (UTC,
    /// nanoseconds since 1970), `simulated` (`true` or `false`).
    pub facts: HashMap<String, String>,
    /// The compute units, by number.
    pub units: Vec<Unit>,
    /// The address spaces, by number; the first is host memory.
    pub spaces: Vec<String>,
    /// The names of threads that recorded something.
    pub threads: Vec<String>,
    /// Places in the source where tasks are submitted, with the tasks' names.
    pub sites: Vec<Site>,
    /// The data objects that dependences and copies name, by their numbers.
    pub data: HashMap<u64, Data>,
    /// The tasks.
    pub tasks: Vec<Task>,
    /// The regions that tasks access, if the trace was asked for accesses.
    pub regions: Vec<Region>,
    /// The accesses, grouped by task, if the trace was asked for them.
    pub accesses: Vec<Access>,
    /// The dependences, grouped by successor.
    pub dependences: Vec<Dependence>,
    /// The copies, by their ends.
    pub copies: Vec<Copy>,
    /// The states of threads between bodies, by their ends.
    pub states: Vec<State>,
    /// Bytes in use in each space, whenever they changed, by time.
    pub memory: Vec<Memory>,
    /// The events of tasks besides running, by time.
    pub notes: Vec<Note>,
    /// Decisions of work distributions, by time.
    pub decisions: Vec<Decision>,
    /// When the run ended; if the file ends early, the last time in it.
    pub end: u64,
    /// Why the file could not be read to its end, if it could not: everything before that is in the tables.
    pub problem: Option<String>,
}

/// A compute unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// Its kind as in configurations: `CPU`, `EMU`, `CUDA`, …
    pub kind: String,
    /// Its cores, or its devices.
    pub width: usize,
}

/// A place where tasks of a name are submitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// The tasks' name.
    pub name: String,
    /// The source file; empty if it is unknown.
    pub file: String,
    /// The line, from 1 on.
    pub line: u32,
    /// The column, from 1 on.
    pub column: u32,
}

/// A data object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Data {
    /// Its name, or `data N`.
    pub name: String,
    /// Its size.
    pub bytes: u64,
}

/// A task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// Its number in the order of submission in the runtime; numbers of internal tasks are missing.
    pub number: u64,
    /// Its position in `sites`.
    pub site: usize,
    /// The task whose body submitted it.
    pub parent: Option<usize>,
    /// When it was submitted.
    pub submitted: u64,
    /// When its last predecessor had ended, if it was placed; see [`Trace::ready`].
    pub ready: Option<u64>,
    /// When a policy chose its unit.
    pub placed: Option<u64>,
    /// When memory for its regions was reserved.
    pub reserved: Option<u64>,
    /// When its data had arrived and it was in its unit's queue.
    pub launched: Option<u64>,
    /// When its body began to run.
    pub start: Option<u64>,
    /// When its body ended.
    pub end: Option<u64>,
    /// When the task ended: later than its body if it was detached.
    pub finished: Option<u64>,
    /// The unit that ran it.
    pub unit: Option<usize>,
    /// The device that ran it.
    pub device: Option<usize>,
    /// How its body ended.
    pub outcome: Option<Outcome>,
}

/// A region of a data object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Region {
    /// The data object: a key of [`Trace::data`].
    pub data: u64,
    /// Its size.
    pub bytes: u64,
    /// Its ranges, as in `[0..10]`.
    pub text: String,
}

/// An access of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// The task.
    pub task: usize,
    /// The region, in `regions`; `None` if the program has too many to name them all.
    pub region: Option<usize>,
    /// How the task accesses it.
    pub mode: AccessMode,
}

/// A dependence between tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dependence {
    /// The predecessor.
    pub from: usize,
    /// The successor.
    pub to: usize,
    /// The data object that both access, if it is known: a key of [`Trace::data`].
    pub data: Option<u64>,
    /// Whether the successor uses a value that the predecessor wrote; otherwise it only comes later.
    pub carries_value: bool,
}

/// A copy between spaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copy {
    /// When it was ordered.
    pub start: u64,
    /// When it had arrived.
    pub end: u64,
    /// The part of this time in which it waited for other copies on its link.
    pub waited: u64,
    /// The source space.
    pub from: usize,
    /// The destination space.
    pub to: usize,
    /// The number of bytes.
    pub bytes: u64,
    /// The data object.
    pub data: u64,
    /// Whether it made room for other data; otherwise a task needed it.
    pub evicts: bool,
}

/// A state of a thread between bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    /// When it began.
    pub start: u64,
    /// When it ended.
    pub end: u64,
    /// The kind of state.
    pub kind: StateKind,
    /// The unit that it leads, if any.
    pub unit: Option<usize>,
    /// The thread, in `threads`.
    pub thread: usize,
}

/// Bytes in use in a space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// When the number changed.
    pub at: u64,
    /// The space.
    pub space: usize,
    /// The bytes in use from then on.
    pub bytes: u64,
}

/// An event of a task besides running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Note {
    /// When it happened.
    pub at: u64,
    /// The task.
    pub task: usize,
    /// The event.
    pub kind: NoteKind,
}

/// A decision of a work distribution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// When it was made.
    pub at: u64,
    /// The iteration space.
    pub space: String,
    /// The instance that the decision holds for.
    pub instance: u64,
    /// The state of the distribution's search: 0 initial, 1 probing, 2 moving the pivot, 3 balancing, 4 steady.
    pub state: u8,
    /// The number of indices that CPU units get, which are those left of the pivot.
    pub pivot: u32,
}

impl Trace {
    /// Returns the name of a task.
    pub fn name(&self, task: usize) -> &str {
        &self.sites[self.tasks[task].site].name
    }

    /// Returns for each task when it was ready to run: submitted, and its predecessors had ended.
    ///
    /// A predecessor that is not known to have ended counts as ended when the task began.
    pub fn ready(&self) -> Vec<u64> {
        let mut ready: Vec<u64> = self.tasks.iter().map(|task| task.submitted.max(task.ready.unwrap_or(0))).collect();
        for Dependence { from, to, .. } in &self.dependences {
            if let Some(end) = self.tasks[*from].finished {
                ready[*to] = ready[*to].max(end);
            }
        }
        for (ready, task) in ready.iter_mut().zip(&self.tasks) {
            // Clocks of two cores may differ by some ticks.
            *ready = (*ready).min(task.start.unwrap_or(u64::MAX));
        }
        ready
    }
}
