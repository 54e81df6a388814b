//! Shares for which the last unit ends as early as possible, for times of any shape.
//!
//! The problem is that of Khaleghzadeh et al. 2018: if times are not smooth rising functions, balanced shares are not
//! the fastest. The optimal time is one of the times on the grid, and whether a given time can be met is a question
//! about sums of sets: each unit has a set of shares that it completes in time, and the sizes that the first units can
//! complete together are the sums of one element from each set. So the search bisects over the sorted times and adds
//! sets that are stored as bit words. The sets usually consist of few ranges, each of which is added in a few shifts.
//! In the worst case the cost is that of the dynamic program over all pairs (p·m²) divided by 64, times the number of
//! bisection steps.
//!
//! Among equally fast shares, the result is one in which no pair of units could finish its joint work sooner. So units
//! with the same profile get equal shares, up to one grain.

use super::bits::Bits;
use super::grid::{Grid, Values};
use super::{FpmError, Profile, Shares};

/// Divides `n` in multiples of `grain`, with the remainder going to one of the units, so that the last unit ends as
/// early as possible.
///
/// Times may have any shape. The shares are exact: no other shares on this grid are faster.
///
/// # Errors
/// [`FpmError::NoUnits`]; [`FpmError::Grain`] if the grain is 0 or there are more than 2^20 of them.
///
/// ```
/// use thalweg::sched::fpm::{Profile, optimise_time};
/// let a = Profile::new("a", [(1, 1.0), (2, 2.0), (3, 6.0), (4, 4.0), (5, 8.0), (6, 9.0)])?;
/// let b = Profile::new("b", [(1, 2.0)])?;
/// let shares = optimise_time(&[a, b], 6, 1)?;
/// assert_eq!((shares.d.as_slice(), shares.time), (&[4, 2][..], 4.0)); // 3 each, which is balanced, takes 6
/// # Ok::<(), thalweg::sched::fpm::FpmError>(())
/// ```
pub fn optimise_time(profiles: &[Profile], n: u64, grain: u64) -> Result<Shares, FpmError> {
    let grid = Grid::new(profiles.len(), n, grain)?;
    let values: Vec<Values> = profiles.iter().map(|profile| grid.values(profile)).collect();
    let (mut grains, with_tail) = fastest(grid, &values);
    let of_unit = |unit: usize| -> &[f64] { &values[unit][usize::from(with_tail == Some(unit))] };
    even_out(&mut grains, of_unit);
    let time = grains.iter().enumerate().map(|(unit, k)| of_unit(unit)[*k]).fold(0.0, f64::max);
    Ok(Shares { d: grid.sizes(&grains, with_tail), time, energy: None })
}

/// Returns the number of grains of each unit, and the unit that gets the tail, if there is a tail.
fn fastest(grid: Grid, values: &[Values]) -> (Vec<usize>, Option<usize>) {
    let mut times: Vec<f64> = values.iter().flatten().flatten().copied().collect();
    times.sort_unstable_by(f64::total_cmp);
    times.dedup();
    // A single unit can take everything, so the last of these times can always be met.
    let (mut first, mut last) = (0, times.len() - 1);
    while first < last {
        let middle = usize::midpoint(first, last);
        let goal = grid.ways() - 1;
        let fits = layers(grid, values, times[middle]).last().is_some_and(|reached| reached[goal].has(grid.grains));
        if fits { last = middle } else { first = middle + 1 }
    }
    let layers = layers(grid, values, times[first]);
    trace(grid, values, times[first], &layers)
}

/// Returns, for the first 0, 1, 2, ... units, the numbers of grains that these units can complete in time: without the
/// tail and with it.
fn layers(grid: Grid, values: &[Values], time: f64) -> Vec<[Bits; 2]> {
    let none = Bits::none(grid.grains);
    let mut layers = vec![[Bits::zero(grid.grains), none.clone()]];
    for unit in values {
        let before = &layers[layers.len() - 1];
        let mut reached = [none.clone(), none.clone()];
        for range in ranges_within(&unit[0], time) {
            for (reached, before) in reached.iter_mut().zip(before).take(grid.ways()) {
                reached.include_sums(before, range.clone());
            }
        }
        for range in ranges_within(&unit[1], time) {
            reached[1].include_sums(&before[0], range);
        }
        layers.push(reached);
    }
    layers
}

/// Returns the ranges of grain counts whose values do not exceed `time`.
fn ranges_within(values: &[f64], time: f64) -> impl Iterator<Item = std::ops::RangeInclusive<usize>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let first = at + values[at..].iter().position(|value| *value <= time)?;
        let len = values[first..].iter().position(|value| *value > time).unwrap_or(values.len() - first);
        at = first + len;
        Some(first..=at - 1)
    })
}

/// Returns one combination that adds up to the whole size, traced from the last unit back to the first.
fn trace(grid: Grid, values: &[Values], time: f64, layers: &[[Bits; 2]]) -> (Vec<usize>, Option<usize>) {
    let mut grains = vec![0; values.len()];
    let (mut left, mut way, mut with_tail) = (grid.grains, grid.ways() - 1, None);
    for (unit, values) in values.iter().enumerate().rev() {
        // Either this unit gets the tail, or an earlier unit does.
        let found = (0..=way).find_map(|own| {
            let fits = |k: &usize| values[own][*k] <= time && layers[unit][way - own].has(left - k);
            Some((own, (0..=left).find(fits)?))
        });
        let (own, k) = found.expect("the layers contain a combination");
        (grains[unit], left, way) = (k, left - k, way - own);
        with_tail = with_tail.or((own == 1).then_some(unit));
    }
    (grains, with_tail)
}

