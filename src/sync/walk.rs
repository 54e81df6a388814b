//! Walks along graph edges, from tasks that cannot end during the walk to the tasks that wait for them.
//!
//! Edges are stored in the predecessor's list, so a task has no record of its own predecessors. To find them, a search
//! starts at tasks that run or wait in a queue, and follows the edges forward. Walks serve users who ask why a task is
//! waiting, and cost other tasks nothing.
//!
//! A walk consists of stages. Each stage begins at a *root*, a task that some guard prevents from ending: either the
//! borrowed owner, or a lock that the task's thread must take before it can release the task. The walk keeps references
//! to all tasks that it has visited until it is dropped ([`Found`]).
//!
//! A walk never changes a task, and takes no lock while it follows edges.
//!
//! Invariants:
//! 1. While a stage is open, its root does not end. So every task that waits for the root, directly or indirectly, is
//!    blocked, which means that its block, its body and the edges to it stay valid. (Invariant 2 of
//!    [`super::suspended`] is the same.)
//! 2. A [`Met`] is lent to the caller only for the duration of the stage.

use super::call_site::CallSite;
use super::exposed::Exposed;
use super::found::Found;
use super::owned::OwnedTask;
use super::suspended::Suspended;
use super::task::{Kind, Task, TaskRef};

/// The caller's decision about a visited task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Also follow the edges of this task.
    Beyond,
    /// Do not follow the edges of this task.
    Aside,
    /// End the walk.
    Stop,
}

/// The state of a walk; see the module documentation.
pub(crate) struct Walk<K: Kind> {
    /// The tasks that were visited. Roots are first tasks.
    found: Found<K, ()>,
    stopped: bool,
}

/// A task that was visited in the current stage.
pub(crate) struct Met<'a, K: Kind> {
    found: &'a Found<K, ()>,
    place: usize,
    /// Index of the stage's root.
    root: usize,
}

impl<K: Kind> Clone for Met<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: Kind> Copy for Met<'_, K> {}

/// A task that a thread shows as running. The caller may read only those parts of the body and of the owner's part that
/// do not change while the body runs.
pub(crate) struct Running<'a, K: Kind> {
    pub(crate) task: &'a Task<K>,
    pub(crate) body: &'a K::Body,
    pub(crate) owned: &'a K::Owned,
    /// The call site at which the body waits, if it is waiting.
    pub(crate) waits_at: Option<CallSite>,
    /// Whether the task is on top of its stack. If not, the task above it was shown just before.
    pub(crate) is_top: bool,
}

impl<K: Kind> Walk<K> {
    /// Creates a walk that visits at most this many tasks.
    pub(crate) fn at_most(tasks: usize) -> Self {
        Self { found: Found::at_most(tasks), stopped: false }
    }

    /// Whether the walk was cut short because there were too many tasks.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.found.is_full()
    }

    /// Whether the caller has ended the walk.
    pub(crate) fn has_stopped(&self) -> bool {
        self.stopped
    }

    /// Walks from a task whose owner the caller has borrowed.
    pub(crate) fn begin_at_owned(&mut self, root: &OwnedTask<K>, see: &mut dyn FnMut(Met<'_, K>) -> Next) {
        // SAFETY: an owner is not `Sync`, so the thread that borrows it is the only thread that uses it. Only the owner
        // can end the task, so the task does not end while it is borrowed.
        unsafe { self.from(root.share(), see) }
    }

    /// Walks from each task that a thread shows as running, after calling `begin` with it.
    pub(crate) fn begin_at_exposed(
        &mut self,
        exposed: &Exposed<K>,
        begin: &mut dyn FnMut(Running<'_, K>),
        see: &mut dyn FnMut(Met<'_, K>) -> Next,
    ) {
        // SAFETY: `begin` and `see` guarantee that they read only those parts of a body and an owner's part that do not
        // change while the body runs. Until the task's thread hides the task, it has only shared references to both. It
        // cannot hide the task during the look, so the task does not end.
        unsafe {
            exposed.look(|task, body, waits_at, is_top| {
                if !self.stopped {
                    task.owned.with(|owned| begin(Running { task, body, owned: &**owned, waits_at, is_top }));
                    self.from(TaskRef::of(task), see);
                }
            });
        }
    }

    /// Walks from each task whose body waits and has nothing else to do. `begin` gets the key that the task waits for,
    /// and returns whether to walk from this task.
    pub(crate) fn begin_at_suspended<N>(
        &mut self,
        suspended: &Suspended<K, N>,
        begin: &mut dyn FnMut(&TaskRef<K>, usize) -> bool,
        see: &mut dyn FnMut(Met<'_, K>) -> Next,
    ) {
        suspended.visit(&mut |task, key| {
            if !self.stopped && begin(task, key) {
                // SAFETY: no suspended task ends while the list is locked, and the list stays locked during the visit.
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
        let known = self.found.place_of(&root);
        let first = match known {
            // The task used to wait for another task but no longer does.
            Some(place) => {
                self.found.begin_again_at(place);
                place
            }
            None => match self.found.add(root, None, ()) {
                Some(place) => place,
                None => return,
            },
        };
        let mut open = Vec::new();
        let Self { found, stopped } = self;
        // Shows a task to the caller, and adds it to `open` if the walk should continue beyond it.
        let mut ask = |found: &Found<K, ()>, place: usize, open: &mut Vec<usize>| {
            match see(Met { found, place, root: first }) {
                Next::Beyond => open.push(place),
                Next::Aside => {}
                Next::Stop => *stopped = true,
            }
            !*stopped
        };
        let mut goes_on = ask(found, first, &mut open);
        if known.is_some() {
            return; // the tasks beyond it have been visited too
        }
        let mut next = 0;
        while let Some(place) = open.get(next).copied().filter(|_| goes_on && !found.is_full()) {
            next += 1;
            let see = |found: &Found<K, ()>, new: usize| {
                goes_on = ask(found, new, &mut open);
                goes_on
            };
            // SAFETY: the task is either the root, which does not end, or blocked by the root (invariant 1).
            unsafe { found.add_successors(place, || (), see) };
        }
    }
}

impl<'a, K: Kind> Met<'a, K> {
    /// Returns the task.
    pub(crate) fn task(&self) -> &'a Task<K> {
        self.found.task(self.place)
    }

    /// Returns the body. The caller may read only those parts of it that do not change while the body runs.
    pub(crate) fn body(&self) -> &'a K::Body {
        // SAFETY: the stage is open, and the task is either the stage's root or blocked by the root, so the body stays
        // valid (invariant 1). The task's owner, if there is one, makes only shared references to the body in the
        // meantime.
        unsafe { self.task().body_address().as_ref() }
    }

    /// Returns the owner's part of a task in a graph that runs in rounds, unless it is the root.
    pub(crate) fn owned_in_round(&self) -> Option<&'a K::Owned> {
        let is_blocked = self.task().is_in_rounds() && self.place != self.root;
        // SAFETY: the task is blocked in a round. Its predecessors are in the same graph, and one of them does not end
        // in the meantime, so the round stays under way. Therefore the task has no owner, and `Rounds::owned_mut`
        // returns `None`.
        is_blocked.then(|| self.task().owned.with(|owned| unsafe { &**owned }))
    }

    /// Returns the task's index in the walk.
    pub(crate) fn place(&self) -> usize {
        self.place
    }

    /// Returns the task from which this one was reached, or `None` if this is the root.
    pub(crate) fn before(&self) -> Option<Self> {
        let before = self.found.before(self.place);
        (self.place != self.root).then_some(Self { place: before, ..*self })
    }
}
