//! Which indices exchange data, and which of these edges an assignment cuts.

use crate::sched::Team;

/// An undirected graph without loops; every edge stands at both of its ends, once.
#[derive(Debug)]
pub(super) struct Graph {
    neighbours: Vec<Vec<usize>>,
}

impl Graph {
    /// From lists that may name an edge once or twice; what lies outside is left out.
    pub(super) fn new(lists: &[Vec<usize>], len: usize) -> Self {
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

    pub(super) fn of(&self, index: usize) -> &[usize] {
        &self.neighbours[index]
    }

    pub(super) fn has(&self, one: usize, other: usize) -> bool {
        self.neighbours[one].binary_search(&other).is_ok()
    }

    /// How many edges join different slots.
    pub(super) fn cut(&self, slots: &[usize]) -> usize {
        let ends =
            |(index, list): (usize, &Vec<usize>)| list.iter().filter(|other| slots[**other] != slots[index]).count();
        self.neighbours.iter().enumerate().map(ends).sum::<usize>() / 2
    }

    /// How many neighbours of an index each slot has, for those slots that have any; in the order of slots.
    pub(super) fn links(&self, index: usize, slots: &[usize]) -> Vec<(usize, i64)> {
        let mut links: Vec<(usize, i64)> = Vec::with_capacity(4);
        for other in self.of(index) {
            match links.iter_mut().find(|(slot, _)| *slot == slots[*other]) {
                Some((_, count)) => *count += 1,
                None => links.push((slots[*other], 1)),
            }
        }
        links.sort_unstable();
        links
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
