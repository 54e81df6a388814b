//! In-memory representation of a trace: tables of events, with all times in nanoseconds since the runtime was
//! built.

pub use crate::record::{
    Between as StateKind, Dropped as DropReason, End as Outcome, Happened as NoteKind, Mode as AccessMode,
};
use std::collections::HashMap;

/// The trace of a run.
///
/// Tasks are in order of submission, and every other table refers to a task by its position in `tasks`.
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
    /// The compute units, indexed by unit number.
    pub units: Vec<Unit>,
    /// The names of the address spaces, indexed by space number. The first one is host memory.
    pub spaces: Vec<String>,
    /// The names of the policies that placed tasks, indexed by policy number.
    pub policies: Vec<String>,
    /// The names of threads that recorded something.
    pub threads: Vec<String>,
    /// The source locations where tasks are submitted, with the tasks' names.
    pub sites: Vec<Site>,
    /// The data objects that dependences and copies refer to, keyed by ID.
    pub data: HashMap<u64, Data>,
    /// The tasks.
    pub tasks: Vec<Task>,
    /// The regions that tasks access; empty unless the recording of accesses was enabled.
    pub regions: Vec<Region>,
    /// The accesses, grouped by task; empty unless the recording of accesses was enabled.
    pub accesses: Vec<Access>,
    /// The dependences, grouped by successor.
    pub dependences: Vec<Dependence>,
    /// The copies, in order of their ends.
    pub copies: Vec<Copy>,
    /// The states of threads between bodies, in order of their ends.
    pub states: Vec<State>,
    /// The replicas that were dropped, in order of time.
    pub drops: Vec<Drop>,
    /// The bytes in use in each space: one entry per change, in order of time.
    pub memory: Vec<Memory>,
    /// Events of tasks other than running, in order of time.
    pub notes: Vec<Note>,
    /// Decisions of work distributions, in order of time.
    pub decisions: Vec<Decision>,
    /// When the run ended. If the file ends early, the last time that occurs in it.
    pub end: u64,
    /// Why the file could not be read to its end; `None` if it could. Everything before the problem is in the
    /// tables.
    pub problem: Option<String>,
}

/// A compute unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// The unit's kind, as written in configurations: `CPU`, `EMU`, `CUDA`, …
    pub kind: String,
    /// The number of cores or devices in the unit.
    pub width: usize,
}

/// A source location where tasks of one name are submitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// The tasks' name.
    pub name: String,
    /// The source file; empty if it is unknown.
    pub file: String,
    /// The line, counting from 1.
    pub line: u32,
    /// The column, counting from 1.
    pub column: u32,
}

/// A data object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Data {
    /// The object's name; `data N` if the program did not name it.
    pub name: String,
    /// Its size.
    pub bytes: u64,
}

/// A task.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Task {
    /// The task's number in the runtime's order of submission. Numbers of internal tasks do not occur.
    pub number: u64,
    /// Index of the task's site in `sites`.
    pub site: usize,
    /// The task whose body submitted this task; `None` if the program did.
    pub parent: Option<usize>,
    /// When the task was submitted.
    pub submitted: u64,
    /// The thread that submitted the task, as an index in `threads`.
    pub submitter: Option<usize>,
    /// When the task's last predecessor had ended; `None` if no policy placed the task. See [`Trace::ready`].
    pub ready: Option<u64>,
    /// When the task's unit was chosen.
    pub placed: Option<u64>,
    /// The policy that chose the unit, as an index in `policies`; `None` if no policy did.
    pub policy: Option<usize>,
    /// The duration that the policy expected of the task's body on the chosen unit.
    pub expected: Option<u64>,
    /// The time from the policy's decision to the body's end, as the policy expected it. Policies decide when the task
    /// becomes ready.
    pub expected_end: Option<u64>,
    /// When memory for the task's regions was reserved.
    pub reserved: Option<u64>,
    /// When the task's data had arrived and the task entered its unit's queue.
    pub launched: Option<u64>,
    /// When the task's body began to run; on an accelerator, when the device began the task's work.
    pub start: Option<u64>,
    /// When the task's body ended; on an accelerator, when the device ended the task's work.
    pub end: Option<u64>,
    /// When the task ended, which is later than its body's end if the task was detached.
    pub finished: Option<u64>,
    /// The unit that ran the task.
    pub unit: Option<usize>,
    /// The device that ran the task.
    pub device: Option<usize>,
    /// The stream of the device in which the task ran; `None` if the device has no streams.
    pub stream: Option<usize>,
    /// How the task's body ended.
    pub outcome: Option<Outcome>,
}

