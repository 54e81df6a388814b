//! The window of unfinished tasks, with the distance of each from the end of the graph.
//!
//! A task's *bottom level* is the length of the longest path from its start to an end of the graph, in time. New tasks
//! arrive at the end of the window, and each may change the levels of all tasks before it. So levels are not updated on
//! every change; instead, one pass from the last task to the first recomputes them when a part of the window has
//! changed. While the window is small, a pass visits all tasks, so levels follow every measurement. In a large window,
//! a pass visits only the new tasks and the earlier tasks whose levels rise because of them. It visits all tasks only
//! if measured times have changed notably, or if a task ended before one of its predecessors. So the cost of a pass
//! does not depend on the number of ready tasks waiting in the window.
//!
//! Invariants:
//! 1. A task comes after all of its predecessors in the window, because it was submitted later.
//! 2. A task that ends leaves the levels of other tasks unchanged, because all of its predecessors have ended. If some
//!    have not ended, the next pass visits all tasks.

use crate::ids::TaskId;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Levels are recomputed when 1/`PART` of the window has changed.
const PART: usize = 16;
/// Minimum number of changes for a recomputation.
const LEAST: usize = 8;
/// Maximum number of tasks in a small window.
const SMALL: usize = 4096;

/// A policy's record of unfinished tasks; see the module documentation.
#[derive(Debug)]
pub(super) struct Window<T> {
    nodes: Vec<Node<T>>,
    at: FxHashMap<TaskId, u32>,
    ended: usize,
    changes: usize,
    /// Index of the first node that no pass has visited yet.
    first_new: usize,
    /// Whether the next pass visits all nodes.
    all: bool,
    /// Maximum number of tasks in a small window, in which every pass visits all tasks.
    small: usize,
    /// Whether the window had more than `small` tasks at the last pass.
    is_large: bool,
    /// Bit set of the old nodes (those before `first_new`) whose levels have risen in this pass. Empty between passes.
    risen: Vec<u64>,
}

#[derive(Debug)]
struct Node<T> {
    id: TaskId,
    /// `None` once the task has ended.
    task: Option<T>,
    after: SmallVec<[u32; 4]>,
    /// Length of the longest path from the task's end to an end of the graph.
    behind_ns: f64,
}

/// A task's position, valid until the next pass.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spot(usize);

/// Marks a task that is no longer in the window.
const GONE: u32 = u32::MAX;

impl<T> Default for Window<T> {
    fn default() -> Self {
        let (nodes, at, risen) = (Vec::new(), FxHashMap::default(), Vec::new());
        Self { nodes, at, ended: 0, changes: 0, first_new: 0, all: false, small: SMALL, is_large: false, risen }
    }
}

impl<T> Window<T> {
    /// Adds a newly submitted task with its predecessors.
    pub(super) fn insert(&mut self, id: TaskId, after: &[TaskId], task: T) {
        let after = after.iter().filter_map(|before| self.at.get(before).copied()).collect();
        self.at.insert(id, self.nodes.len() as u32);
        self.nodes.push(Node { id, task: Some(task), after, behind_ns: 0.0 });
        self.changes += 1;
    }

    /// Returns the position of an unfinished task.
    pub(super) fn find(&self, id: TaskId) -> Option<Spot> {
        self.at.get(&id).map(|at| Spot(*at as usize))
    }

    /// Returns the policy's data for the task at this position.
    pub(super) fn at(&mut self, Spot(at): Spot) -> Option<&mut T> {
        self.nodes[at].task.as_mut()
    }

    /// Returns the policy's data for a task.
    pub(super) fn get(&self, id: TaskId) -> Option<&T> {
        self.find(id).and_then(|Spot(at)| self.nodes[at].task.as_ref())
    }

    /// Returns the policy's data for a task.
    pub(super) fn get_mut(&mut self, id: TaskId) -> Option<&mut T> {
        self.at(self.find(id)?)
    }

    /// Returns the length of the longest path from a task's end to an end of the graph, as of the last pass.
    pub(super) fn behind_ns(&self, Spot(at): Spot) -> f64 {
        self.nodes[at].behind_ns
    }

    /// Removes an ended task.
    pub(super) fn end(&mut self, id: TaskId) -> Option<T> {
        let at = self.at.remove(&id)? as usize;
        self.ended += 1;
        self.changes += 1;
        let is_waiting = |before: &u32| *before != GONE && self.nodes[*before as usize].task.is_some();
        self.all |= self.nodes[at].after.iter().any(is_waiting);
        self.nodes[at].task.take()
    }

