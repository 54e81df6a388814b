//! Graphs that are submitted repeatedly: their edges are determined once, and only their borders are entered into the
//! histories.
//!
//! A recording is *frozen* ([`freeze`]): its tasks are entered into separate histories by the usual rules. The separate
//! histories are then dropped, and the resulting edges are kept ([`crate::sync::Rounds`]). A *replay* of the recording
//! is one round of that graph.
//!
//! Replays come in *batches*. The first replay of a batch is entered into the data objects' histories as one or two
//! bodiless tasks per part of the *border* ([`border`]), while all the histories are locked together, just as for a
//! single task. A *gate* takes the place of the replay's last access to the part: the gate is ready when earlier tasks
//! have ended at the part, and ends with the batch, carrying the poison of the part's last writer. An *entry* before
//! the gate detects whether the contents that the graph reads there are good. When all gates are ready, the first round
//! begins. More rounds follow in the batch without any registration, as long as no other task is submitted in between.
//! The driver detects intervening submissions (`driver/replays.rs`). It also begins batches without gates as long as no
//! other submitter could notice the difference, and has the gates entered as soon as another submitter appears.
//!
//! A *loop* is a replay of several rounds. When one of them has ended, the driver decides whether another one follows
//! ([`Again`]). A round with a failure is the last one, and leaves all parts bad that the graph writes, because the
//! rounds that did not happen would have written them.
//!
//! A task of a round ends after its children, and its body can wait only for its descendants.
//!
//! This module never runs a body, and never drops a user's value under a lock; it returns such values to the caller as
//! [`Aftermath`].
//!
//! Invariants:
//! 1. At most one round of a graph is under way at a time, and it belongs to the oldest batch.
//! 2. The gates of a batch come after the gates of the previous batch.

mod border;
mod freeze;
mod fringe;
#[cfg(test)]
mod tests;

pub(crate) use freeze::{Freezer, Keeps};
pub(crate) use fringe::Fringe;

use self::freeze::Frozen;

use super::OwnedTask;
use crate::error::{SubmitError, TaskFailure};
use crate::ids::TaskId;
use crate::sync::Idle;
use crate::trace::Tracer;
use parking_lot::Mutex;
use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Weak};

/// Role that a bodiless task plays in a replay.
pub(crate) enum Gate {
    /// The last task of the graph.
    Last(Weak<Replays>),
    /// Detects whether a part is good before the graph reads the part.
    Entry(Arc<Replays>, u64, usize),
    /// Holds a part until the batch has ended.
    Border(Arc<Replays>, u64, usize),
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Last(_) => f.write_str("Last"),
            Self::Entry(_, batch, part) => write!(f, "Entry({batch}, {part})"),
            Self::Border(_, batch, part) => write!(f, "Border({batch}, {part})"),
        }
    }
}

/// Gives the parameters of one round to its tasks. Returns the previous round's parameters, which must be dropped
/// without holding a lock.
pub(crate) type Settle = Box<dyn FnOnce(&Idle<'_>) -> Box<dyn Any + Send> + Send>;

/// Decides after a round of a loop whether another round follows, and describes that round. Gets `None` if a task of
/// the round has failed or was skipped, in which case no round follows.
pub(crate) type Again = Box<dyn FnMut(Option<&Idle<'_>>) -> Option<Round> + Send>;

/// A replay that has yet to run or is running, or an iteration of a loop.
pub(crate) struct Round {
    /// The driver's counter under which the replay's tasks are counted.
    pub(crate) lane: u8,
    /// The ID of the replay's first task.
    pub(crate) first: TaskId,
    pub(crate) settle: Option<Settle>,
    /// Present if the replay is a loop.
    pub(crate) again: Option<Again>,
}

/// Consecutive replays with no other submission in between.
struct Batch {
    number: u64,
    rounds: VecDeque<Round>,
    /// Number of entries and gates that are not ready.
    waiting: usize,
    gates: Vec<(OwnedTask, usize)>,
    /// Whether the batch's gates have been entered into the histories.
    is_shown: bool,
    /// For each part, why it is bad before the next round; empty if all parts are good.
    poison: Poison,
}

/// A batch that has ended before all of its gates were ready. This happens if gates of the previous batch had not all
/// ended when this batch's gates were entered.
struct Ended {
    number: u64,
    waiting: usize,
    poison: Poison,
}

/// For each part of the border, the failure that made it bad; `None` if the part is good.
type Poison = Vec<Option<Arc<TaskFailure>>>;

/// A frozen graph and its replays.
pub(crate) struct Replays {
    this: Weak<Self>,
    /// ID of the first task of the graph.
    first: TaskId,
    tasks: usize,
    tracer: Option<Arc<Tracer>>,
    state: Mutex<State>,
}

struct State {
    frozen: Frozen,
    batches: VecDeque<Batch>,
    /// Ended batches, some of whose gates are not ready yet.
    ended: Vec<Ended>,
    next: u64,
    /// Whether tasks of the previous round may be poisoned.
    spoilt: bool,
    /// Number of failures when the current round began.
    failures: u64,
    /// The poison that the last batch left in each part.
    left: Poison,
    /// Whether the histories contain poison from these replays.
    is_told: bool,
    /// Whether the histories still have to be updated to reflect `left`.
    is_owed: bool,
    /// A self-reference that keeps the graph alive as long as there are replays to run.
    keep: Option<Arc<Replays>>,
}

/// Work left to the caller after the lock has been released: first finish the joins, then drop everything else.
#[derive(Default)]
pub(crate) struct Aftermath {
    pub(crate) joins: Vec<OwnedTask>,
    garbage: Vec<Box<dyn Any + Send>>,
    done: Option<Arc<Replays>>,
}

impl fmt::Debug for Aftermath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Aftermath").field("joins", &self.joins.len()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Replays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replays").field("tasks", &self.tasks).finish_non_exhaustive()
    }
}

