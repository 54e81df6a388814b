//! Walks along the edges of the graph: from tasks that cannot end meanwhile to the tasks that wait for them.
//!
//! An edge belongs to its predecessor's list, so a task does not know what it waits for. A search for that begins at
//! tasks that run or wait in a queue, and follows the edges forward. It serves people who ask why a task waits, and
//! costs other tasks nothing.
//!
//! A walk consists of stages. In each stage, some guard keeps the task from which it begins, its *root*, from ending:
//! the borrowed owner, or a lock that the task's thread needs before it can let go of the task. References to all
//! tasks that were met are kept until the walk is dropped, so an address identifies one task.
//!
//! Nothing here changes a task, or takes a lock while it follows edges.
//!
//! Invariants:
//! 1. While a stage is open, its root does not end. A task that waits for it, directly or not, is blocked: its block
//!    stays, and so do its body and the edges to it. (Invariant 2 of [`super::suspended`] is the same.)
//! 2. A [`Met`] is lent to the caller during the stage only.

use super::exposed::Exposed;
use super::owned::OwnedTask;
use super::suspended::Suspended;
use super::task::{Kind, Task, TaskRef};
use rustc_hash::FxHashMap;
use std::panic::Location;

/// The answer of the caller to a task that was met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Follow the edges of this task too.
    Beyond,
    /// Follow the edges of other tasks only.
    Aside,
    /// End the walk.
    Stop,
}

/// The state of a walk; see the module.
pub(crate) struct Walk<K: Kind> {
    /// The tasks in the order in which they were met, each with the place of the one that it was reached from; a root
    /// has its own place there.
    met: Vec<(TaskRef<K>, usize)>,
    /// The places of the tasks, by their addresses.
    places: FxHashMap<usize, usize>,
    /// The number of tasks that may still be met.
    left: usize,
    stopped: bool,
}

/// A task that was met in the current stage.
pub(crate) struct Met<'a, K: Kind> {
    walk: &'a Walk<K>,
    place: usize,
    /// The place of the stage's root.
    root: usize,
}

impl<K: Kind> Clone for Met<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: Kind> Copy for Met<'_, K> {}

/// A task that a thread shows as running. Of the body and the owner's part, only what does not change while the body
/// runs may be read.
pub(crate) struct Running<'a, K: Kind> {
    pub(crate) task: &'a Task<K>,
    pub(crate) body: &'a K::Body,
    pub(crate) owned: &'a K::Owned,
    /// The call in which the body waits, if it does.
    pub(crate) waits_at: Option<&'static Location<'static>>,
    /// Whether no other task is on top of it on its stack. Otherwise that one was shown just before.
    pub(crate) is_top: bool,
}

impl<K: Kind> Walk<K> {
    /// Creates a walk that meets at most this number of tasks.
    pub(crate) fn at_most(tasks: usize) -> Self {
        Self { met: Vec::new(), places: FxHashMap::default(), left: tasks, stopped: false }
    }

