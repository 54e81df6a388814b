//! Registration: enters one task's accesses into the histories of its data objects.
//!
//! The locks of a task's data objects are taken in address order. An edge is two words in the new task's block, linked
//! into the predecessor's list by one compare-exchange. An access to an empty region is ordered only with the task that
//! gives up the data object. A *probe* is the join through which an `outcome` access learns of a failure: the probe is
//! entered as a reader, so it is poisoned like any reader.

use super::domain::{Domain, live_domain};
use super::fragment::Fragment;
use super::history::History;
use super::join::{self, LastJoin, Predecessor};
use super::node::{Own, Piece};
use super::recorder::Recorder;
use super::reduction::{Lane, Ticket};
use super::{AccessRecord, Accumulation, Datum, Mode, OwnedTask, Side, Submitting, TaskRef};
use crate::error::SubmitError;
use crate::ids::{DataId, TaskId};
use crate::region::{Block, Part};
use crate::sync::{Flow, LockGuard};
use arrayvec::ArrayVec;
use std::ops::DerefMut;
use std::sync::Arc;

/// Up to this many accesses are handled without allocating memory.
pub(crate) const FEW_ACCESSES: usize = 12;

type Guard<'a> = LockGuard<'a, History>;

/// Work left to the caller after the locks have been released.
#[derive(Default)]
pub(crate) struct Leftover {
    /// Ready joins that the newcomer waits for; the caller must finish them.
    pub(crate) joins: Vec<OwnedTask>,
    /// Groups that are no longer needed. Dropping them may run user code.
    pub(crate) groups: Vec<Arc<Accumulation>>,
}

/// Finds the predecessors of `task`, which declares `accesses`, and makes it wait for those that have not finished.
///
/// Appends the predecessors that it waits for to `after`, except for joins.
///
/// All locks are held until the last access is entered (invariant 1 of [`super`]). A child is entered under the lock of
/// its parent's domain; the data objects' own histories are then locked one at a time.
///
/// # Errors
/// Returns an error if a data object was taken in the meantime; in that case nothing was entered. This is the point
/// that orders a take relative to other tasks, because a task that gives up a data object's memory marks the data
/// object as taken under the same lock.
#[inline]
pub(crate) fn register(
    task: &mut Submitting,
    accesses: &[AccessRecord<'_>],
    recorder: Option<&Recorder>,
    after: Option<&mut Vec<TaskId>>,
) -> Result<Option<Box<Leftover>>, SubmitError> {
    let is_child = task.owned().child.is_some();
    let mut newcomer = Newcomer::new(task, accesses, recorder);
    newcomer.after = after;
    match accesses {
        _ if is_child => newcomer.enter_child()?,
        [] => {}
        [one] => {
            let mut history = one.datum.history.lock();
            if !newcomer.admit(one, &mut history)? {
                history.enter(0, one, &mut newcomer);
            }
        }
        few if few.len() <= FEW_ACCESSES => newcomer.enter_few(few)?,
        many => newcomer.enter_many(many)?,
    }
    Ok(newcomer.settle())
}

impl Leftover {
    /// Adds the work that another task has left.
    pub(super) fn add(&mut self, other: Self) {
        self.joins.extend(other.joins);
        self.groups.extend(other.groups);
    }
}

/// Returns the stamp that a task leaves in its predecessors to avoid linking a second edge: the task's ID, shifted to
/// make room for the flow in the lowest bit. A stamp is never 0 and is unique to its task.
#[inline]
fn stamp(id: TaskId) -> u64 {
    (id.0 + 1) << 1
}

/// Combines a predecessor's address with the edge's flow in the lowest bit.
#[inline]
fn seen(address: usize, flow: Flow) -> usize {
    address | usize::from(flow == Flow::Value)
}

/// Returns the address that determines the locking order of data objects.
#[inline]
pub(super) fn address(accesses: &[AccessRecord<'_>], i: usize) -> usize {
    std::ptr::from_ref(accesses[i].datum).addr()
}

#[cold]
pub(super) fn taken(task: &Submitting, datum: &Datum) -> SubmitError {
    SubmitError::Taken { task: task.shared().name.clone().into(), data: datum.to_string() }
}

/// The task that is being entered.
pub(super) struct Newcomer<'a> {
    task: &'a mut Submitting,
    accesses: &'a [AccessRecord<'a>],
    /// The index of the access that is being entered.
    current: usize,
    /// The result of [`stamp`] for the task.
    stamp: u64,
    /// The most recently visited predecessor, as encoded by [`seen`]. Reset to 0 whenever the address of a freed task
    /// may have been reused for a new task: when a join is made, or when another lock is taken.
    latest: usize,
    recorder: Option<&'a Recorder>,
    after: Option<&'a mut Vec<TaskId>>,
    last_join: LastJoin,
    leftover: Option<Box<Leftover>>,
}