/// Divides the joint share of every pair of units as fast as possible, until no pair can improve.
fn even_out<'a>(grains: &mut [usize], of_unit: impl Fn(usize) -> &'a [f64]) {
    for _ in 0..grains.len() {
        let mut changed = false;
        for one in 0..grains.len() {
            for other in 0..one {
                let (a, b, both) = (of_unit(one), of_unit(other), grains[one] + grains[other]);
                let takes = |k: usize| (a[k].max(b[both - k]), a[k].min(b[both - k]));
                let mut best = grains[one];
                for k in 0..=both {
                    if takes(k) < takes(best) {
                        best = k;
                    }
                }
                changed |= best != grains[one];
                (grains[one], grains[other]) = (best, both - best);
            }
        }
        if !changed {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::fpm::testing::{all_shares, linear, longest, table, tables};
    use crate::sched::fpm::{balance, profile};
    use proptest::prelude::*;

    #[test]
    fn fastest_shares_need_not_be_balanced() {
        let profiles = [table("a", &[1.0, 2.0, 6.0, 4.0, 8.0, 9.0]), linear("b", 2.0)];
        let shares = optimise_time(&profiles, 6, 1).unwrap();
        assert_eq!((shares.d, shares.time), (vec![4, 2], 4.0));
        assert_eq!(longest(&profiles, &[3, 3]), 6.0);
    }

    #[test]
    fn identical_units_get_equal_shares_whichever_unit_ends_last() {
        // The CPU cannot take fewer than 3 grains in time, and the CPU's time leaves the GPUs room.
        let cpu = table("CPU", &[9.0, 9.0, 3.0, 9.0]);
        let profiles = [cpu, linear("GPU 0", 0.5), linear("GPU 1", 0.5)];
        for n in 4..=13 {
            let d = optimise_time(&profiles, n, 1).unwrap().d;
            assert!(d[1].abs_diff(d[2]) <= 1, "{n}: {d:?}");
        }
    }

    #[test]
    fn remainder_goes_to_the_cheapest_unit() {
        let profiles = [linear("a", 1.0), linear("b", 2.0)];
        let shares = optimise_time(&profiles, 37, 10).unwrap();
        assert_eq!((shares.d, shares.time), (vec![27, 10], 27.0));
        assert_eq!(optimise_time(&profiles, 7, 10).unwrap().d, [7, 0]);
        assert_eq!(optimise_time(&profiles, 0, 10).unwrap().d, [0, 0]);
    }

    #[test]
    fn invalid_arguments_are_refused() {
        let profiles = [linear("a", 1.0)];
        assert_eq!(optimise_time(&[], 5, 1), Err(FpmError::NoUnits { size: 5 }));
        assert_eq!(optimise_time(&profiles, 5, 0), Err(FpmError::Grain { size: 5, grain: 0, least: 1 }));
        let error = optimise_time(&profiles, 1 << 40, 1).unwrap_err();
        assert_eq!(error, FpmError::Grain { size: 1 << 40, grain: 1, least: 1 << 20 });
        assert!(optimise_time(&profiles, profile::MOST + 1, 1 << 40).is_err());
    }

    proptest! {
        #[test]
        fn shares_are_the_fastest(profiles in tables(false), n in 0u64..=12) {
            let shares = optimise_time(&profiles, n, 1).unwrap();
            prop_assert_eq!(shares.d.iter().sum::<u64>(), n);
            prop_assert_eq!(shares.time, longest(&profiles, &shares.d));
            let best = all_shares(profiles.len(), n).iter().map(|d| longest(&profiles, d)).fold(f64::INFINITY, f64::min);
            prop_assert_eq!(shares.time, best);
            let alone = profiles.iter().map(|profile| profile.at(n)).fold(f64::INFINITY, f64::min);
            prop_assert!(shares.time <= alone, "hybrid is no slower than any unit alone");
        }

        #[test]
        fn shares_are_the_fastest_on_the_grid(profiles in tables(false), n in 0u64..=12, grain in 1u64..=5) {
            let shares = optimise_time(&profiles, n, grain).unwrap();
            prop_assert_eq!(shares.d.iter().sum::<u64>(), n);
            let on_grid = |d: &&Vec<u64>| d.iter().filter(|d| **d % grain != 0).count() <= 1;
            let all = all_shares(profiles.len(), n);
            let best = all.iter().filter(on_grid).map(|d| longest(&profiles, d)).fold(f64::INFINITY, f64::min);
            prop_assert_eq!(shares.time, best);
        }

        #[test]
        fn rising_times_give_the_same_result_as_balance(profiles in tables(true), n in 0u64..=40) {
            prop_assert_eq!(optimise_time(&profiles, n, 1).unwrap().time, balance(&profiles, n).unwrap().time);
        }
    }
}
