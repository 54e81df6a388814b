//! Time to compute the units' shares of the work from their profiles.

use std::time::Instant;

use thalweg::sched::fpm::{Profile, balance, optimise_time};

use crate::meter::Result;

const UNITS: u64 = 8;

/// Returns profiles whose times rise, at a different rate for each unit. With `humps`, the curves have bumps like those
/// of a library that switches algorithms.
fn profiles(points: usize, humps: bool) -> Result<Vec<Profile>> {
    let value = |unit: u64, size: u64| {
        let hump = if humps && (size * (unit + 3)).is_multiple_of(7) { 1.7 } else { 1.0 };
        size as f64 * hump / (unit + 1) as f64
    };
    let profile = |unit| {
        let points: Vec<_> = (1..=points as u64).map(|size| (size, value(unit, size))).collect();
        Ok(Profile::new(format!("unit {unit}"), points)?)
    };
    (0..UNITS).map(profile).collect()
}

/// Returns the time in milliseconds to find the shares that minimize the run time.
pub(super) fn fastest(points: usize) -> Result<f64> {
    let profiles = profiles(points, true)?;
    let start = Instant::now();
    let shares = optimise_time(&profiles, points as u64, 1)?;
    let elapsed = start.elapsed();
    assert_eq!(shares.d.iter().sum::<u64>(), points as u64);
    Ok(elapsed.as_secs_f64() * 1e3)
}

/// Returns the time in milliseconds to find balanced shares.
pub(super) fn balanced(points: usize) -> Result<f64> {
    let profiles = profiles(points, false)?;
    let start = Instant::now();
    let shares = balance(&profiles, points as u64)?;
    let elapsed = start.elapsed();
    assert_eq!(shares.d.iter().sum::<u64>(), points as u64);
    Ok(elapsed.as_secs_f64() * 1e3)
}