impl<'a> Newcomer<'a> {
    /// Makes a newcomer that waits for no task yet.
    #[inline(always)] // on the path of every task
    pub(super) fn new(
        task: &'a mut Submitting,
        accesses: &'a [AccessRecord<'a>],
        recorder: Option<&'a Recorder>,
    ) -> Self {
        let stamp = stamp(task.shared().id);
        let (last_join, leftover) = (LastJoin::default(), None);
        Self { task, accesses, current: 0, stamp, latest: 0, recorder, after: None, last_join, leftover }
    }

    /// Returns the data object whose access is being entered.
    pub(super) fn data(&self) -> DataId {
        self.accesses[self.current].datum.id
    }

    /// Enters an access that probably adjoins the access most recently entered into the same history.
    #[inline]
    pub(super) fn enter_next(&mut self, access: usize, history: &mut History) {
        self.current = access;
        history.enter_next(access, &self.accesses[access], self);
    }

    /// Completes the registration and returns the work that is left to the caller. Called once, when all accesses are
    /// entered. Takes a reference, because a copy would have to wait for the single stores to the newcomer.
    #[inline(always)] // on the path of every task
    pub(super) fn settle(&mut self) -> Option<Box<Leftover>> {
        if let Some(side) = &mut **self.task.owned_mut() {
            side.tickets.reverse(); // tickets are popped from the end, and a lane's turns must be taken in order
            side.turns.settle();
            let predecessors = std::mem::take(&mut side.predecessors);
            self.current = self.accesses.len(); // a result is not a region, so no children can replace its task there
            predecessors.iter().for_each(|(task, flow)| self.wait_for(task, *flow));
        }
        self.last_join.forget();
        self.leftover.take()
    }
}

