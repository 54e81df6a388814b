//! Domains: the histories in which a task's children are ordered, and through which children take their parent's
//! place.
//!
//! Tasks end as if they had run one after the other in the order of submission, each with its children in its place. So
//! children are not entered into the histories of their data objects, because those histories may already contain later
//! tasks. Instead, children are entered into their parent's own histories: one for each data object that the parent
//! reads or has declared for its children by a weak access. A weak access waits for nothing. The tasks that it would
//! have waited for are handed down to the children: the domain's history begins as a copy of the fragment that the
//! parent was entered in, so children wait for siblings and for outside tasks by the same rules.
//!
//! Other tasks wait for a join at each piece that the parent holds weakly ([`join::at_piece`]); a parent that only
//! reads is waited for like any other task. When the parent's body has ended, the joins and the waiting tasks move on:
//! each one next waits for the tasks in the domain that must precede it, which is either a single child or a join of
//! several children ([`finish`]). This is how regions are passed on piece by piece. A task that is submitted later
//! finds the parent finished and looks into its domain itself ([`super::register`]).
//!
//! A child is complete when its body has ended and its own children are complete; a domain counts both.
//!
//! A child may access the regions that its parent holds weakly, read the regions that its parent only reads, and access
//! data made in the parent's body. Every other child is refused. In particular, a child is refused if it accesses a
//! region that its parent writes through a strong access, because the parent has a view of that region. Inside a body,
//! `rt.task` submits an independent task, just as it does outside of bodies. A failure spreads only to users of the
//! parts that it affects.
//!
//! This module never runs a task and never calls user code.
//!
//! Invariants:
//! 1. Children are entered while the parent's body runs; other tasks look into the domain only after the body has
//!    ended. By then the domain is *sealed*: a child submitted later, by a thread that outlives the body, is refused.
//!    Locks are taken in this order: the domain whose body runs, then data objects, then domains whose bodies have
//!    ended, outermost first.
//! 2. `pending` counts the incomplete children, plus one for the body. The count reaches 0 once. A task that runs in
//!    rounds keeps its domain, which counts the body forever: the domain is sealed from the end of one round's body
//!    until the first child of the next round, and it is emptied in between, when all children are complete.
//! 3. A domain is live as long as other tasks may have to wait for a task in it, or inherit a failure from it.
//! 4. Code that finds a task here checks once whether the task has finished. If it has, the code then looks at the
//!    task's failure and at the task's own domain. If it has not, the code waits for the task, and linking the edge
//!    reveals whether the task has finished in the meantime.

use super::fragment::Fragment;
use super::history::enter_parts;
use super::join::{self, Predecessor};
use super::node::{Body, Causes, Piece};
use super::register::Newcomer;
use super::{AccessRecord, Datum, Meta, Mode, OwnedTask, Task, TaskRef};
use crate::error::{SubmitError, TaskFailure};
use crate::ids::{DataId, TaskId};
use crate::region::{Block, MAX_DIMS, Part, RegionMap};
use crate::sync::{DeferredDrop, Flow, drop_quietly};
use parking_lot::{Mutex, MutexGuard};
use rustc_hash::FxHashSet;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Waker;

/// The children of one task; see the module documentation.
pub(crate) struct Domain {
    task: TaskId,
    name: Cow<'static, str>,
    /// The regions that children may access.
    held: Box<[Piece]>,
    /// The domain of the task's parent. Released as soon as everything in this domain is complete, because the parent's
    /// histories may keep a reference to this domain's task for longer.
    outer: Mutex<Option<Arc<Domain>>>,
    /// The task of a frozen graph that this task is or descends from.
    replayed: Option<TaskId>,
    histories: Mutex<Histories>,
    live: AtomicBool,
    pending: AtomicUsize,
    /// Waker of the task's body, if the body is waiting for its children.
    waiter: Mutex<Option<Waker>>,
    /// Failures of children that have ended.
    failures: Mutex<Causes>,
}

/// The histories of a domain, one for each data object.
#[derive(Default)]
pub(super) struct Histories {
    of_data: Vec<(DataId, RegionMap<Fragment>)>,
    /// Whether the body has ended: no further child is entered, and other tasks may look into the histories.
    pub(super) sealed: bool,
}

/// A child's place in its parent's domain, from when the child is announced until it is complete.
pub(crate) struct Child(Arc<Domain>);

impl Child {
    /// Announces a child of this domain's task. Returns `None` if everything is complete, so that no child can come.
    pub(crate) fn of(parent: Arc<Domain>) -> Option<Self> {
        let one_more = |pending| (pending > 0).then_some(pending + 1);
        let expected = parent.pending.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        expected.is_ok().then(|| Self(parent))
    }

