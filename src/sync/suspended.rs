//! Tasks that are suspended in the middle of their bodies, what each waits for, and the way from one of them to what comes
//! behind it.
//!
//! A body that waits for what comes behind its own task waits for ever. What comes behind a task follows from the edges that
//! lead on from it, and from what other suspended tasks wait for. That is a [`Key`], which this module compares and does
//! not understand: an address, of a task or of whatever the layer above waits for.
//!
//! Nothing is looked for until a body that waits has nothing else to do, and then once for each wait. The search visits a
//! task once, [`MOST`] of them at most, and ends early when it is told to. The list and the search have one lock, which tasks
//! that do not wait never see.
//!
//! Invariants:
//! 1. A task on the list is in the middle of its body: [`Suspended::during`] borrows its owner, and takes it off the list under
//!    the lock before it returns. So while the lock is held no task on the list ends.
//! 2. Whoever waits, directly or not, for a task that does not end is blocked: its block stays, and so do the edges to it.
//!    So from a task on the list all that lies behind it can be visited under the lock.

use super::task::{Kind, OwnedTask, Task, TaskRef};
use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

/// What is waited for, as a number that is its own as long as it is waited for.
pub(crate) type Key = usize;

/// No more tasks than this are visited in one search: what is further away is not found.
const MOST: usize = 1 << 16;
/// So many tasks are visited before it is asked again whether the search is to go on.
const UNASKED: usize = 64;

/// The suspended tasks, each with a note of the layer above.
pub(crate) struct Suspended<K: Kind, N>(Mutex<FxHashMap<Key, SmallVec<[(TaskRef<K>, N); 1]>>>);

impl<K: Kind, N> Default for Suspended<K, N> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

/// A task on the way, and how it comes behind the one before: by an edge, or because it `waits`.
pub(crate) struct Step<'a, K: Kind> {
    pub(crate) task: &'a Task<K>,
    pub(crate) body: &'a K::Body,
    pub(crate) waits: bool,
}

/// A task that was found.
struct Found<K: Kind, N> {
    task: TaskRef<K>,
    /// The one that it comes behind; itself, for the first one.
    from: usize,
    /// If it is suspended.
    note: Option<N>,
}

/// What a search asks.
pub(crate) struct Search<G, O, D> {
    /// Calls with each key that comes behind this task, whose body is never changed meanwhile.
    pub(crate) keys: G,
    /// Whether to go on.
    pub(crate) goes_on: O,
    /// Says what was found: the way, from the task that waits to the one whose key it is.
    pub(crate) describe: D,
}

impl<K: Kind, N: Clone> Suspended<K, N> {
    /// Calls `code`, in which `task` is suspended and waits for what has this key.
    pub(crate) fn during<R>(&self, task: &OwnedTask<K>, key: Key, note: N, code: impl FnOnce() -> R) -> R {
        struct Leave<'a, K: Kind, N>(&'a Suspended<K, N>, Key, usize);
        impl<K: Kind, N> Drop for Leave<'_, K, N> {
            fn drop(&mut self) {
                let Self(Suspended(list), key, address) = self;
                let mut list = list.lock();
                let waiting = list.get_mut(key).expect("a suspended task is on the list");
                let own = waiting.iter().rposition(|(task, _)| task.address() == *address);
                let own = waiting.swap_remove(own.expect("a suspended task is on the list"));
                if waiting.is_empty() {
                    list.remove(key);
                }
                drop(list);
                drop(own);
            }
        }
        let own = task.share();
        let leave = Leave(self, key, own.address());
        self.0.lock().entry(key).or_default().push((own, note));
        let returned = code();
        drop(leave);
        returned
    }

    /// Looks for the way from `task`, which is suspended, to what it waits for itself.
    pub(crate) fn way<R>(
        &self,
        task: &OwnedTask<K>,
        awaited: Key,
        note: N,
        search: Search<
            impl FnMut(&Task<K>, &K::Body, Option<&N>, &mut dyn FnMut(Key)),
            impl Fn() -> bool,
            impl FnOnce(&[Step<'_, K>]) -> R,
        >,
    ) -> Option<R> {
        let Search { mut keys, goes_on, describe } = search;
        let (mut found, mut seen) = (Vec::new(), FxHashSet::default());
        let own = task.share();
        seen.insert(own.address());
        found.push(Found { task: own, from: 0, note: Some(note) });
        let list = self.0.lock();
        let mut next = 0;
        while next < found.len() {
            if next % UNASKED == UNASKED - 1 && !goes_on() {
                break;
            }
            let Found { task, note, .. } = &found[next];
            let (task, note) = (task.clone(), note.clone());
            // SAFETY: the task is suspended, or blocked by one that is (invariant 2), and the lock is held: its body stays,
            // and whoever owns it has no more than shared references to that.
            let body = unsafe { task.body_address().as_ref() };
            let (mut is_there, mut waiting) = (false, SmallVec::<[(TaskRef<K>, N); 2]>::new());
            keys(&task, body, note.as_ref(), &mut |key| {
                is_there |= key == awaited;
                waiting.extend(list.get(&key).into_iter().flatten().cloned());
            });
            if is_there {
                let mut way = vec![next];
                while let Some(last) = way.last().filter(|last| **last > 0) {
                    way.push(found[*last].from);
                }
                let steps: Vec<_> = way
                    .iter()
                    .rev()
                    .map(|place| {
                        let Found { task, note, .. } = &found[*place];
                        // SAFETY: as above.
                        let body = unsafe { task.body_address().as_ref() };
                        Step { task, body, waits: note.is_some() }
                    })
                    .collect();
                return Some(describe(&steps));
            }
            let mut add = |task: TaskRef<K>, note: Option<N>| {
                if found.len() < MOST && seen.insert(task.address()) {
                    found.push(Found { task, from: next, note });
                }
            };
            waiting.into_iter().for_each(|(task, note)| add(task, Some(note)));
            // SAFETY: as above.
            unsafe { task.successors(|successor| add(successor, None)) };
            next += 1;
        }
        drop(list);
        None
    }
}
