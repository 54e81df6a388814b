//! Growth of compact parts, one after the other.

use super::graph::{Edge, Problem};

const NOBODY: usize = usize::MAX;

/// State of a free index relative to the growing part.
#[derive(Debug, Clone, Copy)]
struct Near {
    /// Exchange between the index and the part.
    inside: i64,
    /// Number of steps from the seed.
    steps: usize,
}

const FAR: Near = Near { inside: 0, steps: usize::MAX };

/// Gives every slot about `shares[slot]` of time as a part that is connected if possible. The last slot gets the rest.
///
/// A part starts at the free index that exchanges most with indices already taken, so that no holes are left. It grows
/// by the index that exchanges most with the part and, among equals, the index nearest to the seed. On a mesh this
/// produces squares rather than strips.
pub(super) fn grow(problem: &Problem<'_>, shares: &[f64]) -> Vec<usize> {
    let len = problem.ns.len();
    let (mut slots, mut free) = (vec![NOBODY; len], len);
    // `taken` holds each index's exchange with taken indices, of any part; `near` holds the candidates next to the
    // growing part.
    let (mut taken, mut near) = (vec![0i64; len], vec![FAR; len]);
    let mut used: Vec<usize> = (0..shares.len()).filter(|slot| shares[*slot] > 0.0).collect();
    if used.is_empty() {
        used.push(0);
    }
    for (&slot, is_last) in used.iter().enumerate().map(|(n, slot)| (slot, n + 1 == used.len())) {
        let mut load = 0.0;
        let (mut rim, mut touched): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
        while free > 0 {
            let key = |index: usize| {
                let Near { inside, steps } = near[index];
                (inside, std::cmp::Reverse(steps), std::cmp::Reverse(index))
            };
            let best = (0..rim.len()).max_by_key(|at| key(rim[*at]));
            let Some(index) = best.map(|at| rim[at]).or_else(|| seed(&taken, &slots)) else { break };
            let more = problem.ns(index, slot);
            if !is_last && load > 0.0 && load + more / 2.0 > shares[slot] {
                break;
            }
            load += more;
            slots[index] = slot;
            free -= 1;
            if let Some(at) = best {
                rim.swap_remove(at);
            }
            let steps = if best.is_some() { near[index].steps } else { 0 };
            for &Edge { to: other, ns } in problem.graph.of(index) {
                taken[other] += ns;
                if slots[other] != NOBODY {
                    continue;
                }
                if near[other].inside == 0 {
                    rim.push(other);
                    touched.push(other);
                }
                near[other] = Near { inside: near[other].inside + ns, steps: near[other].steps.min(steps + 1) };
            }
        }
        touched.into_iter().for_each(|index| near[index] = FAR);
    }
    slots
}

/// Returns the free index that exchanges most with taken indices; among equals, the first.
fn seed(taken: &[i64], slots: &[usize]) -> Option<usize> {
    let free = (0..slots.len()).filter(|index| slots[*index] == NOBODY);
    free.max_by_key(|index| (taken[*index], std::cmp::Reverse(*index)))
}
