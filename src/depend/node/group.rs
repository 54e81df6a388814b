//! Task groups: the number of unfinished members, the members' failures, and cancellation.
//!
//! A member's body is wrapped ([`Boxed`]), and the member's owner has a [`Membership`], which counts the task out when
//! it is dropped. That happens at the very end, when everything that the body captured has been dropped and the task's
//! successors have been released. So a task without a group pays only for checking that it has none.
//!
//! A future that has begun is registered in its task's groups as a weak reference, so that cancelling a group can find
//! it. Cancelling wakes the future, and the unit's thread that would poll it drops it instead ([`Detachment::cancel`]).
//!
//! When a group is cancelled, members that have not begun fail as cancelled and poison the regions that they would have
//! written. The body's wrapper checks for this.
//!
//! Nothing in this module waits or runs anything on a group's behalf.
//!
//! Invariants:
//! 1. A group counts a member from before the member's submission until its membership is dropped, which is the last
//!    thing that the task's owner does: by then the body has been dropped, any failure has been noted, and every handle
//!    shows the task as finished.
//! 2. A member is counted in its group and in all enclosing groups.
//! 3. Under the lock, references are only moved; no failure is dropped and no future is woken.

use super::{Body, Detachment, Env, Kinds, Leaving, Site, Stop, TaskRef};
use crate::depend::{AccessRecord, Accumulation};
use crate::error::{BoxError, Cancelled, TaskFailure};
use crate::ids::Iteration;
use crate::kernel::{Combination, DeviceSite, Launcher};
use crate::region::Block;
use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::Waker;

/// State that the tasks of one group share.
#[derive(Default)]
pub(crate) struct Group {
    /// The group that contains this one.
    parent: Option<Arc<Group>>,
    /// Number of members that have not ended, including those of subgroups.
    members: AtomicU64,
    cancelled: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The failures of members that did not run to their end.
    failures: Causes,
    /// Wakers of the threads and futures that wait until all members have ended.
    waiting: Vec<Waker>,
    /// Members whose futures have begun but not ended, by address.
    futures: FxHashMap<usize, Weak<Detachment>>,
}

/// Failures in the order in which they happened, without duplicates.
#[derive(Debug, Default)]
pub(in crate::depend) struct Causes {
    all: Vec<Arc<TaskFailure>>,
    /// The addresses of the failures.
    known: FxHashSet<usize>,
}

impl Causes {
    pub(in crate::depend) fn note(&mut self, failure: &Arc<TaskFailure>) {
        if self.known.insert(Arc::as_ptr(failure).addr()) {
            self.all.push(failure.clone());
        }
    }

    /// Takes the failures noted since the last call.
    pub(in crate::depend) fn take(&mut self) -> Vec<Arc<TaskFailure>> {
        self.known.clear();
        std::mem::take(&mut self.all)
    }
}

impl Group {
    /// Makes a group inside this one.
    pub(crate) fn part(self: &Arc<Self>) -> Self {
        let mut part = Self::default();
        part.parent = Some(self.clone());
        part
    }

    /// Visits this group, the group that contains it, and so on.
    pub(crate) fn line(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |group| group.parent.as_deref())
    }

    /// Returns the number of members that have not ended.
    pub(crate) fn left(&self) -> u64 {
        self.members.load(Ordering::Acquire)
    }

    /// Cancels members that have not begun, and those whose futures have begun.
    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
        let begun: Vec<_> = self.state.lock().futures.values().filter_map(Weak::upgrade).collect();
        begun.iter().for_each(Detachment::cancel);
    }

    /// Records that a member's future has been polled, for the first time unless it had `begun` before.
    #[cold]
    fn polled(&self, begun: bool, Leaving { detachment, waits }: &Leaving) {
        let address = Arc::as_ptr(detachment).addr();
        match (begun, *waits) {
            (false, true) => {
                for group in self.line() {
                    group.state.lock().futures.insert(address, Arc::downgrade(detachment));
                }
                // Both sides take the lock, so either `cancel` finds the future in the map, or `cancel`'s flag is
                // visible here.
                if self.is_cancelled() {
                    detachment.cancel();
                }
            }
            (true, false) => self.line().for_each(|group| _ = group.state.lock().futures.remove(&address)),
            _ => {}
        }
    }

    /// Whether this group or one that contains it was cancelled.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.line().any(|group| group.cancelled.load(Ordering::Acquire))
    }

    /// Takes the members' failures since the last call, in the order in which they happened.
    pub(crate) fn take_failures(&self) -> Vec<Arc<TaskFailure>> {
        self.state.lock().failures.take()
    }

    /// Records why a member will not run to its end.
    pub(crate) fn note(&self, failure: &Arc<TaskFailure>) {
        for group in self.line() {
            group.state.lock().failures.note(failure);
        }
    }

    /// Registers a waker that is woken when no member is left. The registration lasts until the returned value is
    /// dropped.
    pub(crate) fn tell(self: &Arc<Self>, waker: Waker) -> Told {
        self.state.lock().waiting.push(waker.clone());
        Told { group: self.clone(), waker }
    }

    /// Adds a member.
    pub(crate) fn enter(self: &Arc<Self>) -> Membership {
        self.line().for_each(|group| _ = group.members.fetch_add(1, Ordering::Relaxed));
        Membership(self.clone())
    }

    fn leave(&self) {
        for group in self.line() {
            // A waiter that registers its waker after this decrement sees a count of 0; a waiter that registered
            // earlier is found below.
            if group.members.fetch_sub(1, Ordering::AcqRel) == 1 {
                let waiting = group.state.lock().waiting.clone();
                waiting.into_iter().for_each(Waker::wake);
            }
        }
    }
}

