//! Which indices exchange data, what the copies take, and which of them an assignment asks for: those between different
//! memories. Units that share one exchange without a copy.
//!
//! An edge weighs what a copy of its bytes takes by [`LinkEstimate`]: on its own, a small face costs the link's latency.

use crate::sched::{LinkEstimate, Neighbour, Team};
use smallvec::SmallVec;

/// Slots, each with nanoseconds.
pub(super) type Links = SmallVec<[(usize, i64); 8]>;

/// One end's view of an edge.
#[derive(Debug, Clone, Copy)]
pub(in crate::sched) struct Edge {
    /// The other end.
    pub(in crate::sched) to: usize,
    /// What copies in one direction take; at least 1.
    pub(super) ns: i64,
}

/// An undirected graph without loops; every edge stands at both of its ends, once.
#[derive(Debug)]
pub(in crate::sched) struct Graph {
    edges: Vec<Vec<Edge>>,
    /// Of a mean edge.
    pub(super) mean: i64,
}

impl Graph {
    /// From lists that may name an edge at one end or at both, of which the larger number counts; what lies outside is left
    /// out.
    pub(in crate::sched) fn new(lists: &[Vec<Neighbour>], len: usize) -> Self {
        // So large that nothing in between is lost, and no sum over all of them is too large.
        let most = i64::MAX / (4 * lists.iter().map(Vec::len).sum::<usize>().max(1) as i64);
        let mut edges: Vec<Vec<Edge>> = vec![Vec::new(); len];
        let mut own: Vec<Edge> = Vec::new();
        for (one, list) in lists.iter().enumerate().take(len) {
            let named = |other: &&Neighbour| other.index < len && other.index != one && other.bytes > 0;
            own.clear();
            let edge = |other: &Neighbour| {
                let ns = LinkEstimate::default().copy_ns(other.bytes);
                Edge { to: other.index, ns: (ns as i64).clamp(1, most) }
            };
            own.extend(list.iter().filter(named).map(edge));
            unite(&mut own, |sum, more| sum + more);
            for &Edge { to, ns } in &own {
                edges[one].push(Edge { to, ns });
                edges[to].push(Edge { to: one, ns });
            }
        }
        edges.iter_mut().for_each(|list| unite(list, i64::max));
        let (count, sum) = edges.iter().flatten().fold((0, 0), |(count, sum), edge| (count + 1, sum + edge.ns));
        Self { edges, mean: (sum / i64::max(count, 1)).max(1) }
    }

    pub(in crate::sched) fn of(&self, index: usize) -> &[Edge] {
        &self.edges[index]
    }

    /// What two indices exchange.
    pub(super) fn between(&self, one: usize, other: usize) -> i64 {
        let list = &self.edges[one];
        list.binary_search_by_key(&other, |edge| edge.to).map_or(0, |at| list[at].ns)
    }

    /// What crosses between different memories.
    pub(super) fn cut(&self, slots: &[usize], team: Team) -> i64 {
        let apart =
            |index: usize, edge: &&Edge| edge.to > index && team.memory(slots[edge.to]) != team.memory(slots[index]);
        let of = |(index, list): (usize, &Vec<Edge>)| -> i64 {
            list.iter().filter(|edge| apart(index, edge)).map(|edge| edge.ns).sum()
        };
        self.edges.iter().enumerate().map(of).sum()
    }

    /// The slots that neighbours of an index are in, in order, with what it exchanges with the memory of each.
    pub(super) fn links(&self, index: usize, slots: &[usize], team: Team) -> Links {
        let mut found: SmallVec<[usize; 8]> = self.of(index).iter().map(|edge| slots[edge.to]).collect();
        found.sort_unstable();
        found.dedup();
        found.into_iter().map(|slot| (slot, self.in_memory(index, slots, team, team.memory(slot)))).collect()
    }

    /// What an index exchanges with others in a memory.
    pub(in crate::sched) fn in_memory(&self, index: usize, slots: &[usize], team: Team, memory: usize) -> i64 {
        self.of(index).iter().filter(|edge| team.memory(slots[edge.to]) == memory).map(|edge| edge.ns).sum()
    }
}

/// Sorts edges, and makes one of those to the same index.
fn unite(list: &mut Vec<Edge>, both: impl Fn(i64, i64) -> i64) {
    list.sort_unstable_by_key(|edge| edge.to);
    list.dedup_by(|later, kept| {
        let same = later.to == kept.to;
        if same {
            kept.ns = both(kept.ns, later.ns);
        }
        same
    });
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
