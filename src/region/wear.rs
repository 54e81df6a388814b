//! Merging of the parts of a region map: when a merge is due, and which boxes are united.
//!
//! Cuts between crossing blocks remain even after the values on both sides have become alike. A program whose blocks
//! move would therefore cut a map into ever more parts. So a map tracks its *wear*: the number of its parts, and the
//! number of parts beyond the first that visits have reached. When the wear is large enough to pay for examining all
//! parts, neighbours that are alike are united.
//!
//! A map that is not visited stays as it is, even after a wait for all tasks: the wait has no access to data objects,
//! and maintaining a list of worn maps would add a cost to every visit that cuts. The existing bound is sufficient,
//! because a map has at most [`MANY`] parts, or twice as many as its last merge left. Each part costs its box, its
//! value, and the memory blocks of the ended tasks that it refers to. So an array that was cut this finely keeps a few
//! megabytes until it is visited again or released.
//!
//! Invariants:
//! 1. A merge costs no more than a constant per visit, plus a constant per part that visits have reached since the
//!    previous merge.
//! 2. Recurring blocks that are found whole cause no merge, unless there are very many of them.

use super::block::{Block, MAX_DIMS};

/// A map with more parts than this is merged as soon as it has twice as many parts as the last merge left.
const MANY: usize = if cfg!(test) { 16 } else { 8192 };

/// A merge is due once visits have reached this many further parts per existing part.
const VISITS_PER_PART: usize = if cfg!(test) { 1 } else { 8 };

/// Smaller maps are treated as if they had this many parts.
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

    /// Counts a visit that reached this many of `len` parts. Returns whether a merge is due.
    #[inline]
    pub(super) fn count(&mut self, met: usize, len: usize) -> bool {
        self.met += met.saturating_sub(1);
        len > self.limit || self.met > VISITS_PER_PART * len.max(FEW)
    }

    /// Resets the wear after a merge that left this many parts.
    pub(super) fn merged(&mut self, len: usize) {
        *self = Self { met: 0, limit: MANY.max(2 * len) };
    }
}

/// Unites neighbours whose values are alike and whose boxes together form a box, one dimension at a time.
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
