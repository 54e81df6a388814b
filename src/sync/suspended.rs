//! Tasks suspended in the middle of their bodies, the key that each one waits for, and a deadlock search along the
//! tasks that depend on a suspended task.
//!
//! If a body waits for a task that depends on the body's own task, the wait can never end. A task can depend on another
//! task through graph edges, through the waits of suspended tasks, and through stacks, because a body cannot continue
//! until the bodies on top of it have ended. A wait is identified by a [`Key`], which is the address of a task or of
//! anything else that the layer above waits for. This module compares keys but does not interpret them.
//!
//! A search begins only when a waiting body has nothing else to do, and there is one search per wait. A search visits
//! each task at most once and at most [`MOST`] tasks in total, and ends early if its caller requests it. If thousands
//! of bodies wait for each other, searches end even earlier: over all waits so far, they visit no more than [`EACH`]
//! tasks per wait, plus [`MOST`]. The list and the search share one lock, which tasks that do not wait never touch.
//!
//! Invariants:
//! 1. A task on the list is in the middle of its body: [`Suspended::during`] borrows the task's owner, and removes the
//!    task from the list, under the lock, before it returns. The code cannot leak the [`During`], because it only
//!    borrows it. So no task on the list ends while the lock is held.
//! 2. A task that waits, directly or indirectly, for a task that does not end is blocked, so its block and the edges to
//!    it stay valid. Therefore all tasks that depend on a task on the list can be visited under the lock.

use super::found::Found;
use super::owned::OwnedTask;
use super::task::{Kind, Task, TaskRef};
use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use std::sync::Arc;

/// Identifies what a body waits for. Unique for the duration of the wait.
pub(crate) type Key = usize;

/// The maximum number of tasks visited in one search. Dependences beyond that are not found.
const MOST: usize = 1 << 14;
/// The number of visits that each wait adds to the searches' credit.
const EACH: usize = 64;
/// The number of tasks visited between two checks whether the search should continue.
const UNASKED: usize = 64;

/// The suspended tasks, by the key that each one waits for. Each is stored with the tasks beneath it on its stack, and
/// every task has a note from the layer above.
pub(crate) struct Suspended<K: Kind, N>(Mutex<List<K, N>>);

struct List<K: Kind, N> {
    waiting: FxHashMap<Key, SmallVec<[Stack<K, N>; 1]>>,
    /// Number of tasks that searches may still visit.
    credit: usize,
}

/// The tasks on a stack, topmost first.
type Stack<K, N> = Arc<[(TaskRef<K>, N)]>;

impl<K: Kind, N> Default for Suspended<K, N> {
    fn default() -> Self {
        Self(Mutex::new(List { waiting: FxHashMap::default(), credit: MOST }))
    }
}

/// The reason why a task on the path has to wait for the previous task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behind {
    /// A graph edge leads from the previous task to this one.
    Edge,
    /// This task is suspended and waits for the previous one.
    Waits,
    /// This task is suspended and is beneath the previous one on a stack.
    Beneath,
}

/// One task on the path.
pub(crate) struct Step<'a, K: Kind> {
    pub(crate) task: &'a Task<K>,
    pub(crate) body: &'a K::Body,
    pub(crate) behind: Behind,
}

/// The callbacks of a search.
pub(crate) struct Search<G, O, D> {
    /// Calls the given function with each key of this task. Must read only those parts of the body that do not change.
    /// The function returns true if the search need not continue beyond that key, because a task waits for the key or
    /// the key was visited before.
    pub(crate) keys: G,
    /// Returns whether the search should continue.
    pub(crate) goes_on: O,
    /// Describes the path that was found, from the waiting task to the task whose key it waits for.
    pub(crate) describe: D,
}

/// Tasks that are suspended inside a call of [`Suspended::during`].
pub(crate) struct During<'a, K: Kind, N> {
    all: &'a Suspended<K, N>,
    key: Key,
    stack: Stack<K, N>,
}

impl<K: Kind, N: Clone> Suspended<K, N> {
    /// Calls `code` while the first of `tasks` is suspended and waits for `key`. The other tasks are beneath it on its
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
    /// Calls `see` with the first task of each stack and the key that it waits for. The list stays locked during the
    /// visit, so none of these tasks ends.
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
    /// Searches for a path from the suspended task to the key that the task itself waits for, which would be a
    /// deadlock.
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
        let mut visited = Visited { found: Found::at_most(list.credit), seen: FxHashSet::default() };
        visited.add_stack(&self.stack, None);
        let mut next = 0;
        while next < visited.found.len() {
            list.credit = list.credit.saturating_sub(1);
            if next % UNASKED == UNASKED - 1 && !goes_on() {
                break;
            }
            let (task, (_, note)) = (visited.found.task(next).clone(), visited.found.note(next).clone());
            // SAFETY: the lock is held, and the task is suspended or blocked by a suspended task, so its body stays
            // valid (invariant 2). The task's owner has only shared references to the body.
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
                let path = visited.found.path_to(next);
                let step = |place: &usize| {
                    let (task, (behind, _)) = (visited.found.task(*place), visited.found.note(*place));
                    // SAFETY: the same argument applies, because the lock is still held.
                    let body = unsafe { task.body_address().as_ref() };
                    Step { task, body, behind: *behind }
                };
                return Some(describe(&path.iter().map(step).collect::<Vec<_>>()));
            }
            waiting.iter().for_each(|stack| visited.add_stack(stack, Some(next)));
            // SAFETY: by the same argument, the task does not end while the lock is held.
            unsafe { visited.found.add_successors(next, || (Behind::Edge, None), |_, _| true) };
            next += 1;
        }
        None
    }
}

/// The tasks that a search has found, and the keys that it has visited.
struct Visited<K: Kind, N> {
    /// The tasks, each with the reason why it has to wait for the task from which it was reached. A suspended task also
    /// has the note of the layer above.
    found: Found<K, (Behind, Option<N>)>,
    seen: FxHashSet<Key>,
}

impl<K: Kind, N: Clone> Visited<K, N> {
    /// Adds the task on top of a stack, which depends on `from`, and the tasks beneath it.
    fn add_stack(&mut self, stack: &Stack<K, N>, from: Option<usize>) {
        let mut top = None;
        for (task, note) in stack.iter() {
            let (from, behind) = top.map_or((from, Behind::Waits), |top| (Some(top), Behind::Beneath));
            let added = self.found.add(task.clone(), from, (behind, Some(note.clone())));
            match (top, added) {
                (None, None) => return, // already found
                (None, added) => top = added,
                _ => {}
            }
        }
    }
}
