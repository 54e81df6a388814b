//! Combining the private replicas of reductions with the contents of their regions.
//!
//! Each reduction task runs on its own replica. It counts as finished only when its replica has been combined, so
//! tasks after the group find the full value without a further task.
//!
//! A *lane* is where the members of one group meet at one part of a data object. At any moment at most one thread
//! combines there, without holding a lock: a thread that arrives meanwhile leaves its task to that thread and
//! continues. Usually the order is that of submission, so a floating-point sum is the same wherever its tasks ran; a
//! contribution that arrives before its turn waits for it.
//!
//! A replica that waits for its turn takes memory. So a task that is ready long before its turn is *early*: it waits
//! in the lane until the members before it are fewer than run at once, or so few that their replicas together are
//! small. Otherwise a thread that takes its latest task first would make all replicas before it combined one.
//!
//! If the operation allows any order, nothing waits for a turn. A thread that finds another thread combining, and
//! another replica waiting, combines these two first: so there are hardly more replicas than threads, and threads
//! combine in parallel.
//!
//! When a part is split, both halves keep the same lane: that orders slightly more than necessary and is always
//! correct. A task that meets several halves has several tickets of one lane, which count as one member.
//!
//! Invariants:
//! 1. All of a member's tickets of a lane come after all those of earlier members: they are issued under one lock of
//!    the data object. A task uses its tickets in the order in which they were issued.
//! 2. Only earlier members make a member early; its other tickets do not.
//! 3. Hence a task waits for earlier submissions or for a thread that is combining, and there is no cycle.
//!
//! Operations are user code. They may take long, panic, or submit tasks, which may join the same group.

use super::OwnedTask;
use crate::region::Block;
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Elements of replicas that may wait for their turn, however many tasks run at once.
const FEW_ELEMENTS: usize = 1 << 20;

/// The queue in which one group of reductions is combined, at one part.
pub(crate) struct Lane {
    any_order: bool,
    issued: Mutex<Issued>,
    queue: Mutex<Queue>,
}

/// The tickets and members so far. The lock of the data object orders the tasks that take tickets.
#[derive(Default)]
struct Issued {
    tickets: u64,
    members: u64,
    /// The index of the latest ticket among those of its task.
    latest: usize,
}

#[derive(Default)]
struct Queue {
    /// The ticket whose turn it is, if the order is that of submission.
    turn: u64,
    /// Number of members that have had all their turns.
    past: u64,
    /// Whether a thread is combining: it will come back and look for more.
    combining: bool,
    waiting: BTreeMap<u64, Contribution>,
    /// Ready tasks, by their number among the members.
    early: BTreeMap<u64, Early>,
}

/// A ready task that waits to be let in.
struct Early {
    task: OwnedTask,
    /// Index of the ticket that it waits with, in the order of use.
    ticket: usize,
    ahead: u64,
}

/// Why a task waits in a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It is ready, and this many members are combined before it is let in.
    Early { before: u64 },
    /// It has run, and this many contributions are combined before its own.
    Combining { before: u64 },
}

/// The tickets of one task; most tasks have one.
pub(super) type Tickets = SmallVec<[Ticket; 1]>;

/// The right, and duty, to combine one part of one access at a certain turn.
#[derive(Debug, Clone)]
pub(crate) struct Ticket {
    lane: Arc<Lane>,
    number: u64,
    /// The task's number among the lane's members.
    member: u64,
    /// Whether it is the task's first ticket of the lane, and its last.
    is_first: bool,
    is_last: bool,
    /// The number of members before it from which on the task is early, unless more run at once.
    ahead: u64,
    access: usize,
    block: Block,
}

/// One part of the replica of a task that has run.
pub(crate) struct Contribution {
    pub(crate) task: OwnedTask,
    pub(crate) access: usize,
    pub(crate) block: Block,
    number: u64,
    /// Whether it is its task's last contribution in the lane.
    is_last: bool,
    /// Tasks whose contributions were combined into this one.
    riders: Vec<OwnedTask>,
}

/// Operations on contributions, carried out by a caller that knows their types. No lock is held meanwhile.
///
/// Neither `combine` nor `merge` is called for a poisoned task: its turn passes without effect.
pub(crate) trait Combine {
    /// The number of tasks that run at once.
    fn width(&self) -> usize;
    /// Lets a task run that was early and no longer is.
    fn admitted(&mut self, task: OwnedTask);
    /// Combines a contribution with the contents of the region.
    fn combine(&mut self, contribution: &mut Contribution);
    /// Combines the contribution `from` into `into`; both are of one group and one part.
    fn merge(&mut self, into: &mut Contribution, from: &mut Contribution);
    /// Frees the replica of this access, which will not be combined any more.
    fn retire(&mut self, task: &mut OwnedTask, access: usize);
    /// Called when all of the task's replicas are combined.
    fn done(&mut self, task: OwnedTask);
}

/// The next step with a contribution.
enum Step {
    /// Combine it with the contents of the region, and then ask for more.
    Combine(Contribution),
    /// Combine the second into the first, and try again.
    Merge(Contribution, Contribution),
}

impl Lane {
    /// Makes the lane of a new group.
    pub(super) fn new(any_order: bool) -> Arc<Self> {
        Arc::new(Self { any_order, issued: Mutex::default(), queue: Mutex::default() })
    }

    /// Starts again with the first ticket. No thread is combining here.
    fn begin_anew(&self) {
        let mut queue = self.queue.lock();
        debug_assert!(queue.waiting.is_empty() && queue.early.is_empty() && !queue.combining);
        (queue.turn, queue.past) = (0, 0);
    }

