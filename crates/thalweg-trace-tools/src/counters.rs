//! Counters over time: ready tasks, pending tasks, and the bytes in use in each space.
//!
//! A counter with up to [`MOST`] changes is exact. A longer counter is thinned to the highest and the last value of
//! each interval, so peaks stay visible and the value between intervals is correct. Thinning never invents values
//! that are not in the trace.

use crate::{NoteKind, Trace};
use std::collections::BTreeMap;

/// Maximum number of points of a counter, which exceeds the number of columns of any screen.
pub(crate) const MOST: usize = 100_000;

/// Points in time, in nanoseconds, each with the counter's value from then on.
pub(crate) type Points = Vec<(u64, u64)>;

/// Returns the number of tasks over time that are ready but not yet running.
pub(crate) fn ready(trace: &Trace) -> Points {
    let ready = trace.ready();
    let spans = trace.tasks.iter().zip(ready).filter_map(|(task, ready)| Some((ready, task.start?)));
    thin(overlap(spans), MOST)
}

/// Returns the number of tasks over time that were submitted and have not ended. A task ends early when it is
/// poisoned or cancelled.
pub(crate) fn pending(trace: &Trace) -> Points {
    let mut ends: Vec<Option<u64>> = trace.tasks.iter().map(|task| task.finished).collect();
    for note in &trace.notes {
        if matches!(note.kind, NoteKind::Poisoned | NoteKind::Cancelled) {
            ends[note.task].get_or_insert(note.at);
        }
    }
    let spans = trace.tasks.iter().zip(ends).map(|(task, end)| (task.submitted, end.unwrap_or(u64::MAX)));
    thin(overlap(spans), MOST)
}

/// Returns the bytes in use over time, for each space with memory records.
pub(crate) fn memory(trace: &Trace) -> BTreeMap<usize, Points> {
    let mut spaces: BTreeMap<usize, Points> = BTreeMap::new();
    for change in &trace.memory {
        let points = spaces.entry(change.space).or_default();
        match points.last_mut() {
            Some(last) if last.0 == change.at => last.1 = change.bytes,
            _ => points.push((change.at, change.bytes)),
        }
    }
    spaces.into_iter().map(|(space, points)| (space, thin(points, MOST))).collect()
}

/// Returns the number of spans that contain a point in time, at each time when that number changes. A span that
/// ends at `u64::MAX` never ends.
fn overlap(spans: impl Iterator<Item = (u64, u64)>) -> Points {
    let mut changes: Vec<(u64, bool)> = Vec::new();
    for (start, end) in spans.filter(|(start, end)| start < end) {
        changes.extend([(start, true), (end, false)]);
    }
    changes.sort_unstable();
    let mut points = vec![(0, 0)];
    let mut number = 0;
    for together in changes.chunk_by(|one, other| one.0 == other.0) {
        let time = together[0].0;
        if time == u64::MAX {
            break;
        }
        let begun = together.iter().filter(|change| change.1).count() as u64;
        let after = number + begun - (together.len() as u64 - begun);
        if time == 0 {
            points.clear();
        }
        if after != number || time == 0 {
            points.push((time, after));
        }
        number = after;
    }
    points
}

/// Thins points in order of time to at most `most`.
fn thin(points: Points, most: usize) -> Points {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return points };
    if points.len() <= most {
        return points;
    }
    // Each interval yields two points, and the first and the last interval may be partial.
    let width = (last.0 - first.0) / (most as u64 / 2 - 1) + 1;
    let mut thinned = Vec::with_capacity(most);
    for interval in points.chunk_by(|one, other| one.0 / width == other.0 / width) {
        let highest = interval.iter().max_by_key(|point| point.1).expect("an interval has points");
        let last = interval.last().expect("an interval has points");
        if highest.0 < last.0 {
            thinned.push(*highest);
        }
        thinned.push(*last);
    }
    thinned
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlap_counts_spans_at_each_change() {
        let spans = [(0, 4), (2, 6), (4, 5), (3, 3), (5, u64::MAX)];
        // At time 4, one span ends and another begins, so the count does not change.
        assert_eq!(overlap(spans.into_iter()), [(0, 1), (2, 2), (6, 1)]);
        assert_eq!(overlap([(7, 9)].into_iter()), [(0, 0), (7, 1), (9, 0)]);
        assert_eq!(overlap(std::iter::empty()), [(0, 0)]);
    }

    #[test]
    fn thinned_points_keep_peak_and_last_value() {
        let points: Points = (0..10_000).map(|at| (at * 10, if at == 7777 { 1_000_000 } else { at })).collect();
        let thinned = thin(points.clone(), 100);
        assert!((50..=100).contains(&thinned.len()), "{} points", thinned.len());
        assert!(thinned.contains(&(77_770, 1_000_000)));
        assert_eq!(thinned.last(), points.last());
        assert!(thinned.iter().all(|point| points.contains(point)));
        assert!(thinned.is_sorted_by(|one, other| one.0 < other.0));
        assert_eq!(thin(points.clone(), 10_000), points);
    }
}