    /// Returns the parent's domain.
    pub(crate) fn parent(&self) -> &Arc<Domain> {
        &self.0
    }

    /// Drops this handle but keeps the child counted, because the child's own domain will count it out once it is
    /// complete.
    fn leave_by_domain(self) {
        self.0.pending.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl fmt::Debug for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Whether a child may access with `mode` a region that its parent has declared with `held`.
fn allows(held: Mode, mode: Mode) -> bool {
    match held {
        Mode::WeakInout => !matches!(mode, Mode::Reduction(operation) if operation.is_accumulated()),
        Mode::WeakIn | Mode::In => !mode.writes(),
        _ => false,
    }
}

impl Domain {
    /// Makes the domain of a task inside its parent's domain. `visit` visits the task's accesses.
    pub(crate) fn new(
        task: &Meta,
        outer: Option<&Child>,
        visit: impl FnOnce(&mut dyn FnMut(AccessRecord<'_>)),
    ) -> Self {
        let mut held = Vec::new();
        visit(&mut |access| {
            let is_for_children = matches!(access.mode, Mode::WeakInout | Mode::WeakIn | Mode::In);
            if is_for_children && !access.block.is_empty() {
                held.push(Piece::of(&access));
            }
        });
        Self {
            task: task.id,
            name: task.name.clone(),
            held: held.into(),
            outer: Mutex::new(outer.map(|child| child.0.clone())),
            replayed: outer.and_then(|child| child.0.replayed),
            histories: Mutex::default(),
            live: AtomicBool::new(true),
            pending: AtomicUsize::new(1),
            waiter: Mutex::default(),
            failures: Mutex::default(),
        }
    }

    /// Returns the domain of a task whose body runs.
    #[cold]
    pub(crate) fn of(task: &OwnedTask) -> Arc<Self> {
        let make = || {
            let mut own = Self::new(task.shared(), task.owned().child.as_ref(), |visit| task.body().accesses(visit));
            own.replayed = own.replayed.or_else(|| task.is_in_rounds().then(|| task.shared().id));
            Arc::new(own)
        };
        let domain = task.shared().domain.get_or_init(make);
        if task.is_in_rounds() {
            domain.histories.lock().sealed = false; // the end of the previous round sealed it
        }
        domain.clone()
    }

    /// Refuses further children until the next round. Called when the body of a task that runs in rounds has ended.
    pub(crate) fn seal(&self) {
        self.histories.lock().sealed = true;
    }

    /// Forgets the children of a round, which must all be complete. The caller must hold no lock and act as if inside a
    /// body, because failures may be dropped.
    pub(crate) fn begin_again(&self) {
        let of_data = std::mem::take(&mut self.histories.lock().of_data);
        let failures = self.take_failures();
        drop_quietly(|| drop((of_data, failures)));
    }

    /// The task of a frozen graph that this task is or descends from. A replay ends only after its tasks and all their
    /// descendants have ended.
    pub(crate) fn replayed(&self) -> Option<TaskId> {
        self.replayed
    }

    /// The task whose domain this is.
    pub(crate) fn task(&self) -> TaskId {
        self.task
    }

    /// The enclosing domain, unless everything here is complete.
    pub(crate) fn outer(&self) -> Option<Arc<Domain>> {
        self.outer.lock().clone()
    }

    /// Whether the task has declared any region of this data object for its children.
    fn holds(&self, data: DataId) -> bool {
        self.held.iter().any(|held| held.data == data)
    }

    /// Whether the whole region of the access lies within the regions that the task has declared for its children.
    pub(crate) fn covers(&self, access: &AccessRecord<'_>) -> bool {
        let mut left = vec![*access.block];
        for held in self.held.iter().filter(|held| held.data == access.datum.id && allows(held.mode, access.mode)) {
            let mut rest = Vec::new();
            left.iter().for_each(|piece| piece.subtract(&held.block, |piece| rest.push(piece)));
            left = rest;
        }
        left.iter().all(Block::is_empty)
    }

    /// Refuses a child that accesses a region which its parent has not declared for its children ([`Self::covers`]),
    /// unless the data object was made in the parent's body.
    pub(crate) fn admit(&self, task: &str, accesses: &[AccessRecord<'_>]) -> Result<(), SubmitError> {
        let is_outside = |access: &&AccessRecord<'_>| !access.datum.is_made_by(self.task) && !self.covers(access);
        let Some(access) = accesses.iter().find(is_outside) else { return Ok(()) };
        let datum = access.datum;
        let words = |block: &Block, mode: Mode| format!("{} ({mode})", datum.describe(block));
        let held = self.held.iter().filter(|held| held.data == datum.id).map(|held| words(&held.block, held.mode));
        let held: Vec<_> = held.collect();
        Err(SubmitError::Uncovered {
            task: task.into(),
            parent: self.name.clone().into_owned(),
            data: datum.to_string(),
            region: words(access.block, access.mode),
            held: if held.is_empty() { "nothing of it".into() } else { held.join(" and ").into() },
        })
    }

    /// Counts out a child that is complete or was not submitted after all, or counts out the body when it ends.
    fn leave(self: &Arc<Self>) {
        let mut domain = Cow::Borrowed(self);
        loop {
            match domain.pending.fetch_sub(1, Ordering::AcqRel) {
                1 => {
                    domain.prune();
                    let outer = domain.outer.lock().take();
                    match outer {
                        Some(outer) => domain = Cow::Owned(outer),
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

    /// Returns the number of incomplete children. Must be called while the body runs.
    pub(crate) fn children(&self) -> u64 {
        self.pending.load(Ordering::Acquire) as u64 - 1
    }

    /// Sets the waker of the body, which waits until it has no children left.
    pub(crate) fn set_waiter(&self, waker: Waker) {
        *self.waiter.lock() = Some(waker);
    }

    fn note(&self, failure: &Arc<TaskFailure>) {
        self.failures.lock().note(failure);
    }

    /// Takes the failures of children that have not been reported yet.
    pub(crate) fn take_failures(&self) -> Vec<Arc<TaskFailure>> {
        self.failures.lock().take()
    }

    /// Hands down to the children what the task would have waited for at `part` if its access were not weak.
    pub(super) fn hand_down(&self, datum: &Datum, part: &Part<'_>, fragment: &Fragment) {
        let mut histories = self.histories.lock();
        histories.of(datum).visit(&part.block(), |_, own| *own = fragment.clone());
    }

    /// Locks the histories to enter a child.
    pub(super) fn lock(&self) -> MutexGuard<'_, Histories> {
        self.histories.lock()
    }

    /// Enters an access of a child if it belongs here; returns whether it does.
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

    /// Whether a child's access is entered into this domain rather than into the data object's own history. An access
    /// to an empty region belongs to the data object's history, because it is ordered only with the task that gives up
    /// the data object.
    pub(super) fn takes(&self, access: &AccessRecord<'_>) -> bool {
        self.holds(access.datum.id) && !access.datum.is_made_by(self.task) && !access.block.is_empty()
    }

    /// Whether other tasks may still have to wait for a task here, or inherit a failure from it, although the body has
    /// ended.
    pub(super) fn is_live(&self) -> bool {
        self.live.load(Ordering::Acquire)
    }

    /// Appends the unfinished tasks that come before `heir`'s access to this piece, here and in the domains of the
    /// tasks found here. Passes the failures of finished tasks to `heir` at once.
    pub(super) fn predecessors(self: &Arc<Self>, piece: Piece, heir: &Task, out: &mut Vec<Predecessor>) {
        // Not by recursion: there may be a long chain of tasks that hold data weakly.
        let (mut visited, mut next) = (vec![(self.clone(), piece)], 0);
        while let Some((domain, piece)) = visited.get(next).cloned() {
            next += 1;
            let histories = domain.histories.lock();
            let Some(history) = histories.find(piece.data).filter(|_| domain.is_live()) else { continue };
            history.peek(&piece.block, |block, fragment| {
                // If `heir` waits for a task at only part of the piece, that task may hold another part weakly, which
                // other tasks have accessed since.
                let is_part = block != piece.block;
                let piece = Piece { block, ..piece };
                let passes_on = |task: &TaskRef| is_part && task.shared().domain.get().is_some();
                fragment.predecessors(piece.mode, |(task, flow), is_weak| match task.is_finished() {
                    false if is_weak || passes_on(&task) => out.push((join::at_piece(&task, flow, piece, None), flow)),
                    false => out.push((task, flow)),
                    true => {
                        task.pass_poison(flow, heir);
                        visited.extend(live_domain(&task).map(|inner| (inner.clone(), piece)));
                    }
                });
            });
        }
        visited.iter().rev().for_each(|(domain, _)| domain.prune());
        out.sort_unstable_by_key(|(task, flow)| (task.address(), *flow == Flow::Order));
        out.dedup_by_key(|(task, _)| task.address());
    }

    /// Like [`Self::prune`], but first prunes the domains of all tasks that are still in this domain's histories.
    ///
    /// Not by recursion: there may be a long chain of tasks that hold data weakly.
    #[cold]
    pub(super) fn forget_ended(self: &Arc<Self>) {
        let (mut visited, mut known, mut next) = (vec![self.clone()], FxHashSet::default(), 0);
        while let Some(domain) = visited.get(next).cloned() {
            next += 1;
            for (_, history) in &domain.histories.lock().of_data {
                history.peek(&Block::whole(&[usize::MAX; MAX_DIMS]), |_, fragment| {
                    fragment.predecessors(Mode::Inout, |(task, _), _| {
                        let inner = live_domain(&task).filter(|_| task.is_finished());
                        visited.extend(inner.filter(|inner| known.insert(inner.task)).cloned());
                    });
                });
            }
        }
        visited.iter().rev().for_each(|domain| domain.prune());
    }

    /// Forgets all tasks if everything is complete and no newcomer can depend on any of the tasks.
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
            histories.of_data = Vec::new();
            self.live.store(false, Ordering::Release);
        }
    }

    /// Appends the pieces that `access` writes and that children may still read although the body has ended. The
    /// accessing task has already waited for the body.
    ///
    /// The accessing task waited for the body's task itself, not for a join. So only the pieces that the body's task
    /// reads matter, and only for ordering. Other tasks may since have overwritten the pieces that the body's task
    /// holds weakly, and with them any earlier failures.
    pub(super) fn read_in_place(&self, access: &AccessRecord<'_>, pieces: &mut Vec<Piece>) {
        let (data, writes) = (access.datum.id, access.mode.writes());
        for held in self.held.iter().filter(|held| held.data == data && held.mode == Mode::In && writes) {
            let block = held.block.intersection(access.block);
            pieces.extend(block.filter(|block| !block.is_empty()).map(|block| Piece { data, block, mode: Mode::Out }));
        }
    }

    /// Returns the task that `successor`, which has waited for the body, must wait for next. May poison `successor`.
    fn next_for(self: &Arc<Self>, successor: &Task, body: &(dyn Body + 'static)) -> Option<Predecessor> {
        if !self.is_live() {
            return None;
        }
        let (mut found, mut pieces) = (Vec::new(), Cow::Borrowed(body.stands_at()));
        if pieces.is_empty() {
            body.accesses(&mut |access| self.read_in_place(&access, pieces.to_mut()));
        }
        pieces.iter().for_each(|piece| self.predecessors(*piece, successor, &mut found));
        match found.len() {
            0 | 1 => found.pop(),
            _ => Some((join::standing_for(&found, successor.shared().location, &pieces), Flow::Value)),
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

impl Drop for Domain {
    /// Defers dropping the contents until the enclosing drops have returned, because the tasks in the histories have
    /// domains too, and dropping those recursively could exhaust the stack.
    fn drop(&mut self) {
        thread_local! {
            static CONTENTS: DeferredDrop<(Histories, Option<Arc<Domain>>)> = const { DeferredDrop::new() };
        }
        let (histories, outer) = (std::mem::take(self.histories.get_mut()), self.outer.get_mut().take());
        if !histories.of_data.is_empty() || outer.is_some() {
            DeferredDrop::drop(&CONTENTS, (histories, outer));
        }
    }
}

impl fmt::Debug for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Domain").field("task", &self.task).field("pending", &self.pending).finish_non_exhaustive()
    }
}

/// Returns the domain of a finished task if other tasks may still have to wait for a task in the domain.
pub(super) fn live_domain(task: &TaskRef) -> Option<&Arc<Domain>> {
    task.shared().domain.get().filter(|domain| domain.is_live())
}

/// Ends a task. Hands to `ready` each successor that is not waiting for any other task, the last submitted first.
/// Successors that must also wait for the task's children are moved on to the children. The task's group and parent are
/// notified last, when every thread can see that the task has finished.
#[inline(always)] // on the path of every task
pub(crate) fn finish(task: OwnedTask, ready: impl FnMut(OwnedTask)) {
    if task.owned().is_bare() && task.shared().domain.get().is_none() {
        task.finish(ready);
    } else {
        finish_with_kin(task, ready);
    }
}

#[cold]
fn finish_with_kin(mut task: OwnedTask, ready: impl FnMut(OwnedTask)) {
    let (child, domain) = (task.owned_mut().child.take(), task.shared().domain.get().cloned());
    let side = task.owned_mut().side.as_mut();
    let ends = side.map(|side| (side.membership.take(), side.allocation.take()));
    if let (Some(child), Some(cause)) = (&child, task.poison()) {
        child.0.note(&cause);
    }
    match domain {
        None => {
            task.finish(ready);
            drop(child);
        }
        Some(domain) => {
            domain.histories.lock().sealed = true;
            task.finish_into(|successor, body| domain.next_for(successor, body), ready);
            child.into_iter().for_each(Child::leave_by_domain);
            domain.leave();
        }
    }
    drop(ends);
}
