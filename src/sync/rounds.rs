//! Graphs of tasks that run again and again: blocks, bodies and edges stay from one round to the next.
//!
//! The tasks are made, linked and committed as all tasks are, and then given to [`Rounds`], which lays their edges out anew
//! ([`super::fixed`]). In a round, a task that has run counts its successors down and leaves its list as it is
//! ([`OwnedTask::end_round`]). Whoever counts a task's last blocker down arms it for the next round before taking it up. So
//! nothing is reset between two rounds.
//!
//! Invariants:
//! 1. One task, the *last*, waits for all that nobody else waits for. When it is owned, all others have ended: who counted
//!    a successor down for the last time touches nothing of the graph after that.
//! 2. A round begins when none is under way, and has ended when the last task is given back. What is handed out and never
//!    comes back (a runtime that broke down) leaves the graph as if it still ran: then it is leaked.
//! 3. Edges and the counts of them do not change once the graph is closed.
//! 4. The stamp of each task says that it is in such a graph: nobody else writes it, as none of them is in a history.

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

/// As many tasks are gathered by one: threads that end tasks side by side seldom meet at the same.
const GATHERED: usize = 32;

/// As many tasks that wait for nobody are handed out by one, when it is run itself: they are in the cache when they run.
const STARTED: usize = 32;

/// What a graph needs beside its tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Helper {
    /// It is run as a task is, and does nothing but begin others.
    Starter,
    /// It waits for others, and is not run.
    Gatherer,
    /// As the one before; there is one.
    Last,
}

/// A graph that runs any number of times.
pub(crate) struct Rounds<K: Kind> {
    /// Every task, those that the graph was made of first, in their order.
    all: Box<[NonNull<Task<K>>]>,
    /// Those that wait for nobody.
    roots: Box<[NonNull<Task<K>>]>,
    last: NonNull<Task<K>>,
    /// Until the graph goes.
    edges: Option<FixedEdges<K>>,
    under_way: AtomicBool,
}

// SAFETY: the tasks are `Send + Sync`, and what is not shared of them is reached between rounds alone, with `&mut`.
unsafe impl<K: Kind> Send for Rounds<K> {}
// SAFETY: as above.
unsafe impl<K: Kind> Sync for Rounds<K> {}

/// Evidence that no task of a graph runs, nor can be run.
#[derive(Debug)]
pub(crate) struct Idle<'a>(PhantomData<&'a mut ()>);

impl<K: Kind> Rounds<K> {
    /// The graph of these tasks, which are all committed, and of those that wait for them. `ready` are those of them that
    /// wait for nobody. `make` makes helpers, the last one last.
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
            // SAFETY: the task lives by its run reference, and nobody runs it before the graph is closed.
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
        // SAFETY: every task lives by its run reference, is found once, and is the graph's alone until that begins a round.
        let edges = unsafe { FixedEdges::new(&all) };
        for task in &all {
            // SAFETY: as above; the edges in the blocks are in no list any more.
            unsafe {
                task.as_ref().set_stamp(IN_ROUNDS);
                task.as_ref().edges.with_mut(|edges| (*edges).clear());
            }
        }
        Self { all: all.into(), roots: roots.into(), last, edges: Some(edges), under_way: AtomicBool::new(false) }
    }

    /// The task with this number.
    pub(crate) fn task(&self, number: usize) -> &Task<K> {
        // SAFETY: the task lives by its run reference, which goes with the graph.
        unsafe { self.all[number].as_ref() }
    }

    /// The owner's part of the task with this number, if none runs.
    pub(crate) fn owned_mut(&mut self, number: usize) -> Option<&mut K::Owned> {
        self.idle()?;
        // SAFETY: as for `task`; between rounds nobody owns the task but the graph, which is borrowed mutably.
        Some(unsafe { self.all[number].as_ref() }.owned.with_mut(|owned| unsafe { &mut **owned }))
    }

    /// Whether no task runs.
    pub(crate) fn idle(&mut self) -> Option<Idle<'_>> {
        (!self.under_way.load(Ordering::Acquire)).then_some(Idle(PhantomData))
    }

    /// Makes tasks good again that have failed, or should not have run; false if somebody still refers to one of them.
    pub(crate) fn absolve(&mut self) -> bool {
        if self.idle().is_none() {
            return false;
        }
        for task in &self.all {
            // SAFETY: as for `task`.
            let task = unsafe { task.as_ref() };
            if !task.refs.is_one() {
                return false;
            }
            let poison = task.poison.swap(ptr::null_mut(), Ordering::AcqRel);
            if !poison.is_null() {
                // SAFETY: set from `Arc::into_raw`, taken out just now; nobody else has a reference to the task by which to
                // look at it, as was asked, and this is the one reference to the graph.
                let poison = unsafe { Arc::from_raw(poison) };
                drop_quietly(|| drop(poison));
            }
        }
        true
    }

    /// Begins a round: hands those that wait for nobody to `ready`. False if one is under way.
    pub(crate) fn begin(&mut self, mut ready: impl FnMut(OwnedTask<K>)) -> bool {
        if self.under_way.swap(true, Ordering::AcqRel) {
            return false;
        }
        // Ownership is nobody's between rounds: it is taken up here, once for each round (invariant 2).
        self.roots.iter().for_each(|task| ready(OwnedTask::of(*task)));
        true
    }

    /// The round has ended: its last task is back.
    pub(crate) fn end(&mut self, last: OwnedTask<K>) {
        assert!(last.address_of() == self.last, "a round ends with its own last task");
        std::mem::forget(last);
        self.under_way.store(false, Ordering::Release);
    }
}

/// Lets tasks that wait for nobody wait for one that does not either.
fn start<K: Kind>(tasks: &[NonNull<Task<K>>], starter: Submitting<K>) -> NonNull<Task<K>> {
    for task in tasks {
        // SAFETY: the task waits for nobody, so all its slots are free, and nobody owns it but the graph that is being made,
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
    std::mem::forget(starter.commit().expect("it waits for nobody"));
    this
}

impl<K: Kind> Drop for Rounds<K> {
    /// Drops all bodies.
    fn drop(&mut self) {
        if self.under_way.load(Ordering::Acquire) {
            return; // leaked: some of it may still be in use
        }
        // SAFETY: no round is under way, and the tasks live by their run references, which are taken up below, once.
        unsafe { self.edges.take().expect("it goes once").take_back(&self.all) };
        self.all.iter().for_each(|task| OwnedTask::of(*task).finish(|_| unreachable!("it has no successors")));
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
    /// As [`finish`](Self::finish), of a task that runs in rounds: body and edges stay for the next.
    #[inline]
    pub(crate) fn end_round(self, mut ready: impl FnMut(OwnedTask<K>)) {
        assert!(self.is_in_rounds(), "only such tasks stay");
        let poison = self.poison();
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: the list of such a task is never closed but by the graph's end, which is not during a round. What is
        // walked stays until the last of its successors is counted down, and is not touched after (invariant 1).
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
                    Task::expect_run(place.task()); // of a large graph, it has been out of the caches since the last round
                    ready(Self::of(place.task()));
                }
            });
        }
    }
}