    /// Whether there were more tasks than the walk may meet.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.left == 0
    }

    /// Whether the caller has ended the walk.
    pub(crate) fn has_stopped(&self) -> bool {
        self.stopped
    }

    /// Walks from a task whose owner the caller has borrowed.
    pub(crate) fn begin_at_owned(&mut self, root: &OwnedTask<K>, see: &mut dyn FnMut(Met<'_, K>) -> Next) {
        // SAFETY: an owner is not `Sync`, so the thread that borrows it is the only one that uses it; only the owner
        // lets the task end.
        unsafe { self.from(root.share(), see) }
    }

    /// Walks from each task that a thread shows as running, after calling `begin` with it.
    pub(crate) fn begin_at_exposed(
        &mut self,
        exposed: &Exposed<K>,
        begin: &mut dyn FnMut(Running<'_, K>),
        see: &mut dyn FnMut(Met<'_, K>) -> Next,
    ) {
        // SAFETY: everything that is read of a body and an owner's part here stays the same while the body runs, as
        // `begin` and `see` guarantee. The task's thread has only shared references to both until it hides the task.
        // While the look lasts it cannot hide the task, so the task does not end.
        unsafe {
            exposed.look(|task, body, waits_at, is_top| {
                if !self.stopped {
                    task.owned.with(|owned| begin(Running { task, body, owned: &**owned, waits_at, is_top }));
                    self.from(TaskRef::of(task), see);
                }
            });
        }
    }

    /// Walks from each task whose body waits and has nothing else to do, if `begin` returns true, which gets the key
    /// that the task waits for.
    pub(crate) fn begin_at_suspended<N>(
        &mut self,
        suspended: &Suspended<K, N>,
        begin: &mut dyn FnMut(&TaskRef<K>, usize) -> bool,
        see: &mut dyn FnMut(Met<'_, K>) -> Next,
    ) {
        suspended.visit(&mut |task, key| {
            if !self.stopped && begin(task, key) {
                // SAFETY: no suspended task ends while the list is locked, which it is during a visit.
                unsafe { self.from(task.clone(), see) };
            }
        });
    }

    /// Walks from this task, unless the walk is over.
    ///
    /// # Safety
    /// The task does not end before this returns.
    unsafe fn from(&mut self, root: TaskRef<K>, see: &mut dyn FnMut(Met<'_, K>) -> Next) {
        if self.stopped {
            return;
        }
        let known = self.places.get(&root.address()).copied();
        let first = match known {
            // It waited for another task before, and does not any more.
            Some(place) => {
                self.met[place].1 = place;
                place
            }
            None => match self.add(root, None) {
                Some(place) => place,
                None => return,
            },
        };
        let mut open = Vec::new();
        self.ask(first, first, see, &mut open);
        if known.is_some() {
            return; // the tasks beyond it were met as well
        }
        let mut next = 0;
        while let Some(place) = open.get(next).copied().filter(|_| !self.stopped && self.left > 0) {
            next += 1;
            let task = self.met[place].0.clone();
            let mut successors = Vec::new();
            // SAFETY: the task is the root, which does not end, or blocked by it (invariant 1).
            unsafe { task.successors(|successor| successors.push(successor)) };
            for successor in successors {
                if self.stopped {
                    break;
                }
                if let Some(new) = self.add(successor, Some(place)) {
                    self.ask(new, first, see, &mut open);
                }
            }
        }
    }

    /// Adds a task, unless it is known or there are too many.
    fn add(&mut self, task: TaskRef<K>, from: Option<usize>) -> Option<usize> {
        let place = self.met.len();
        if self.left == 0 || self.places.contains_key(&task.address()) {
            return None;
        }
        self.left -= 1;
        self.places.insert(task.address(), place);
        self.met.push((task, from.unwrap_or(place)));
        Some(place)
    }

    /// Shows a task to the caller; enters it in `open` if the walk should go beyond it.
    fn ask(&mut self, place: usize, root: usize, see: &mut dyn FnMut(Met<'_, K>) -> Next, open: &mut Vec<usize>) {
        match see(Met { walk: self, place, root }) {
            Next::Beyond => open.push(place),
            Next::Aside => {}
            Next::Stop => self.stopped = true,
        }
    }
}

impl<'a, K: Kind> Met<'a, K> {
    /// Returns the task.
    pub(crate) fn task(&self) -> &'a Task<K> {
        &self.walk.met[self.place].0
    }

    /// Returns the body, of which the caller may read only what does not change while it runs.
    pub(crate) fn body(&self) -> &'a K::Body {
        // SAFETY: the task is its stage's root or blocked by that, and the stage is open (invariant 1): the body stays.
        // Its owner, if it has one, makes only shared references to it meanwhile.
        unsafe { self.task().body_address().as_ref() }
    }

    /// Returns the owner's part of a task in a graph that runs in rounds, unless it is the root.
    pub(crate) fn owned_in_round(&self) -> Option<&'a K::Owned> {
        let is_blocked = self.task().is_in_rounds() && self.place != self.root;
        // SAFETY: the task is blocked in a round, in which its predecessors, one of which does not end meanwhile, are
        // in the same graph. So the round is under way, the task has no owner, and `Rounds::owned_mut` gives nothing.
        is_blocked.then(|| self.task().owned.with(|owned| unsafe { &**owned }))
    }

    /// Returns the task's place in the walk.
    pub(crate) fn place(&self) -> usize {
        self.place
    }

    /// Returns the task that this one was reached from, unless it is the root.
    pub(crate) fn before(&self) -> Option<Self> {
        let before = self.walk.met[self.place].1;
        (self.place != self.root).then_some(Self { place: before, ..*self })
    }
}
