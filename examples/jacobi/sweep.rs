//! A sweep of Jacobi's method over a block, and how much it changed: plain functions, which know nothing of the runtime. The
//! bench `roofline` calls them too.

use ndarray::{ArrayView2, ArrayViewMut2, Zip, s};

/// Every point becomes the mean of its four neighbours. `old` has a halo of one cell around `new`.
pub(crate) fn relax(old: &ArrayView2<'_, f64>, new: &mut ArrayViewMut2<'_, f64>) {
    for (i, mut row) in new.rows_mut().into_iter().enumerate() {
        let new = row.as_slice_mut().expect("rows are contiguous");
        let n = new.len();
        let [north, here, south] = [i, i + 1, i + 2].map(|i| old.row(i).to_slice().expect("rows are contiguous"));
        let (north, south) = (&north[1..=n], &south[1..=n]);
        let (west, east) = (&here[..n], &here[2..n + 2]);
        for j in 0..n {
            new[j] = 0.25 * ((north[j] + south[j]) + (west[j] + east[j]));
        }
    }
}

/// The largest difference between a point's values. `old` has a halo of one cell around `new`.
pub(crate) fn largest_change(old: &ArrayView2<'_, f64>, new: &ArrayViewMut2<'_, f64>) -> f64 {
    let (rows, columns) = new.dim();
    Zip::from(old.slice(s![1..=rows, 1..=columns]))
        .and(new)
        .fold(0.0, |largest, old, new| f64::max(largest, (new - old).abs()))
}
