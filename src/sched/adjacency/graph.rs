//! The exchange graph: which indices exchange data, what the copies cost, and which edges an assignment cuts. Only
//! edges between different memories can be cut, because units that share a memory exchange data without a copy.
//!
//! An edge's weight is the time of one separate copy of its bytes by [`LinkEstimate`], so even a small face costs the
//! link's latency.

use crate::sched::{LinkEstimate, Neighbour, Team};
use smallvec::SmallVec;

/// List of slots, each with a copy time in nanoseconds.
pub(super) type Links = SmallVec<[(usize, i64); 8]>;

/// An edge as seen from one of its ends.
#[derive(Debug, Clone, Copy)]
pub(in crate::sched) struct Edge {
    /// The other end.
    pub(in crate::sched) to: usize,
    /// Time of the copies in one direction; at least 1.
    pub(super) ns: i64,
}

/// An undirected graph without loops. Each edge is listed at both of its ends.
#[derive(Debug)]
pub(in crate::sched) struct Graph {
    edges: Vec<Vec<Edge>>,
    /// Mean edge weight.
    pub(super) mean: i64,
}

impl Graph {
    /// Builds the graph from lists that may name an edge at one end or at both. If both ends name it, the larger byte
    /// count is used. Indices out of range are ignored.
    pub(in crate::sched) fn new(lists: &[Vec<Neighbour>], len: usize) -> Self {
        // Large enough that no realistic weight is clipped, and small enough that the sum of all edges does not
        // overflow.
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

    /// Returns the weight of the edge between two indices.
    pub(super) fn between(&self, one: usize, other: usize) -> i64 {
        let list = &self.edges[one];
        list.binary_search_by_key(&other, |edge| edge.to).map_or(0, |at| list[at].ns)
    }

    /// Returns the total weight of edges between different memories.
    pub(super) fn cut(&self, slots: &[usize], team: Team) -> i64 {
        let apart =
            |index: usize, edge: &&Edge| edge.to > index && team.memory(slots[edge.to]) != team.memory(slots[index]);
        let of = |(index, list): (usize, &Vec<Edge>)| -> i64 {
            list.iter().filter(|edge| apart(index, edge)).map(|edge| edge.ns).sum()
        };
        self.edges.iter().enumerate().map(of).sum()
    }

    /// Returns the slots of an index's neighbours, in order. Each slot comes with the exchange between the index and
    /// that slot's memory.
    pub(super) fn links(&self, index: usize, slots: &[usize], team: Team) -> Links {
        let mut found: SmallVec<[usize; 8]> = self.of(index).iter().map(|edge| slots[edge.to]).collect();
        found.sort_unstable();
        found.dedup();
        found.into_iter().map(|slot| (slot, self.in_memory(index, slots, team, team.memory(slot)))).collect()
    }

    /// Returns the exchange between an index and the other indices in a memory.
    pub(in crate::sched) fn in_memory(&self, index: usize, slots: &[usize], team: Team, memory: usize) -> i64 {
        self.of(index).iter().filter(|edge| team.memory(slots[edge.to]) == memory).map(|edge| edge.ns).sum()
    }
}

/// Sorts edges and merges those that lead to the same index.
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

/// Input of the partitioner, and the measure of a partition's quality.
#[derive(Clone, Copy)]
pub(super) struct Problem<'a> {
    pub(super) graph: &'a Graph,
    pub(super) team: Team,
    /// Time of each index on a CPU unit and on a device unit.
    pub(super) ns: &'a [[f64; 2]],
    /// Maximum time that a unit may take.
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
