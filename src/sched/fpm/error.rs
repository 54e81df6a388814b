//! Errors of functional performance models: invalid profiles, and problems without a solution.

/// The reason why shares cannot be computed. The message names the unit and the size where they apply.
///
/// ```
/// use thalweg::sched::fpm::{FpmError, Profile, balance};
/// let error = Profile::new("GPU 0", [(100, 1.0), (50, 0.6)]).unwrap_err();
/// assert_eq!(error.to_string(), "the profile of GPU 0 has size 50 after 100; write ascending sizes, from 1");
/// assert_eq!(balance(&[], 7), Err(FpmError::NoUnits { size: 7 }));
/// ```
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FpmError {
    /// A profile has no point.
    #[error("the profile of {unit} has no point; give the value of at least one size")]
    NoPoints {
        /// The unit that the profile describes.
        unit: String,
    },
    /// A size is not larger than the previous one.
    #[error("the profile of {unit} has size {size} after {before}; write ascending sizes, from 1")]
    Order {
        /// The unit that the profile describes.
        unit: String,
        /// The size that is too small.
        size: u64,
        /// The previous size, or 0 if there is none.
        before: u64,
    },
    /// A size exceeds 2^53, above which `f64` does not distinguish all sizes.
    #[error(
        "cannot share out or profile a size of {size}; measure it in a larger unit: at most {}",
        super::profile::MOST
    )]
    Size {
        /// The size.
        size: u64,
    },
    /// A value is negative or not finite.
    #[error("the profile of {unit} has {value} at size {size}; write a finite number, at least 0")]
    Value {
        /// The unit that the profile describes.
        unit: String,
        /// The size at which the value was given.
        size: u64,
        /// The invalid value.
        value: f64,
    },
    /// A time falls as the size grows, which `balance` does not accept.
    #[error(
        "cannot balance by the profile of {unit}, which falls at size {size}; try optimise_time, which accepts any"
    )]
    Falls {
        /// The unit that the profile describes.
        unit: String,
        /// The first size that takes less than the previous one.
        size: u64,
    },
    /// The list of profiles is empty.
    #[error("cannot share out {size} among no units; give at least one profile")]
    NoUnits {
        /// The total size.
        size: u64,
    },
    /// The numbers of energy and time profiles differ.
    #[error("{times} profiles of time do not match {energies} of energy; give one of each for every unit")]
    Unpaired {
        /// Number of time profiles.
        times: usize,
        /// Number of energy profiles.
        energies: usize,
    },
    /// The grain is zero, or so small that there are too many grains.
    #[error("cannot share out {size} by grains of {grain}; try {least}, or more")]
    Grain {
        /// The total size.
        size: u64,
        /// The grain.
        grain: u64,
        /// The smallest possible grain.
        least: u64,
    },
    /// No shares are fast enough.
    #[error(
        "cannot complete {size} within {budget} s: the minimum is {least} s, when {unit} ends last; try a larger budget"
    )]
    Budget {
        /// The total size.
        size: u64,
        /// The time limit, in seconds.
        budget: f64,
        /// The shortest possible time, in seconds.
        least: f64,
        /// The unit that ends last in the fastest shares.
        unit: String,
    },
    /// The energies of the single units do not add up to the energy of all units running together.
    #[error(
        "energy is not additive: the sum of single units differs by {:.1} % on average from all units together, at \
         most by {:.1} % at size {size}; {:.1} % were allowed",
        100.0 * mean, 100.0 * most, 100.0 * tolerance
    )]
    NotAdditive {
        /// The mean difference, as a fraction of the energy of all units together.
        mean: f64,
        /// The largest difference, as a fraction of the energy of all units together.
        most: f64,
        /// The size at which the largest difference occurs.
        size: u64,
        /// The maximum difference allowed.
        tolerance: f64,
    },
    /// A text is not a valid list of profiles.
    #[error("not profiles: {problem}")]
    Text {
        /// Description and position of the problem.
        problem: String,
    },
}
