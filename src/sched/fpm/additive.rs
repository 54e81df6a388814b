//! A check that the energies of single units add up to the energy of all units running together.

use super::{FpmError, Profile};

/// Checks whether profiles of dynamic energy that were measured one unit at a time are valid for units that run
/// together: on average, their sum must equal the energy of all units in parallel within the fraction `tolerance`.
/// Returns the average relative difference.
///
/// `parallel` is the energy of all units when each unit runs a share of the given size.
///
/// # Errors
/// [`FpmError::NoUnits`]; [`FpmError::NotAdditive`], with the size at which the difference is largest.
///
/// ```
/// use thalweg::sched::fpm::{Profile, additive};
/// let serial = [Profile::new("CPU", [(100, 10.0)])?, Profile::new("GPU", [(100, 30.0)])?];
/// let parallel = Profile::new("both", [(100, 41.0), (200, 81.0)])?;
/// assert!(additive(&serial, &parallel, 0.025)? < 0.02);
/// assert!(additive(&serial, &parallel, 0.01).is_err());
/// # Ok::<(), thalweg::sched::fpm::FpmError>(())
/// ```
pub fn additive(serial: &[Profile], parallel: &Profile, tolerance: f64) -> Result<f64, FpmError> {
    if serial.is_empty() {
        return Err(FpmError::NoUnits { size: parallel.points()[0].0 });
    }
    let difference = |&(size, together): &(u64, f64)| {
        let sum: f64 = serial.iter().map(|profile| profile.at(size)).sum();
        let difference = (sum - together).abs();
        (size, if difference == 0.0 { 0.0 } else { difference / together })
    };
    let differences: Vec<(u64, f64)> = parallel.points().iter().map(difference).collect();
    let mean = differences.iter().map(|(_, difference)| difference).sum::<f64>() / differences.len() as f64;
    if mean <= tolerance {
        return Ok(mean);
    }
    let (size, most) = differences.into_iter().fold((0, 0.0), |worst, one| if one.1 > worst.1 { one } else { worst });
    Err(FpmError::NotAdditive { mean, most, size, tolerance })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::fpm::testing::linear;

    #[test]
    fn non_additive_energies_are_reported_with_the_worst_size() {
        let serial = [linear("CPU", 1.0), linear("GPU", 3.0)];
        let parallel = |last: f64| Profile::new("both", [(10, 40.0), (20, last)]).unwrap();
        assert_eq!(additive(&serial, &parallel(80.0), 0.0), Ok(0.0));
        let error = additive(&serial, &parallel(100.0), 0.05).unwrap_err();
        assert_eq!(error, FpmError::NotAdditive { mean: 0.1, most: 0.2, size: 20, tolerance: 0.05 });
        assert!(error.to_string().contains("by 10.0 % on average") && error.to_string().contains("20.0 % at size 20"));
        assert!(additive(&serial, &Profile::new("both", [(10, 0.0)]).unwrap(), 9.0).is_err());
        assert!(additive(&[], &parallel(80.0), 1.0).is_err());
    }
}
