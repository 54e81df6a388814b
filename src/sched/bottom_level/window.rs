//! The tasks that were submitted and have not ended, and how far each is from the end of the graph.
//!
//! A task's *bottom level* is the longest way from its begin to an end of the graph, in time. New tasks come at the end, and
//! each may change the levels of all before it: so levels are not kept up to date, but computed anew for all tasks in one
//! pass from the last to the first, when a part of the window has changed. That costs a task the same whatever the window's
//! size.
//!
//! Invariant: a task stands behind all that it comes after, for it was submitted later.

use crate::ids::TaskId;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Levels are computed again when the window has changed by this part.
const PART: usize = 16;
/// But not for fewer changes than this.
const LEAST: usize = 8;

/// What a policy remembers of tasks; see the module.
#[derive(Debug)]
pub(super) struct Window<T> {
    nodes: Vec<Node<T>>,
    at: FxHashMap<TaskId, u32>,
    ended: usize,
    changes: usize,
}

#[derive(Debug)]
struct Node<T> {
    id: TaskId,
    /// Nothing when it has ended.
    task: Option<T>,
    after: SmallVec<[u32; 4]>,
    /// The longest way from its end to an end of the graph.
    behind_ns: f64,
}

/// Of a task that has no place any more.
const GONE: u32 = u32::MAX;

impl<T> Default for Window<T> {
    fn default() -> Self {
        Self { nodes: Vec::new(), at: FxHashMap::default(), ended: 0, changes: 0 }
    }
}

impl<T> Window<T> {
    /// A task was submitted, which comes after these.
    pub(super) fn insert(&mut self, id: TaskId, after: &[TaskId], task: T) {
        let after = after.iter().filter_map(|before| self.at.get(before).copied()).collect();
        self.at.insert(id, self.nodes.len() as u32);
        self.nodes.push(Node { id, task: Some(task), after, behind_ns: 0.0 });
        self.changes += 1;
    }

    /// What is remembered of a task.
    pub(super) fn get_mut(&mut self, id: TaskId) -> Option<&mut T> {
        let at = *self.at.get(&id)?;
        self.nodes[at as usize].task.as_mut()
    }

    /// The longest way from a task's end to an end of the graph, as of the last pass.
    pub(super) fn behind_ns(&self, id: TaskId) -> f64 {
        self.at.get(&id).map_or(0.0, |at| self.nodes[*at as usize].behind_ns)
    }

    /// A task has ended.
    pub(super) fn end(&mut self, id: TaskId) -> Option<T> {
        let at = self.at.remove(&id)?;
        self.ended += 1;
        self.changes += 1;
        self.nodes[at as usize].task.take()
    }

    /// What the tasks take may be other than at the last pass.
    pub(super) fn changed(&mut self) {
        self.changes += self.nodes.len();
    }

    /// Whether so much has changed that levels are to be computed.
    pub(super) fn is_stale(&self) -> bool {
        self.changes >= LEAST.max(self.nodes.len() / PART)
    }

    /// Computes the levels, of tasks that take so long; tells of each that has not ended.
    pub(super) fn compute(&mut self, takes_ns: impl Fn(&T) -> f64, mut computed: impl FnMut(TaskId, &mut T, f64)) {
        self.changes = 0;
        if self.ended > self.nodes.len() / 2 {
            self.forget_ended();
        }
        self.nodes.iter_mut().for_each(|node| node.behind_ns = 0.0);
        for at in (0..self.nodes.len()).rev() {
            let (before, rest) = self.nodes.split_at_mut(at);
            let node = &mut rest[0];
            let Some(task) = &mut node.task else { continue };
            let level_ns = takes_ns(task) + node.behind_ns;
            computed(node.id, task, node.behind_ns);
            for before_it in node.after.iter().filter(|at| **at != GONE) {
                let behind_ns = &mut before[*before_it as usize].behind_ns;
                *behind_ns = behind_ns.max(level_ns);
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

    fn levels(window: &mut Window<f64>) -> Vec<(u64, f64)> {
        let mut levels = Vec::new();
        window.compute(|ns| *ns, |id, ns, behind| levels.push((id.0, *ns + behind)));
        levels.reverse();
        levels
    }

    #[test]
    fn the_longest_way_to_the_end_whatever_has_ended() {
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
        assert_eq!(window.behind_ns(TaskId(3)), 7.0);
    }

    #[test]
    fn passes_are_rare() {
        let mut window = Window::default();
        let (mut passes, mut visits) = (0, 0);
        for id in 0..10_000 {
            window.insert(TaskId(id), &[TaskId(id.saturating_sub(1))], 1.0);
            if window.is_stale() {
                passes += 1;
                window.compute(|ns| *ns, |_, _, _| visits += 1);
            }
        }
        assert!(passes > 50 && visits < 10_000 * (PART + LEAST), "{passes} passes, {visits} visits");
    }
}
