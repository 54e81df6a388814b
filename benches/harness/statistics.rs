//! The few statistics that the benches report.
//!
//! Machines are shared and noisy: a contender's figure is a median over repetitions, and a comparison is the median of
//! the ratios within each repetition, where both sides experienced the same noise.

/// Returns the median of `values`, or `None` if `values` is empty. For an even count, this is the mean of the two
/// middle values.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// Returns the smallest of `values`, or `None` if `values` is empty.
pub(crate) fn least(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    values.into_iter().min_by(f64::total_cmp)
}

/// Returns the median over repetitions of the ratio of `ours` to the least of `rivals` in the same repetition.
///
/// Returns `None` if there are no rivals. Every slice has one value per repetition, in order.
pub(crate) fn median_ratio(ours: &[f64], rivals: &[&[f64]]) -> Option<f64> {
    let ratios: Option<Vec<f64>> = ours
        .iter()
        .enumerate()
        .map(|(repetition, our)| {
            let best = least(rivals.iter().filter_map(|rival| rival.get(repetition).copied()))?;
            Some(our / best)
        })
        .collect();
    median(&ratios?)
}
