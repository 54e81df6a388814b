//! The Pareto front of time and energy (Khaleghzadeh et al. 2021).

use super::energy::Both;
use super::{FpmError, Profile, Shares};

/// Returns the Pareto front of time and energy, from the fastest shares to the shares with the least energy. Each
/// element is slower and uses less energy than the previous one; no shares on the grid are at least as good as an
/// element in both respects and better in one.
///
/// The front is computed from the slow end: first the least energy without a time limit, then the least energy within
/// less than the time of that solution, and so on. Each step costs as much as one call of
/// [`optimise_energy_within`](super::optimise_energy_within).
///
/// # Errors
/// As for [`optimise_energy_within`](super::optimise_energy_within), except [`FpmError::Budget`].
///
/// ```
/// use thalweg::sched::fpm::{Profile, pareto};
/// let linear = |slopes: [f64; 2]| slopes.map(|slope| Profile::new("unit", [(1, slope)]).unwrap());
/// let front = pareto(&linear([1.0, 4.0]), &linear([3.0, 1.0]), 5, 1)?;
/// let both: Vec<_> = front.iter().map(|shares| (shares.time, shares.energy.unwrap())).collect();
/// assert_eq!(both, [(4.0, 13.0), (8.0, 11.0), (12.0, 9.0), (16.0, 7.0), (20.0, 5.0)]);
/// # Ok::<(), thalweg::sched::fpm::FpmError>(())
/// ```
pub fn pareto(times: &[Profile], energies: &[Profile], n: u64, grain: u64) -> Result<Vec<Shares>, FpmError> {
    let both = Both::new(times, energies, n, grain)?;
    let mut front: Vec<Shares> = Vec::new();
    let mut next = both.least_while(|_| true);
    while let Some(shares) = next {
        next = both.least_while(|time| time < shares.time);
        // The new shares are faster and need no more energy, so they replace the slower shares.
        if front.last().is_some_and(|slower| shares.energy <= slower.energy) {
            front.pop();
        }
        front.push(shares);
    }
    front.reverse();
    Ok(front)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::fpm::testing::{all_shares, longest, sum, tables};
    use crate::sched::fpm::{optimise_energy, optimise_time};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn front_has_exactly_the_pareto_optimal_shares(
            times in tables(false),
            energies in tables(false),
            n in 0u64..=12,
        ) {
            let units = times.len().min(energies.len());
            let (times, energies) = (&times[..units], &energies[..units]);
            let front = pareto(times, energies, n, 1).unwrap();
            let found: Vec<(f64, f64)> = front.iter().map(|shares| (shares.time, shares.energy.unwrap())).collect();
            prop_assert!(found.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 > pair[1].1), "{:?}", found);
            let all = all_shares(units, n);
            let all: Vec<(f64, f64)> = all.iter().map(|d| (longest(times, d), sum(energies, d))).collect();
            let better = |one: (f64, f64), other: (f64, f64)| one != other && one.0 <= other.0 && one.1 <= other.1;
            let mut best: Vec<_> = all.iter().copied().filter(|d| !all.iter().any(|other| better(*other, *d))).collect();
            best.sort_by(|one, other| one.0.total_cmp(&other.0));
            best.dedup();
            prop_assert_eq!(&found, &best);
            prop_assert_eq!(found[0].0, optimise_time(times, n, 1).unwrap().time);
            prop_assert_eq!(front[front.len() - 1].energy, optimise_energy(energies, n, 1).unwrap().energy);
        }
    }
}
