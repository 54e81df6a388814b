//! Running sums on cores, in the order in which the kernels of `kernels/loops.h` combine them.
//!
//! Iterations come in runs, which are added from the left; as many runs as a team has threads are a chunk. What stands before
//! a run in its chunk is found by Hillis and Steele's steps, and so is what stands before a chunk among as many of them.

use super::form::Whole;
use super::nest::Cut;

/// Values that are combined at once.
const AT_ONCE: usize = 8;

/// What stands before each of a team's values, in their place; and all of them.
pub fn exclusive<T: Copy>(lanes: &mut [T], identity: T, combine: impl Fn(T, T) -> T) -> T {
    let mut apart = 1;
    while apart < lanes.len() {
        // From the last one down: what stands before has its value of the step before. Several at once, as a vector.
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

/// What stands before each chunk, from a start; and what stands behind the last.
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

/// The number of the chunk that begins here, of a loop that begins there.
pub fn chunk_number<T: Whole>(first: T, here: T, length: usize) -> usize {
    ((here.whole() - first.whole()) / length as i128) as usize
}

/// Whether an array can be cut between iterations: they do not touch each other's elements.
#[allow(clippy::needless_pass_by_value)] // as parts take it
pub fn is_cut(cut: Option<Cut>) -> bool {
    cut.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of values that remember what was combined, in which order.
    #[test]
    fn what_stands_before_each_comes_in_order() {
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
