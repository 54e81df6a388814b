//! A sweep of Jacobi's method over a block, several at once, and how much one changed: plain functions, which know nothing of
//! the runtime. The bench `roofline` measures them.

use std::cell::Cell;
use std::ops::Range;

use ndarray::{ArrayView1, ArrayView2, ArrayViewMut2, Axis, Zip, s};
use pulp::{Arch, Simd, WithSimd};

/// Why a row can be had as a slice.
const CONTIGUOUS: &str = "rows are contiguous";

/// Rows of each sweep that [`relax_often`] keeps for the next one.
const KEPT: usize = 3;

thread_local! {
    /// These rows, whose memory remains from one block to the next.
    static BETWEEN: Cell<Vec<f64>> = const { Cell::new(Vec::new()) };
}

/// Every point becomes the mean of its four neighbours. `old` has a halo of one cell around `new`.
pub(crate) fn relax(old: &ArrayView2<'_, f64>, new: &mut ArrayViewMut2<'_, f64>) {
    Arch::new().dispatch(Sweep { old: old.view(), new: new.view_mut() });
}

/// So many sweeps at once, to the same bits: a block comes from memory once for all of them. `old` has a halo of as many cells
/// around `new`, of which `before` lie above and to the left; a halo that is narrower on a side ends in the boundary there.
///
/// The sweeps follow one another by a row each: when one has a row, the next has what it needs for the row above. So of what is
/// between them the last three rows are kept, and the caches have room for these if rows are not too long.
///
/// What is further away than sweeps are left is of no use any more: each sweep leaves out the outermost cells of the one before.
/// Neighbouring blocks compute some cells of the halo as well.
pub(crate) fn relax_often(
    old: &ArrayView2<'_, f64>,
    before: [usize; 2],
    new: &mut ArrayViewMut2<'_, f64>,
    sweeps: usize,
) {
    Arch::new().dispatch(Sweeps { old: old.view(), before, new: new.view_mut(), sweeps });
}

/// How many cells of its halo a block has before it along an axis, the `number`-th one of `cells`: fewer beside the boundary.
pub(crate) fn before(number: usize, cells: usize, sweeps: usize) -> usize {
    sweeps.min(1 + number * cells)
}

/// [`relax`] with the processor's vectors.
struct Sweep<'a> {
    old: ArrayView2<'a, f64>,
    new: ArrayViewMut2<'a, f64>,
}

impl WithSimd for Sweep<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        for row in 0..self.new.nrows() {
            let around =
                [contiguous(self.old.row(row)), contiguous(self.old.row(row + 1)), contiguous(self.old.row(row + 2))];
            relax_row(simd, around, self.new.row_mut(row).into_slice().expect(CONTIGUOUS));
        }
    }
}

/// [`relax_often`] with the processor's vectors.
struct Sweeps<'a> {
    old: ArrayView2<'a, f64>,
    before: [usize; 2],
    new: ArrayViewMut2<'a, f64>,
    sweeps: usize,
}

impl Sweeps<'_> {
    /// The rows and the columns of `old` that a sweep computes when `left` are left after it.
    fn computed(&self, left: usize) -> [Range<usize>; 2] {
        [0, 1].map(|axis| {
            let (cells, block) = (self.old.len_of(Axis(axis)), self.new.len_of(Axis(axis)));
            let near = |halo: usize| halo - left.min(halo - 1);
            near(self.before[axis])..cells - near(cells - self.before[axis] - block)
        })
    }
}

impl WithSimd for Sweeps<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let (rows, columns) = self.old.dim();
        let mut between = BETWEEN.take();
        between.resize(between.len().max(self.sweeps * KEPT * columns), 0.0);
        let computed: Vec<_> = (0..self.sweeps).rev().map(|left| self.computed(left)).collect();
        for turn in 0..rows + self.sweeps {
            for (sweep, [within, cells]) in computed.iter().enumerate() {
                let Some(row) = turn.checked_sub(sweep).filter(|row| within.contains(row)) else { continue };
                let around = cells.start - 1..cells.end + 1;
                let (earlier, later) = between.split_at_mut(sweep * KEPT * columns);
                let read = [row - 1, row, row + 1].map(|row| match sweep.checked_sub(1) {
                    // The boundary stays as it is.
                    Some(before) if 0 < row && row < rows - 1 => &earlier[(before * KEPT + row % KEPT) * columns..],
                    _ => contiguous(self.old.row(row)),
                });
                let read = read.map(|cells| &cells[around.clone()]);
                if sweep == self.sweeps - 1 {
                    let mut new = self.new.row_mut(row - self.before[0]);
                    relax_row(simd, read, new.as_slice_mut().expect(CONTIGUOUS));
                } else {
                    let new = &mut later[row % KEPT * columns..][around.clone()];
                    let (first, last) = (0, new.len() - 1);
                    relax_row(simd, read, &mut new[1..last]);
                    // So do these, if they are of the boundary; nobody reads them if they are of a halo.
                    for edge in [first, last] {
                        new[edge] = self.old[[row, around.start + edge]];
                    }
                }
            }
        }
        BETWEEN.set(between);
    }
}

/// The numbers of a row.
fn contiguous<'a>(row: ArrayView1<'a, f64>) -> &'a [f64] {
    row.to_slice().expect(CONTIGUOUS)
}

/// A row becomes the mean of those above and below and of its own neighbours. It has a cell less on either side than those
/// around.
///
/// Loops over indices, not iterators: what is not inlined here is not compiled for the processor's vectors.
#[inline(always)]
fn relax_row<S: Simd>(simd: S, [north, here, south]: [&[f64]; 3], new: &mut [f64]) {
    let cells = new.len();
    let (north, south, west, east) = (&north[1..=cells], &south[1..=cells], &here[..cells], &here[2..cells + 2]);
    let rest = cells - cells % S::F64_LANES;
    let quarter = simd.splat_f64s(0.25);
    let (norths, souths) = (S::as_simd_f64s(north).0, S::as_simd_f64s(south).0);
    let (wests, easts) = (S::as_simd_f64s(west).0, S::as_simd_f64s(east).0);
    for (i, new) in S::as_mut_simd_f64s(new).0.iter_mut().enumerate() {
        let sum = simd.add_f64s(simd.add_f64s(norths[i], souths[i]), simd.add_f64s(wests[i], easts[i]));
        *new = simd.mul_f64s(quarter, sum);
    }
    for i in rest..cells {
        new[i] = 0.25 * ((north[i] + south[i]) + (west[i] + east[i]));
    }
}

/// The largest difference between a point's values. `old` has a halo of one cell around `new`.
pub(crate) fn largest_change(old: &ArrayView2<'_, f64>, new: &ArrayViewMut2<'_, f64>) -> f64 {
    let (rows, columns) = new.dim();
    Zip::from(old.slice(s![1..=rows, 1..=columns]))
        .and(new)
        .fold(0.0, |largest, old, new| f64::max(largest, (new - old).abs()))
}
