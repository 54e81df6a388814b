//! Domains: what a task's children see of the data, and how they stand in their parent's place.
//!
//! Tasks end as if they had run one after the other in the order of submission, each with its children in its place. So
//! children are not entered into the histories of their data, where later tasks may stand already, but into histories of
//! their parent's, one for each data object that it has declared for them by a weak access (or reads). A weak access waits
//! for nobody; what it would have waited for is handed down instead: the domain's history begins as a copy of the
//! fragment that the parent was entered in, so that children wait for siblings and for outsiders by the same rules.
//!
//! Others wait for the parent as for any task. When its body has ended they are passed on, each to those in the domain that
//! it has to come after: one child, or a join of several ([`finish`]); so regions pass on piece by piece. Who comes later
//! finds the parent finished, and looks into its domain by itself ([`super::register`]).
//!
//! A child is complete when its body has ended and its own children are complete; a domain counts both.
//!
//! What never happens here: nothing is run, and no user code is called.
//!
//! Invariants:
//! 1. Children are entered while the parent's body runs, others look into the domain when it has ended and is *sealed*: who
//!    comes later, from a thread that a body has left behind, is refused. Locks are taken in the
//!    order: a domain whose body runs, data, domains whose bodies have ended, from the outside in.
//! 2. `pending` counts the children that are not complete, and the body. It comes to 0 once.
//! 3. A domain is live as long as somebody in it may have to be waited for, or passes a failure on.

use super::fragment::Fragment;
use super::history::enter_parts;
use super::join::{self, Predecessor, matters};
use super::node::{Body, Piece};
use super::register::Newcomer;
use super::{AccessRecord, Datum, Mode, OwnedTask, Task, TaskRef};
use crate::error::{SubmitError, TaskFailure};
use crate::ids::{DataId, TaskId};
use crate::region::{Block, MAX_DIMS, Part, RegionMap};
use crate::sync::Flow;
use parking_lot::{Mutex, MutexGuard};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Waker;

/// What a task is for its children; see the module.
pub(crate) struct Domain {
    task: TaskId,
    name: Cow<'static, str>,
    /// What children may access.
    held: Box<[Held]>,
    /// Of the task's own parent.
    outer: Option<Arc<Domain>>,
    histories: Mutex<Histories>,
    live: AtomicBool,
    pending: AtomicUsize,
    /// The body, if it waits for the children.
    waiter: Mutex<Option<Waker>>,
    /// Of children that have ended.
    failures: Mutex<Vec<Arc<TaskFailure>>>,
}

/// One for each data object.
#[derive(Default)]
pub(super) struct Histories {
    of_data: Vec<(DataId, RegionMap<Fragment>)>,
    /// The body has ended: no child comes any more, and others look.
    pub(super) sealed: bool,
}

struct Held {
    data: DataId,
    block: Block,
    mode: Mode,
}

impl Held {
    /// Whether children may access its region like this.
    fn allows(&self, mode: Mode) -> bool {
        match self.mode {
            Mode::WeakInout => !matches!(mode, Mode::Reduction(operation) if operation.is_accumulated()),
            Mode::WeakIn | Mode::In => !mode.writes(),
            _ => false,
        }
    }
}

impl Domain {
    /// That of a task with these accesses, in the domain of its parent.
    pub(crate) fn new<'a>(
        (task, name): (TaskId, Cow<'static, str>),
        accesses: impl IntoIterator<Item = AccessRecord<'a>>,
        outer: Option<Arc<Domain>>,
    ) -> Self {
        let is_for_children = |mode| matches!(mode, Mode::WeakInout | Mode::WeakIn | Mode::In);
        let accesses = accesses.into_iter().filter(|access| is_for_children(access.mode) && !access.block.is_empty());
        Self {
            held: accesses
                .map(|AccessRecord { datum, block, mode }| Held { data: datum.id, block: *block, mode })
                .collect(),
            task,
            name,
            outer,
            histories: Mutex::default(),
            live: AtomicBool::new(true),
            pending: AtomicUsize::new(1),
            waiter: Mutex::default(),
            failures: Mutex::default(),
        }
    }