impl Newcomer<'_> {
    /// Enters several accesses, grouped by data object, in address order.
    #[inline]
    fn enter_few(&mut self, accesses: &[AccessRecord<'_>]) -> Result<(), SubmitError> {
        let mut order = [0; FEW_ACCESSES];
        let order = &mut order[..accesses.len()];
        for i in 1..accesses.len() {
            let mut at = i;
            while at > 0 && address(accesses, order[at - 1]) > address(accesses, i) {
                order[at] = order[at - 1];
                at -= 1;
            }
            order[at] = i;
        }
        self.enter_all(accesses, order, ArrayVec::<_, FEW_ACCESSES>::new(), ArrayVec::push)
    }

    /// Like [`Self::enter_few`], for any number of accesses.
    #[cold]
    fn enter_many(&mut self, accesses: &[AccessRecord<'_>]) -> Result<(), SubmitError> {
        let mut order: Vec<_> = (0..accesses.len()).collect();
        order.sort_by_key(|i| address(accesses, *i));
        self.enter_all(accesses, &order, Vec::new(), Vec::push)
    }

    /// Enters accesses in the given order, in which accesses to the same data object must be adjacent. Keeps the locks
    /// in `guards`.
    #[inline]
    fn enter_all<'a, G: DerefMut<Target = [Guard<'a>]>>(
        &mut self,
        accesses: &[AccessRecord<'a>],
        order: &[usize],
        mut guards: G,
        keep: impl Fn(&mut G, Guard<'a>),
    ) -> Result<(), SubmitError> {
        let mut previous = 0;
        for &i in order {
            if address(accesses, i) != previous {
                previous = address(accesses, i);
                let mut history = accesses[i].datum.history.lock();
                self.admit(&accesses[i], &mut history)?;
                keep(&mut guards, history);
            }
        }
        let (mut guard, mut previous) = (0, address(accesses, order[0]));
        for &i in order {
            guard += usize::from(address(accesses, i) != previous);
            previous = address(accesses, i);
            self.current = i;
            guards[guard].enter(i, &accesses[i], self);
        }
        Ok(())
    }

    /// Returns an error if the data object was taken; marks it as taken if the newcomer is about to give it up. The
    /// caller holds the history's lock.
    ///
    /// Returns true if this has already determined the newcomer's predecessors, so that the access need not be entered:
    /// no task comes after the task that gives up the memory, and if giving it up fails, the history must be unchanged.
    #[inline(always)] // on the path of every task
    fn admit(&mut self, access: &AccessRecord<'_>, history: &mut History) -> Result<bool, SubmitError> {
        if self.task.owned().side.is_none() && !access.datum.is_taken() {
            Ok(false)
        } else {
            self.examine(access, history)
        }
    }

    /// The slow path of [`Self::admit`], if there may be something to do.
    #[cold]
    fn examine(&mut self, access: &AccessRecord<'_>, history: &mut History) -> Result<bool, SubmitError> {
        let datum = access.datum;
        if datum.is_taken() {
            return Err(taken(self.task, datum));
        }
        let Some(side) = &**self.task.owned_mut() else { return Ok(false) };
        if let Some(sources) = side.sources.clone() {
            let here = self.accesses.iter().filter(|other| std::ptr::eq(other.datum, datum));
            if !sources.look(here, history) {
                // This error never reaches a user, because the submitter of such a task checks the sources first.
                return Err(taken(self.task, datum));
            }
            return Ok(false);
        }
        if side.has_outcomes {
            self.ask_at(datum, |probe, record| history.enter(0, record, probe));
            return Ok(false);
        }
        let (gives_up, is_behind_all) = (side.forget == Some(datum.id), side.behind_all);
        if gives_up {
            datum.set_taken(true);
        }
        if gives_up || is_behind_all {
            history.wait_for_all(access, self);
        }
        Ok(gives_up || is_behind_all)
    }

    /// Makes the newcomer wait for `predecessor`, unless that has finished or is the newcomer itself.
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
        if predecessor.address() == self.task.address() {
            return;
        }
        let (value, this) = (self.stamp | 1, self.stamp | u64::from(flow == Flow::Value));
        let met = predecessor.stamp();
        if met == value || met == this {
            return; // another newcomer may have overwritten the stamp; a second edge is harmless
        }
        predecessor.set_stamp(this);
        if let Some(recorder) = self.recorder {
            let datum = self.accesses.get(self.current).map(|access| access.datum);
            if !recorder.edge(predecessor.shared(), self.task.shared(), flow, datum) {
                return;
            }
        }
        if self.task.wait_for(predecessor, flow).is_err() {
            predecessor.set_stamp(0); // there is no edge, so every access must look up the tasks that replace it
            self.inherit(predecessor, flow);
        } else if let Some(after) = self.after.as_mut().filter(|_| !predecessor.shared().join) {
            after.push(predecessor.shared().id);
        }
    }

    /// Poisons the newcomer if it uses the value of this finished predecessor and the predecessor is poisoned.
    #[inline]
    fn inherit(&mut self, predecessor: &TaskRef, flow: Flow) {
        predecessor.pass_poison(flow, self.task);
        if let Some(domain) = live_domain(predecessor) {
            self.wait_within(domain);
        }
    }

    /// Makes the newcomer wait for the accesses to `part` that `predecessor`, which holds the part weakly, leaves to
    /// its children.
    #[cold]
    pub(super) fn wait_at(&mut self, predecessor: &TaskRef, flow: Flow, part: &Part<'_>) {
        predecessor.pass_poison(flow, self.task);
        let join = self.join_at(predecessor, flow, part);
        self.wait_for(&join, flow);
        self.latest = 0;
    }

    /// Returns a join that finishes when the accesses left to the children of `predecessor` have ended.
    #[cold]
    pub(super) fn join_at(&mut self, predecessor: &TaskRef, flow: Flow, part: &Part<'_>) -> TaskRef {
        self.latest = 0;
        let piece = Piece { block: part.block(), ..Piece::of(&self.accesses[self.current]) };
        join::at_piece(predecessor, flow, piece, self.recorder)
    }

    /// Makes the newcomer wait for the tasks that replace a predecessor whose body has ended.
    #[cold]
    fn wait_within(&mut self, domain: &Arc<Domain>) {
        self.latest = 0; // other tasks may replace it at the next access
        let Some(access) = self.accesses.get(self.current) else { return };
        let (mut found, mut pieces) = (Vec::new(), Vec::new());
        domain.read_in_place(access, &mut pieces);
        pieces.into_iter().for_each(|piece| domain.predecessors(piece, self.task, &mut found));
        found.iter().for_each(|(task, flow)| self.wait_for_unfinished(task, *flow));
    }

    /// Hands down to the newcomer's children what the newcomer would have waited for at `part`.
    #[cold]
    pub(super) fn hand_down(&self, part: &Part<'_>, fragment: &Fragment) {
        if let Some(domain) = self.task.shared().domain.get() {
            domain.hand_down(self.accesses[self.current].datum, part, fragment);
        }
    }

    /// Enters a child: accesses that belong to the parent's domain are entered there, and all others in the data
    /// objects' own histories.
    #[cold]
    fn enter_child(&mut self) -> Result<(), SubmitError> {
        let Some(parent) = self.task.owned().child.as_ref().map(|child| child.parent().clone()) else { return Ok(()) };
        let mut histories = parent.lock();
        if histories.sealed {
            return Err(SubmitError::NoParent { task: self.task.shared().name.clone().into() });
        }
        if parent.replayed().is_some() {
            // Other threads check whether a task belongs to a replay, and only its domain records that.
            let visit =
                |visit: &mut dyn FnMut(AccessRecord<'_>)| self.accesses.iter().for_each(|access| visit(*access));
            let own = || Arc::new(Domain::new(self.task.shared(), self.task.owned().child.as_ref(), visit));
            self.task.shared().domain.get_or_init(own);
        }
        // A task that gives up a data object declared by the parent comes after the parent, and therefore also after
        // the parent's children.
        let is_gone = |access: &&AccessRecord<'_>| access.datum.is_taken() && !parent.takes(access);
        if let Some(access) = self.accesses.iter().find(is_gone) {
            return Err(taken(self.task, access.datum));
        }
        for (i, access) in self.accesses.iter().enumerate() {
            if access.mode == Mode::Outcome {
                self.ask(i, |probe, record| {
                    if !parent.enter(&mut histories, 0, record, probe) {
                        record.datum.history.lock().enter(0, record, probe);
                    }
                });
            }
            (self.current, self.latest) = (i, 0);
            if !parent.enter(&mut histories, i, access, self) {
                access.datum.history.lock().enter(i, access, self);
            }
        }
        Ok(())
    }

    /// [Asks](Self::ask) for each outcome of this data object.
    #[cold]
    fn ask_at(&mut self, datum: &Datum, mut enter: impl FnMut(&mut Newcomer<'_>, &AccessRecord<'_>)) {
        for (i, access) in self.accesses.iter().enumerate() {
            if access.mode == Mode::Outcome && std::ptr::eq(access.datum, datum) {
                self.ask(i, &mut enter);
            }
        }
    }

    /// Makes a probe for an outcome: a join that `enter` enters as a task that reads the region of the access. So
    /// anything that would have poisoned a reader poisons the probe. The newcomer waits for the probe but does not
    /// inherit its poison.
    ///
    /// No edge is linked here, because the newcomer may yet be refused. A probe of a refused newcomer stays in the
    /// history as a reader, and ends when its predecessors have ended.
    #[cold]
    fn ask(&mut self, access: usize, enter: impl FnOnce(&mut Newcomer<'_>, &AccessRecord<'_>)) {
        let record = AccessRecord { mode: Mode::In, ..self.accesses[access] };
        let mut probe = join::bodiless(Own::default(), |_| ());
        let records = [record];
        let mut reader = Newcomer::new(&mut probe, &records, self.recorder);
        enter(&mut reader, &record);
        if let Some(left) = reader.settle() {
            self.leftover.get_or_insert_default().add(*left);
        }
        let asked = probe.share();
        if let Some(ended) = probe.commit() {
            ended.finish(|_| unreachable!("nothing waits for a new probe"));
        }
        self.task.body().ask(access, asked.clone());
        self.side().predecessors.push((asked, Flow::Order));
    }

    /// Whether finished tasks must be kept, because the recorded graph shows them too.
    pub(super) fn keeps_finished(&self) -> bool {
        self.recorder.is_some_and(Recorder::keeps_finished)
    }

    /// Returns the state that few tasks need.
    pub(super) fn side(&mut self) -> &mut Side {
        self.task.owned_mut().get_or_insert_default()
    }

    /// Whether `task` is the newcomer itself or a sibling that is entered together with it. Such a task is not put into
    /// a join. A later task waits for a tile's readers at every part of the tile, so a sibling would also have to wait
    /// for `task` where the two share no element.
    pub(super) fn is_sibling(&self, task: &TaskRef) -> bool {
        let eldest = self.task.owned().side.as_ref().and_then(|side| side.eldest);
        task.address() == self.task.address() || eldest.is_some_and(|eldest| task.shared().id >= eldest)
    }

    /// Returns a join that stands for all of these tasks.
    pub(super) fn join(&mut self, tasks: Vec<Predecessor>) -> TaskRef {
        self.latest = 0;
        self.last_join.of(self.accesses[self.current].datum, tasks, self.recorder)
    }

    /// Returns a join that combines what a group of these members has accumulated at `part`.
    #[cold]
    pub(super) fn join_accumulation(
        &mut self,
        members: Vec<Predecessor>,
        group: Arc<Accumulation>,
        part: Block,
    ) -> TaskRef {
        self.latest = 0;
        let part = Piece { block: part, mode: Mode::Inout, ..Piece::of(&self.accesses[self.current]) };
        let (join, ready) = join::combining(&members, group, part, self.recorder);
        self.leftover.get_or_insert_default().joins.extend(ready);
        join
    }

    /// Leaves a group that is no longer needed for the caller to drop.
    #[cold]
    pub(super) fn leave(&mut self, group: Arc<Accumulation>) {
        self.leftover.get_or_insert_default().groups.push(group);
    }

    /// Gives the access a ticket for `part` in this lane.
    pub(super) fn take_ticket(&mut self, access: usize, lane: &Arc<Lane>, part: Block) {
        let elements = self.accesses[access].block.volume();
        Ticket::issue(&mut self.side().tickets, lane, access, elements, part);
    }

    /// Whether the access that is being entered is a reduction that is combined where its task runs.
    pub(super) fn is_reduced_in_place(&self) -> bool {
        self.accesses[self.current].is_reduced_in_place()
    }

    /// Makes the access a member of this group, at `part`.
    pub(super) fn enlist(&mut self, access: usize, group: &Arc<Accumulation>, part: &Block) {
        self.task.body().enlist(access, group, part);
    }

    #[inline]
    pub(super) fn id(&self) -> TaskId {
        self.task.shared().id
    }

    #[inline]
    pub(super) fn address(&self) -> usize {
        self.task.address()
    }

    /// Forgets the most recently visited predecessor, because tasks may have been freed and their addresses reused.
    pub(super) fn forget_latest(&mut self) {
        self.latest = 0;
    }

    /// Returns a reference to the newcomer for a history to keep.
    #[inline]
    pub(super) fn share(&mut self) -> TaskRef {
        self.task.share()
    }
}
