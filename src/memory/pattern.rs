//! Contents of memory by which the access sanitizer recognizes a read or a missing write.
//!
//! They are two different NaNs in every floating-point format, so arithmetic carries them into results. Regions are
//! large, and programs under the sanitizer are often built without optimization. So patterns are written and compared
//! as whole slices, and a run of elements is searched by words before the search looks at single elements. This module
//! knows no regions; `guarded_copy.rs` decides which bytes are searched.

/// The bytes of a pattern's unit.
const WORD: usize = size_of::<u32>();
/// In elements that are no multiple of a word, only this many bytes of a pattern in a row count.
const LEAST_RUN: usize = 8;
/// Patterns are written in pieces of this size, which stay in a core's cache.
const PIECE_BYTES: usize = 32 << 10;

/// A content of memory by which a read or a missing write is recognized.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pattern {
    /// The content of guard zones.
    Outside,
    /// The content of elements that were not written yet.
    Unwritten,
}

impl Pattern {
    fn number(self) -> u32 {
        match self {
            Self::Outside => 0x7ffb_7ffc,
            Self::Unwritten => 0x7ff9_7ffa,
        }
    }

    fn word(self) -> [u8; WORD] {
        self.number().to_ne_bytes()
    }

    /// Appends this many bytes of the pattern, which begin with a whole word.
    pub(super) fn append(self, bytes: usize, memory: &mut Vec<u8>) {
        let from = memory.len();
        memory.extend_from_slice(&self.word()[..WORD.min(bytes)]);
        while memory.len() - from < bytes {
            let filled = memory.len() - from;
            memory.extend_from_within(from..from + filled.min(PIECE_BYTES).min(bytes - filled));
        }
    }

    /// Fills `bytes`, which begin with a whole word.
    pub(super) fn fill(self, bytes: &mut [u8]) {
        let mut filled = WORD.min(bytes.len());
        bytes[..filled].copy_from_slice(&self.word()[..filled]);
        while filled < bytes.len() {
            let piece = filled.min(PIECE_BYTES).min(bytes.len() - filled);
            bytes.copy_within(..piece, filled);
            filled += piece;
        }
    }

    /// Whether all of `bytes` have the pattern. The first one is at this offset from the beginning of a word.
    pub(super) fn covers(self, bytes: &[u8], offset: usize) -> bool {
        let (word, first) = (self.word(), WORD.min(bytes.len()));
        let begins = (0..first).all(|n| bytes[n] == word[(offset + n) % WORD]);
        begins && bytes[first..] == bytes[..bytes.len() - first]
    }

    /// Calls `each` with the index and the number of elements of each place in `run` that has the pattern.
    pub(super) fn find(self, run: &[u8], element_bytes: usize, mut each: impl FnMut(usize, usize)) {
        if !self.may_be_in(run, element_bytes) {
            return;
        }
        if element_bytes.is_multiple_of(WORD) {
            let elements = run.chunks_exact(element_bytes).enumerate().filter(|(_, element)| self.is_in(element));
            return elements.for_each(|(n, _)| each(n, 1));
        }
        let (word, least) = (self.word(), LEAST_RUN.min(run.len()).max(WORD));
        let mut from = 0;
        while from < run.len() {
            let len = run[from..].iter().zip(from..).take_while(|(byte, at)| **byte == word[at % WORD]).count();
            if len >= least {
                each(from.div_ceil(element_bytes), (len / element_bytes).max(1));
            }
            from += len + 1;
        }
    }

    /// Returns false if a search by whole words shows that the pattern is not in `run`.
    fn may_be_in(self, run: &[u8], element_bytes: usize) -> bool {
        if element_bytes.is_multiple_of(2 * WORD) {
            let (before, parts, _) = bytemuck::pod_align_to::<u8, u64>(run);
            return !before.is_empty() || parts.iter().any(|part| part & !(1 << 63) == self.wide());
        }
        let (before, words, _) = bytemuck::pod_align_to::<u8, u32>(run);
        let sign = if element_bytes.is_multiple_of(WORD) { 1 << 31 } else { 0 };
        // Shorter runs need not contain a whole word.
        let is_short = run.len() < LEAST_RUN;
        !before.is_empty() || is_short || words.iter().any(|word| word & !sign == self.number())
    }