impl Replays {
    /// Makes the replays of a frozen graph.
    pub(crate) fn new(freezer: Freezer) -> Arc<Self> {
        let (first, tasks, tracer) = (freezer.first(), freezer.len(), freezer.tracer());
        Arc::new_cyclic(|this: &Weak<Self>| {
            let frozen = freezer.close(Gate::Last(this.clone()));
            let state = State {
                frozen,
                batches: VecDeque::new(),
                ended: Vec::new(),
                next: 0,
                spoilt: false,
                failures: 0,
                left: Vec::new(),
                is_told: false,
                is_owed: false,
                keep: None,
            };
            Self { this: this.clone(), first, tasks, tracer, state: Mutex::new(state) }
        })
    }

    /// The ID of the first task of the graph, under which all replays run it.
    pub(crate) fn first(&self) -> TaskId {
        self.first
    }

    /// The number of tasks of each replay.
    pub(crate) fn len(&self) -> usize {
        self.tasks
    }

    /// Adds a replay directly after the last one, with no submission in between. If there is no batch, the caller must
    /// ensure that no other submitter could notice the replay.
    pub(crate) fn follow(&self, round: Round, failures: u64, ready: &mut dyn FnMut(OwnedTask)) -> Aftermath {
        let mut state = self.state.lock();
        match state.batches.back_mut() {
            Some(batch) => batch.rounds.push_back(round),
            None => {
                let poison = std::mem::take(&mut state.left);
                let number = state.next;
                state.next += 1;
                let rounds = VecDeque::from([round]);
                state.batches.push_back(Batch {
                    number,
                    rounds,
                    waiting: 0,
                    gates: Vec::new(),
                    is_shown: false,
                    poison,
                });
            }
        }
        self.begin(&mut state, failures, ready)
    }

    /// Adds a replay after other submissions by entering its border into the histories.
    ///
    /// # Errors
    /// Returns an error if a data object was taken; in that case nothing is entered.
    pub(crate) fn enter(
        self: &Arc<Self>,
        round: Round,
        failures: u64,
        ready: &mut dyn FnMut(OwnedTask),
    ) -> Result<Aftermath, SubmitError> {
        let mut state = self.state.lock();
        let number = state.next;
        let log = self.tracer.as_ref().map(|tracer| (tracer, round.first));
        let entered = border::enter(&state.frozen, self, Some(number), &Vec::new(), true, log)?;
        state.next += 1;
        state.left.clear();
        (state.is_told, state.is_owed) = (false, false);
        let batch = Batch {
            number,
            rounds: VecDeque::from([round]),
            waiting: entered.tasks,
            gates: Vec::new(),
            is_shown: true,
            poison: Vec::new(),
        };
        state.batches.push_back(batch);
        let mut aftermath = Aftermath { joins: entered.joins, ..Aftermath::default() };
        state.note_all(entered.ready, &mut aftermath);
        let begun = self.begin(&mut state, failures, ready);
        aftermath.add(begun);
        Ok(aftermath)
    }

