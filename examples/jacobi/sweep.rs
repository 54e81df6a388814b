//! A sweep of Jacobi's method over a block, several at once, and how much one changed: plain functions, which know nothing of
//! the runtime. The bench `roofline` measures one sweep.

use std::cell::RefCell;
use std::mem;

use ndarray::{Array2, ArrayView2, ArrayViewMut2, Zip, s};

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

thread_local! {
    /// What [`relax_often`] keeps between its sweeps, and from one block to the next.
    static BETWEEN: RefCell<[Array2<f64>; 2]> = RefCell::default();
}

/// So many sweeps at once, to the same bits: the block is in a cache after the first. `old` has a halo of as many cells around
/// `new`, of which `before` lie above and to the left; a halo that is narrower on a side ends in the boundary there.
///
/// What is further away than sweeps are left is of no use any more: each sweep leaves out the outermost cells of the one before.
/// Neighbouring blocks compute some cells of the halo as well.
pub(crate) fn relax_often(
    old: &ArrayView2<'_, f64>,
    before: [usize; 2],
    new: &mut ArrayViewMut2<'_, f64>,
    sweeps: usize,
) {
    let (rows, columns) = old.dim();
    let after = [rows - before[0] - new.nrows(), columns - before[1] - new.ncols()];
    BETWEEN.with_borrow_mut(|[source, target]| {
        for between in [&mut *source, &mut *target] {
            if between.dim() != old.dim() {
                *between = Array2::zeros(old.dim());
            }
            // The boundary stays as it is; where the halo is whole, nobody reads what this writes.
            for edge in [s![..1, ..], s![rows - 1.., ..], s![.., ..1], s![.., columns - 1..]] {
                between.slice_mut(edge).assign(&old.slice(edge));
            }
        }
        for left in (0..sweeps).rev() {
            let near = |halo: usize| halo - left.min(halo - 1);
            let (top, start) = (near(before[0]), near(before[1]));
            let (bottom, end) = (rows - near(after[0]), columns - near(after[1]));
            let cells = s![top - 1..bottom + 1, start - 1..end + 1];
            let from = if left == sweeps - 1 { old.slice(cells) } else { source.slice(cells) };
            match left {
                0 => relax(&from, new),
                _ => relax(&from, &mut target.slice_mut(s![top..bottom, start..end])),
            }
            mem::swap(source, target);
        }
    });
}

/// The largest difference between a point's values. `old` has a halo of one cell around `new`.
pub(crate) fn largest_change(old: &ArrayView2<'_, f64>, new: &ArrayViewMut2<'_, f64>) -> f64 {
    let (rows, columns) = new.dim();
    Zip::from(old.slice(s![1..=rows, 1..=columns]))
        .and(new)
        .fold(0.0, |largest, old, new| f64::max(largest, (new - old).abs()))
}