    fn wide(self) -> u64 {
        u64::from(self.number()) << 32 | u64::from(self.number())
    }

    /// Whether a part of an element is the pattern, with either sign: 8 bytes if its size is a multiple of that, or
    /// else 4.
    fn is_in(self, element: &[u8]) -> bool {
        let pattern = self.number();
        if !element.len().is_multiple_of(2 * WORD) {
            let mut parts = element.chunks_exact(WORD).map(|part| part.try_into().map_or(0, u32::from_ne_bytes));
            return parts.any(|part| part & !(1 << 31) == pattern);
        }
        let mut parts = element.chunks_exact(2 * WORD).map(|part| part.try_into().map_or(0, u64::from_ne_bytes));
        parts.any(|part| part & !(1 << 63) == self.wide())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATTERNS: [Pattern; 2] = [Pattern::Outside, Pattern::Unwritten];

    /// Returns the first index at which a run has the pattern, and the number of elements.
    fn found(pattern: Pattern, run: &[u8], element_bytes: usize) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        pattern.find(run, element_bytes, |n, count| found.push((n, count)));
        found
    }

    #[test]
    fn pattern_is_found_wherever_it_begins() {
        for (pattern, other) in [(PATTERNS[0], PATTERNS[1]), (PATTERNS[1], PATTERNS[0])] {
            for element_bytes in [1, 2, 3, 4, 6, 8, 12, 16] {
                for at in (0..96).step_by(8) {
                    // The slice begins with a word in memory, or one byte later.
                    for skew in [0, 1] {
                        let mut words = [0u64; 14];
                        let run = &mut bytemuck::cast_slice_mut(&mut words)[skew..][..96];
                        assert_eq!(found(pattern, run, element_bytes), []);
                        pattern.fill(&mut run[at..][..8]);
                        assert_eq!(found(other, run, element_bytes), []);
                        let found = found(pattern, run, element_bytes);
                        let first =
                            if element_bytes % 4 == 0 { at / element_bytes } else { at.div_ceil(element_bytes) };
                        assert_eq!(found[0].0, first, "{element_bytes} bytes at {at}, skew {skew}");
                        assert_eq!(found[0].1, if element_bytes < 4 { 8 / element_bytes } else { 1 });
                    }
                }
            }
        }
    }

    #[test]
    fn number_with_another_sign_is_found() {
        let negative = -f64::from_bits(Pattern::Unwritten.wide());
        assert_eq!(found(Pattern::Unwritten, bytemuck::cast_slice(&[1.0, negative, 2.0]), 8), [(1, 1)]);
        let negative = -f32::from_bits(Pattern::Outside.number());
        assert_eq!(found(Pattern::Outside, bytemuck::cast_slice(&[1.0f32, 2.0, negative]), 4), [(2, 1)]);
    }

    #[test]
    fn appended_and_filled_bytes_are_covered_until_one_changes() {
        for (pattern, bytes) in PATTERNS.into_iter().flat_map(|pattern| [0, 3, 4, 9, 100_001].map(|n| (pattern, n))) {
            let (mut appended, mut filled) = (vec![0], vec![0; bytes]);
            pattern.append(bytes, &mut appended);
            pattern.fill(&mut filled);
            assert!(appended[1..] == filled && pattern.covers(&filled, 0));
            let begin = bytes.min(3);
            assert!(pattern.covers(&filled[begin..], begin));
            for changed in [0, bytes / 2, bytes.saturating_sub(1)].into_iter().filter(|at| *at < bytes) {
                filled[changed] ^= 1;
                assert!(!pattern.covers(&filled, 0), "{changed} of {bytes}");
                filled[changed] ^= 1;
            }
        }
    }
}
