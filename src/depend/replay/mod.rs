//! Graphs that are submitted again and again: their edges are found once, and only their borders meet the histories.
//!
//! A recording is *frozen* ([`freeze`]): its tasks are entered, by the rules of every submission, into histories of their
//! own, which then are dropped; the edges stay ([`crate::sync::Rounds`]). A *replay* of it is one round of that graph.
//!
//! Replays come in *batches*. The first of a batch is entered into the histories of the data by one or two tasks without
//! bodies for each part of the *border* ([`border`]), under all their locks at once, as one task is. A *gate* stands where the
//! replay's last access to the part stands: it is ready when what came before has ended there, and ends with the batch, with
//! the poison of whoever wrote the part last. An *entry* before it learns whether what is read there is good. All gates are
//! ready: the first round begins. Others follow in the batch, without any registration, as long as nobody else has submitted
//! anything in between. Who knows that is the driver (`driver/replays.rs`); it also begins batches without gates, when
//! nobody is there who could notice, and has them made when somebody comes.
//!
//! What never happens here: no body is run, and nothing of a user's is dropped under a lock (it comes back as [`Aftermath`]).
//!
//! Invariants:
//! 1. One round of a graph is under way at a time, that of the oldest batch.
//! 2. Gates of a batch come after those of the batch before.

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
use crate::sync::Idle;
use parking_lot::Mutex;
use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Weak};

