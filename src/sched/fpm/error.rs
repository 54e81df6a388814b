//! What can be wrong with profiles, and with what is asked of them.

/// Why there are no shares; names the unit and the size where there is one.
///
/// ```
/// use thalweg::sched::fpm::{FpmError, Profile, balance};
/// let error = Profile::new("GPU 0", [(100, 1.0), (50, 0.6)]).unwrap_err();
/// assert_eq!(error.to_string(), "the profile of GPU 0 has size 50 behind 100; write ascending sizes, from 1");
/// assert_eq!(balance(&[], 7), Err(FpmError::NoUnits { size: 7 }));
/// ```
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FpmError {
    /// A profile without a point.
    #[error("the profile of {unit} has no point; give what at least one size takes")]
    NoPoints {
        /// Whose.
        unit: String,
    },
    /// A size that is not larger than the one before it.
    #[error("the profile of {unit} has size {size} behind {before}; write ascending sizes, from 1")]
    Order {
        /// Whose.
        unit: String,
        /// The size.
        size: u64,
        /// The size before it; 0 before the first.
        before: u64,
    },
    /// A size beyond 2^53, where sizes cannot be told apart any more.
    #[error(
        "cannot share out or profile a size of {size}; measure it in a larger unit: at most {}",
        super::profile::MOST
    )]
    Size {
        /// The size.
        size: u64,
    },
    /// A value that nothing can take.
    #[error("the profile of {unit} has {value} at size {size}; write a finite number, at least 0")]
    Value {
        /// Whose.
        unit: String,
        /// At which size.
        size: u64,
        /// The value.
        value: f64,
    },
    /// A time that falls as the size grows, where it must not.
    #[error("cannot balance by the profile of {unit}, which falls at size {size}; try optimise_time, which takes any")]
    Falls {
        /// Whose.
        unit: String,
        /// The first size with less than the one before.
        size: u64,
    },
    /// There is nobody to share with.
    #[error("cannot share out {size} among no units; give at least one profile")]
    NoUnits {
        /// What was to be shared out.
        size: u64,
    },
    /// Not as many profiles of energy as of time.
    #[error("{times} profiles of time do not go with {energies} of energy; give one of each for every unit")]
    Unpaired {
        /// How many of time.
        times: usize,
        /// How many of energy.
        energies: usize,
    },
    /// A grain of zero, or so small that there are too many.
    #[error("cannot share out {size} by grains of {grain}; try {least}, or more")]
    Grain {
        /// What was to be shared out.
        size: u64,
        /// The grain.
        grain: u64,
        /// The least that is possible.
        least: u64,
    },
    /// No shares are fast enough.
    #[error("cannot do {size} within {budget} s: {least} s is the least, when {unit} ends last; try a larger budget")]
    Budget {
        /// What was to be shared out.
        size: u64,
        /// The time to meet, in seconds.
        budget: f64,
        /// The least that is possible.
        least: f64,
        /// The unit that ends last then.
        unit: String,
    },
    /// Energies of units alone do not add up to that of all together.
    #[error(
        "energy is not additive: what units use one by one differs by {:.1} % on average from what they use together, at \
         most by {:.1} % at size {size}; {:.1} % were allowed",
        100.0 * mean, 100.0 * most, 100.0 * tolerance
    )]
    NotAdditive {
        /// The mean difference, relative to what all use together.
        mean: f64,
        /// The largest.
        most: f64,
        /// Where it is.
        size: u64,
        /// What was allowed.
        tolerance: f64,
    },
    /// The text of profiles is not one.
    #[error("not profiles: {problem}")]
    Text {
        /// What and where.
        problem: String,
    },
}
