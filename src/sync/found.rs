//! Tasks that a breadth-first search along graph edges has found, and the paths to them.
//!
//! The search keeps references to all tasks that it has found, so an address uniquely identifies a task.

use super::task::{Kind, TaskRef};
use rustc_hash::FxHashMap;

/// A task, with the caller's note about it.
struct Entry<K: Kind, N> {
    task: TaskRef<K>,
    /// Index of the task from which this one was reached. A first task has its own index instead.
    from: usize,
    note: N,
}

/// The tasks in the order in which they were found; see the module documentation.
pub(super) struct Found<K: Kind, N> {
    entries: Vec<Entry<K, N>>,
    /// The tasks' indices, by address.
    places: FxHashMap<usize, usize>,
    /// Number of tasks that may still be found.
    left: usize,
}

impl<K: Kind, N> Found<K, N> {
    /// Creates a search that finds at most this many tasks.
    pub(super) fn at_most(tasks: usize) -> Self {
        Self { entries: Vec::new(), places: FxHashMap::default(), left: tasks }
    }

    /// Returns whether no more tasks may be found.
    pub(super) fn is_full(&self) -> bool {
        self.left == 0
    }

    /// Returns the number of tasks found so far.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the task with this index.
    pub(super) fn task(&self, place: usize) -> &TaskRef<K> {
        &self.entries[place].task
    }

    /// Returns the note about the task with this index.
    pub(super) fn note(&self, place: usize) -> &N {
        &self.entries[place].note
    }

    /// Returns the index of the task from which this one was reached.
    pub(super) fn before(&self, place: usize) -> usize {
        self.entries[place].from
    }

    /// Returns the index of a task, if it was found.
    pub(super) fn place_of(&self, task: &TaskRef<K>) -> Option<usize> {
        self.places.get(&task.address()).copied()
    }

    /// Makes a task that was found a first task.
    pub(super) fn begin_again_at(&mut self, place: usize) {
        self.entries[place].from = place;
    }

    /// Adds a task and returns its index. Returns `None` if it is already known or no more tasks may be found.
    pub(super) fn add(&mut self, task: TaskRef<K>, from: Option<usize>, note: N) -> Option<usize> {
        let place = self.entries.len();
        if self.left == 0 || self.places.contains_key(&task.address()) {
            return None;
        }
        self.left -= 1;
        self.places.insert(task.address(), place);
        self.entries.push(Entry { task, from: from.unwrap_or(place), note });
        Some(place)
    }

    /// Adds the successors of a task with the notes that `note` returns. Calls `see` with the index of each new one,
    /// until `see` returns false.
    ///
    /// # Safety
    /// The task with this index must not end before this returns.
    pub(super) unsafe fn add_successors(
        &mut self,
        place: usize,
        note: impl Fn() -> N,
        mut see: impl FnMut(&Self, usize) -> bool,
    ) {
        let mut successors = Vec::new();
        // SAFETY: the caller promises that the task does not end.
        unsafe { self.entries[place].task.successors(|successor| successors.push(successor)) };
        for successor in successors {
            if let Some(new) = self.add(successor, Some(place), note())
                && !see(self, new)
            {
                return;
            }
        }
    }

    /// Returns the indices of the tasks on the path from a first task to the task with the index `last`.
    pub(super) fn path_to(&self, last: usize) -> Vec<usize> {
        let mut path = vec![last];
        while let Some(place) = path.last().copied().filter(|place| self.before(*place) != *place) {
            path.push(self.before(place));
        }
        path.reverse();
        path
    }
}
