//! Running sums on cores, combined in the same order as by the kernels in `kernels/loops.h`.
//!
//! Iterations are grouped into runs, each of which is added up from left to right. A chunk consists of as many runs
//! as a team has threads. Hillis and Steele's algorithm computes the prefix of each run within its chunk. It also
//! computes the prefix of each chunk, for as many chunks at a time as a team has threads.

use super::form::Whole;
use super::nest::Cut;

/// The number of values that are combined at once.
const AT_ONCE: usize = 8;

/// Replaces each of a team's values with its exclusive prefix, and returns the combination of all values.
pub fn exclusive<T: Copy>(lanes: &mut [T], identity: T, combine: impl Fn(T, T) -> T) -> T {
    let mut apart = 1;
    while apart < lanes.len() {
        // Values are updated from the last one down, so that earlier values are still those of the previous step.
        // Several values are updated at once, as a vector.
        let mut end = lanes.len();
        while let Some(first) = end.checked_sub(AT_ONCE).filter(|first| *first >= apart) {
            let before: [T; AT_ONCE] = std::array::from_fn(|lane| lanes[first + lane - apart]);
            lanes[first..end].iter_mut().zip(before).for_each(|(lane, before)| *lane = combine(before, *lane));
            end = first;
        }
        for lane in (apart..end).rev() {
            lanes[lane] = combine(lanes[lane - apart], lanes[lane]);
        }
        apart *= 2;
    }
    let all = lanes.last().copied().unwrap_or(identity);
    lanes.rotate_right(1);
    if let Some(first) = lanes.first_mut() {
        *first = identity;
    }
    all
}

/// Returns the prefix of each chunk, beginning with `start`, and the combination of all values.
pub fn offsets<T: Copy>(
    chunks: impl Iterator<Item = T>,
    (start, identity): (T, T),
    team: usize,
    combine: impl Fn(T, T) -> T,
) -> (Vec<T>, T) {
    let (mut offsets, mut all): (Vec<T>, T) = (chunks.collect(), start);
    let mut lanes = vec![identity; team];
    for chunks in offsets.chunks_mut(team) {
        lanes[..chunks.len()].copy_from_slice(chunks);
        lanes[chunks.len()..].fill(identity);
        let sum = exclusive(&mut lanes, identity, &combine);
        chunks.iter_mut().zip(&lanes).for_each(|(chunk, before)| *chunk = combine(all, *before));
        all = combine(all, sum);
    }
    (offsets, all)
}

/// Returns the index of the chunk that begins at iteration `here`, in a loop that begins at iteration `first`.
pub fn chunk_number<T: Whole>(first: T, here: T, length: usize) -> usize {
    ((here.whole() - first.whole()) / length as i128) as usize
}

/// Returns whether an array can be cut between iterations, which means that iterations do not touch each other's
/// elements.
#[allow(clippy::needless_pass_by_value)] // the same type as parts take
pub fn is_cut(cut: Option<Cut>) -> bool {
    cut.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values record which values were combined, and in which order.
    #[test]
    fn exclusive_prefixes_are_combined_in_order() {
        for team in 1..40usize {
            let mut lanes: Vec<(usize, usize)> = (0..team).map(|lane| (lane, lane + 1)).collect();
            let join = |a: (usize, usize), b: (usize, usize)| {
                assert_eq!(a.1, b.0, "a gap or an overlap");
                (a.0, b.1)
            };
            let all = exclusive(&mut lanes, (0, 0), join);
            assert_eq!(all, (0, team));
            assert!(lanes.iter().enumerate().all(|(lane, before)| *before == (0, lane)), "{lanes:?}");
        }
    }
}
