//! Tasks that are suspended in the middle of their bodies, what each waits for, and the search for a path from one of
//! them to the tasks that depend on it.
//!
//! A body that waits for a task that depends on its own task waits forever. A task depends on another through edges of
//! the graph, through the waits of suspended tasks, and through stacks: a body cannot continue before the bodies on top
//! of it have ended. A wait is identified by a [`Key`], which this module compares and does not interpret: the address
//! of a task, or of anything else that the layer above waits for.
//!
//! No search begins before a waiting body has nothing else to do, and then there is one search for each wait. A search
//! visits each task once, at most [`MOST`] tasks, and ends early when its caller asks it to. If thousands of bodies
//! wait for each other it ends earlier: in total, searches visit no more than [`EACH`] tasks for each wait that there
//! has been, plus [`MOST`]. The list and the search share one lock, which tasks that do not wait never touch.
//!
//! Invariants:
//! 1. A task on the list is in the middle of its body: [`Suspended::during`] borrows its owner, and takes it off the
//!    list under the lock before it returns. A [`During`] is only lent to the code, and so cannot be forgotten. So
//!    while the lock is held no task on the list ends.
//! 2. A task that waits, directly or not, for a task that does not end is blocked: its block stays, and so do the edges
//!    to it. So everything that depends on a task on the list can be visited under the lock.

use super::owned::OwnedTask;
use super::task::{Kind, Task, TaskRef};
use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use std::sync::Arc;

/// What a body waits for, as a number that is unique for the duration of the wait.
pub(crate) type Key = usize;

/// The maximum number of tasks visited in one search; anything further away is not found.
const MOST: usize = 1 << 14;
/// The number of visits that each wait adds to the searches' credit.
const EACH: usize = 64;
/// The number of tasks visited before the search asks again whether it should continue.
const UNASKED: usize = 64;

/// The suspended tasks by the key they wait for, each with the tasks beneath it on its stack, and each task with a note
/// of the layer above.
pub(crate) struct Suspended<K: Kind, N>(Mutex<List<K, N>>);

struct List<K: Kind, N> {
    waiting: FxHashMap<Key, SmallVec<[Stack<K, N>; 1]>>,
    /// The number of tasks that searches may currently visit.
    credit: usize,
}

/// The tasks on a stack, topmost first.
type Stack<K, N> = Arc<[(TaskRef<K>, N)]>;

impl<K: Kind, N> Default for Suspended<K, N> {
    fn default() -> Self {
        Self(Mutex::new(List { waiting: FxHashMap::default(), credit: MOST }))
    }
}

/// The reason why a task on the path has to wait for the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behind {
    /// An edge of the graph leads to it.
    Edge,
    /// It is suspended, and waits for the other.
    Waits,
    /// It is suspended, and is beneath the other on a stack.
    Beneath,
}

/// One task on the path.
pub(crate) struct Step<'a, K: Kind> {
    pub(crate) task: &'a Task<K>,
    pub(crate) body: &'a K::Body,
    pub(crate) behind: Behind,
}

/// A task that a search has found.
struct Found<K: Kind, N> {
    task: TaskRef<K>,
    /// The place of the task that it depends on; its own place, for the first one.
    from: usize,
    behind: Behind,
    /// Present if the task is suspended.
    note: Option<N>,
}

/// The callbacks of a search.
pub(crate) struct Search<G, O, D> {
    /// Calls the function it is given with each key of this task; it reads only those parts of the body that do not
    /// change. The function returns whether the search need not continue beyond that key, because a task waits for it
    /// or it was met before.
    pub(crate) keys: G,
    /// Returns whether to continue.
    pub(crate) goes_on: O,
    /// Describes the path that was found, from the task that waits to the one whose key it waits for.
    pub(crate) describe: D,
}

/// Tasks that are suspended inside a call of [`Suspended::during`].
pub(crate) struct During<'a, K: Kind, N> {
    all: &'a Suspended<K, N>,
    key: Key,
    stack: Stack<K, N>,
}

