//! Refinement of a partition by moves and swaps between neighbouring parts. Parts of units that share a memory are
//! included: moves between them cut nothing, but they even out times.
//!
//! The loop terminates because every step lowers the cut, or keeps the cut and evens out the times of two units, or
//! takes work from a unit above the limit. The number of passes is limited nevertheless, because the first pass brings
//! most of the gain.

use super::graph::{Edge, Links, Problem};
use std::cmp::Reverse;

const MOST_PASSES: usize = 16;

/// A partition, with the slot of each index and the time of each slot.
struct Parts {
    slots: Vec<usize>,
    loads: Vec<f64>,
    /// For each index, its exchange with other memories.
    apart: Vec<i64>,
    /// For each slot, the indices that have neighbours in other memories, in no particular order.
    rim: Vec<Vec<usize>>,
    /// Position of each index in its slot's rim; meaningless for indices that are not in a rim.
    at: Vec<usize>,
}

impl Parts {
    fn new(problem: &Problem<'_>, slots: Vec<usize>) -> Self {
        let Problem { graph, team, .. } = problem;
        let is_apart = |one: usize, other: usize| team.memory(slots[one]) != team.memory(slots[other]);
        let apart = |index: usize| -> i64 {
            graph.of(index).iter().filter(|edge| is_apart(index, edge.to)).map(|edge| edge.ns).sum()
        };
        let apart: Vec<i64> = (0..slots.len()).map(apart).collect();
        let (loads, rim, at) = (problem.loads(&slots), vec![Vec::new(); team.len()], vec![usize::MAX; slots.len()]);
        let mut parts = Self { slots, loads, apart, rim, at };
        for index in 0..parts.slots.len() {
            if parts.apart[index] > 0 {
                parts.enter(index);
            }
        }
        parts
    }

    /// Moves an index to another slot.
    fn give(&mut self, problem: &Problem<'_>, index: usize, to: usize) {
        let from = self.slots[index];
        let memory = |slot: usize| problem.team.memory(slot);
        if self.apart[index] > 0 {
            self.leave(index);
        }
        self.slots[index] = to;
        self.apart[index] = 0;
        for &Edge { to: other, ns } in problem.graph.of(index) {
            let there = memory(self.slots[other]);
            let [was, is] = [from, to].map(|slot| if there != memory(slot) { ns } else { 0 });
            self.apart[index] += is;
            let before = self.apart[other];
            self.apart[other] = before + is - was;
            match (before, self.apart[other]) {
                (0, 1..) => self.enter(other),
                (1.., 0) => self.leave(other),
                _ => {}
            }
        }
        if self.apart[index] > 0 {
            self.enter(index);
        }
        self.loads[to] += problem.ns(index, to);
        self.loads[from] -= problem.ns(index, from);
    }

    fn enter(&mut self, index: usize) {
        let rim = &mut self.rim[self.slots[index]];
        self.at[index] = rim.len();
        rim.push(index);
    }

    fn leave(&mut self, index: usize) {
        let (rim, at) = (&mut self.rim[self.slots[index]], self.at[index]);
        rim.swap_remove(at);
        if let Some(moved) = rim.get(at) {
            self.at[*moved] = at;
        }
    }
}

/// Improves a partition until no step helps any more.
pub(super) fn refine(problem: &Problem<'_>, slots: Vec<usize>) -> Vec<usize> {
    let mut parts = Parts::new(problem, slots);
    for _ in 0..MOST_PASSES {
        let mut improved = false;
        for index in 0..parts.slots.len() {
            if problem.graph.of(index).iter().all(|edge| parts.slots[edge.to] == parts.slots[index]) {
                continue; // an inner index
            }
            let gains = gains(problem, &parts.slots, index);
            improved |= shift(problem, &mut parts, index, &gains) || swap(problem, &mut parts, index, &gains);
        }
        if !improved {
            break;
        }
    }
    parts.slots
}

/// Returns, for each slot that holds neighbours of an index, how much more the index would exchange within its memory
/// if it moved to that slot.
fn gains(problem: &Problem<'_>, slots: &[usize], index: usize) -> Links {
    let mut links = problem.graph.links(index, slots, problem.team);
    let own = problem.graph.in_memory(index, slots, problem.team, problem.team.memory(slots[index]));
    links.retain(|(slot, _)| *slot != slots[index]);
    links.iter_mut().for_each(|(_, gain)| *gain -= own);
    links
}

/// Moves an index to the slot where it exchanges more.
fn shift(problem: &Problem<'_>, parts: &mut Parts, index: usize, gains: &Links) -> bool {
    let Parts { slots, loads, .. } = &*parts;
    let from = slots[index];
    let too_long = loads[from] > problem.limit;
    let after = |to: usize| loads[to] + problem.ns(index, to);
    let allowed = |&&(to, gain): &&(usize, i64)| {
        after(to) <= problem.limit && (gain > 0 || too_long || gain == 0 && after(to) < loads[from] * (1.0 - 1e-9))
    };
    let best = gains.iter().filter(allowed).max_by_key(|(to, gain)| (*gain, Reverse(*to)));
    let Some(&(to, _)) = best else { return false };
    parts.give(problem, index, to);
    true
}

/// Swaps an index with an index of a neighbouring part in another memory, if a move alone would make that part take too
/// long.
fn swap(problem: &Problem<'_>, parts: &mut Parts, index: usize, gains: &Links) -> bool {
    let Parts { slots, loads, apart, rim, .. } = &*parts;
    if apart[index] == 0 {
        return false;
    }
    let (from, memory) = (slots[index], |slot: usize| problem.team.memory(slot));
    let mut best: Option<(i64, Reverse<(usize, usize)>)> = None;
    let elsewhere = |(to, gain): &&(usize, i64)| *gain > -2 * problem.graph.mean && memory(*to) != memory(from);
    for &(to, gain) in gains.iter().filter(elsewhere) {
        for &other in &rim[to] {
            let of_to = loads[to] - problem.ns(other, to) + problem.ns(index, to);
            let of_from = loads[from] - problem.ns(index, from) + problem.ns(other, from);
            if of_to > problem.limit || of_from > problem.limit {
                continue;
            }
            if !problem.graph.of(other).iter().any(|edge| slots[edge.to] == from) {
                continue;
            }
            let near = |slot: usize| problem.graph.in_memory(other, slots, problem.team, memory(slot));
            let back = near(from) - near(to);
            let joined = problem.graph.between(index, other);
            let total = gain + back - 2 * joined;
            // Among equal swaps, the smallest (slot, index) wins.
            let swap = (total, Reverse((to, other)));
            if total > 0 && best.is_none_or(|best| swap > best) {
                best = Some(swap);
            }
        }
    }
    let Some((_, Reverse((to, other)))) = best else { return false };
    parts.give(problem, other, from);
    parts.give(problem, index, to);
    true
}
