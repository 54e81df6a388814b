//! Combination of the private replicas of reduction tasks with the contents of their regions in host memory.
//!
//! If all tasks of a machine run on one device, the device itself combines by its own operations, and nothing here
//! takes part: the members of such a group form a chain of order edges ([`super::fragment`]).
//!
//! Each reduction task runs on its own replica. The task counts as finished only when its replica has been combined, so
//! tasks after the group find the full value and no additional combining task is needed.
//!
//! A *lane* is where the members of one group meet at one part of a data object. At most one thread at a time combines
//! in a lane, without holding a lock; any other thread that arrives meanwhile leaves its task to the combining thread
//! and continues. Contributions are usually combined in submission order, so a floating-point sum does not depend on
//! where its tasks ran. A contribution that arrives early waits for its turn.
//!
//! A replica that waits for its turn occupies memory. Therefore a task that becomes ready long before its turn is
//! *early*: it waits in the lane until fewer members precede it than can run at once, or until so few precede it that
//! their replicas are small in total. Without this rule, a thread that runs its latest task first would allocate every
//! replica before combining the first one.
//!
//! If the operation allows any order, no contribution waits for a turn. A thread that arrives while another thread is
//! combining and another replica is waiting merges its own replica with the waiting one first. So there are hardly more
//! replicas than threads, and threads combine in parallel.
//!
//! When a part is split, both halves keep the same lane. This orders slightly more than necessary but is always
//! correct. A task that accesses several halves holds several tickets for the same lane, but counts as one member.
//!
//! Invariants:
//! 1. All of a member's tickets for a lane come after all tickets of earlier members, because they are issued while the
//!    data object stays locked. A task uses its tickets in the order in which they were issued.
//! 2. A member is early only because of earlier members, never because of other tickets that it holds.
//! 3. Hence a task waits only for earlier submissions or for a thread that is already combining, so there is no cycle.
//!
//! Operations are user code: they may run for a long time, panic, or submit tasks, which may even join the same group.

use super::OwnedTask;
use crate::region::Block;
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Total number of replica elements that may wait for their turn regardless of how many tasks run at once.
const FEW_ELEMENTS: usize = 1 << 20;

/// The queue in which the contributions of one reduction group are combined at one part.
pub(crate) struct Lane {
    any_order: bool,
    issued: Mutex<Issued>,
    queue: Mutex<Queue>,
}

/// Number of tickets and members so far. The lock of the data object orders the tasks that take tickets.
#[derive(Default)]
struct Issued {
    tickets: u64,
    members: u64,
    /// Index of the latest ticket among its task's tickets.
    latest: usize,
}

#[derive(Default)]
struct Queue {
    /// Number of the ticket whose turn it is, if contributions are combined in submission order.
    turn: u64,
    /// Number of members that have had all their turns.
    past: u64,
    /// Whether a thread is combining. If so, that thread will check for more contributions before it stops.
    combining: bool,
    waiting: BTreeMap<u64, Contribution>,
    /// Ready tasks that are early, by member index.
    early: BTreeMap<u64, Early>,
}

/// A ready task that waits to be let in.
struct Early {
    task: OwnedTask,
    /// Index of the ticket with which the task waits, in order of use.
    ticket: usize,
    ahead: u64,
}

/// Why a task waits in a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The task is ready; this many members must be combined before it is let in.
    Early { before: u64 },
    /// The task has run; this many contributions must be combined before its own.
    Combining { before: u64 },
}

/// The tickets of one task; most tasks have one.
pub(super) type Tickets = SmallVec<[Ticket; 1]>;

/// The right, and duty, to combine one part of one access at a certain turn.
#[derive(Debug, Clone)]
pub(crate) struct Ticket {
    lane: Arc<Lane>,
    number: u64,
    /// The task's index among the lane's members.
    member: u64,
    /// Whether this is the task's first ticket for the lane; `is_last`, whether it is the last.
    is_first: bool,
    is_last: bool,
    /// The task is early while at least this many members before it still have turns left, unless more members than
    /// this can run at once; then that number counts.
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
    /// Whether this is the task's last contribution in the lane.
    is_last: bool,
    /// Tasks whose contributions were combined into this one.
    riders: Vec<OwnedTask>,
}

/// Operations on contributions, implemented by a caller that knows their types. They are called without holding a lock.
///
/// Neither `combine` nor `merge` is called for a poisoned task, so its turn passes without effect.
pub(crate) trait Combine {
    /// The number of tasks that run at once.
    fn width(&self) -> usize;
    /// Runs a task that is no longer early.
    fn admitted(&mut self, task: OwnedTask);
    /// Combines a contribution with the contents of the region.
    fn combine(&mut self, contribution: &mut Contribution);
    /// Combines the contribution `from` into `into`; both belong to the same group and the same part.
    fn merge(&mut self, into: &mut Contribution, from: &mut Contribution);
    /// Frees the replica of this access, because it will not be combined any more.
    fn retire(&mut self, task: &mut OwnedTask, access: usize);
    /// Called when all of the task's replicas are combined.
    fn done(&mut self, task: OwnedTask);
}

/// What a thread does next with a contribution.
enum Step {
    /// Combine the contribution with the contents of the region, then ask for more.
    Combine(Contribution),
    /// Merge the second contribution into the first, then hand in the result again.
    Merge(Contribution, Contribution),
}

impl Lane {
    /// Makes the lane of a new group.
    pub(super) fn new(any_order: bool) -> Arc<Self> {
        Arc::new(Self { any_order, issued: Mutex::default(), queue: Mutex::default() })
    }

    /// Restarts the lane with the first ticket. No thread may be combining here.
    fn begin_anew(&self) {
        let mut queue = self.queue.lock();
        debug_assert!(queue.waiting.is_empty() && queue.early.is_empty() && !queue.combining);
        (queue.turn, queue.past) = (0, 0);
    }

    /// Returns a ready task unless it is early; an early task waits in the lane.
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

    /// Ends the turn of a combined contribution; `is_last` tells whether it was its task's last one. Returns the next
    /// contribution, if any.
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
    /// Whether a member is long before its turn.
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
    /// Adds a ticket to a task's tickets, for one part of an access to this many elements. The data object must be
    /// locked.
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

/// Returns the same tickets for another run and restarts their lanes. Either all tickets of these lanes must have been
/// used, or none.
pub(super) fn issue_again(tickets: &[Ticket]) -> Tickets {
    tickets.iter().for_each(|ticket| ticket.lane.begin_anew());
    tickets.into()
}

impl Ticket {
    /// Returns the lane that issued the ticket.
    pub(super) fn lane(&self) -> &Arc<Lane> {
        &self.lane
    }
}

impl Contribution {
    fn is_poisoned(&self) -> bool {
        self.task.is_poisoned()
    }
}

/// Returns a ready task unless it is early; an early task waits in one of its lanes. `width` is the number of tasks
/// that run at once.
pub(crate) fn let_in(task: OwnedTask, width: usize) -> Option<OwnedTask> {
    let_in_from(0, task, width)
}

/// Like [`let_in`], for a task whose first `first` tickets have already been let in.
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

/// Hands in a task that has run, and combines all contributions that fall to this thread.
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
                by.retire(&mut task, ticket.access); // only its turn has to pass
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
