//! Optimal chunks: cuts consecutive indices for units of given speeds so that the last unit ends as early as possible.
//!
//! The guided pass in the sources (González Tallada & Morancho 2024, fig. 7) brings every unit close to the mean and
//! leaves the rounding error to the last unit. For example, 150 equal indices on 62 units become 2 for each unit and 28
//! for the last. Wherever the sources apply that pass to a cluster ("BALANCE"), we use the optimum instead, because it
//! is as cheap to find.
//!
//! Source: Pınar & Aykanat 2004 (bisection over the bottleneck, with a greedy probe).

use super::Chunks;
use super::static_chunks::static_chunks;

/// Cuts the indices into one chunk per unit so that the maximum of chunk work divided by unit speed is minimal. Among
/// such cuts, each chunk is as close as possible to its unit's share of the remaining work.
///
/// ```
/// use thalweg::sched::balanced_chunks;
/// assert_eq!(balanced_chunks(&[1.0, 1.0, 1.0, 1.0, 4.0], &[1.0, 1.0]), [0..4, 4..5]);
/// assert_eq!(balanced_chunks(&[1.0; 8], &[1.0, 3.0]), [0..2, 2..8]);
/// ```
pub fn balanced_chunks(work: &[f64], speeds: &[f64]) -> Chunks {
    let (len, units) = (work.len(), speeds.len());
    let mut sums = vec![0.0; len + 1];
    work.iter().enumerate().for_each(|(index, work)| sums[index + 1] = sums[index] + work);
    let total = sums[len];
    if units < 2 || len == 0 || total.is_nan() || total <= 0.0 {
        return static_chunks(len, units);
    }
    // `reach` is the last end that a unit can reach from `first` within the bottleneck. `reach_back` is the first start
    // from which the unit can reach `end`.
    let slack = total * 1e-12;
    let reach = |first: usize, unit: usize, bottleneck: f64| {
        let most = sums[first] + bottleneck * speeds[unit] + slack;
        first + sums[first + 1..].partition_point(|sum| *sum <= most)
    };
    let reach_back = |end: usize, unit: usize, bottleneck: f64| {
        let least = sums[end] - bottleneck * speeds[unit] - 4.0 * slack; // no less than `reach` reaches
        sums[..end].partition_point(|sum| *sum < least)
    };
    let fits = |bottleneck: f64| (0..units).fold(0, |first, unit| reach(first, unit, bottleneck)) == len;

    let fastest = speeds.iter().copied().fold(0.0, f64::max);
    let (mut low, mut high) = (total / speeds.iter().sum::<f64>(), total / fastest);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if fits(middle) { high = middle } else { low = middle }
    }

    // The earliest start of each unit's chunk from which the units after it can still reach the end.
    let mut earliest = vec![len; units + 1];
    for unit in (0..units).rev() {
        earliest[unit] = reach_back(earliest[unit + 1], unit, high);
    }
    let mut speed_left: f64 = speeds.iter().sum();
    let mut first = 0;
    let mut cut = |unit: usize| {
        let share = sums[first] + (total - sums[first]) * speeds[unit] / speed_left;
        speed_left -= speeds[unit];
        let above = sums.partition_point(|sum| *sum < share).min(len);
        let below = above.saturating_sub(1);
        let nearest = if share - sums[below] < sums[above] - share { below } else { above };
        let end = nearest.clamp(first, reach(first, unit, high)).max(earliest[unit + 1]);
        std::mem::replace(&mut first, end)..end
    };
    (0..units).map(|unit| if unit + 1 < units { cut(unit) } else { cut(unit).start..len }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bottleneck(chunks: &Chunks, work: &[f64], speeds: &[f64]) -> f64 {
        let of = |(chunk, speed): (&std::ops::Range<usize>, &f64)| work[chunk.clone()].iter().sum::<f64>() / speed;
        chunks.iter().zip(speeds).map(of).fold(0.0, f64::max)
    }

    /// Finds the optimum by dynamic programming over all cuts.
    fn best(work: &[f64], speeds: &[f64]) -> f64 {
        let mut before = vec![f64::INFINITY; work.len() + 1];
        before[0] = 0.0;
        for speed in speeds {
            let sum = |first: usize, end: usize| work[first..end].iter().sum::<f64>() / speed;
            let last =
                |end: usize| (0..=end).map(|first| before[first].max(sum(first, end))).fold(f64::INFINITY, f64::min);
            before = (0..=work.len()).map(last).collect();
        }
        before[work.len()]
    }

    #[test]
    fn rounding_error_is_not_left_to_one_unit() {
        let chunks = balanced_chunks(&[1.0; 150], &[1.0; 62]);
        assert_eq!(chunks.iter().map(ExactSizeIterator::len).max(), Some(3));
        assert_eq!(balanced_chunks(&[2.0; 3], &[1.0; 5]).iter().map(ExactSizeIterator::len).max(), Some(1));
        assert_eq!(balanced_chunks(&[0.0; 4], &[1.0; 2]), [0..2, 2..4], "nothing measured: equal parts");
        assert_eq!(balanced_chunks(&[], &[1.0; 2]), [0..0, 0..0]);
        assert!(balanced_chunks(&[1.0], &[]).is_empty());
    }

    proptest! {
        #[test]
        fn chunks_cover_all_indices_in_order_and_are_optimal(
            work in prop::collection::vec(0.0..10.0f64, 1..40),
            speeds in prop::collection::vec(0.1..5.0f64, 1..7),
        ) {
            let chunks = balanced_chunks(&work, &speeds);
            prop_assert_eq!(chunks.len(), speeds.len());
            let mut next = 0;
            for chunk in &chunks {
                prop_assert!(chunk.start == next && chunk.end >= next);
                next = chunk.end;
            }
            prop_assert_eq!(next, work.len());
            let (found, best) = (bottleneck(&chunks, &work, &speeds), best(&work, &speeds));
            prop_assert!(found <= best * (1.0 + 1e-9) + 1e-9, "{} instead of {}", found, best);
        }
    }
}
