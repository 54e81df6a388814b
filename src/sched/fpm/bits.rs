//! Sets of small integers, whose sums are computed by shifting words.

use std::ops::RangeInclusive;

/// A set of integers from 0 to a fixed maximum.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Bits {
    words: Vec<u64>,
    largest: usize,
}

impl Bits {
    /// Creates an empty set.
    pub(super) fn none(largest: usize) -> Self {
        Self { words: vec![0; largest / 64 + 1], largest }
    }

    /// Creates the set {0}.
    pub(super) fn zero(largest: usize) -> Self {
        let mut bits = Self::none(largest);
        bits.words[0] = 1;
        bits
    }

    pub(super) fn has(&self, number: usize) -> bool {
        number <= self.largest && self.words[number / 64] >> (number % 64) & 1 == 1
    }

    /// Adds every number in `other`, increased by `by`.
    fn include_shifted(&mut self, other: &Self, by: usize) {
        let (words, bits) = (by / 64, by % 64);
        if words >= self.words.len() {
            return;
        }
        for (at, word) in other.words[..self.words.len() - words].iter().enumerate() {
            self.words[at + words] |= word << bits;
            if bits > 0 && at + words + 1 < self.words.len() {
                self.words[at + words + 1] |= word >> (64 - bits);
            }
        }
    }

    /// Adds every sum of a number in `others` and a number in `range`, up to the maximum. The number of steps is the
    /// number of bits in the range's length.
    pub(super) fn include_sums(&mut self, others: &Self, range: RangeInclusive<usize>) {
        let (first, len) = (*range.start(), range.end() + 1 - range.start());
        let mut spread = others.clone();
        let mut reached = 1;
        while reached < len {
            let step = reached.min(len - reached);
            let before = spread.clone();
            spread.include_shifted(&before, step);
            reached += step;
        }
        self.include_shifted(&spread, first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn numbers(bits: &Bits) -> Vec<usize> {
        (0..=bits.largest).filter(|number| bits.has(*number)).collect()
    }

    #[test]
    fn zero_and_empty_sets_have_their_numbers() {
        assert_eq!(numbers(&Bits::zero(64)), [0]);
        assert!(numbers(&Bits::none(0)).is_empty());
        assert!(!Bits::zero(3).has(64));
    }

    proptest! {
        #[test]
        fn sums_are_complete(
            largest in 0usize..200,
            some in prop::collection::btree_set(0usize..200, 0..10),
            first in 0usize..210,
            len in 1usize..150,
        ) {
            let mut others = Bits::none(largest);
            for number in some.iter().filter(|number| **number <= largest) {
                others.include_sums(&Bits::zero(largest), *number..=*number);
            }
            let mut sums = Bits::none(largest);
            sums.include_sums(&others, first..=first + len - 1);
            let is_sum = |sum: &usize| (first..first + len).any(|one| *sum >= one && others.has(sum - one));
            prop_assert_eq!(numbers(&sums), (0..=largest).filter(is_sum).collect::<Vec<_>>());
        }
    }
}
