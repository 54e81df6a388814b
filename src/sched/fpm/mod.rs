//! Functional performance models: dividing a workload among units when time is an arbitrary function of a share's size
//! (Farrelly et al. 2024, §VI).
//!
//! A [`Profile`] gives the time, or the dynamic energy, of one unit as a function of the size of its share. The shares
//! are computed from the profiles of all units:
//!
//! | function | shares | profiles |
//! | --- | --- | --- |
//! | [`balance`] | all units end together | times that never fall |
//! | [`optimise_time`] | the last unit ends as early as possible | any |
//! | [`optimise_energy`] | the least energy | any |
//! | [`optimise_energy_within`] | the least energy within a time | any |
//! | [`pareto`] | all Pareto-optimal shares of time and energy | any |
//!
//! Times can fall as the size grows, for example because a library changes its algorithm or a size suits the cache.
//! Then balanced shares are not the fastest, but `optimise_time` is still exact. [`Fpm`] turns these functions into a
//! work distribution.
//!
//! All functions here are pure: they use no clock and no thread. Profiles are measured by `measure::build_profiles`.
//!
//! Invariants: [`Shares`] add up to the total size; a profile's sizes ascend from 1, its values are finite and not
//! negative, and a share of size 0 takes nothing.

mod additive;
mod balance;
mod bits;
mod distribution;
mod energy;
mod error;
mod grid;
mod pareto;
mod profile;
#[cfg(feature = "sim")]
mod profile_text;
mod time;

pub use additive::additive;
pub use balance::balance;
pub use distribution::{Budget, Fpm, Known, Objective, SharesInUse};
pub use energy::{optimise_energy, optimise_energy_within};
pub use error::FpmError;
pub use pareto::pareto;
pub use profile::Profile;
pub use time::optimise_time;

/// The shares of a workload, with the time and energy that the profiles predict.
///
/// ```
/// use thalweg::sched::fpm::{Profile, optimise_time};
/// let profiles = [("CPU", 4.0), ("GPU 0", 1.0), ("GPU 1", 1.0)].map(|(unit, s)| Profile::new(unit, [(1, s)]).unwrap());
/// let shares = optimise_time(&profiles, 9, 1)?;
/// assert_eq!((shares.d.as_slice(), shares.time), (&[1, 4, 4][..], 4.0));
/// # Ok::<(), thalweg::sched::fpm::FpmError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Shares {
    /// The size of each unit's share.
    pub d: Vec<u64>,
    /// Time until the last unit ends, in seconds; 0 if only energy was optimised.
    pub time: f64,
    /// Total energy of all units in joules, if energy was requested.
    pub energy: Option<f64>,
}

/// Helpers for the tests of this folder.
#[cfg(test)]
mod testing {
    use super::Profile;
    use proptest::prelude::*;

    /// Creates a profile with these values at sizes 1, 2, 3, ...
    pub(super) fn table(unit: &str, values: &[f64]) -> Profile {
        Profile::new(unit, values.iter().enumerate().map(|(at, value)| (at as u64 + 1, *value)).collect::<Vec<_>>())
            .unwrap()
    }

    /// Creates a profile proportional to the size.
    pub(super) fn linear(unit: &str, slope: f64) -> Profile {
        Profile::new(unit, [(1, slope)]).unwrap()
    }

    /// Generates up to three profiles with a value at each size up to 12. If `rising`, values never fall.
    pub(super) fn tables(rising: bool) -> impl Strategy<Value = Vec<Profile>> {
        let values = prop::collection::vec((0u32..40).prop_map(f64::from), 12);
        prop::collection::vec(values, 1..=3).prop_map(move |tables| {
            let one = |(unit, mut values): (usize, Vec<f64>)| {
                if rising {
                    values.sort_by(f64::total_cmp);
                }
                table(&format!("unit {unit}"), &values)
            };
            tables.into_iter().enumerate().map(one).collect()
        })
    }

    /// Returns all ways to divide `n` among this many units.
    pub(super) fn all_shares(units: usize, n: u64) -> Vec<Vec<u64>> {
        if units == 1 {
            return vec![vec![n]];
        }
        let with = |first: u64| {
            let rest = all_shares(units - 1, n - first).into_iter();
            rest.map(move |rest| std::iter::once(first).chain(rest).collect())
        };
        (0..=n).flat_map(with).collect()
    }

    /// Returns the maximum of the profiles' values at these shares.
    pub(super) fn longest(profiles: &[Profile], d: &[u64]) -> f64 {
        profiles.iter().zip(d).map(|(profile, d)| profile.at(*d)).fold(0.0, f64::max)
    }

    /// Returns the sum of the profiles' values at these shares.
    pub(super) fn sum(profiles: &[Profile], d: &[u64]) -> f64 {
        profiles.iter().zip(d).map(|(profile, d)| profile.at(*d)).sum()
    }
}
