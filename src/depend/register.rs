//! Entering one task's accesses into the histories of its data.

use super::graph::Recorder;
use super::history::History;
use super::reduction::Ticket;
use super::{AccessRecord, Datum, Submitting, TaskRef};
use crate::error::SubmitError;
use crate::sync::{Flow, LockGuard};
use arrayvec::ArrayVec;

/// The most accesses that a task can declare.
pub(crate) const MOST_ACCESSES: usize = 12;

/// How many predecessors are remembered to leave out repeated edges.
const REMEMBER: usize = 8;

type Guard<'a> = LockGuard<'a, History>;

/// Finds the predecessors of `task`, which declares `accesses`, and makes it wait for those that have not finished.
///
/// All locks are held until the last access is entered (invariant 1 of [`super`]).
///
/// # Errors
/// If a data was taken meanwhile; nothing was entered then. This is where it is decided who comes before a take and who
/// after: a task that gives a data's memory up marks it under the same lock.
#[inline]
pub(crate) fn register(
    task: &mut Submitting,
    accesses: &[AccessRecord<'_>],
    recorder: Option<&Recorder>,
) -> Result<(), SubmitError> {
    let mut newcomer = Newcomer { task, seen: [0; REMEMBER], latest: 0, num_seen: 0, recorder };
    match accesses {
        [] => {}
        [one] => {
            let mut history = one.datum.history.lock();
            newcomer.admit(one.datum)?;
            history.enter(0, one, &mut newcomer);
        }
        several => newcomer.enter_all(several)?,
    }
    if let Some(side) = newcomer.task.owned_mut() {
        side.tickets.reverse(); // they are used from the end, and turns of one lane must be taken in their order
    }
    Ok(())
}

/// A predecessor's address with the edge's flow in the lowest bit.
#[inline]
fn seen(address: usize, flow: Flow) -> usize {
    address | usize::from(flow == Flow::Value)
}

#[cold]
fn taken(task: &Submitting, datum: &Datum) -> SubmitError {
    SubmitError::Taken { task: task.shared().name.clone().into_owned(), data: datum.to_string() }
}

/// The task that is being entered.
pub(super) struct Newcomer<'a> {
    task: &'a mut Submitting,
    /// Predecessors that the newcomer waits for already, as [`seen`] gives them.
    seen: [usize; REMEMBER],
    /// The predecessor met last, as [`seen`] gives it.
    latest: usize,
    num_seen: usize,
    recorder: Option<&'a Recorder>,
}

impl Newcomer<'_> {
    /// Enters several accesses, data by data in the order of their addresses.
    fn enter_all(&mut self, accesses: &[AccessRecord<'_>]) -> Result<(), SubmitError> {
        let address = |i: usize| std::ptr::from_ref(accesses[i].datum).addr();
        let mut order = [0; MOST_ACCESSES];
        let order = &mut order[..accesses.len()];
        for i in 1..accesses.len() {
            let mut at = i;
            while at > 0 && address(order[at - 1]) > address(i) {
                order[at] = order[at - 1];
                at -= 1;
            }
            order[at] = i;
        }
        let mut guards: ArrayVec<Guard<'_>, MOST_ACCESSES> = ArrayVec::new();
        let mut previous = 0;
        for &i in &*order {
            if address(i) != previous {
                previous = address(i);
                guards.push(accesses[i].datum.history.lock());
                self.admit(accesses[i].datum)?;
            }
        }
        let (mut guard, mut previous) = (0, address(order[0]));
        for &i in &*order {
            guard += usize::from(address(i) != previous);
            previous = address(i);
            guards[guard].enter(i, &accesses[i], self);
        }
        Ok(())
    }

    /// Refuses data that is taken, and takes it if that is what the newcomer is for. Its history is locked.
    #[inline]
    fn admit(&mut self, datum: &Datum) -> Result<(), SubmitError> {
        if datum.is_taken() {
            return Err(taken(self.task, datum));
        }
        if let Some(side) = self.task.owned_mut()
            && side.forget == Some(datum.id)
        {
            datum.set_taken(true);
        }
        Ok(())
    }

    /// The newcomer waits for `predecessor`, unless that has finished or is the newcomer itself.
    #[inline]
    pub(super) fn wait_for(&mut self, predecessor: &TaskRef, flow: Flow) {
        let this = seen(predecessor.address(), flow);
        if self.latest == this {
            return; // neighbouring parts often have the same history
        }
        self.latest = this;
        if self.recorder.is_none() && predecessor.is_finished() {
            self.inherit(predecessor, flow);
        } else {
            self.wait_for_unfinished(predecessor, flow);
        }
    }

    fn wait_for_unfinished(&mut self, predecessor: &TaskRef, flow: Flow) {
        let address = predecessor.address();
        if address == self.task.address() {
            return;
        }
        let (value, this) = (seen(address, Flow::Value), seen(address, flow));
        if self.seen[..self.num_seen].iter().any(|&seen| seen == value || seen == this) {
            return;
        }
        if self.num_seen < REMEMBER {
            self.seen[self.num_seen] = this;
            self.num_seen += 1;
        }
        if let Some(recorder) = self.recorder {
            recorder.edge(predecessor.shared().id, self.task.shared().id, flow);
        }
        if self.task.wait_for(predecessor, flow).is_err() {
            self.inherit(predecessor, flow);
        }
    }

    /// Takes over the poison of a finished predecessor whose value the newcomer uses.
    #[inline]
    fn inherit(&mut self, predecessor: &TaskRef, flow: Flow) {
        if flow == Flow::Value
            && let Some(cause) = predecessor.poison()
        {
            self.task.set_poison(cause);
        }
    }

    /// Whether finished tasks must be kept: the recorded graph shows them too.
    pub(super) fn keeps_finished(&self) -> bool {
        self.recorder.is_some()
    }

    /// Keeps a ticket until the newcomer has run.
    #[cold]
    pub(super) fn keep(&mut self, ticket: Ticket) {
        self.task.owned_mut().get_or_insert_default().tickets.push(ticket);
    }

    /// A reference to leave behind.
    #[inline]
    pub(super) fn share(&mut self) -> TaskRef {
        self.task.share()
    }
}
