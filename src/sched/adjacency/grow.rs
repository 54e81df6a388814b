//! Compact parts, grown one after the other.

use super::graph::Problem;

const NOBODY: usize = usize::MAX;

/// Gives every slot about `shares[slot]` of time, as a connected part if there is one; the last slot gets the rest.
///
/// A part begins where most neighbours are taken already, so that no holes are left, and takes in the index with most
/// neighbours in the part, among equals the one nearest to the seed: of a mesh, squares rather than strips.
pub(super) fn grow(problem: &Problem<'_>, shares: &[f64]) -> Vec<usize> {
    let len = problem.ns.len();
    let mut slots = vec![NOBODY; len];
    let mut free = len;
    let mut used: Vec<usize> = (0..shares.len()).filter(|slot| shares[*slot] > 0.0).collect();
    if used.is_empty() {
        used.push(0);
    }
    for (&slot, is_last) in used.iter().enumerate().map(|(n, slot)| (slot, n + 1 == used.len())) {
        let mut load = 0.0;
        let mut steps = vec![usize::MAX; len]; // from the seed; only of the part and its rim
        let mut rim: Vec<usize> = Vec::new();
        while free > 0 {
            let inside = |index: usize| problem.graph.of(index).iter().filter(|other| slots[**other] == slot).count();
            let best = rim
                .iter()
                .copied()
                .max_by_key(|index| (inside(*index), std::cmp::Reverse(steps[*index]), std::cmp::Reverse(*index)));
            let Some(index) = best.or_else(|| seed(problem, &slots)) else { break };
            let more = problem.ns(index, slot);
            if !is_last && load > 0.0 && load + more / 2.0 > shares[slot] {
                break;
            }
            load += more;
            slots[index] = slot;
            free -= 1;
            rim.retain(|other| *other != index);
            let step = if steps[index] == usize::MAX { 0 } else { steps[index] };
            for &other in problem.graph.of(index).iter().filter(|other| slots[**other] == NOBODY) {
                if steps[other] == usize::MAX {
                    rim.push(other);
                }
                steps[other] = steps[other].min(step + 1);
            }
        }
    }
    slots
}

/// The free index with most neighbours taken; among equals the first.
fn seed(problem: &Problem<'_>, slots: &[usize]) -> Option<usize> {
    let taken = |index: usize| problem.graph.of(index).iter().filter(|other| slots[**other] != NOBODY).count();
    let free = (0..slots.len()).filter(|index| slots[*index] == NOBODY);
    free.max_by_key(|index| (taken(*index), std::cmp::Reverse(*index)))
}