    /// Enters the gates of a batch that was begun without gates. Called before a task is submitted that must be ordered
    /// with the batch's replays.
    pub(crate) fn show(self: &Arc<Self>) -> Aftermath {
        let mut state = self.state.lock();
        let number = match state.batches.back() {
            None => return self.pay(&mut state),
            Some(batch) if batch.is_shown => return Aftermath::default(),
            Some(batch) => batch.number,
        };
        let last = state.batches.back().and_then(|batch| batch.rounds.back()).map(|round| round.first);
        let mut aftermath = Aftermath::default();
        let log = self.tracer.as_ref().zip(last);
        // This fails only if a data object was taken, but a task that takes one has had the gates entered beforehand.
        let Ok(entered) = border::enter(&state.frozen, self, Some(number), &Vec::new(), false, log) else {
            return aftermath;
        };
        aftermath.joins = entered.joins;
        if let Some(batch) = state.batches.back_mut() {
            batch.waiting += entered.tasks;
            batch.is_shown = true;
        }
        state.note_all(entered.ready, &mut aftermath);
        aftermath
    }

    /// Records in the histories which parts are bad and which are good again. Called after all replays have ended.
    fn pay(self: &Arc<Self>, state: &mut State) -> Aftermath {
        let poison = std::mem::take(&mut state.left);
        if !std::mem::take(&mut state.is_owed) {
            return Aftermath::default();
        }
        let Ok(mut entered) = border::enter(&state.frozen, self, None, &poison, false, None) else {
            return Aftermath::default();
        };
        entered.joins.append(&mut entered.ready);
        Aftermath { joins: entered.joins, ..Aftermath::default() }
    }

    /// Called when an entry or a gate is ready.
    pub(crate) fn arrived(gate: &Gate, task: OwnedTask, failures: u64, ready: &mut dyn FnMut(OwnedTask)) -> Aftermath {
        let (Gate::Entry(replays, ..) | Gate::Border(replays, ..)) = gate else {
            unreachable!("the last task of a round is at no border")
        };
        let mut state = replays.state.lock();
        let mut aftermath = Aftermath::default();
        state.note(gate, task, &mut aftermath);
        let begun = replays.begin(&mut state, failures, ready);
        aftermath.add(begun);
        aftermath
    }

    /// Begins the next round if possible.
    fn begin(&self, state: &mut State, failures: u64, ready: &mut dyn FnMut(OwnedTask)) -> Aftermath {
        let mut aftermath = Aftermath::default();
        let State { frozen, batches, spoilt, .. } = state;
        let Some(Batch { rounds, waiting: 0, poison, .. }) = batches.front_mut() else { return aftermath };
        let Some(round) = rounds.front_mut() else { return aftermath };
        if frozen.rounds.idle().is_none() {
            return aftermath;
        }
        if std::mem::take(spoilt) {
            // This fails while a thread that searches for a deadlock among waiting bodies holds a temporary reference
            // to a task.
            while !frozen.rounds.absolve() {
                std::thread::yield_now();
            }
        }
        if let (Some(settle), Some(idle)) = (round.settle.take(), frozen.rounds.idle()) {
            aftermath.garbage.push(settle(&idle));
        }
        for (part, cause) in poison.iter().enumerate() {
            let Some(cause) = cause else { continue };
            *spoilt = true;
            frozen.readers(part).for_each(|task| task.set_poison(cause.clone()));
        }
        frozen.queue_again();
        let lane = round.lane;
        frozen.rounds.begin(|root| {
            root.shared().lane.set(lane);
            ready(root);
        });
        (state.failures, state.keep) = (failures, self.this.upgrade());
        aftermath
    }

    /// Ends a round whose last task, `last`, is owned by the caller.
    pub(crate) fn ended(&self, last: OwnedTask, failures: u64, ready: &mut dyn FnMut(OwnedTask)) -> Aftermath {
        let mut state = self.state.lock();
        let mut aftermath = Aftermath::default();
        {
            let State { frozen, batches, ended, spoilt, failures: before, left, is_told, is_owed, .. } = &mut *state;
            frozen.rounds.end(last);
            let batch = batches.front_mut().expect("every round belongs to a batch");
            let round = batch.rounds.pop_front();
            *spoilt |= failures != *before;
            if *spoilt {
                frozen.outcome(&mut batch.poison);
            }
            if let Some(mut again) = round.and_then(|round| round.again) {
                let failure = if *spoilt { frozen.failure(self.tasks) } else { None };
                failure.iter().for_each(|cause| frozen.spoil(&mut batch.poison, cause));
                match again(frozen.rounds.idle().filter(|_| failure.is_none()).as_ref()) {
                    Some(next) => batch.rounds.push_front(Round { again: Some(again), ..next }),
                    None => aftermath.drop_later(again),
                }
            }
            if batch.rounds.is_empty() {
                let batch = batches.pop_front();
                let Some(Batch { number, gates, waiting, poison, is_shown, .. }) = batch else {
                    unreachable!("it was there")
                };
                for (gate, part) in gates {
                    end_gate(gate, part, &poison, &mut aftermath);
                }
                if waiting > 0 {
                    ended.push(Ended { number, waiting, poison: poison.clone() });
                }
                *left = if poison.iter().all(Option::is_none) { Vec::new() } else { poison };
                // If there were no gates, the histories are updated before the next task is submitted.
                match is_shown {
                    true => (*is_told, *is_owed) = (!left.is_empty(), false),
                    false => *is_owed = *is_told || !left.is_empty(),
                }
            }
        }
        if state.batches.is_empty() {
            aftermath.done = state.keep.take();
        }
        let begun = self.begin(&mut state, failures, ready);
        aftermath.add(begun);
        aftermath
    }
}