    /// Notes that task times differ notably from the times at the last pass.
    pub(super) fn changed(&mut self) {
        self.changes += self.nodes.len();
        self.all = true;
    }

    /// Returns whether enough has changed to recompute the levels.
    pub(super) fn is_stale(&self) -> bool {
        self.changes >= LEAST.max(self.nodes.len() / PART)
    }

    /// Returns whether levels follow only notable changes, as of the last pass.
    pub(super) fn is_large(&self) -> bool {
        self.is_large
    }

    /// Computes the levels, given the time of each task (in a large window, as of the last notable change). Calls
    /// `computed` for each unfinished task that was visited.
    pub(super) fn compute(
        &mut self,
        takes_ns: impl Fn(&T, bool) -> f64,
        mut computed: impl FnMut(TaskId, &mut T, f64),
    ) {
        self.changes = 0;
        if self.ended > self.nodes.len() / 2 {
            self.forget_ended();
        }
        let was_large = std::mem::replace(&mut self.is_large, self.nodes.len() > self.small);
        if std::mem::take(&mut self.all) || !(was_large && self.is_large) {
            self.nodes.iter_mut().for_each(|node| node.behind_ns = 0.0);
            self.first_new = 0;
        }
        self.risen.resize(self.first_new.div_ceil(64), 0);
        for at in (self.first_new..self.nodes.len()).rev() {
            self.visit(at, &takes_ns, &mut computed);
        }
        // A visit raises only earlier nodes.
        for word in (0..self.risen.len()).rev() {
            while self.risen[word] != 0 {
                let bit = self.risen[word].ilog2() as usize;
                self.risen[word] &= !(1 << bit);
                self.visit(64 * word + bit, &takes_ns, &mut computed);
            }
        }
        self.first_new = self.nodes.len();
    }

    /// Visits a task whose successors have final levels, and raises the levels of its predecessors.
    fn visit(
        &mut self,
        at: usize,
        takes_ns: &impl Fn(&T, bool) -> f64,
        computed: &mut impl FnMut(TaskId, &mut T, f64),
    ) {
        let (before, rest) = self.nodes.split_at_mut(at);
        let node = &mut rest[0];
        let Some(task) = &mut node.task else { return };
        let level_ns = takes_ns(task, self.is_large) + node.behind_ns;
        computed(node.id, task, level_ns);
        for place in node.after.iter().filter(|place| **place != GONE) {
            let place = *place as usize;
            let behind_ns = &mut before[place].behind_ns;
            if *behind_ns < level_ns {
                *behind_ns = level_ns;
                if place < self.first_new {
                    self.risen[place / 64] |= 1 << (place % 64);
                }
            }
        }
    }

