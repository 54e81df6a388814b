//! Combining the private replicas of reductions with what their region holds.
//!
//! Each reduction runs on its own replica. A task counts as finished only when its replica has been combined, therefore
//! whoever comes after the group finds the full value without a further task.
//!
//! A *lane* is where the members of one group meet at one part of a data object. At any moment one thread at most combines
//! there, without any lock: who comes meanwhile leaves its task to that thread and goes on. As a rule the order is that of
//! submission, so a sum of floating-point numbers comes out the same whatever ran where; who is early waits for its turn.
//! Where the operation allows any order nobody waits for a turn, and who finds a thread at work and another replica
//! waiting combines the two first: so there are never more replicas than threads, or so, and threads combine side by side.
//!
//! When a part is split, both halves go on with the same lane: that orders a little more than necessary and is always
//! right. Waiting always is for an earlier submission or for a thread at work, so there is no circle.
//!
//! Operations are the user's code. They may take long, panic, or submit tasks, which may join the very group.

use super::OwnedTask;
use crate::region::Block;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where one group of reductions is combined, at one part.
pub(crate) struct Lane {
    any_order: bool,
    /// How many tickets there are. Submitters take them under the lock of the data object and no other.
    issued: AtomicU64,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    /// Whose turn it is, where the order is that of submission.
    turn: u64,
    /// Whether a thread is at work: it will come back and look for more.
    combining: bool,
    waiting: BTreeMap<u64, Contribution>,
}

/// The right, and duty, to combine one part of one access at a certain turn.
#[derive(Debug)]
pub(crate) struct Ticket {
    lane: Arc<Lane>,
    number: u64,
    access: usize,
    block: Block,
}

/// One part of the replica of a task that has run.
pub(crate) struct Contribution {
    pub(crate) task: OwnedTask,
    pub(crate) access: usize,
    pub(crate) block: Block,
    number: u64,
    /// Tasks whose contribution this one holds as well.
    riders: Vec<OwnedTask>,
}

/// What can be done with contributions; carried out by whoever knows their types. No lock is held meanwhile.
///
/// Neither is called for a poisoned task: its turn passes without effect.
pub(crate) trait Combine {
    /// Combines a contribution with what the region holds.
    fn combine(&mut self, contribution: &mut Contribution);
    /// Combines the contribution `from` into `into`; both are of one group and one part.
    fn merge(&mut self, into: &mut Contribution, from: &mut Contribution);
    /// The access of this task will not be combined any more.
    fn retire(&mut self, task: &mut OwnedTask, access: usize);
    /// All the task's replicas are combined.
    fn done(&mut self, task: OwnedTask);
}

/// What to do with a contribution.
enum Step {
    /// Combine it with what the region holds, and then ask for more.
    Combine(Contribution),
    /// Combine the second into the first, and try again.
    Merge(Contribution, Contribution),
}

impl Lane {
    pub(super) fn new(any_order: bool) -> Arc<Self> {
        Arc::new(Self { any_order, issued: AtomicU64::new(0), queue: Mutex::default() })
    }

    /// A contribution is there; none if another thread will see to it.
    fn hand_in(&self, contribution: Contribution) -> Option<Step> {
        let mut queue = self.queue.lock();
        if !queue.combining && (self.any_order || contribution.number == queue.turn) {
            queue.combining = true;
            return Some(Step::Combine(contribution));
        }
        let alike = |other: &Contribution| other.block == contribution.block && !other.is_poisoned();
        if self.any_order
            && !contribution.is_poisoned()
            && let Some(other) = queue.waiting.last_entry().filter(|entry| alike(entry.get()))
        {
            let other = other.remove();
            return Some(Step::Merge(contribution, other));
        }
        queue.waiting.insert(contribution.number, contribution);
        None
    }

    /// One has been combined: the next, if there is one.
    fn next(&self) -> Option<Contribution> {
        let mut queue = self.queue.lock();
        queue.turn += 1;
        let turn = queue.turn;
        let next = match self.any_order {
            true => queue.waiting.pop_first().map(|(_, next)| next),
            false => queue.waiting.remove(&turn),
        };
        queue.combining = next.is_some();
        next
    }
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queue = self.queue.lock();
        let issued = self.issued.load(Ordering::Relaxed);
        write!(f, "Lane({issued} issued, turn {}, {} waiting)", queue.turn, queue.waiting.len())
    }
}

impl Ticket {
    pub(super) fn new(lane: Arc<Lane>, access: usize, block: Block) -> Self {
        let number = lane.issued.fetch_add(1, Ordering::Relaxed); // the data object's lock orders them
        Self { lane, number, access, block }
    }
}

impl Contribution {
    fn is_poisoned(&self) -> bool {
        self.task.is_poisoned()
    }
}

/// Hands in a task that has run, and combines what it is this thread's turn to combine.
pub(crate) fn combine_in_turn(task: OwnedTask, by: &mut impl Combine) {
    let mut moving = Vec::new();
    move_on(task, by, &mut moving);
    while let Some((ticket, task)) = moving.pop() {
        let Ticket { lane, number, access, block } = ticket;
        let mut contribution = Contribution { task, access, block, number, riders: Vec::new() };
        let mut ours = loop {
            match lane.hand_in(contribution) {
                Some(Step::Combine(ours)) => break Some(ours),
                Some(Step::Merge(mut into, mut from)) => {
                    by.merge(&mut into, &mut from);
                    let Contribution { mut task, access, mut riders, .. } = from;
                    retire_if_last(&mut task, access, by);
                    into.riders.push(task);
                    into.riders.append(&mut riders);
                    contribution = into;
                }
                None => break None,
            }
        };
        while let Some(mut contribution) = ours {
            if !contribution.is_poisoned() {
                by.combine(&mut contribution);
            }
            ours = lane.next();
            let Contribution { mut task, access, riders, .. } = contribution;
            retire_if_last(&mut task, access, by);
            move_on(task, by, &mut moving);
            riders.into_iter().for_each(|rider| move_on(rider, by, &mut moving));
        }
    }
}

/// The task goes to its next lane, if there is one.
fn move_on(mut task: OwnedTask, by: &mut impl Combine, moving: &mut Vec<(Ticket, OwnedTask)>) {
    match task.owned_mut().as_mut().and_then(|side| side.tickets.pop()) {
        Some(ticket) => {
            if task.is_poisoned() {
                by.retire(&mut task, ticket.access); // only the turn has to pass
            }
            moving.push((ticket, task));
        }
        None => by.done(task),
    }
}

/// The replica of an access is not needed any more when the last of its parts has been combined.
fn retire_if_last(task: &mut OwnedTask, access: usize, by: &mut impl Combine) {
    let next = task.owned().as_ref().and_then(|side| side.tickets.last());
    if next.is_none_or(|next| next.access != access) {
        by.retire(task, access);
    }
}
