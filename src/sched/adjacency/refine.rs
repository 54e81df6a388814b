//! Moves and swaps between neighbouring parts, those of units that share a memory included: these cut nothing, and even out
//! times.
//!
//! Every step lowers the cut, or leaves it and evens out the times of two units, or takes work from a unit above the
//! limit; so it ends. The number of passes is limited all the same: most of the gain is in the first.

use super::graph::{Links, Problem};
use std::cmp::Reverse;

const MOST_PASSES: usize = 16;

/// A partition: who is where, and what each slot takes.
struct Parts {
    slots: Vec<usize>,
    loads: Vec<f64>,
    /// The indices of each slot, in no order.
    of: Vec<Vec<usize>>,
    /// Where an index stands among those of its slot.
    at: Vec<usize>,
}

impl Parts {
    fn new(problem: &Problem<'_>, slots: Vec<usize>) -> Self {
        let mut of = vec![Vec::new(); problem.team.len()];
        let mut place = |(index, slot): (usize, &usize)| {
            of[*slot].push(index);
            of[*slot].len() - 1
        };
        let at = slots.iter().enumerate().map(&mut place).collect();
        Self { loads: problem.loads(&slots), slots, of, at }
    }

    /// Gives an index to another slot.
    fn give(&mut self, problem: &Problem<'_>, index: usize, to: usize) {
        let (from, at) = (self.slots[index], self.at[index]);
        self.of[from].swap_remove(at);
        if let Some(moved) = self.of[from].get(at) {
            self.at[*moved] = at;
        }
        self.at[index] = self.of[to].len();
        self.of[to].push(index);
        self.slots[index] = to;
        self.loads[to] += problem.ns(index, to);
        self.loads[from] -= problem.ns(index, from);
    }
}

/// Improves a partition until nothing helps.
pub(super) fn refine(problem: &Problem<'_>, slots: Vec<usize>) -> Vec<usize> {
    let mut parts = Parts::new(problem, slots);
    for _ in 0..MOST_PASSES {
        let mut improved = false;
        for index in 0..parts.slots.len() {
            improved |= shift(problem, &mut parts, index) || swap(problem, &mut parts, index);
        }
        if !improved {
            break;
        }
    }
    parts.slots
}

/// The neighbours in its memory that an index would win by moving to each slot that has any of them.
fn gains(problem: &Problem<'_>, slots: &[usize], index: usize) -> Links {
    let mut links = problem.graph.links(index, slots, problem.team);
    let own = problem.graph.in_memory(index, slots, problem.team, problem.team.memory(slots[index]));
    links.retain(|(slot, _)| *slot != slots[index]);
    links.iter_mut().for_each(|(_, gain)| *gain -= own);
    links
}

/// Moves an index to where it has more neighbours.
fn shift(problem: &Problem<'_>, parts: &mut Parts, index: usize) -> bool {
    let Parts { slots, loads, .. } = &*parts;
    let from = slots[index];
    let too_long = loads[from] > problem.limit;
    let after = |to: usize| loads[to] + problem.ns(index, to);
    let allowed = |&(to, gain): &(usize, i64)| {
        after(to) <= problem.limit && (gain > 0 || too_long || gain == 0 && after(to) < loads[from] * (1.0 - 1e-9))
    };
    let best = gains(problem, slots, index).into_iter().filter(allowed).max_by_key(|(to, gain)| (*gain, Reverse(*to)));
    let Some((to, _)) = best else { return false };
    parts.give(problem, index, to);
    true
}

/// Swaps an index with one of a neighbouring part, where a move alone would make that part take too long.
fn swap(problem: &Problem<'_>, parts: &mut Parts, index: usize) -> bool {
    let Parts { slots, loads, of, .. } = &*parts;
    let (from, memory) = (slots[index], |slot: usize| problem.team.memory(slot));
    if problem.graph.of(index).iter().all(|other| memory(slots[*other]) == memory(from)) {
        return false; // deep inside
    }
    let mut best: Option<(i64, Reverse<(usize, usize)>)> = None;
    let elsewhere = |(to, gain): &(usize, i64)| *gain > -2 && memory(*to) != memory(from);
    for (to, gain) in gains(problem, slots, index).into_iter().filter(elsewhere) {
        for &other in &of[to] {
            let of_to = loads[to] - problem.ns(other, to) + problem.ns(index, to);
            let of_from = loads[from] - problem.ns(index, from) + problem.ns(other, from);
            if of_to > problem.limit || of_from > problem.limit {
                continue;
            }
            if !problem.graph.of(other).iter().any(|next| slots[*next] == from) {
                continue;
            }
            let Some((_, back)) = gains(problem, slots, other).into_iter().find(|(slot, _)| *slot == from) else {
                continue;
            };
            let joined = i64::from(problem.graph.has(index, other));
            let total = gain + back - 2 * joined;
            // Of equals the first of all that are looked at.
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
