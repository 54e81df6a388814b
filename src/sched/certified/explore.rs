//! Instances that run indices on the kind of unit where they have not run yet.
//!
//! Without them, a map could be far from the optimum and its bound wrong: if each kind of unit happened to get the
//! indices that it is slow at, all estimates would agree that nothing is to be gained.
//!
//! An instance may cost about as much again as the best one so far: units of each kind take missing indices until that
//! time, by estimates, and then the other indices go to whichever unit ends first. An index that alone takes longer is
//! not explored.

use super::polish::Loads;
use super::times::{Estimates, kinds};

/// Returns the slots of an instance that measures missing times; `None` if there are none within `budget_ns`.
pub(super) fn slots(
    estimates: &Estimates<'_>,
    missing: impl Iterator<Item = (usize, bool)>,
    budget_ns: f64,
) -> Option<Vec<usize>> {
    let team = estimates.team;
    let mut loads = Loads::new(estimates);
    let mut slots: Vec<Option<usize>> = vec![None; estimates.kind_ns.len()];
    let mut explores = false;
    for (index, device) in missing {
        let first = loads.first_to_end(index, kinds(team)[usize::from(device)].clone());
        if let Some(slot) = first.filter(|slot| loads.end(index, *slot) <= budget_ns) {
            slots[index] = Some(loads.give(index, slot));
            explores = true;
        }
    }
    let least = |index: &usize| estimates.kind_ns[*index].into_iter().fold(f64::INFINITY, f64::min);
    let mut others: Vec<usize> = (0..slots.len()).filter(|index| slots[*index].is_none()).collect();
    others.sort_by(|one, other| least(other).total_cmp(&least(one)).then(one.cmp(other)));
    for index in others {
        slots[index] = Some(loads.give_to_first(index, 0..team.len()));
    }
    explores.then(|| slots.into_iter().flatten().collect())
}