    /// That of a task whose body runs.
    #[cold]
    pub(crate) fn of(task: &OwnedTask) -> Arc<Self> {
        let make = || {
            let mut held = Vec::new();
            task.body().accesses(&mut |AccessRecord { datum, block, mode }| {
                if mode == Mode::In && !block.is_empty() {
                    held.push(Held { data: datum.id, block: *block, mode });
                }
            });
            let (id, name) = (task.shared().id, task.shared().name.clone());
            Arc::new(Self { held: held.into(), ..Self::new((id, name), [], task.owned().parent.clone()) })
        };
        task.shared().domain.get_or_init(make).clone()
    }

    /// Whose domain it is.
    pub(crate) fn task(&self) -> TaskId {
        self.task
    }

    /// The domain around this one.
    pub(crate) fn outer(&self) -> Option<&Arc<Domain>> {
        self.outer.as_ref()
    }

    /// Whether the task has declared something of this data object for its children.
    fn holds(&self, data: DataId) -> bool {
        self.held.iter().any(|held| held.data == data)
    }

    /// Whether all of the access lies within what the task has declared for its children.
    pub(crate) fn covers(&self, access: &AccessRecord<'_>) -> bool {
        let mut left = vec![*access.block];
        for held in self.held.iter().filter(|held| held.data == access.datum.id && held.allows(access.mode)) {
            let mut rest = Vec::new();
            left.iter().for_each(|piece| piece.subtract(&held.block, |piece| rest.push(piece)));
            left = rest;
        }
        left.iter().all(Block::is_empty)
    }

    /// Refuses a child that accesses what is neither within its parent's weak accesses nor made in the parent's body.
    pub(crate) fn admit(&self, task: &str, accesses: &[AccessRecord<'_>]) -> Result<(), SubmitError> {
        let is_outside = |access: &&AccessRecord<'_>| !access.datum.is_made_by(self.task) && !self.covers(access);
        let Some(access) = accesses.iter().find(is_outside) else { return Ok(()) };
        let datum = access.datum;
        let words = |block: &Block, mode: Mode| format!("{} ({mode})", datum.describe(block));
        let held = self.held.iter().filter(|held| held.data == datum.id).map(|held| words(&held.block, held.mode));
        let held: Vec<_> = held.collect();
        Err(SubmitError::Uncovered {
            task: task.to_owned(),
            parent: self.name.clone().into_owned(),
            data: datum.to_string(),
            region: words(access.block, access.mode),
            held: if held.is_empty() { "nothing of it".into() } else { held.join(" and ").into() },
        })
    }

    /// One child more; false if all is complete, so that none can come.
    pub(crate) fn expect_child(&self) -> bool {
        let one_more = |pending| (pending > 0).then_some(pending + 1);
        self.pending.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok()
    }

    /// A child is complete, or will not come after all; or the body has ended.
    pub(crate) fn leave(self: &Arc<Self>) {
        let mut domain = self;
        loop {
            match domain.pending.fetch_sub(1, Ordering::AcqRel) {
                1 => {
                    domain.prune();
                    match &domain.outer {
                        Some(outer) => domain = outer,
                        None => return,
                    }
                }
                2 => {
                    let waiter = domain.waiter.lock().take();
                    return waiter.into_iter().for_each(Waker::wake);
                }
                _ => return,
            }
        }
    }

    /// How many children are not complete, while the body runs.
    pub(crate) fn children(&self) -> u64 {
        self.pending.load(Ordering::Acquire) as u64 - 1
    }

    /// The body waits until there are no children any more.
    pub(crate) fn set_waiter(&self, waker: Waker) {
        *self.waiter.lock() = Some(waker);
    }

    fn note(&self, failure: Arc<TaskFailure>) {
        let mut failures = self.failures.lock();
        if !failures.iter().any(|known| Arc::ptr_eq(known, &failure)) {
            failures.push(failure);
        }
    }

    /// The failures of children that nobody has been told of.
    pub(crate) fn take_failures(&self) -> Vec<Arc<TaskFailure>> {
        std::mem::take(&mut self.failures.lock())
    }

    /// What the task would have waited for at `part`, had its access not been weak.
    pub(super) fn hand_down(&self, datum: &Datum, part: &Part<'_>, fragment: &Fragment) {
        let mut histories = self.histories.lock();
        histories.of(datum).visit(&part.block(), |_, own| *own = fragment.clone());
    }

    /// For a child to be entered.
    pub(super) fn lock(&self) -> MutexGuard<'_, Histories> {
        self.histories.lock()
    }

