//! Which indices exchange data, and which of these edges an assignment cuts: those that join different memories. Units that
//! share one exchange without a copy.

use crate::sched::Team;
use smallvec::SmallVec;

/// Slots, each with a number of neighbours.
pub(super) type Links = SmallVec<[(usize, i64); 8]>;

/// An undirected graph without loops; every edge stands at both of its ends, once.
#[derive(Debug)]
pub(in crate::sched) struct Graph {
    neighbours: Vec<Vec<usize>>,
}

impl Graph {
    /// From lists that may name an edge once or twice; what lies outside is left out.
    pub(in crate::sched) fn new(lists: &[Vec<usize>], len: usize) -> Self {
        let mut neighbours = vec![Vec::new(); len];
        for (one, list) in lists.iter().enumerate().take(len) {
            for &other in list.iter().filter(|other| **other < len && **other != one) {
                neighbours[one].push(other);
                neighbours[other].push(one);
            }
        }
        for list in &mut neighbours {
            list.sort_unstable();
            list.dedup();
        }
        Self { neighbours }
    }

    pub(in crate::sched) fn of(&self, index: usize) -> &[usize] {
        &self.neighbours[index]
    }

    pub(super) fn has(&self, one: usize, other: usize) -> bool {
        self.neighbours[one].binary_search(&other).is_ok()
    }

    /// How many edges join different memories.
    pub(super) fn cut(&self, slots: &[usize], team: Team) -> usize {
        let apart = |index: usize, other: usize| team.memory(slots[other]) != team.memory(slots[index]);
        let ends = |(index, list): (usize, &Vec<usize>)| list.iter().filter(|other| apart(index, **other)).count();
        self.neighbours.iter().enumerate().map(ends).sum::<usize>() / 2
    }

    /// The slots that neighbours of an index are in, in order, with how many neighbours are in the memory of each.
    pub(super) fn links(&self, index: usize, slots: &[usize], team: Team) -> Links {
        let mut found: SmallVec<[usize; 8]> = self.of(index).iter().map(|other| slots[*other]).collect();
        found.sort_unstable();
        found.dedup();
        found.into_iter().map(|slot| (slot, self.in_memory(index, slots, team, team.memory(slot)))).collect()
    }

    /// How many neighbours of an index are in a memory.
    pub(in crate::sched) fn in_memory(&self, index: usize, slots: &[usize], team: Team, memory: usize) -> i64 {
        self.of(index).iter().filter(|other| team.memory(slots[**other]) == memory).count() as i64
    }
}

/// What a partition is measured by.
#[derive(Clone, Copy)]
pub(super) struct Problem<'a> {
    pub(super) graph: &'a Graph,
    pub(super) team: Team,
    /// What every index takes on a CPU unit and on a device unit.
    pub(super) ns: &'a [[f64; 2]],
    /// No unit is to take longer.
    pub(super) limit: f64,
}

impl Problem<'_> {
    pub(super) fn ns(&self, index: usize, slot: usize) -> f64 {
        self.ns[index][usize::from(self.team.is_device(slot))]
    }

    pub(super) fn loads(&self, slots: &[usize]) -> Vec<f64> {
        let mut loads = vec![0.0; self.team.len()];
        slots.iter().enumerate().for_each(|(index, slot)| loads[*slot] += self.ns(index, *slot));
        loads
    }
}
