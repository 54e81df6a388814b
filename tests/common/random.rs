//! Random number generator for random programs. All numbers are determined by the seed.

#![allow(dead_code, unreachable_pub)] // each test program that includes this module uses a part of it

use std::ops::Range;

/// A random number generator (Steele, Lea & Flood 2014: SplitMix64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub fn of<T: Clone>(&mut self, choice: &[T]) -> T {
        choice[self.below(choice.len())].clone()
    }

    /// Draws a non-empty range below `n`.
    pub fn range(&mut self, n: usize) -> Range<usize> {
        let (a, b) = (self.below(n), self.below(n));
        a.min(b)..a.max(b) + 1
    }

    /// Draws `range` itself or a part of it, which may be empty.
    pub fn within(&mut self, range: &Range<usize>) -> Range<usize> {
        if range.is_empty() || self.one_in(3) {
            return range.clone();
        }
        let (a, b) = (self.below(range.len() + 1), self.below(range.len() + 1));
        range.start + a.min(b)..range.start + a.max(b)
    }
}

/// Returns the number in the environment variable `name`, or `default`.
pub fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}: `{text}` is not a number")))
}