    /// Returns a ready task that is not early; otherwise the task waits inside.
    fn let_in(&self, member: u64, early: Early, width: usize) -> Option<OwnedTask> {
        let mut queue = self.queue.lock();
        if !queue.is_early(member, early.ahead, width) {
            return Some(early.task);
        }
        queue.early.insert(member, early);
        None
    }

    /// Returns a task that is no longer early.
    fn next_let_in(&self, width: usize) -> Option<Early> {
        let mut queue = self.queue.lock();
        let (&member, Early { ahead, .. }) = queue.early.first_key_value()?;
        if queue.is_early(member, *ahead, width) { None } else { queue.early.pop_first().map(|(_, early)| early) }
    }

    /// Calls `see` with each task that waits here, under the lock. `width` is the number of tasks that run at once.
    pub(super) fn visit(&self, width: usize, see: &mut dyn FnMut(&OwnedTask, Stage)) {
        let queue = self.queue.lock();
        for (member, early) in &queue.early {
            let ahead = early.ahead.max(width.max(1) as u64);
            see(&early.task, Stage::Early { before: (member + 1).saturating_sub(queue.past + ahead) });
        }
        for (number, contribution) in &queue.waiting {
            let before = number.saturating_sub(queue.turn);
            see(&contribution.task, Stage::Combining { before });
            contribution.riders.iter().for_each(|rider| see(rider, Stage::Combining { before }));
        }
    }

    /// Hands in a contribution; returns `None` if another thread will take care of it.
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

    /// Ends the turn of a combined contribution, the last of its task or not. Returns the next contribution, if there
    /// is one.
    fn next(&self, is_last: bool) -> Option<Contribution> {
        let mut queue = self.queue.lock();
        queue.turn += 1;
        queue.past += u64::from(is_last);
        let turn = queue.turn;
        let next = match self.any_order {
            // No task is early.
            true => queue.waiting.pop_first().map(|(_, next)| next),
            false => queue.waiting.remove(&turn),
        };
        queue.combining = next.is_some();
        next
    }
}

impl Queue {
    /// Whether a member comes long before its turn.
    fn is_early(&self, member: u64, ahead: u64, width: usize) -> bool {
        member >= self.past + ahead.max(width.max(1) as u64)
    }
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queue = self.queue.lock();
        let issued = self.issued.lock().tickets;
        let (turn, waiting, early) = (queue.turn, queue.waiting.len(), queue.early.len());
        write!(f, "Lane({issued} issued, turn {turn}, {waiting} waiting, {early} early)")
    }
}

impl Ticket {
    /// Adds a ticket to those of a task, for a part of an access to this many elements. The data object is locked.
    pub(super) fn issue(tickets: &mut Tickets, lane: &Arc<Lane>, access: usize, elements: usize, block: Block) {
        let mut issued = lane.issued.lock();
        let before = tickets.get_mut(issued.latest).filter(|before| Arc::ptr_eq(&before.lane, lane));
        let is_first = before.is_none();
        match before {
            Some(before) => before.is_last = false,
            None => issued.members += 1,
        }
        let (number, member) = (issued.tickets, issued.members - 1);
        (issued.tickets, issued.latest) = (number + 1, tickets.len());
        let ahead = (FEW_ELEMENTS / elements.max(1)) as u64;
        tickets.push(Self { lane: lane.clone(), number, member, is_first, is_last: true, ahead, access, block });
    }
}

/// Returns the same tickets again: their lanes start from the beginning. Either all tickets of these lanes have been
/// used, or none.
pub(super) fn issue_again(tickets: &[Ticket]) -> Tickets {
    tickets.iter().for_each(|ticket| ticket.lane.begin_anew());
    tickets.into()
}

impl Ticket {
    /// Returns the lane that the ticket is for.
    pub(super) fn lane(&self) -> &Arc<Lane> {
        &self.lane
    }
}

impl Contribution {
    fn is_poisoned(&self) -> bool {
        self.task.is_poisoned()
    }
}

/// Returns a ready task unless it is early; otherwise the task waits in one of its lanes. `width` is the number of
/// tasks that run at once.
pub(crate) fn let_in(task: OwnedTask, width: usize) -> Option<OwnedTask> {
    let_in_from(0, task, width)
}

/// As [`let_in`], for a task that has been let in with its first `first` tickets.
fn let_in_from(first: usize, mut task: OwnedTask, width: usize) -> Option<OwnedTask> {
    for ticket in first.. {
        let tickets = task.owned().as_ref().map_or(&[][..], |side| &side.tickets);
        let Some(next) = tickets.iter().rev().nth(ticket) else { break };
        if next.is_first && !next.lane.any_order {
            let (lane, member, ahead) = (next.lane.clone(), next.member, next.ahead);
            task = lane.let_in(member, Early { task, ticket, ahead }, width)?;
        }
    }
    Some(task)
}

/// Hands in a task that has run, and combines all contributions that it is this thread's turn to combine.
pub(crate) fn combine_in_turn(task: OwnedTask, by: &mut impl Combine) {
    let mut moving = Vec::new();
    move_on(task, by, &mut moving);
    while let Some((ticket, task)) = moving.pop() {
        let Ticket { lane, number, is_last, access, block, .. } = ticket;
        let mut contribution = Contribution { task, access, block, number, is_last, riders: Vec::new() };
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
            ours = lane.next(contribution.is_last);
            while let Some(Early { task, ticket, .. }) = lane.next_let_in(by.width()) {
                if let Some(task) = let_in_from(ticket + 1, task, by.width()) {
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

/// Moves the task on to its next lane, if there is one.
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

/// Frees the replica of an access after the last of its parts has been combined.
fn retire_if_last(task: &mut OwnedTask, access: usize, by: &mut impl Combine) {
    let next = task.owned().as_ref().and_then(|side| side.tickets.last());
    if next.is_none_or(|next| next.access != access) {
        by.retire(task, access);
    }
}