/// What a task without a body has to do with a replay.
pub(crate) enum Gate {
    /// It is the last of the graph.
    Last(Weak<Replays>),
    /// It learns whether a part is good before it is read.
    Entry(Arc<Replays>, u64, usize),
    /// It holds a part until the batch has ended.
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

/// Gives the parameters of one round to its tasks; what they had before is for who has no lock.
pub(crate) type Settle = Box<dyn FnOnce(&Idle<'_>) -> Box<dyn Any + Send> + Send>;

/// One replay to come.
pub(crate) struct Round {
    /// Which counters its tasks count under.
    pub(crate) lane: u8,
    pub(crate) settle: Option<Settle>,
}

/// Replays that follow each other with nothing in between.
struct Batch {
    number: u64,
    rounds: VecDeque<Round>,
    /// Entries and gates that are not ready.
    waiting: usize,
    gates: Vec<(OwnedTask, usize)>,
    /// Whether there are gates.
    is_shown: bool,
    /// Why parts are not good before the next round; empty if all are.
    poison: Poison,
}

/// A batch that has ended before all of its gates were ready: those of the batch before it had not all ended when it was
/// shown.
struct Ended {
    number: u64,
    waiting: usize,
    poison: Poison,
}

/// For each part of the border.
type Poison = Vec<Option<Arc<TaskFailure>>>;

/// A frozen graph and its replays.
pub(crate) struct Replays {
    this: Weak<Self>,
    tasks: usize,
    state: Mutex<State>,
}

struct State {
    frozen: Frozen,
    batches: VecDeque<Batch>,
    /// Those that gates are still to come of.
    ended: Vec<Ended>,
    next: u64,
    /// Whether tasks of the round before may be poisoned.
    spoilt: bool,
    /// How many failures there were when the round began.
    failures: u64,
    /// What the last batch has left.
    left: Poison,
    /// Whether the histories have something of these replays that is not good.
    is_told: bool,
    /// Whether what is left differs from what they have.
    is_owed: bool,
    /// There as long as a replay is to come.
    keep: Option<Arc<Replays>>,
}

/// What is left to do without a lock, in this order: to end joins, and to drop.
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
    /// The replays of what was frozen.
    pub(crate) fn new(freezer: Freezer) -> Arc<Self> {
        let tasks = freezer.len();
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
            Self { this: this.clone(), tasks, state: Mutex::new(state) }
        })
    }

    /// How many tasks each replay has.
    pub(crate) fn len(&self) -> usize {
        self.tasks
    }

    /// One more replay behind the last, with nothing in between; there is one. Or nobody is there who could notice any.
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

    /// A replay behind what others have submitted: enters its border.
    ///
    /// # Errors
    /// If a data object was taken; nothing is entered then.
    pub(crate) fn enter(
        self: &Arc<Self>,
        round: Round,
        failures: u64,
        ready: &mut dyn FnMut(OwnedTask),
    ) -> Result<Aftermath, SubmitError> {
        let mut state = self.state.lock();
        let number = state.next;
        let entered = border::enter(&state.frozen, self, Some(number), &Vec::new(), true)?;
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

    /// Somebody comes who has to be ordered with the replays of a batch that was begun without gates.
    pub(crate) fn show(self: &Arc<Self>) -> Aftermath {
        let mut state = self.state.lock();
        let number = match state.batches.back() {
            None => return self.pay(&mut state),
            Some(batch) if batch.is_shown => return Aftermath::default(),
            Some(batch) => batch.number,
        };
        let mut aftermath = Aftermath::default();
        // Who gives a data object's memory up has shown them before.
        let Ok(entered) = border::enter(&state.frozen, self, Some(number), &Vec::new(), false) else {
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

    /// All replays have ended: lets the histories know of what is not good, or is good again.
    fn pay(self: &Arc<Self>, state: &mut State) -> Aftermath {
        let poison = std::mem::take(&mut state.left);
        if !std::mem::take(&mut state.is_owed) {
            return Aftermath::default();
        }
        let Ok(mut entered) = border::enter(&state.frozen, self, None, &poison, false) else {
            return Aftermath::default();
        };
        entered.joins.append(&mut entered.ready);
        Aftermath { joins: entered.joins, ..Aftermath::default() }
    }

    /// An entry or a gate is ready.
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

    /// Begins the next round if it can begin.
    fn begin(&self, state: &mut State, failures: u64, ready: &mut dyn FnMut(OwnedTask)) -> Aftermath {
        let mut aftermath = Aftermath::default();
        let State { frozen, batches, spoilt, .. } = state;
        let Some(Batch { rounds, waiting: 0, poison, .. }) = batches.front_mut() else { return aftermath };
        let Some(round) = rounds.front_mut() else { return aftermath };
        if frozen.rounds.idle().is_none() {
            return aftermath;
        }
        if std::mem::take(spoilt) {
            // Who looks for a circle of bodies that wait refers to tasks for a moment.
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

    /// The last task of a round is owned: the round has ended.
    pub(crate) fn ended(&self, last: OwnedTask, failures: u64, ready: &mut dyn FnMut(OwnedTask)) -> Aftermath {
        let mut state = self.state.lock();
        let mut aftermath = Aftermath::default();
        {
            let State { frozen, batches, ended, spoilt, failures: before, left, is_told, is_owed, .. } = &mut *state;
            frozen.rounds.end(last);
            let batch = batches.front_mut().expect("a round is one of a batch");
            batch.rounds.pop_front();
            *spoilt |= failures != *before;
            if *spoilt {
                frozen.outcome(&mut batch.poison);
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
                // Where there were no gates, whoever comes next lets the histories know.
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

    /// A gate of a batch that has ended before: it ends with what that has left.
    fn note_late(&mut self, number: u64, part: usize, task: OwnedTask, aftermath: &mut Aftermath) {
        let at = self.ended.iter().position(|ended| ended.number == number);
        let at = at.expect("a batch is known as long as gates of it are to come");
        end_gate(task, part, &self.ended[at].poison, aftermath);
        self.ended[at].waiting -= 1;
        if self.ended[at].waiting == 0 {
            self.ended.swap_remove(at);
        }
    }
}

/// Ends a gate, with what is not good at its part.
fn end_gate(gate: OwnedTask, part: usize, poison: &Poison, aftermath: &mut Aftermath) {
    if let Some(Some(cause)) = poison.get(part) {
        gate.set_poison(cause.clone());
    }
    aftermath.joins.push(gate);
}

impl Aftermath {
    /// Adds what another step has left.
    pub(crate) fn add(&mut self, other: Self) {
        self.joins.extend(other.joins);
        self.garbage.extend(other.garbage);
        self.done = self.done.take().or(other.done);
    }

    /// Adds what is to be dropped.
    pub(crate) fn drop_later(&mut self, garbage: impl Any + Send) {
        self.garbage.push(Box::new(garbage));
    }
}

/// The replays of a graph whose round has ended by that this task is owned.
pub(crate) fn replays_at_end(task: &OwnedTask) -> Option<Arc<Replays>> {
    match task.owned().side.as_ref().and_then(|side| side.gate.as_ref())? {
        Gate::Last(replays) => Some(replays.upgrade().expect("a graph is kept as long as a round is under way")),
        Gate::Entry(..) | Gate::Border(..) => None,
    }
}