/// A region of a data object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Region {
    /// The data object: a key of [`Trace::data`].
    pub data: u64,
    /// Its size.
    pub bytes: u64,
    /// The region's ranges, for example `[0..10]`.
    pub text: String,
}

/// An access by a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// The task.
    pub task: usize,
    /// Index of the region in `regions`; `None` if the program has too many regions to record them all.
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
    /// The data object that both tasks access, as a key of [`Trace::data`]; `None` if it is unknown.
    pub data: Option<u64>,
    /// Whether the successor uses a value that the predecessor wrote. Otherwise the dependence only orders the two
    /// tasks.
    pub carries_value: bool,
}

/// A copy between spaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copy {
    /// When the copy was ordered.
    pub start: u64,
    /// When the copied data had arrived.
    pub end: u64,
    /// The part of the time from `start` to `end` in which the copy waited for other copies on its link, or for its
    /// device.
    pub waited: u64,
    /// The source space.
    pub from: usize,
    /// The destination space.
    pub to: usize,
    /// The number of bytes.
    pub bytes: u64,
    /// The data object.
    pub data: u64,
    /// The task that waited for the copy; `None` if only the runtime did. If there were several, the first.
    pub task: Option<usize>,
    /// Whether the copy made room for other data. Otherwise a task needed the data.
    pub evicts: bool,
    /// The stream of the device that made the copy; `None` if it is unknown.
    pub stream: Option<usize>,
}

/// A replica that was dropped, so that its memory can be used for other data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drop {
    /// When it was dropped.
    pub at: u64,
    /// The space.
    pub space: usize,
    /// The number of bytes of the replica.
    pub bytes: u64,
    /// The data object.
    pub data: u64,
    /// The reason.
    pub why: DropReason,
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
    /// The unit that the thread leads, if any.
    pub unit: Option<usize>,
    /// Index of the thread in `threads`.
    pub thread: usize,
}

/// Bytes in use in a space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// When the number of bytes changed.
    pub at: u64,
    /// The space.
    pub space: usize,
    /// The bytes in use from then on.
    pub bytes: u64,
}

/// An event in the life of a task other than running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Note {
    /// When the event happened.
    pub at: u64,
    /// The task.
    pub task: usize,
    /// The event.
    pub kind: NoteKind,
}

/// A decision of a work distribution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// When the decision was made.
    pub at: u64,
    /// The iteration space.
    pub space: String,
    /// The instance to which the decision applies.
    pub instance: u64,
    /// The state of the distribution's search: 0 initial, 1 probing, 2 moving the pivot, 3 balancing, 4 steady.
    pub state: u8,
    /// The number of indices that CPU units get, which are those left of the pivot.
    pub pivot: u32,
}

impl Trace {
    /// Puts the tables that are ordered by time into this order.
    pub fn sort_by_time(&mut self) {
        self.copies.sort_by_key(|copy| copy.end);
        self.states.sort_by_key(|state| state.end);
        self.memory.sort_by_key(|memory| memory.at);
        self.drops.sort_by_key(|drop| drop.at);
        self.notes.sort_by_key(|note| note.at);
        self.decisions.sort_by_key(|decision| decision.at);
    }

    /// Returns the name of a task.
    pub fn name(&self, task: usize) -> &str {
        &self.sites[self.tasks[task].site].name
    }

    /// Returns, for each task, the time when it became ready to run: it was submitted and all its predecessors had
    /// ended.
    ///
    /// A predecessor whose end is unknown counts as having ended when the task began.
    pub fn ready(&self) -> Vec<u64> {
        let mut ready: Vec<u64> = self.tasks.iter().map(|task| task.submitted.max(task.ready.unwrap_or(0))).collect();
        for Dependence { from, to, .. } in &self.dependences {
            if let Some(end) = self.tasks[*from].finished {
                ready[*to] = ready[*to].max(end);
            }
        }
        for (ready, task) in ready.iter_mut().zip(&self.tasks) {
            // The clocks of two cores may differ by a few ticks, so a task could seem to start before it was ready.
            *ready = (*ready).min(task.start.unwrap_or(u64::MAX));
        }
        ready
    }
}
