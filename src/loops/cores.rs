//! Execution of a loop on a unit's cores. The loop's range is divided into pieces, each with its own parts of the
//! written arrays.

use super::form::Whole;
use super::parts::Parts;
use std::ops::{Range, RangeInclusive};

/// The number of pieces per core: enough to balance iterations of different lengths, but few enough to keep the
/// overhead small.
const PIECES: i128 = 4;

/// Runs the pieces of a range on the unit's cores.
pub fn pieces<T: Whole + Send, P: Parts>(
    cores: usize,
    range: Range<T>,
    parts: P,
    work: &(impl Fn(Range<T>, P) + Sync),
) {
    collect(cores, range, 1, parts, &|range, parts, _: &mut Vec<()>| work(range, parts));
}

/// Like [`pieces`], but collects the results of the pieces in order. Pieces begin at multiples of `chunk` iterations.
pub fn collect<T: Whole + Send, P: Parts, R: Send>(
    cores: usize,
    range: Range<T>,
    chunk: usize,
    parts: P,
    work: &(impl Fn(Range<T>, P, &mut Vec<R>) + Sync),
) -> Vec<R> {
    let (first, end) = (range.start.whole(), range.end.whole());
    let mut left = Vec::new();
    if first >= end {
        return left;
    }
    let chunk = (chunk as i128).max(1);
    if cores <= 1 || !parts.can_be_cut() {
        // A unit with a single core has no thread pool.
        work(range, parts, &mut left);
        return left;
    }
    let most = (end - first).div_euclid(cores as i128 * PIECES).max(1);
    halve::<T, P, R>((first, end), (chunk, most), parts, work, &mut left);
    left
}

fn halve<T: Whole + Send, P: Parts, R: Send>(
    (first, end): (i128, i128),
    (chunk, most): (i128, i128),
    parts: P,
    work: &(impl Fn(Range<T>, P, &mut Vec<R>) + Sync),
    left: &mut Vec<R>,
) {
    let chunks = (end - first + chunk - 1) / chunk;
    if end - first <= most || chunks < 2 {
        return work(T::of_whole(first)..T::of_whole(end), parts, left);
    }
    let middle = first + chunks / 2 * chunk;
    let (before, behind) = parts.split(middle);
    let mut others = Vec::new();
    rayon::join(
        || halve::<T, P, R>((first, middle), (chunk, most), before, work, left),
        || halve::<T, P, R>((middle, end), (chunk, most), behind, work, &mut others),
    );
    left.append(&mut others);
}

/// Divides a range of integers into subranges of this length; the last subrange may be shorter.
pub fn chunks<T: Whole>(range: Range<T>, length: usize) -> impl Iterator<Item = Range<T>> {
    // For every integer type, a range has fewer than 2^64 integers, so 64 bits are enough to count them.
    let first = range.start.whole();
    let count = (range.end.whole() - first).max(0) as u64;
    let length = (length as u64).max(1);
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at;
        at += length.min(count - start);
        (start < at).then(|| T::of_whole(first + i128::from(start))..T::of_whole(first + i128::from(at)))
    })
}

/// Converts a range to a range with an exclusive end.
///
/// # Panics
/// Panics if the range includes the largest value of its type, because then the exclusive end would overflow.
#[track_caller]
pub fn half_open<T: Whole>(range: impl Into<HalfOpen<T>>) -> Range<T> {
    range.into().0
}

/// The argument type of [`half_open`].
#[derive(Debug)]
pub struct HalfOpen<T>(Range<T>);

impl<T> From<Range<T>> for HalfOpen<T> {
    fn from(range: Range<T>) -> Self {
        Self(range)
    }
}

impl<T: Whole> From<RangeInclusive<T>> for HalfOpen<T> {
    fn from(range: RangeInclusive<T>) -> Self {
        let (end, (_, largest)) = (range.end().whole(), T::ENDS);
        assert!(
            end < largest,
            "cannot run a loop up to {largest}, the largest {}: its end is one more; try a wider type",
            std::any::type_name::<T>()
        );
        Self(*range.start()..T::of_whole(end + 1))
    }
}

/// Combines the values of a team's threads in a tree, in the same order as a team does on a device.
pub fn tree<T: Copy>(threads: &mut [T], combine: impl Fn(T, T) -> T) -> T {
    let mut apart = threads.len() / 2;
    while apart > 0 {
        let (low, high) = threads.split_at_mut(apart);
        low.iter_mut().zip(high).for_each(|(low, high)| *low = combine(*low, *high));
        apart /= 2;
    }
    threads[0]
}

/// Combines the parts of a reduction in the same order as the second kernel does on a device.
pub fn total<T: Copy>(parts: impl Iterator<Item = T>, identity: T, team: usize, combine: impl Fn(T, T) -> T) -> T {
    let mut threads = vec![identity; team];
    parts.enumerate().for_each(|(n, part)| threads[n % team] = combine(threads[n % team], part));
    tree(&mut threads, combine)
}

#[cfg(test)]
#[allow(clippy::reversed_empty_ranges, clippy::single_range_in_vec_init)] // such ranges are tested
mod tests {
    use super::*;

    #[test]
    fn ranges_of_any_width_are_divided_into_chunks() {
        let of = |range: Range<i64>, length| chunks(range, length).collect::<Vec<_>>();
        assert_eq!(of(-3..4, 3), [-3..0, 0..3, 3..4]);
        assert_eq!(of(4..4, 3), []);
        assert_eq!(of(4..-4, 3), []);
        assert_eq!(of(0..2, 0), [0..1, 1..2], "a length of 0 counts as 1");
        let whole = of(i64::MIN..i64::MAX, usize::MAX / 2);
        assert_eq!(whole, [i64::MIN..-1, -1..i64::MAX - 1, i64::MAX - 1..i64::MAX]);
        assert_eq!(chunks(0..u64::MAX, usize::MAX).collect::<Vec<_>>(), [0..u64::MAX]);
    }

    #[test]
    fn range_up_to_the_largest_value_is_refused() {
        assert_eq!(half_open(0..=i32::MAX - 1), 0..i32::MAX);
        assert_eq!(half_open(0..=-1), 0..0);
        let refused = std::panic::catch_unwind(|| half_open(0..=i32::MAX)).unwrap_err();
        let message = refused.downcast_ref::<String>().unwrap();
        assert!(message.contains("the largest i32"), "{message}");
    }
}
