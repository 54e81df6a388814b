//! Moves and swaps between neighbouring parts, those of units that share a memory included: these cut nothing, and even out
//! times.
//!
//! Every step lowers the cut, or leaves it and evens out the times of two units, or takes work from a unit above the
//! limit; so it ends. The number of passes is limited all the same: most of the gain is in the first.

use super::graph::Problem;

const MOST_PASSES: usize = 16;

/// Improves a partition until nothing helps.
pub(super) fn refine(problem: &Problem<'_>, mut slots: Vec<usize>) -> Vec<usize> {
    let mut loads = problem.loads(&slots);
    for _ in 0..MOST_PASSES {
        let mut improved = false;
        for index in 0..slots.len() {
            improved |= shift(problem, &mut slots, &mut loads, index) || swap(problem, &mut slots, &mut loads, index);
        }
        if !improved {
            break;
        }
    }
    slots
}

/// The neighbours in its memory that an index would win by moving to each slot that has any of them.
fn gains(problem: &Problem<'_>, slots: &[usize], index: usize) -> Vec<(usize, i64)> {
    let mut links = problem.graph.links(index, slots, problem.team);
    let own = problem.graph.in_memory(index, slots, problem.team, problem.team.memory(slots[index]));
    links.retain(|(slot, _)| *slot != slots[index]);
    links.iter_mut().for_each(|(_, gain)| *gain -= own);
    links
}

/// Moves an index to where it has more neighbours.
fn shift(problem: &Problem<'_>, slots: &mut [usize], loads: &mut [f64], index: usize) -> bool {
    let from = slots[index];
    let too_long = loads[from] > problem.limit;
    let after = |to: usize| loads[to] + problem.ns(index, to);
    let allowed = |&(to, gain): &(usize, i64)| {
        after(to) <= problem.limit && (gain > 0 || too_long || gain == 0 && after(to) < loads[from] * (1.0 - 1e-9))
    };
    let best = gains(problem, slots, index)
        .into_iter()
        .filter(allowed)
        .max_by_key(|(to, gain)| (*gain, std::cmp::Reverse(*to)));
    let Some((to, _)) = best else { return false };
    loads[to] += problem.ns(index, to);
    loads[from] -= problem.ns(index, from);
    slots[index] = to;
    true
}

/// Swaps an index with one of a neighbouring part, where a move alone would make that part take too long.
fn swap(problem: &Problem<'_>, slots: &mut [usize], loads: &mut [f64], index: usize) -> bool {
    let from = slots[index];
    let mut best: Option<(i64, usize)> = None;
    let elsewhere = |(to, gain): &(usize, i64)| *gain > -2 && problem.team.memory(*to) != problem.team.memory(from);
    for (to, gain) in gains(problem, slots, index).into_iter().filter(elsewhere) {
        let touches = |other: usize| problem.graph.of(other).iter().any(|next| slots[*next] == from);
        for other in (0..slots.len()).filter(|other| slots[*other] == to && touches(*other)) {
            let Some((_, back)) = gains(problem, slots, other).into_iter().find(|(slot, _)| *slot == from) else {
                continue;
            };
            let joined = i64::from(problem.graph.has(index, other));
            let total = gain + back - 2 * joined;
            let of_to = loads[to] - problem.ns(other, to) + problem.ns(index, to);
            let of_from = loads[from] - problem.ns(index, from) + problem.ns(other, from);
            let fits = of_to <= problem.limit && of_from <= problem.limit;
            if total > 0 && fits && best.is_none_or(|(most, _)| total > most) {
                best = Some((total, other));
            }
        }
    }
    let Some((_, other)) = best else { return false };
    let to = slots[other];
    loads[to] += problem.ns(index, to) - problem.ns(other, to);
    loads[from] += problem.ns(other, from) - problem.ns(index, from);
    slots.swap(index, other);
    true
}
