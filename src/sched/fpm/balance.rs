//! Balanced shares: all units end together, as nearly as whole sizes allow.
//!
//! If times never fall, balanced shares are the fastest. They are found by bisection over the end time, with each unit
//! taking the largest share that it completes by then (Zhong et al. 2015).

use super::{FpmError, Profile, Shares, profile};

/// Divides `n` so that the last unit ends as early as possible. Times must never fall.
///
/// # Errors
/// [`FpmError::NoUnits`]; [`FpmError::Falls`] if a time falls.
///
/// ```
/// use thalweg::sched::fpm::{Profile, balance};
/// let (cpu, gpu) = (Profile::new("CPU", [(10, 4.0)])?, Profile::new("GPU", [(10, 2.0), (20, 3.0)])?);
/// assert_eq!(balance(&[cpu, gpu], 30)?.d, [8, 22]);
/// # Ok::<(), thalweg::sched::fpm::FpmError>(())
/// ```
pub fn balance(profiles: &[Profile], n: u64) -> Result<Shares, FpmError> {
    if profiles.is_empty() {
        return Err(FpmError::NoUnits { size: n });
    }
    if n > profile::MOST {
        return Err(FpmError::Size { size: n });
    }
    if let Some((profile, size)) = profiles.iter().find_map(|profile| Some((profile, profile.first_fall()?))) {
        return Err(FpmError::Falls { unit: profile.unit().to_owned(), size });
    }
    // The sum does not overflow: each size is at most 2^53, and there are fewer than 2^11 units.
    let within = |time: f64| profiles.iter().map(move |profile| profile.largest_within(time, n));
    let alone = profiles.iter().map(|profile| profile.at(n));
    let (mut too_early, mut late_enough) = (-1.0, alone.fold(f64::INFINITY, f64::min));
    loop {
        let middle = f64::midpoint(too_early, late_enough);
        if middle <= too_early || middle >= late_enough {
            break;
        }
        let fits = within(middle).fold(0u64, u64::saturating_add) >= n;
        *(if fits { &mut late_enough } else { &mut too_early }) = middle;
    }
    let mut d: Vec<u64> = within(too_early).collect();
    let mut left = n.saturating_sub(d.iter().sum());
    while left > 0 {
        let next = |unit: usize| profiles[unit].at(d[unit] + 1);
        let unit = (0..d.len()).min_by(|one, other| next(*one).total_cmp(&next(*other))).unwrap_or(0);
        // Takes all sizes up to that time at once, because times may be constant over a range.
        let more = (profiles[unit].largest_within(next(unit), d[unit] + left) - d[unit]).clamp(1, left);
        d[unit] += more;
        left -= more;
    }
    let time = profiles.iter().zip(&d).map(|(profile, d)| profile.at(*d)).fold(0.0, f64::max);
    Ok(Shares { d, time, energy: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::fpm::testing::{all_shares, linear, longest, table, tables};
    use proptest::prelude::*;

    #[test]
    fn linear_times_are_balanced() {
        let profiles = [linear("a", 4.0), linear("b", 1.0), linear("c", 1.0)];
        let shares = balance(&profiles, 9).unwrap();
        assert_eq!((shares.d, shares.time), (vec![1, 4, 4], 4.0));
        assert_eq!(balance(&profiles, 0).unwrap().d, [0, 0, 0]);
    }

    #[test]
    fn identical_units_get_equal_shares() {
        for n in [0, 1, 1_000_001, 1 << 52] {
            let shares = balance(&[linear("a", 3.1), linear("b", 0.7), linear("c", 0.7)], n).unwrap();
            assert!(shares.d[1].abs_diff(shares.d[2]) <= 1, "{n}: {:?}", shares.d);
            assert_eq!(shares.d.iter().sum::<u64>(), n);
        }
    }

    #[test]
    fn constant_and_zero_times_are_balanced() {
        let steps = Profile::new("a", [(1, 5.0), (1_000_000_000, 5.0)]).unwrap();
        let shares = balance(&[steps.clone(), steps], 1_500_000_000).unwrap();
        assert_eq!((shares.d.iter().sum::<u64>(), shares.time), (1_500_000_000, 5.0));
        assert_eq!(balance(&[linear("a", 0.0), linear("b", 1.0)], 7).unwrap().d, [7, 0]);
    }

    #[test]
    fn falling_times_and_missing_units_are_refused() {
        let falls = table("GPU 0", &[3.0, 2.0]);
        let error = balance(&[linear("CPU", 1.0), falls], 9).unwrap_err();
        assert_eq!(error, FpmError::Falls { unit: "GPU 0".to_owned(), size: 2 });
        assert_eq!(balance(&[], 9), Err(FpmError::NoUnits { size: 9 }));
        assert_eq!(balance(&[linear("a", 1.0)], u64::MAX), Err(FpmError::Size { size: u64::MAX }));
    }

    proptest! {
        #[test]
        fn balanced_shares_are_the_fastest(profiles in tables(true), n in 0u64..=12) {
            let shares = balance(&profiles, n).unwrap();
            prop_assert_eq!(shares.d.iter().sum::<u64>(), n);
            prop_assert_eq!(shares.time, longest(&profiles, &shares.d));
            let best = all_shares(profiles.len(), n).iter().map(|d| longest(&profiles, d)).fold(f64::INFINITY, f64::min);
            prop_assert_eq!(shares.time, best);
        }
    }
}
