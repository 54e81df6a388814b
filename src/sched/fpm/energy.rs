//! Shares with the least energy, without or with a time limit.
//!
//! The objective is a sum of energies rather than a maximum of times (Khaleghzadeh et al. 2020), so it is minimised by
//! a dynamic program over units and grains, O(p·m²). If energies are linear, everything goes to the unit with the
//! smallest slope.

use super::grid::{Grid, Values};
use super::time::optimise_time;
use super::{FpmError, Profile, Shares};

/// Divides `n` in multiples of `grain`, with the remainder going to one of the units, so that the total dynamic energy
/// of all units is minimal.
///
/// # Errors
/// [`FpmError::NoUnits`]; [`FpmError::Grain`] if the grain is 0 or there are more than 2^20 of them.
///
/// ```
/// use thalweg::sched::fpm::{Profile, optimise_energy};
/// let energies = [("CPU", 1.0), ("GPU 0", 3.0), ("GPU 1", 3.0)].map(|(unit, j)| Profile::new(unit, [(1, j)]).unwrap());
/// let shares = optimise_energy(&energies, 9, 1)?;
/// assert_eq!((shares.d.as_slice(), shares.energy), (&[9, 0, 0][..], Some(9.0)));
/// # Ok::<(), thalweg::sched::fpm::FpmError>(())
/// ```
pub fn optimise_energy(energies: &[Profile], n: u64, grain: u64) -> Result<Shares, FpmError> {
    let grid = Grid::new(energies.len(), n, grain)?;
    let values: Vec<Values> = energies.iter().map(|energy| grid.values(energy)).collect();
    let (grains, with_tail) = least(grid, &values, |_, _, _| true).expect("a single unit may take everything");
    let energy =
        grains.iter().enumerate().map(|(unit, k)| values[unit][usize::from(with_tail == Some(unit))][*k]).sum();
    Ok(Shares { d: grid.sizes(&grains, with_tail), time: 0.0, energy: Some(energy) })
}

/// Like [`optimise_energy`], restricted to shares whose last unit ends within `budget` seconds.
///
/// # Errors
/// As for [`optimise_energy`]; [`FpmError::Unpaired`] if the number of energy profiles differs from that of time
/// profiles; [`FpmError::Budget`] if no shares are fast enough.
///
/// ```
/// use thalweg::sched::fpm::{Profile, optimise_energy_within};
/// let linear = |slopes: [f64; 2]| slopes.map(|slope| Profile::new("unit", [(1, slope)]).unwrap());
/// let (times, energies) = (linear([1.0, 4.0]), linear([3.0, 1.0]));
/// let shares = optimise_energy_within(&times, &energies, 5, 1, 8.5)?;
/// assert_eq!((shares.d.as_slice(), shares.time, shares.energy), (&[3, 2][..], 8.0, Some(11.0)));
/// assert!(optimise_energy_within(&times, &energies, 5, 1, 3.0).is_err());
/// # Ok::<(), thalweg::sched::fpm::FpmError>(())
/// ```
pub fn optimise_energy_within(
    times: &[Profile],
    energies: &[Profile],
    n: u64,
    grain: u64,
    budget: f64,
) -> Result<Shares, FpmError> {
    let both = Both::new(times, energies, n, grain)?;
    if let Some(shares) = both.least_while(|time| time <= budget) {
        return Ok(shares);
    }
    let fastest = optimise_time(times, n, grain)?;
    let last = times.iter().zip(&fastest.d).find(|(profile, d)| profile.at(**d) >= fastest.time);
    let unit = last.map_or_else(String::new, |(profile, _)| profile.unit().to_owned());
    Err(FpmError::Budget { size: n, budget, least: fastest.time, unit })
}

/// Times and energies of the same units on the same grid.
pub(super) struct Both {
    grid: Grid,
    times: Vec<Values>,
    energies: Vec<Values>,
}

impl Both {
    pub(super) fn new(times: &[Profile], energies: &[Profile], n: u64, grain: u64) -> Result<Self, FpmError> {
        if times.len() != energies.len() {
            return Err(FpmError::Unpaired { times: times.len(), energies: energies.len() });
        }
        let grid = Grid::new(times.len(), n, grain)?;
        let values = |profiles: &[Profile]| profiles.iter().map(|profile| grid.values(profile)).collect();
        Ok(Self { grid, times: values(times), energies: values(energies) })
    }

    /// Returns the least-energy shares in which `suits` accepts every unit's time.
    pub(super) fn least_while(&self, suits: impl Fn(f64) -> bool) -> Option<Shares> {
        let allowed = |unit: usize, way: usize, k: usize| suits(self.times[unit][way][k]);
        let (grains, with_tail) = least(self.grid, &self.energies, allowed)?;
        let at = |values: &[Values], unit: usize| values[unit][usize::from(with_tail == Some(unit))][grains[unit]];
        let units = || 0..grains.len();
        let time = units().map(|unit| at(&self.times, unit)).fold(0.0, f64::max);
        let energy = Some(units().map(|unit| at(&self.energies, unit)).sum());
        Some(Shares { d: self.grid.sizes(&grains, with_tail), time, energy })
    }
}

/// Partial solutions for the units up to one unit: by number of grains, the least energy and this unit's grains.
struct Layer {
    energy: [Vec<f64>; 2],
    /// Number of grains that this unit takes, and whether it takes the tail.
    own: [Vec<(u32, bool)>; 2],
}

