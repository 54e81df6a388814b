//! Graphs of tasks that run repeatedly: blocks, bodies and edges stay from one round to the next.
//!
//! The tasks are created, linked and committed like all tasks, and then given to [`Rounds`], which lays out their edges
//! contiguously ([`super::fixed`]). In a round, a task that has run counts its successors down and leaves its list as
//! it is ([`OwnedTask::end_round`]). The thread that counts a task's last blocker down resets the countdown for the
//! next round before it takes the task up. So nothing has to be reset between two rounds.
//!
//! Invariants:
//! 1. One task, the *last*, waits for all tasks that have no other successor. When it is owned, all others have ended:
//!    the thread that counted a successor down for the last time does not touch the graph after that.
//! 2. A round begins only when none is under way, and has ended when the last task is given back. If a task that was
//!    handed out is never given back (because the runtime broke down), the graph counts as still running and is leaked.
//! 3. Edges and their counts do not change once the graph is closed.
//! 4. The stamp of each task records that it is in such a graph: no other code writes it, as none of the tasks is in a
//!    history.

use super::atomic::{AtomicBool, Ordering};
use super::edges::{EdgeStore, Link};
use super::fixed::FixedEdges;
use super::owned::OwnedTask;
use super::submitting::Submitting;
use super::successors::Edge;
use super::task::{Flow, Kind, Task, TaskRef, drop_quietly};
use rustc_hash::FxHashSet;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// The stamp of tasks that run in rounds.
pub(super) const IN_ROUNDS: u64 = u64::MAX;

/// The number of tasks that one gatherer waits for. It is large enough that threads that end tasks concurrently seldom
/// meet at the same gatherer.
const GATHERED: usize = 32;

/// The number of root tasks that one starter makes ready when it is run. They are in the cache when they run.
const STARTED: usize = 32;

/// A task that a graph needs in addition to its own tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Helper {
    /// Runs like a task, but only makes other tasks ready.
    Starter,
    /// Waits for other tasks, and is not run.
    Gatherer,
    /// The one gatherer that ends the round.
    Last,
}

/// A graph that runs any number of times.
pub(crate) struct Rounds<K: Kind> {
    /// Every task; the tasks that the graph was made from come first, in their order.
    all: Box<[NonNull<Task<K>>]>,
    /// The tasks without predecessors.
    roots: Box<[NonNull<Task<K>>]>,
    last: NonNull<Task<K>>,
    /// Present until the graph is dropped.
    edges: Option<FixedEdges<K>>,
    under_way: AtomicBool,
}

// SAFETY: the tasks are `Send + Sync`, and their unshared parts are reached only between rounds, with `&mut`.
unsafe impl<K: Kind> Send for Rounds<K> {}
// SAFETY: the same argument as for `Send`.
unsafe impl<K: Kind> Sync for Rounds<K> {}

/// Evidence that no task of a graph runs or can be run.
#[derive(Debug)]
pub(crate) struct Idle<'a>(PhantomData<&'a mut ()>);

impl<K: Kind> Rounds<K> {
    /// Creates the graph of these tasks, which are all committed, and of the tasks that wait for them. `ready` are
    /// those of them without predecessors. `make` creates helpers, the last one last.
    pub(crate) fn new(
        tasks: Vec<TaskRef<K>>,
        ready: Vec<OwnedTask<K>>,
        mut make: impl FnMut(Helper) -> Submitting<K>,
    ) -> Self {
        let mut all: Vec<NonNull<Task<K>>> = tasks.iter().map(|task| task.0).collect();
        drop(tasks);
        let mut known: FxHashSet<NonNull<Task<K>>> = all.iter().copied().collect();
        let (mut at, mut sinks) = (0, Vec::new());
        while let Some(&task) = all.get(at) {
            let mut is_sink = true;
            // SAFETY: the task lives by its run reference, and no thread runs it before the graph is closed.
            unsafe {
                task.as_ref().successors.look(|link| {
                    is_sink = false;
                    let (successor, _) = link.open();
                    if known.insert(successor) {
                        all.push(successor);
                    }
                });
            }
            if is_sink {
                sinks.push(task);
            }
            at += 1;
        }
        let mut roots: Vec<_> = ready.iter().map(|task| task.address_of()).collect();
        ready.into_iter().for_each(std::mem::forget);
        if roots.len() > STARTED {
            roots = roots.chunks(STARTED).map(|roots| start(roots, make(Helper::Starter))).collect();
            all.extend(&roots);
        }
        let mut behind = |tasks: &[NonNull<Task<K>>], helper: Helper| {
            let mut join = make(helper);
            for task in tasks {
                // SAFETY: the task lives by its run reference.
                let task = unsafe { TaskRef::to(*task) };
                join.wait_for(&task, Flow::Order).expect("nothing has run yet");
            }
            let this = join.address_of();
            all.push(this);
            if let Some(join) = join.commit() {
                std::mem::forget(join);
                roots.push(this);
            }
            this
        };
        while sinks.len() > GATHERED {
            sinks = sinks.chunks(GATHERED).map(|tasks| behind(tasks, Helper::Gatherer)).collect();
        }
        let last = behind(&sinks, Helper::Last);
        // SAFETY: every task lives by its run reference, is found once, and belongs to the graph alone until a round
        // begins.
        let edges = unsafe { FixedEdges::new(&all) };
        for task in &all {
            // SAFETY: the same argument; in addition, the edges in the blocks are in no list any more.
            unsafe {
                task.as_ref().set_stamp(IN_ROUNDS);
                task.as_ref().edges.with_mut(|edges| (*edges).clear());
            }
        }
        Self { all: all.into(), roots: roots.into(), last, edges: Some(edges), under_way: AtomicBool::new(false) }
    }

