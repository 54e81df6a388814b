//! Combining the private replicas of reductions with what their region holds.
//!
//! Each reduction runs on its own replica. A task counts as finished only when its replica has been combined, therefore
//! whoever comes after the group finds the full value without a further task.
//!
//! A *lane* is where the members of one group meet at one part of a data object. At any moment one thread at most combines
//! there, without any lock: who comes meanwhile leaves its task to that thread and goes on. As a rule the order is that of
//! submission, so a sum of floating-point numbers comes out the same whatever ran where; who is early waits for its turn.
//! A replica that waits for its turn takes memory. So a task that is ready long before its turn is *early*: it waits in the
//! lane until fewer are before it, as many as run at once, or whose replicas together are small. Otherwise a thread that takes its
//! latest task first would make all replicas before it combined one.
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
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Elements of replicas that may wait for their turn, whatever runs at once.
const FEW_ELEMENTS: usize = 1 << 20;

/// Where one group of reductions is combined, at one part.
pub(crate) struct Lane {
    any_order: bool,
    /// So many turns ahead of its own a task is early, unless more run at once.
    ahead: u64,
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
    /// Tasks that are ready, and which of their tickets, counted from the first to be used, they wait to be let in for.
    early: BTreeMap<u64, (OwnedTask, usize)>,
}

/// Of one task; most have one.
pub(super) type Tickets = SmallVec<[Ticket; 1]>;

/// The right, and duty, to combine one part of one access at a certain turn.
#[derive(Debug, Clone)]
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
    /// How many tasks run at once.
    fn width(&self) -> usize;
    /// A task that was early is early no more.
    fn admitted(&mut self, task: OwnedTask);
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
    /// That of a group that begins at a part of so many elements.
    pub(super) fn new(any_order: bool, elements: usize) -> Arc<Self> {
        let ahead = (FEW_ELEMENTS / elements.max(1)) as u64;
        Arc::new(Self { any_order, ahead, issued: AtomicU64::new(0), queue: Mutex::default() })
    }

    /// It is the first one's turn again. Nobody is at work here.
    fn begin_anew(&self) {
        let mut queue = self.queue.lock();
        debug_assert!(queue.waiting.is_empty() && queue.early.is_empty() && !queue.combining);
        queue.turn = 0;
    }

    /// Whether the turn with this number is so far ahead that who has it is early.
    fn is_early(&self, number: u64, turn: u64, width: usize) -> bool {
        number >= turn + self.ahead.max(width as u64)
    }

    /// Gives a ready task back that is not early; else it waits inside.
    fn let_in(&self, number: u64, ticket: usize, task: OwnedTask, width: usize) -> Option<OwnedTask> {
        let mut queue = self.queue.lock();
        if !self.is_early(number, queue.turn, width) {
            return Some(task);
        }
        queue.early.insert(number, (task, ticket));
        None
    }

    /// One who is not early any more.
    fn next_let_in(&self, width: usize) -> Option<(OwnedTask, usize)> {
        let mut queue = self.queue.lock();
        let turn = queue.turn;
        let first = queue.early.first_entry()?;
        (!self.is_early(*first.key(), turn, width)).then(|| first.remove())
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
            // Nobody is early.
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
        let (turn, waiting, early) = (queue.turn, queue.waiting.len(), queue.early.len());
        write!(f, "Lane({issued} issued, turn {turn}, {waiting} waiting, {early} early)")
    }
}

impl Ticket {
    pub(super) fn new(lane: Arc<Lane>, access: usize, block: Block) -> Self {
        let number = lane.issued.fetch_add(1, Ordering::Relaxed); // the data object's lock orders them
        Self { lane, number, access, block }
    }
}

/// The same tickets once more: their lanes begin anew. All that were issued in these have been used, or none.
pub(super) fn issue_again(tickets: &[Ticket]) -> Tickets {
    tickets.iter().for_each(|ticket| ticket.lane.begin_anew());
    tickets.into()
}

impl Contribution {
    fn is_poisoned(&self) -> bool {
        self.task.is_poisoned()
    }
}

/// Gives a ready task back unless it is early; else it waits in one of its lanes. So many tasks run at once.
pub(crate) fn let_in(task: OwnedTask, width: usize) -> Option<OwnedTask> {
    let_in_from(0, task, width)
}

/// As [`let_in`], for a task that has been let in to this many of its lanes.
fn let_in_from(first: usize, mut task: OwnedTask, width: usize) -> Option<OwnedTask> {
    for ticket in first.. {
        let tickets = task.owned().as_ref().map_or(&[][..], |side| &side.tickets);
        let Some(Ticket { lane, number, .. }) = tickets.iter().rev().nth(ticket) else { break };
        if !lane.any_order {
            let (lane, number) = (lane.clone(), *number);
            task = lane.let_in(number, ticket, task, width)?;
        }
    }
    Some(task)
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
            while let Some((early, ticket)) = lane.next_let_in(by.width()) {
                if let Some(task) = let_in_from(ticket + 1, early, by.width()) {
                    by.admitted(task);
                }
            }
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