impl Drop for Group {
    /// Drops the enclosing groups in a loop, because recursion over many nested groups could overflow the stack.
    fn drop(&mut self) {
        let mut next = self.parent.take();
        while let Some(mut group) = next.and_then(Arc::into_inner) {
            next = group.parent.take();
        }
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Group({} left{})", self.left(), if self.is_cancelled() { ", cancelled" } else { "" })
    }
}

/// Registration of a waker that is woken when no member of a group is left.
pub(crate) struct Told {
    group: Arc<Group>,
    waker: Waker,
}

impl Drop for Told {
    fn drop(&mut self) {
        let mut state = self.group.state.lock();
        let own = state.waiting.iter().rposition(|other| other.will_wake(&self.waker));
        let own = own.map(|own| state.waiting.swap_remove(own));
        drop(state);
        drop(own);
    }
}

/// A task's membership in a group, which ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Membership(Arc<Group>);

impl Drop for Membership {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// The boxed body of a task that is in a group or has bodies for devices.
///
/// Its type does not depend on the body's type, so the compiler instantiates each of a program's task types only once,
/// and not again for groups and for devices.
pub(crate) struct Boxed {
    body: Box<dyn Body>,
    group: Option<Arc<Group>>,
}

impl Boxed {
    pub(crate) fn new(body: Box<dyn Body>, group: Option<Arc<Group>>) -> Self {
        Self { body, group }
    }

    /// Called before the task begins. If the group was cancelled, drops the body and returns an error.
    fn begin(&self) -> Result<(), BoxError> {
        if !self.group.as_ref().is_some_and(|group| group.is_cancelled()) {
            return Ok(());
        }
        self.body.discard();
        Err(Box::new(Cancelled))
    }
}

#[allow(unsafe_code)] // the contract of `Body`
// SAFETY: `accesses` calls the same method of the body inside, whose implementation upholds the contract. The group is
// in an `Arc` that no method replaces. `stands_at` is the default, which reads nothing.
unsafe impl Body for Boxed {
    fn accesses(&self, visit: &mut dyn FnMut(AccessRecord<'_>)) {
        self.body.accesses(visit);
    }

    fn run(&self, env: &Env<'_>) -> Result<(), Box<Stop>> {
        let Some(group) = &self.group else { return self.body.run(env) };
        let begun = self.body.has_begun();
        let ran = if begun {
            self.body.run(env) // a future keeps the context of its first poll
        } else {
            self.begin().map_err(|cancelled| Box::new(Stop::Failed(cancelled)))?;
            let context = env.context.in_group(group);
            self.body.run(&Env { context: &context, ..*env })
        };
        if let Err(stop) = &ran
            && let Stop::Detached(leaving) = &**stop
        {
            group.polled(begun, leaving);
        }
        ran
    }

    fn has_begun(&self) -> bool {
        self.body.has_begun()
    }

    fn home(&self, access: usize) -> Option<Site> {
        self.body.home(access)
    }

    fn enqueue(&self, launcher: &mut Launcher<'_>, sites: &[DeviceSite]) -> Result<(), BoxError> {
        self.begin()?;
        self.body.enqueue(launcher, sites)
    }

    fn discard(&self) {
        self.body.discard();
    }

    fn combination(&self, access: usize) -> Option<Combination> {
        self.body.combination(access)
    }

    fn private(&self, access: usize) -> Option<(*mut u8, usize)> {
        self.body.private(access)
    }

    fn combine(&self, access: usize, block: &Block) {
        self.body.combine(access, block);
    }

    fn replica(&self, access: usize) -> Option<(&[u8], Block)> {
        self.body.replica(access)
    }

    fn absorb(&self, access: usize, block: &Block, other: (&[u8], Block)) {
        self.body.absorb(access, block, other);
    }

    fn retire(&self, access: usize) {
        self.body.retire(access);
    }

    fn enlist(&self, access: usize, group: &Arc<Accumulation>, part: &Block) {
        self.body.enlist(access, group, part);
    }

    fn ask(&self, access: usize, probe: TaskRef) {
        self.body.ask(access, probe);
    }

    fn spoil(&self, access: usize, cause: &Arc<TaskFailure>) {
        self.body.spoil(access, cause);
    }

    fn is_spoiled(&self, access: usize) -> bool {
        self.body.is_spoiled(access)
    }

    fn keep(&self) {
        self.body.keep();
    }

    fn group(&self) -> Option<&Group> {
        self.group.as_deref()
    }

    fn failed(&self, failure: &Arc<TaskFailure>) {
        self.group.iter().for_each(|group| group.note(failure));
    }

    fn kinds(&self) -> Kinds {
        self.body.kinds()
    }

    fn iteration(&self) -> Iteration {
        self.body.iteration()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::depend::finish;
    use crate::depend::hand_made::task;
    use crate::sync::Flow;

    /// A thread that is notified that no member is left finds all members finished and their successors released.
    #[test]
    fn member_counts_until_it_has_finished() {
        let all = Arc::new(Group::default());
        let group = Arc::new(all.part());
        let [mut member, mut behind] = [1, 2].map(|id| task(id, Kinds::CPU, &[]));
        member.owned_mut().get_or_insert_default().membership = Some(group.enter());
        let handle = member.share();
        behind.wait_for(&handle, Flow::Order).unwrap();
        assert!(behind.commit().is_none(), "the successor waits for the member");
        let mut let_go = None;
        finish(member.commit().unwrap(), |task| {
            assert!(handle.is_finished());
            assert!(group.line().all(|group| group.left() == 1), "the member is not counted out yet");
            let_go = Some(task);
        });
        assert!(group.line().all(|group| group.left() == 0));
        finish(let_go.expect("the successor has no predecessor left"), |_| unreachable!());
    }
}