    fn forget_ended(&mut self) {
        let mut left = 0;
        let places: Vec<u32> = (self.nodes.iter())
            .map(|node| {
                left += u32::from(node.task.is_some());
                if node.task.is_some() { left - 1 } else { GONE }
            })
            .collect();
        self.first_new = self.nodes[..self.first_new].iter().filter(|node| node.task.is_some()).count();
        self.nodes.retain(|node| node.task.is_some());
        for (at, node) in self.nodes.iter_mut().enumerate() {
            node.after.iter_mut().filter(|at| **at != GONE).for_each(|at| *at = places[*at as usize]);
            self.at.insert(node.id, at as u32);
        }
        self.ended = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Runs a pass and returns the levels. Asserts that every changed level was reported.
    fn levels(window: &mut Window<f64>) -> Vec<(u64, f64)> {
        let levels = |window: &Window<f64>| -> Vec<(u64, f64)> {
            let level = |node: &Node<f64>| Some((node.id.0, node.task? + node.behind_ns));
            window.nodes.iter().filter_map(level).collect()
        };
        let (before, mut told) = (levels(window), Vec::new());
        window.compute(|ns, _| *ns, |id, _, level_ns| told.push((id.0, level_ns)));
        let after = levels(window);
        assert!(
            after.iter().all(|level| before.contains(level) || told.contains(level)),
            "{before:?} {told:?} {after:?}"
        );
        after
    }

    /// Computes a task's level directly from the definition.
    fn level(graph: &[(Vec<u64>, f64)], ended: &[bool], task: usize) -> f64 {
        let successors =
            (task + 1..graph.len()).filter(|other| !ended[*other] && graph[*other].0.contains(&(task as u64)));
        graph[task].1 + successors.map(|other| level(graph, ended, other)).fold(0.0, f64::max)
    }

    proptest! {
        #[test]
        fn levels_are_longest_paths_for_any_order_of_arrivals_and_ends(
            steps in prop::collection::vec((prop::collection::vec(0..12u64, 0..3), 1..9u32, prop::option::of(any::<u16>()), 0..10u8), 1..60),
            small in 0..20usize,
        ) {
            let mut window = Window { small, ..Window::default() };
            let (mut graph, mut ended): (Vec<(Vec<u64>, f64)>, Vec<bool>) = (Vec::new(), Vec::new());
            for (back, ns, end, what) in steps {
                let id = graph.len() as u64;
                let after: Vec<u64> = back.iter().filter_map(|back| id.checked_sub(back + 1)).collect();
                let unfinished: Vec<u64> = after.into_iter().filter(|before| !ended[*before as usize]).collect();
                window.insert(TaskId(id), &unfinished.iter().copied().map(TaskId).collect::<Vec<_>>(), f64::from(ns));
                graph.push((unfinished, f64::from(ns)));
                ended.push(false);
                if let Some(end) = end.map(|end| usize::from(end) % graph.len()) {
                    prop_assert_eq!(window.end(TaskId(end as u64)).is_some(), !ended[end]);
                    ended[end] = true;
                }
                if what == 0 {
                    window.nodes.iter_mut().filter_map(|node| node.task.as_mut()).for_each(|ns| *ns += 1.0);
                    graph.iter_mut().for_each(|(_, ns)| *ns += 1.0);
                    window.changed();
                }
                if what < 5 {
                    let left = (0..graph.len()).filter(|task| !ended[*task]);
                    let expected: Vec<_> = left.map(|task| (task as u64, level(&graph, &ended, task))).collect();
                    prop_assert_eq!(levels(&mut window), expected);
                }
            }
        }
    }

    #[test]
    fn pass_visits_only_new_and_rising_tasks() {
        let mut window = Window::default();
        let visits = |window: &mut Window<f64>| {
            let mut visits = 0;
            window.compute(|ns, _| *ns, |_, _, _| visits += 1);
            visits
        };
        window.small = 0;
        (0..1000).for_each(|id| window.insert(TaskId(id), &[], 1.0));
        assert_eq!(visits(&mut window), 1000);
        window.insert(TaskId(1000), &[TaskId(7)], 1.0);
        window.insert(TaskId(1001), &[TaskId(8), TaskId(7)], 1.0);
        assert_eq!(visits(&mut window), 4);
        window.insert(TaskId(1002), &[TaskId(7)], 1.0);
        assert_eq!(visits(&mut window), 1, "it is as far from the end as before");
        assert!((0..7).all(|id| window.end(TaskId(id)).is_some()));
        assert_eq!(visits(&mut window), 0, "no task waited for those");
        window.changed();
        assert_eq!(visits(&mut window), 996);
    }

    #[test]
    fn levels_are_longest_paths_after_tasks_have_ended() {
        let mut window = Window::default();
        let graph: [(&[u64], f64); 6] =
            [(&[], 1.0), (&[0], 10.0), (&[0], 2.0), (&[1, 2], 3.0), (&[2], 20.0), (&[9], 5.0)];
        for (id, (after, ns)) in graph.into_iter().enumerate() {
            let after: Vec<TaskId> = after.iter().copied().map(TaskId).collect();
            window.insert(TaskId(id as u64), &after, ns);
        }
        assert_eq!(levels(&mut window), [(0, 23.0), (1, 13.0), (2, 22.0), (3, 3.0), (4, 20.0), (5, 5.0)]);
        for ended in [0, 2, 4, 1] {
            assert!(window.end(TaskId(ended)).is_some() && window.end(TaskId(ended)).is_none());
        }
        assert_eq!(levels(&mut window), [(3, 3.0), (5, 5.0)], "the places of others have changed");
        window.insert(TaskId(6), &[TaskId(3), TaskId(4)], 7.0);
        assert_eq!(levels(&mut window), [(3, 10.0), (5, 5.0), (6, 7.0)]);
        assert_eq!(window.find(TaskId(3)).map(|spot| window.behind_ns(spot)), Some(7.0));
    }

    #[test]
    fn passes_are_rare() {
        let mut window = Window::default();
        let (mut passes, mut visits) = (0, 0);
        for id in 0..10_000 {
            window.insert(TaskId(id), &[TaskId(id.saturating_sub(1))], 1.0);
            if window.is_stale() {
                passes += 1;
                window.compute(|ns, _| *ns, |_, _, _| visits += 1);
            }
        }
        assert!(passes > 50 && visits < 10_000 * (PART + LEAST), "{passes} passes, {visits} visits");
    }
}