impl<K: Kind, N: Clone> Suspended<K, N> {
    /// Calls `code` while the first of `tasks` is suspended and waits for `key`, with the others beneath it on its
    /// stack.
    pub(crate) fn during<R>(
        &self,
        tasks: &[&OwnedTask<K>],
        key: Key,
        note: impl Fn(&OwnedTask<K>) -> N,
        code: impl FnOnce(&During<'_, K, N>) -> R,
    ) -> R {
        let stack: Stack<K, N> = tasks.iter().map(|task| (task.share(), note(task))).collect();
        {
            let mut list = self.0.lock();
            list.waiting.entry(key).or_default().push(stack.clone());
            list.credit = MOST.min(list.credit + EACH);
        }
        let during = During { all: self, key, stack };
        code(&during)
    }
}

impl<K: Kind, N> Suspended<K, N> {
    /// Calls `see` with the first task of each stack and the key that it waits for. The list is locked meanwhile, so
    /// none of these tasks ends.
    pub(super) fn visit(&self, see: &mut dyn FnMut(&TaskRef<K>, Key)) {
        let list = self.0.lock();
        for (key, stacks) in &list.waiting {
            stacks.iter().filter_map(|stack| stack.first()).for_each(|(task, _)| see(task, *key));
        }
    }
}

impl<K: Kind, N> Drop for During<'_, K, N> {
    fn drop(&mut self) {
        let mut list = self.all.0.lock();
        let waiting = list.waiting.get_mut(&self.key).expect("a suspended task is on the list");
        let own = waiting.iter().rposition(|stack| Arc::ptr_eq(stack, &self.stack));
        let own = waiting.swap_remove(own.expect("a suspended task is on the list"));
        if waiting.is_empty() {
            list.waiting.remove(&self.key);
        }
        drop(list);
        drop(own);
    }
}

impl<K: Kind, N: Clone> During<'_, K, N> {
    /// Searches for the path from the suspended task to the key that it waits for itself.
    pub(crate) fn way<R>(
        &self,
        search: Search<
            impl FnMut(&Task<K>, &K::Body, Option<&N>, &mut dyn FnMut(Key) -> bool),
            impl Fn() -> bool,
            impl FnOnce(&[Step<'_, K>]) -> R,
        >,
    ) -> Option<R> {
        let Search { mut keys, goes_on, describe } = search;
        let mut list = self.all.0.lock();
        let mut visited =
            Visited { most: list.credit, found: Vec::new(), seen: FxHashSet::default(), known: FxHashSet::default() };
        visited.add_stack(&self.stack, 0);
        let mut next = 0;
        while next < visited.found.len() {
            list.credit = list.credit.saturating_sub(1);
            if next % UNASKED == UNASKED - 1 && !goes_on() {
                break;
            }
            let Found { task, note, .. } = &visited.found[next];
            let (task, note) = (task.clone(), note.clone());
            // SAFETY: the task is suspended, or blocked by one that is (invariant 2), and the lock is held: its body
            // stays, and its owner has only shared references to the body.
            let body = unsafe { task.body_address().as_ref() };
            let (mut is_there, mut waiting) = (false, SmallVec::<[Stack<K, N>; 2]>::new());
            keys(&task, body, note.as_ref(), &mut |key| {
                let is_new = visited.seen.insert(key);
                is_there |= key == self.key;
                let stacks = list.waiting.get(&key).filter(|_| is_new);
                waiting.extend(stacks.into_iter().flatten().cloned());
                stacks.is_some() || !is_new
            });
            if is_there {
                let way = visited.way(next);
                let step = |place: &usize| {
                    let Found { task, behind, .. } = &visited.found[*place];
                    // SAFETY: the same argument; the lock is still held.
                    let body = unsafe { task.body_address().as_ref() };
                    Step { task, body, behind: *behind }
                };
                return Some(describe(&way.iter().map(step).collect::<Vec<_>>()));
            }
            waiting.iter().for_each(|stack| visited.add_stack(stack, next));
            // SAFETY: the same argument: the task does not end while the lock is held.
            unsafe { task.successors(|successor| _ = visited.add(successor, next, Behind::Edge, None)) };
            next += 1;
        }
        None
    }
}

/// The tasks that a search has found, in the order in which it visits them.
struct Visited<K: Kind, N> {
    /// The maximum number of tasks that it may find.
    most: usize,
    found: Vec<Found<K, N>>,
    /// The keys that were met.
    seen: FxHashSet<Key>,
    /// The addresses of the tasks.
    known: FxHashSet<usize>,
}

impl<K: Kind, N: Clone> Visited<K, N> {
    fn add(&mut self, task: TaskRef<K>, from: usize, behind: Behind, note: Option<N>) -> Option<usize> {
        let is_new = self.found.len() < self.most && self.known.insert(task.address());
        is_new.then(|| {
            self.found.push(Found { task, from, behind, note });
            self.found.len() - 1
        })
    }

    /// Adds the task on top of a stack, which depends on `from`, and the tasks beneath it.
    fn add_stack(&mut self, stack: &Stack<K, N>, from: usize) {
        let mut top = None;
        for (task, note) in stack.iter() {
            let (from, behind) = top.map_or((from, Behind::Waits), |top| (top, Behind::Beneath));
            let added = self.add(task.clone(), from, behind, Some(note.clone()));
            match (top, added) {
                (None, None) => return, // found before
                (None, added) => top = added,
                _ => {}
            }
        }
    }

    /// The places of the tasks on the path to this one.
    fn way(&self, last: usize) -> Vec<usize> {
        let mut way = vec![last];
        while let Some(place) = way.last().copied().filter(|place| *place > 0) {
            way.push(self.found[place].from);
        }
        way.reverse();
        way
    }
}
