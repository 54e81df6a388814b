//! The few statistics that the benches report.
//!
//! Machines are shared and noisy: a contender's figure is a median over repetitions, and a comparison
//! is the median of the ratios taken within each repetition, where both sides met the same noise.

/// Returns the median of `values`: for an even number, the mean of the two in the middle; `None` if there are none.
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

/// Returns the least of `values`, `None` if there are none.
pub(crate) fn least(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    values.into_iter().min_by(f64::total_cmp)
}

/// Returns the median over repetitions of the ratio of `ours` to the least of `rivals` in the same repetition.
///
/// `None` if there are no rivals. Every slice holds one value for each repetition, in order.
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
