//! Task graphs that run repeatedly: blocks, bodies and edges are kept from one round to the next.
//!
//! The tasks are created, linked and committed like any other tasks, and then given to [`Rounds`], which lays out their
//! edges contiguously ([`super::fixed`]). In a round, a task that has run counts its successors down but leaves its
//! successor list unchanged ([`OwnedTask::end_round`]). The thread that counts down a task's last blocker resets the
//! task's countdown for the next round before it takes up the task. So nothing has to be reset between two rounds.
//!
//! Invariants:
//! 1. One task, the *last* task, waits for all tasks that have no other successor. When the last task is owned, all
//!    others have ended, and no thread touches the graph any more, because a thread does not touch the graph after it
//!    has counted down the last of a task's successors.
//! 2. A round begins only when no other round is under way, and it has ended when the last task is given back. If a
//!    task that was handed out is never given back (because the runtime broke down), the graph counts as still running
//!    and is leaked.
//! 3. Edges and their counts do not change once the graph is closed.
//! 4. Each task's stamp records that the task is in such a graph. No other code writes the stamp, because none of the
//!    tasks is in a history.

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

/// The number of tasks that one gatherer waits for. It is large enough that threads that end tasks concurrently rarely
/// contend for the same gatherer.
const GATHERED: usize = 32;

/// The number of root tasks that one starter makes ready. Small enough that these tasks are still in the cache when
/// they run.
const STARTED: usize = 32;

/// A helper task that a graph needs in addition to its own tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Helper {
    /// Is run like any other task, but only makes other tasks ready.
    Starter,
    /// Waits for other tasks and is never run.
    Gatherer,
    /// The final gatherer, which ends the round.
    Last,
}

/// A graph that can run any number of times.
pub(crate) struct Rounds<K: Kind> {
    /// All tasks. The tasks from which the graph was created come first, in their original order.
    all: Box<[NonNull<Task<K>>]>,
    /// The tasks without predecessors, with which each round begins.
    roots: Box<[NonNull<Task<K>>]>,
    last: NonNull<Task<K>>,
    /// Present until the graph is dropped.
    edges: Option<FixedEdges<K>>,
    under_way: AtomicBool,
}

// SAFETY: the tasks are `Send + Sync`, and the parts that belong to their owners are accessed only between rounds and
// only through `&mut`, so threads cannot race for them.
unsafe impl<K: Kind> Send for Rounds<K> {}
// SAFETY: the same argument as for `Send`.
unsafe impl<K: Kind> Sync for Rounds<K> {}

/// Proof that no task of a graph is running or can be run.
#[derive(Debug)]
pub(crate) struct Idle<'a>(PhantomData<&'a mut ()>);

impl<K: Kind> Rounds<K> {
    /// Creates a graph of these tasks, all of which must be committed, and of the tasks that wait for them. `ready`
    /// contains the owners of the tasks without predecessors. `make` creates helper tasks; its final call creates
    /// [`Helper::Last`].
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
            // SAFETY: the run reference keeps the task alive, and no thread runs the task before the graph is complete.
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
                // SAFETY: the run reference keeps the task alive.
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
        // SAFETY: each task is kept alive by its run reference, was found exactly once, and belongs to this graph alone
        // until a round begins. So this code has all of them exclusively.
        let edges = unsafe { FixedEdges::new(&all) };
        for task in &all {
            // SAFETY: the same argument applies. In addition, the edges in the blocks are no longer in any list.
            unsafe {
                task.as_ref().set_stamp(IN_ROUNDS);
                task.as_ref().edges.with_mut(|edges| (*edges).clear());
            }
        }
        Self { all: all.into(), roots: roots.into(), last, edges: Some(edges), under_way: AtomicBool::new(false) }
    }

    /// Returns the task with this index.
    pub(crate) fn task(&self, number: usize) -> &Task<K> {
        // SAFETY: the graph keeps the task's run reference until it is dropped, so the task is alive.
        unsafe { self.all[number].as_ref() }
    }

    /// Returns the owner's part of the task with this index, unless a round is under way.
    pub(crate) fn owned_mut(&mut self, number: usize) -> Option<&mut K::Owned> {
        self.idle()?;
        // SAFETY: the task is alive, as in `task`. Between rounds only the graph owns the task, and the graph is
        // borrowed mutably, so this access is exclusive.
        Some(unsafe { self.all[number].as_ref() }.owned.with_mut(|owned| unsafe { &mut **owned }))
    }

    /// Returns proof that no task is running, unless a round is under way.
    pub(crate) fn idle(&mut self) -> Option<Idle<'_>> {
        (!self.under_way.load(Ordering::Acquire)).then_some(Idle(PhantomData))
    }

    /// Clears the poison of all tasks. Fails and returns false if a round is under way or if there is another reference
    /// to any of the tasks.
    pub(crate) fn absolve(&mut self) -> bool {
        if self.idle().is_none() {
            return false;
        }
        for task in &self.all {
            // SAFETY: the task is alive, as in `task`.
            let task = unsafe { task.as_ref() };
            if !task.refs.is_one() {
                return false;
            }
            let poison = task.poison.swap(ptr::null_mut(), Ordering::AcqRel);
            if !poison.is_null() {
                // SAFETY: the pointer comes from `Arc::into_raw` and has just been taken out. As checked above, there
                // is no other reference to the task through which the poison could be read, and this is the only
                // reference to the graph. So the `Arc` can be recovered.
                let poison = unsafe { Arc::from_raw(poison) };
                drop_quietly(|| drop(poison));
            }
        }
        true
    }

    /// Begins a round by passing the tasks without predecessors to `ready`. Returns false, and does nothing, if a round
    /// is already under way.
    pub(crate) fn begin(&mut self, mut ready: impl FnMut(OwnedTask<K>)) -> bool {
        if self.under_way.swap(true, Ordering::AcqRel) {
            return false;
        }
        // Between rounds no `OwnedTask` exists, so the ownership is taken up here, once per round (invariant 2).
        self.roots.iter().for_each(|task| ready(OwnedTask::of(*task)));
        true
    }

    /// Ends the round by giving back its last task.
    pub(crate) fn end(&mut self, last: OwnedTask<K>) {
        assert!(last.address_of() == self.last, "a round ends with its own last task");
        std::mem::forget(last);
        self.under_way.store(false, Ordering::Release);
    }
}

/// Makes tasks without predecessors wait for `starter`, which has no predecessors either.
fn start<K: Kind>(tasks: &[NonNull<Task<K>>], starter: Submitting<K>) -> NonNull<Task<K>> {
    for task in tasks {
        // SAFETY: the task has no predecessors, so all its slots are free. It belongs to the graph under construction,
        // which keeps the slot for as long as it keeps the starter.
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
            return; // leaked, because parts of it may still be in use
        }
        // SAFETY: no round is under way, and the tasks are kept alive by their run references, each of which is taken
        // up exactly once, below.
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
    /// Like [`finish`](Self::finish), for a task that runs in rounds: keeps the body and the edges for the next round.
    #[inline]
    pub(crate) fn end_round(self, mut ready: impl FnMut(OwnedTask<K>)) {
        assert!(self.is_in_rounds(), "only tasks of a graph run in rounds");
        let poison = self.poison();
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: such a task's list is closed only when the graph is dropped, which does not happen during a round. So
        // the edges stay valid until the last of the task's successors is counted down, and they are not touched
        // afterwards (invariant 1).
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
                    Task::expect_run(place.task()); // in a large graph, it is no longer in the caches
                    ready(Self::of(place.task()));
                }
            });
        }
    }
}