    /// Enters an access of a child; whether it belongs here.
    pub(super) fn enter(
        &self,
        histories: &mut Histories,
        index: usize,
        access: &AccessRecord<'_>,
        newcomer: &mut Newcomer<'_>,
    ) -> bool {
        let belongs_here = self.takes(access);
        if belongs_here {
            enter_parts(histories.of(access.datum), index, access, newcomer);
        }
        belongs_here
    }

    /// Whether this access of a child is entered here, rather than where all others are. One to nothing is not: it is ordered
    /// with the end of the data object alone.
    pub(super) fn takes(&self, access: &AccessRecord<'_>) -> bool {
        self.holds(access.datum.id) && !access.datum.is_made_by(self.task) && !access.block.is_empty()
    }

    /// Whether somebody here may have to be waited for, or passes a failure on, though the body has ended.
    pub(super) fn is_live(&self) -> bool {
        self.live.load(Ordering::Acquire)
    }

    /// Appends those who come before an access to this piece and matter to it, here and in the domains of those here.
    pub(super) fn predecessors(self: &Arc<Self>, piece: Piece, out: &mut Vec<Predecessor>) {
        // Not by recursion: tasks that hold data weakly, one after the other, are a long way.
        let (mut visited, mut next) = (vec![(self.clone(), piece)], 0);
        while let Some((domain, piece)) = visited.get(next).cloned() {
            next += 1;
            let histories = domain.histories.lock();
            let Some(history) = histories.find(piece.data).filter(|_| domain.is_live()) else { continue };
            history.peek(&piece.block, |block, fragment| {
                let piece = Piece { block, ..piece };
                fragment.predecessors(piece.mode, |(task, flow), weak| match live_domain(&task) {
                    _ if weak && !task.is_finished() => out.push((join::at_piece(&task, flow, piece), flow)),
                    Some(inner) if task.is_finished() => {
                        visited.push((inner.clone(), piece));
                        if matters_for_failures(&task, flow) {
                            out.push((task, flow));
                        }
                    }
                    _ if !task.is_finished() || matters_for_failures(&task, flow) => out.push((task, flow)),
                    _ => {}
                });
            });
        }
        visited.iter().rev().for_each(|(domain, _)| domain.prune());
        out.sort_unstable_by_key(|(task, flow)| (task.address(), *flow == Flow::Order));
        out.dedup_by_key(|(task, _)| task.address());
    }

    /// Appends everybody here who matters, in the way of `flow`.
    pub(super) fn everybody(self: &Arc<Self>, flow: Flow, out: &mut Vec<Predecessor>) {
        let mut all = Vec::new();
        let data: Vec<DataId> = self.histories.lock().of_data.iter().map(|(data, _)| *data).collect();
        for data in data {
            let block = Block::whole(&[usize::MAX; MAX_DIMS]);
            self.predecessors(Piece { data, block, mode: Mode::Inout }, &mut all);
        }
        out.extend(all.into_iter().map(|(task, _)| (task, flow)));
    }

