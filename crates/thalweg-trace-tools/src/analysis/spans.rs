//! Time spans: union of overlapping spans, and searches in sorted spans.

/// A beginning and an end, in nanoseconds.
pub(super) type Span = (u64, u64);

/// Returns the sum of `times`, saturating at `u64::MAX` because a damaged trace can contain times of centuries.
pub(super) fn sum(times: impl IntoIterator<Item = u64>) -> u64 {
    times.into_iter().fold(0, u64::saturating_add)
}

/// Returns sorted spans that cover the same times but neither overlap nor touch.
pub(super) fn union(mut spans: Vec<Span>) -> Vec<Span> {
    spans.retain(|(start, end)| start < end);
    spans.sort();
    spans.dedup_by(|next, last| {
        let overlaps = next.0 <= last.1;
        if overlaps {
            last.1 = last.1.max(next.1);
        }
        overlaps
    });
    spans
}

/// Returns the time covered before `until` by sorted disjoint spans, using the running totals computed by
/// [`totals`].
pub(super) fn covered(spans: &[Span], totals: &[u64], until: u64) -> u64 {
    let begun = spans.partition_point(|(start, _)| *start < until);
    match begun.checked_sub(1) {
        None => 0,
        Some(last) => totals[last] + until.min(spans[last].1) - spans[last].0,
    }
}

/// Returns the number of leading entries that satisfy `is_before`, like `partition_point`, but faster if there are
/// few of them.
pub(super) fn past<T>(sorted: &[T], is_before: impl Fn(&T) -> bool) -> usize {
    let mut reach = 4;
    while sorted.get(reach).is_some_and(&is_before) {
        reach *= 2;
    }
    sorted[..sorted.len().min(reach)].partition_point(is_before)
}

/// Returns, for each span, the total time covered by the spans before it.
pub(super) fn totals(spans: &[Span]) -> Vec<u64> {
    let mut sum = 0;
    let before = |(start, end): &Span| {
        sum += end - start;
        sum - (end - start)
    };
    spans.iter().map(before).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn union_merges_overlapping_and_touching_spans() {
        let spans = vec![(5, 7), (0, 2), (2, 3), (6, 6), (1, 2), (8, 9), (5, 6)];
        assert_eq!(union(spans), [(0, 3), (5, 7), (8, 9)]);
    }

    #[test]
    fn covered_time_counts_parts_of_spans() {
        let spans = [(0, 3), (5, 7)];
        let totals = totals(&spans);
        assert_eq!([0, 2, 4, 6, 9].map(|until| covered(&spans, &totals, until)), [0, 2, 3, 4, 5]);
    }

    #[test]
    fn entries_that_are_past_are_counted() {
        let sorted: Vec<usize> = (0..100).collect();
        assert!((0..=100).all(|limit| past(&sorted, |entry| *entry < limit) == limit));
        assert_eq!(past(&[], |_: &u8| true), 0);
    }
}
