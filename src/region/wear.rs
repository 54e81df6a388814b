//! Merging of the parts of a region map: when a merge is due, and which boxes are united.
//!
//! Cuts stay where blocks have crossed, even after the values on both sides have become alike. Programs whose blocks
//! move would cut a map into ever more parts. So a map counts its *wear*: how many parts it has, and how many parts
//! visits have met beyond the first. Enough wear pays for an examination of all parts, after which neighbours that
//! are alike are united.
//!
//! A map that is not visited stays as it is, even after a wait for all tasks. A wait knows no data objects, and a
//! list of worn maps would cost every visit that cuts. The bound is sufficient: a map has at most [`MANY`] parts, or
//! twice as many as its last merge has left. Each part costs its box, its value and the blocks of the ended tasks
//! that it names, so an array that was cut this finely keeps a few megabytes until it is visited again or released.
//!
//! Invariants:
//! 1. A merge costs no more than a constant for each visit, and for each part that visits have met since the previous
//!    merge.
//! 2. Blocks that recur and are met whole cause no merge, unless there are very many.

use super::block::{Block, MAX_DIMS};

/// A map with more parts than this is merged as soon as it has twice as many as the last merge has left.
const MANY: usize = if cfg!(test) { 16 } else { 8192 };

/// Visits that have met this many further parts, for each existing part, pay for a merge.
const VISITS_PER_PART: usize = if cfg!(test) { 1 } else { 8 };

/// Smaller maps count as if they had this many parts.
const FEW: usize = if cfg!(test) { 4 } else { 32 };

/// The wear of one map; see the module documentation.
#[derive(Debug)]
pub(super) struct Wear {
    met: usize,
    limit: usize,
}

impl Wear {
    /// Makes the wear of a new map.
    pub(super) fn new() -> Self {
        Self { met: 0, limit: MANY }
    }

    /// Counts a visit that has met this many of `len` parts; returns whether a merge is due.
    #[inline]
    pub(super) fn count(&mut self, met: usize, len: usize) -> bool {
        self.met += met.saturating_sub(1);
        len > self.limit || self.met > VISITS_PER_PART * len.max(FEW)
    }

    /// Resets the wear after a merge that has left this many parts.
    pub(super) fn merged(&mut self, len: usize) {
        *self = Self { met: 0, limit: MANY.max(2 * len) };
    }
}

/// Unites neighbours with values that are alike and boxes that form one box, dimension by dimension.
pub(super) fn unite_alike<V>(parts: &mut Vec<(Block, V)>, alike: impl Fn(&V, &V) -> bool) {
    for d in 0..MAX_DIMS {
        let across = |block: &Block| {
            let (mut lo, mut hi) = (*block.lo(), *block.hi());
            (lo[d], hi[d]) = (0, 0);
            (lo, hi)
        };
        parts.sort_unstable_by_key(|(block, _)| (across(block), block.lo()[d]));
        parts.dedup_by(|(next, of_next), (block, value)| {
            let is_one = across(next) == across(block) && next.lo()[d] == block.hi()[d] && alike(value, of_next);
            if is_one {
                *block = block.hull(next);
            }
            is_one
        });
    }
}

/// Returns the value that more than half of the parts have, if there is one; otherwise the value of any part.
pub(super) fn commonest<V>(parts: &[(Block, V)], alike: impl Fn(&V, &V) -> bool) -> Option<&V> {
    let (mut candidate, mut votes) = (None, 0);
    for (_, value) in parts {
        match candidate {
            Some(other) if alike(other, value) => votes += 1,
            Some(_) if votes > 0 => votes -= 1,
            _ => (candidate, votes) = (Some(value), 1),
        }
    }
    candidate
}