    /// Returns the task with this number.
    pub(crate) fn task(&self, number: usize) -> &Task<K> {
        // SAFETY: the task lives by its run reference, which the graph keeps until it is dropped.
        unsafe { self.all[number].as_ref() }
    }

    /// Returns the owner's part of the task with this number, if no task runs.
    pub(crate) fn owned_mut(&mut self, number: usize) -> Option<&mut K::Owned> {
        self.idle()?;
        // SAFETY: as in `task`; between rounds only the graph owns the task, and the graph is borrowed mutably.
        Some(unsafe { self.all[number].as_ref() }.owned.with_mut(|owned| unsafe { &mut **owned }))
    }

    /// Returns evidence that no task runs, unless a round is under way.
    pub(crate) fn idle(&mut self) -> Option<Idle<'_>> {
        (!self.under_way.load(Ordering::Acquire)).then_some(Idle(PhantomData))
    }

    /// Clears the poison of all tasks. Returns false if a round is under way, or if another reference to one of the
    /// tasks exists.
    pub(crate) fn absolve(&mut self) -> bool {
        if self.idle().is_none() {
            return false;
        }
        for task in &self.all {
            // SAFETY: as in `task`.
            let task = unsafe { task.as_ref() };
            if !task.refs.is_one() {
                return false;
            }
            let poison = task.poison.swap(ptr::null_mut(), Ordering::AcqRel);
            if !poison.is_null() {
                // SAFETY: the pointer was set from `Arc::into_raw` and has just been taken out. No other reference to
                // the task exists by which it could be read, as checked above, and this is the only reference to the
                // graph.
                let poison = unsafe { Arc::from_raw(poison) };
                drop_quietly(|| drop(poison));
            }
        }
        true
    }

    /// Begins a round: passes the tasks without predecessors to `ready`. Returns false if a round is under way.
    pub(crate) fn begin(&mut self, mut ready: impl FnMut(OwnedTask<K>)) -> bool {
        if self.under_way.swap(true, Ordering::AcqRel) {
            return false;
        }
        // Between rounds no `OwnedTask` exists: the ownership is taken up here, once for each round (invariant 2).
        self.roots.iter().for_each(|task| ready(OwnedTask::of(*task)));
        true
    }

    /// Ends the round, whose last task is given back here.
    pub(crate) fn end(&mut self, last: OwnedTask<K>) {
        assert!(last.address_of() == self.last, "a round ends with its own last task");
        std::mem::forget(last);
        self.under_way.store(false, Ordering::Release);
    }
}

/// Makes tasks without predecessors wait for `starter`, which has no predecessors either.
fn start<K: Kind>(tasks: &[NonNull<Task<K>>], starter: Submitting<K>) -> NonNull<Task<K>> {
    for task in tasks {
        // SAFETY: the task has no predecessors, so all its slots are free. It belongs to the graph that is being made,
        // which keeps the slot as long as the starter.
        unsafe {
            let header = task.as_ref();
            let edge = header.edges.with_mut(|edges| EdgeStore::slot(edges, 0, || None));
            edge.write(Edge::new(Link::new(*task, Flow::Order)));
            starter.successors.push(edge).expect("the starter has not run");
            header.linked.with_mut(|linked| *linked = 1);
            header.blockers.store(1, Ordering::Relaxed);
        }
    }
    let this = starter.address_of();
    std::mem::forget(starter.commit().expect("the starter has no predecessors"));
    this
}

impl<K: Kind> Drop for Rounds<K> {
    /// Drops all bodies, unless a round is under way.
    fn drop(&mut self) {
        if self.under_way.load(Ordering::Acquire) {
            return; // leaked: parts of it may still be in use
        }
        // SAFETY: no round is under way, and the tasks live by their run references, which are taken up below, once.
        unsafe { self.edges.take().expect("a graph is dropped once").take_back(&self.all) };
        self.all.iter().for_each(|task| OwnedTask::of(*task).finish(|_| unreachable!("the edges were taken back")));
    }
}

impl<K: Kind> Task<K> {
    /// Whether the task is in a graph that runs in rounds.
    #[inline]
    pub(crate) fn is_in_rounds(&self) -> bool {
        self.stamp() == IN_ROUNDS
    }
}

impl<K: Kind> OwnedTask<K> {
    /// Like [`finish`](Self::finish), for a task that runs in rounds: body and edges stay for the next round.
    #[inline]
    pub(crate) fn end_round(self, mut ready: impl FnMut(OwnedTask<K>)) {
        assert!(self.is_in_rounds(), "only tasks of a graph run in rounds");
        let poison = self.poison();
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: the list of such a task is closed only when the graph is dropped, which does not happen during a
        // round. The edges that are walked stay until the last of the task's successors is counted down, and are not
        // touched afterwards (invariant 1).
        unsafe {
            this.successors.look(|link| {
                let (place, flow) = link.open_place();
                let place = place.as_ref();
                if flow == Flow::Value
                    && let Some(cause) = &poison
                {
                    place.task().as_ref().set_poison(cause.clone());
                }
                if place.count_down() {
                    Task::expect_run(place.task()); // in a large graph, the caches have lost it since the last round
                    ready(Self::of(place.task()));
                }
            });
        }
    }
}
