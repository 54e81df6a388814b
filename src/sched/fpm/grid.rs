//! A size in grains: what each number of grains takes on each unit, alone and with what is left over.

use super::{FpmError, Profile, profile};

/// Most grains that a size may have: time and memory grow with them.
const MOST_GRAINS: u64 = 1 << 20;

/// A size as `grains` of equal size and a *tail*, which one unit has to take too.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grid {
    pub(super) grain: u64,
    pub(super) grains: usize,
    pub(super) tail: u64,
}

/// Of one unit, by the number of grains: without the tail, and with it.
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

    /// How many of the two ways count: with the tail as well, if there is one.
    pub(super) fn ways(self) -> usize {
        1 + usize::from(self.tail > 0)
    }

    /// What each number of grains takes.
    pub(super) fn values(self, profile: &Profile) -> Values {
        let with = |tail: u64| (0..=self.grains as u64).map(|k| profile.at(k * self.grain + tail)).collect();
        [with(0), if self.tail > 0 { with(self.tail) } else { Vec::new() }]
    }

    /// The sizes of shares of so many grains, one of them with the tail.
    pub(super) fn sizes(self, grains: &[usize], with_tail: Option<usize>) -> Vec<u64> {
        let of =
            |(unit, k): (usize, &usize)| *k as u64 * self.grain + if with_tail == Some(unit) { self.tail } else { 0 };
        grains.iter().enumerate().map(of).collect()
    }
}