/// Returns the number of grains of each unit, and the unit that gets the tail, such that the sum of values is minimal.
/// Uses only allowed values.
fn least(
    grid: Grid,
    values: &[Values],
    allowed: impl Fn(usize, usize, usize) -> bool,
) -> Option<(Vec<usize>, Option<usize>)> {
    let len = grid.grains + 1;
    let nothing = || vec![f64::INFINITY; len];
    let mut before = [nothing(), nothing()];
    before[0][0] = 0.0;
    let mut layers: Vec<Layer> = Vec::with_capacity(values.len());
    for (unit, values) in values.iter().enumerate() {
        let mut layer = Layer { energy: [nothing(), nothing()], own: [vec![(0, false); len], vec![(0, false); len]] };
        for (from, tail) in [(0, false), (1, false), (0, true)].into_iter().take(2 * grid.ways() - 1) {
            let (own, to) = (usize::from(tail), from + usize::from(tail));
            if from == 1 && grid.ways() == 1 {
                continue;
            }
            for k in (0..len).filter(|k| allowed(unit, own, *k)) {
                let value = values[own][k];
                let sums = before[from][..len - k].iter().zip(&mut layer.energy[to][k..]).zip(&mut layer.own[to][k..]);
                for ((before, energy), choice) in sums {
                    if before + value < *energy {
                        (*energy, *choice) = (before + value, (k as u32, tail));
                    }
                }
            }
        }
        before.clone_from(&layer.energy);
        layers.push(layer);
    }
    let (mut left, mut way, mut with_tail) = (grid.grains, grid.ways() - 1, None);
    if !before[way][left].is_finite() {
        return None;
    }
    let mut grains = vec![0; values.len()];
    for (unit, layer) in layers.iter().enumerate().rev() {
        let (k, tail) = layer.own[way][left];
        (grains[unit], left) = (k as usize, left - k as usize);
        if tail {
            (way, with_tail) = (0, Some(unit));
        }
    }
    Some((grains, with_tail))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::fpm::testing::{all_shares, linear, longest, sum, tables};
    use proptest::prelude::*;

    #[test]
    fn linear_energies_go_to_the_smallest_slope() {
        let energies = [linear("CPU", 1.0), linear("GPU 0", 3.0), linear("GPU 1", 3.0)];
        assert_eq!(optimise_energy(&energies, 40, 7).unwrap().d, [40, 0, 0]);
        let shares = optimise_energy(&[linear("a", 3.0), linear("b", 1.0)], 5, 1).unwrap();
        assert_eq!((shares.d, shares.energy), (vec![0, 5], Some(5.0)));
    }

    #[test]
    fn unreachable_budget_names_unit_size_and_least_time() {
        let (times, energies) = ([linear("CPU", 1.0), linear("GPU", 4.0)], [linear("CPU", 3.0), linear("GPU", 1.0)]);
        let error = optimise_energy_within(&times, &energies, 5, 1, 3.0).unwrap_err();
        let expected = FpmError::Budget { size: 5, budget: 3.0, least: 4.0, unit: "CPU".to_owned() };
        assert_eq!(error, expected);
        assert!(error.to_string().starts_with("cannot complete 5 within 3 s: the minimum is 4 s, when CPU ends last"));
        assert!(optimise_energy_within(&times, &energies, 5, 1, f64::NAN).is_err());
        let error = optimise_energy_within(&times, &energies[..1], 5, 1, 9.0).unwrap_err();
        assert_eq!(error, FpmError::Unpaired { times: 2, energies: 1 });
    }

    proptest! {
        #[test]
        fn shares_use_the_least_energy(profiles in tables(false), n in 0u64..=12) {
            let shares = optimise_energy(&profiles, n, 1).unwrap();
            prop_assert_eq!(shares.d.iter().sum::<u64>(), n);
            prop_assert_eq!(shares.energy, Some(sum(&profiles, &shares.d)));
            let best = all_shares(profiles.len(), n).iter().map(|d| sum(&profiles, d)).fold(f64::INFINITY, f64::min);
            prop_assert_eq!(shares.energy, Some(best));
        }

        #[test]
        fn shares_use_the_least_energy_within_a_time(
            times in tables(false),
            energies in tables(false),
            n in 0u64..=12,
            grain in 1u64..4,
            budget in 0.0..40.0f64,
        ) {
            let units = times.len().min(energies.len());
            let (times, energies) = (&times[..units], &energies[..units]);
            let on_grid = |d: &&Vec<u64>| d.iter().filter(|d| **d % grain != 0).count() <= 1;
            let all = all_shares(units, n);
            let in_time = all.iter().filter(on_grid).filter(|d| longest(times, d) <= budget);
            let best = in_time.map(|d| sum(energies, d)).fold(f64::INFINITY, f64::min);
            match optimise_energy_within(times, energies, n, grain, budget) {
                Ok(shares) => {
                    prop_assert_eq!(shares.energy, Some(best));
                    prop_assert_eq!(shares.time, longest(times, &shares.d));
                    prop_assert!(shares.time <= budget);
                }
                Err(error) => prop_assert!(best.is_infinite(), "{} although {} is possible", error, best),
            }
        }
    }
}
