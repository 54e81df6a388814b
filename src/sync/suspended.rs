//! Tasks that are suspended in the middle of their bodies, what each waits for, and the way from one of them to what comes
//! behind it.
//!
//! A body that waits for what comes behind its own task waits for ever. What comes behind a task follows from the edges that
//! lead on from it, from what other suspended tasks wait for, and from the stacks: a body cannot go on before those on top
//! of it have ended. What is waited for is a [`Key`], which this module compares and does not understand: an address, of
//! a task or of whatever the layer above waits for.
//!
//! Nothing is looked for until a body that waits has nothing else to do, and then once for each wait. The search visits a
//! task once, [`MOST`] of them at most, and ends early when it is told to. Where thousands of bodies wait, one for the other,
//! it ends earlier: in all, searches visit no more than [`EACH`] tasks for each wait that there has been, and [`MOST`]. The
//! list and the search have one lock, which tasks that do not wait never see.
//!
//! Invariants:
//! 1. A task on the list is in the middle of its body: [`Suspended::during`] borrows its owner, and takes it off the list under
//!    the lock before it returns; a [`During`] is borrowed out of it and so not forgotten. So while the lock is held no task on
//!    the list ends.
//! 2. Whoever waits, directly or not, for a task that does not end is blocked: its block stays, and so do the edges to it.
//!    So from a task on the list all that lies behind it can be visited under the lock.

use super::owned::OwnedTask;
use super::task::{Kind, Task, TaskRef};
use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use std::sync::Arc;

/// What is waited for, as a number that is its own as long as it is waited for.
pub(crate) type Key = usize;

/// No more tasks than this are visited in one search: what is further away is not found.
const MOST: usize = 1 << 14;
/// A wait adds so many to those that searches may still visit.
const EACH: usize = 64;
/// So many tasks are visited before it is asked again whether the search is to go on.
const UNASKED: usize = 64;

/// The suspended tasks by what they wait for, each with those that lie beneath it on its stack, and all with a note of the
/// layer above.
pub(crate) struct Suspended<K: Kind, N>(Mutex<List<K, N>>);

struct List<K: Kind, N> {
    waiting: FxHashMap<Key, SmallVec<[Stack<K, N>; 1]>>,
    /// How many tasks searches may visit at the moment.
    credit: usize,
}

/// The tasks on a stack, the one on top first.
type Stack<K, N> = Arc<[(TaskRef<K>, N)]>;

impl<K: Kind, N> Default for Suspended<K, N> {
    fn default() -> Self {
        Self(Mutex::new(List { waiting: FxHashMap::default(), credit: MOST }))
    }
}

/// How a task on the way comes behind the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behind {
    /// By an edge.
    Edge,
    /// It is suspended, and waits for the other.
    Waits,
    /// It is suspended, and lies beneath the other on a stack.
    Beneath,
}

/// A task on the way.
pub(crate) struct Step<'a, K: Kind> {
    pub(crate) task: &'a Task<K>,
    pub(crate) body: &'a K::Body,
    pub(crate) behind: Behind,
}

/// A task that was found.
struct Found<K: Kind, N> {
    task: TaskRef<K>,
    /// The one that it comes behind, and how; itself, for the first one.
    from: usize,
    behind: Behind,
    /// If it is suspended.
    note: Option<N>,
}

/// What a search asks.
pub(crate) struct Search<G, O, D> {
    /// Calls with each key of this task, of whose body it reads what does not change; is told whether it need not go on with
    /// what lies behind that key, as somebody waits for it or it was met before.
    pub(crate) keys: G,
    /// Whether to go on.
    pub(crate) goes_on: O,
    /// Says what was found: the way, from the task that waits to the one whose key it is.
    pub(crate) describe: D,
}

/// Tasks that are suspended in the middle of a call of [`Suspended::during`].
pub(crate) struct During<'a, K: Kind, N> {
    all: &'a Suspended<K, N>,
    key: Key,
    stack: Stack<K, N>,
}

impl<K: Kind, N: Clone> Suspended<K, N> {
    /// Calls `code`, in which the first of `tasks` is suspended and waits for what has this key, and the others lie beneath it
    /// on its stack.
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
    /// Looks for the way from the suspended task to what it waits for itself.
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
            // SAFETY: the task is suspended, or blocked by one that is (invariant 2), and the lock is held: its body stays,
            // and whoever owns it has no more than shared references to that.
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
                    // SAFETY: as above.
                    let body = unsafe { task.body_address().as_ref() };
                    Step { task, body, behind: *behind }
                };
                return Some(describe(&way.iter().map(step).collect::<Vec<_>>()));
            }
            waiting.iter().for_each(|stack| visited.add_stack(stack, next));
            // SAFETY: as above.
            unsafe { task.successors(|successor| _ = visited.add(successor, next, Behind::Edge, None)) };
            next += 1;
        }
        None
    }
}

/// The tasks that a search has found, in the order in which it looks at them.
struct Visited<K: Kind, N> {
    /// As many it may find.
    most: usize,
    found: Vec<Found<K, N>>,
    /// Keys that were met.
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

    /// Adds the task on top of a stack, which comes behind `from`, and those beneath it.
    fn add_stack(&mut self, stack: &Stack<K, N>, from: usize) {
        let mut top = None;
        for (task, note) in stack.iter() {
            let (from, behind) = top.map_or((from, Behind::Waits), |top| (top, Behind::Beneath));
            let added = self.add(task.clone(), from, behind, Some(note.clone()));
            match (top, added) {
                (None, None) => return, // it was found before
                (None, added) => top = added,
                _ => {}
            }
        }
    }

    /// The places of those on the way to this one.
    fn way(&self, last: usize) -> Vec<usize> {
        let mut way = vec![last];
        while let Some(place) = way.last().copied().filter(|place| *place > 0) {
            way.push(self.found[place].from);
        }
        way.reverse();
        way
    }
}
