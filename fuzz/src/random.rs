//! The interface of `tests/common/random.rs` with bytes instead of a seed, so that a fuzzer changes single choices.

use std::ops::Range;

/// Bytes: each decides a choice, and zeros follow the last one.
pub struct Random {
    bytes: std::vec::IntoIter<u8>,
}

impl Random {
    pub fn new(bytes: &[u8]) -> Self {
        Self { bytes: bytes.to_vec().into_iter() }
    }

    pub fn below(&mut self, n: usize) -> usize {
        usize::from(self.bytes.next().unwrap_or(0)) % n
    }

    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub fn of<T: Clone>(&mut self, choice: &[T]) -> T {
        choice[self.below(choice.len())].clone()
    }

    pub fn within(&mut self, range: &Range<usize>) -> Range<usize> {
        if range.is_empty() || self.one_in(3) {
            return range.clone();
        }
        let (a, b) = (self.below(range.len() + 1), self.below(range.len() + 1));
        range.start + a.min(b)..range.start + a.max(b)
    }
}