impl State {
    fn note_all(&mut self, gates: Vec<OwnedTask>, aftermath: &mut Aftermath) {
        for mut task in gates {
            match task.owned_mut().as_mut().and_then(|side| side.gate.take()) {
                None => aftermath.joins.push(task),
                Some(gate) => {
                    self.note(&gate, task, aftermath);
                    aftermath.drop_later(gate);
                }
            }
        }
    }

    fn note(&mut self, gate: &Gate, task: OwnedTask, aftermath: &mut Aftermath) {
        let parts = self.frozen.parts();
        let (Gate::Entry(_, number, part) | Gate::Border(_, number, part)) = gate else { return };
        let Some(batch) = self.batches.iter_mut().find(|batch| batch.number == *number) else {
            return self.note_late(*number, *part, task, aftermath);
        };
        batch.waiting -= 1;
        if let Some(cause) = task.poison() {
            batch.poison.resize(parts, None);
            batch.poison[*part] = Some(cause);
        }
        match gate {
            Gate::Border(..) => batch.gates.push((task, *part)),
            _ => aftermath.joins.push(task),
        }
    }

    /// Ends a gate that became ready only after its batch had ended, with the poison that the batch left.
    fn note_late(&mut self, number: u64, part: usize, task: OwnedTask, aftermath: &mut Aftermath) {
        let at = self.ended.iter().position(|ended| ended.number == number);
        let at = at.expect("an ended batch is kept until all its gates have come");
        end_gate(task, part, &self.ended[at].poison, aftermath);
        self.ended[at].waiting -= 1;
        if self.ended[at].waiting == 0 {
            self.ended.swap_remove(at);
        }
    }
}

/// Ends a gate, with the poison of its part.
fn end_gate(gate: OwnedTask, part: usize, poison: &Poison, aftermath: &mut Aftermath) {
    if let Some(Some(cause)) = poison.get(part) {
        gate.set_poison(cause.clone());
    }
    aftermath.joins.push(gate);
}

impl Aftermath {
    /// Adds the work that another step has left.
    pub(crate) fn add(&mut self, other: Self) {
        self.joins.extend(other.joins);
        self.garbage.extend(other.garbage);
        self.done = self.done.take().or(other.done);
    }

    /// Adds a value to be dropped.
    pub(crate) fn drop_later(&mut self, garbage: impl Any + Send) {
        self.garbage.push(Box::new(garbage));
    }
}

impl Replays {
    /// Calls `see`, under the lock, with each ready gate that waits for the end of its batch. If another thread holds
    /// the lock, no gate is visited, because that thread may itself be waiting for the caller to drop its task
    /// references.
    pub(super) fn visit(&self, see: &mut dyn FnMut(&OwnedTask)) {
        if let Some(state) = self.state.try_lock() {
            state.batches.iter().flat_map(|batch| &batch.gates).for_each(|(gate, _)| see(gate));
        }
    }
}

impl Gate {
    /// Returns the replays of the graph whose round ends with this task, if they still exist.
    pub(super) fn ends(&self) -> Option<Arc<Replays>> {
        match self {
            Self::Last(replays) => replays.upgrade(),
            Self::Entry(..) | Self::Border(..) => None,
        }
    }
}

/// Returns the replays of the graph whose round ends with this task.
pub(crate) fn replays_at_end(task: &OwnedTask) -> Option<Arc<Replays>> {
    match task.owned().side.as_ref().and_then(|side| side.gate.as_ref())? {
        Gate::Last(replays) => Some(replays.upgrade().expect("a graph is kept while a round is under way")),
        Gate::Entry(..) | Gate::Border(..) => None,
    }
}