    /// Forgets those who do not matter, if all is complete.
    fn prune(&self) {
        if self.pending.load(Ordering::Acquire) > 0 || !self.is_live() {
            return;
        }
        let mut histories = self.histories.lock();
        let mut matters = false;
        for (_, history) in &histories.of_data {
            history.peek(&Block::whole(&[usize::MAX; MAX_DIMS]), |_, fragment| matters |= fragment.matters());
        }
        if !matters {
            histories.of_data.clear();
            self.live.store(false, Ordering::Release);
        }
    }

    /// Whom `successor`, which has waited for the body, has to wait for next; it may be poisoned meanwhile.
    fn next_for(self: &Arc<Self>, successor: &Task, body: &(dyn Body + 'static), flow: Flow) -> Option<Predecessor> {
        if !self.is_live() {
            return None;
        }
        let mut found = Vec::new();
        match body.stands_at() {
            Some(piece) => self.predecessors(*piece, &mut found),
            None if successor.shared().join => self.everybody(flow, &mut found),
            None => body.accesses(&mut |AccessRecord { datum, block, mode }| {
                if self.holds(datum.id) && !block.is_empty() {
                    self.predecessors(Piece { data: datum.id, block: *block, mode }, &mut found);
                }
            }),
        }
        found.retain(|(task, flow)| {
            if *flow == Flow::Value && task.is_finished() {
                task.poison().into_iter().for_each(|cause| successor.set_poison(cause));
            }
            !task.is_finished()
        });
        match found.len() {
            0 | 1 => found.pop(),
            _ => Some((join::standing_for(&found, successor.shared()), Flow::Value)),
        }
    }
}

impl Histories {
    fn of(&mut self, datum: &Datum) -> &mut RegionMap<Fragment> {
        let place = self.of_data.iter().position(|(data, _)| *data == datum.id).unwrap_or_else(|| {
            self.of_data.push((datum.id, RegionMap::new(datum.whole(), datum.ndim(), Fragment::default())));
            self.of_data.len() - 1
        });
        &mut self.of_data[place].1
    }

    fn find(&self, data: DataId) -> Option<&RegionMap<Fragment>> {
        self.of_data.iter().find(|(own, _)| *own == data).map(|(_, history)| history)
    }
}

impl fmt::Debug for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Domain").field("task", &self.task).field("pending", &self.pending).finish_non_exhaustive()
    }
}

/// The domain of a finished task, if somebody in it may still have to be waited for.
pub(super) fn live_domain(task: &TaskRef) -> Option<&Arc<Domain>> {
    task.shared().domain.get().filter(|domain| domain.is_live())
}

/// Ends a task: whoever waited for it and now waits for nobody is handed to `ready`, the last submitted first. Those who
/// must wait for its children go on to these.
#[inline]
pub(crate) fn finish(task: OwnedTask, ready: impl FnMut(OwnedTask)) {
    if task.owned().parent.is_none() && task.shared().domain.get().is_none() {
        task.finish(ready);
    } else {
        finish_with_kin(task, ready);
    }
}

#[cold]
fn finish_with_kin(mut task: OwnedTask, ready: impl FnMut(OwnedTask)) {
    let (parent, domain) = (task.owned_mut().parent.take(), task.shared().domain.get().cloned());
    if let (Some(parent), Some(cause)) = (&parent, task.poison()) {
        parent.note(cause);
    }
    match domain {
        None => {
            task.finish(ready);
            parent.iter().for_each(Domain::leave);
        }
        Some(domain) => {
            domain.histories.lock().sealed = true;
            task.finish_into(|successor, body, flow| domain.next_for(successor, body, flow), ready);
            domain.leave();
        }
    }
}

fn matters_for_failures(task: &TaskRef, flow: Flow) -> bool {
    flow == Flow::Value && task.is_poisoned()
}

/// Whether a newcomer need not wait any more for `task` or for somebody in its place.
pub(super) fn is_over(task: &TaskRef) -> bool {
    !matters(task, Flow::Order)
}
