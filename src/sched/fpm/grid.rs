//! Discretisation of sizes into grains, and each unit's values by number of grains, with and without the remainder.

use super::{FpmError, Profile, profile};

/// Maximum number of grains. Time and memory grow with the number of grains.
const MOST_GRAINS: u64 = 1 << 20;

/// A size, divided into `grains` of equal size and a *tail* that one unit must take in addition.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grid {
    pub(super) grain: u64,
    pub(super) grains: usize,
    pub(super) tail: u64,
}

/// Values of one unit by number of grains: first without the tail, then with it.
pub(super) type Values = [Vec<f64>; 2];

impl Grid {
    pub(super) fn new(units: usize, n: u64, grain: u64) -> Result<Self, FpmError> {
        if units == 0 {
            return Err(FpmError::NoUnits { size: n });
        }
        if n > profile::MOST {
            return Err(FpmError::Size { size: n });
        }
        if grain == 0 || n / grain > MOST_GRAINS {
            return Err(FpmError::Grain { size: n, grain, least: n.div_ceil(MOST_GRAINS).max(1) });
        }
        Ok(Self { grain, grains: (n / grain) as usize, tail: n % grain })
    }

    /// Returns the number of value lists: one without the tail and, if there is a tail, one with it.
    pub(super) fn ways(self) -> usize {
        1 + usize::from(self.tail > 0)
    }

    /// Returns a profile's value for each number of grains.
    pub(super) fn values(self, profile: &Profile) -> Values {
        let with = |tail: u64| (0..=self.grains as u64).map(|k| profile.at(k * self.grain + tail)).collect();
        [with(0), if self.tail > 0 { with(self.tail) } else { Vec::new() }]
    }

    /// Returns the sizes of shares with these numbers of grains. The unit `with_tail` also gets the tail.
    pub(super) fn sizes(self, grains: &[usize], with_tail: Option<usize>) -> Vec<u64> {
        let of =
            |(unit, k): (usize, &usize)| *k as u64 * self.grain + if with_tail == Some(unit) { self.tail } else { 0 };
        grains.iter().enumerate().map(of).collect()
    }
}
