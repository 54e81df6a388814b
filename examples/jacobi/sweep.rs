//! A sweep of Jacobi's method over a block, several sweeps at once, and the largest change of a sweep: plain
//! functions that know nothing of the runtime. The bench `roofline` measures them.

use std::cell::Cell;
use std::ops::Range;

use ndarray::{ArrayView1, ArrayView2, ArrayViewMut2, Axis, Zip, s};
use pulp::{Arch, Simd, WithSimd};

use super::reach::{Near, Past, Reach, ask};

/// Why a row can be borrowed as a slice.
const CONTIGUOUS: &str = "rows are contiguous";

/// Number of rows of each sweep that [`relax_often`] keeps for the next sweep.
const KEPT: usize = 3;

/// Prefetch distance from memory, in numbers. With a latency of about a hundred nanoseconds and a bandwidth of a few
/// tens of gigabytes per second, this is more than the data in flight.
const AHEAD: usize = 1024;

/// Prefetch distance from an outer cache to the first-level cache, in numbers.
const NEARER: usize = 64;

thread_local! {
    /// The kept rows. Their memory is reused from one block to the next.
    static BETWEEN: Cell<Vec<f64>> = const { Cell::new(Vec::new()) };
}

/// Sets every point to the mean of its four neighbours. `old` has a halo of one cell around `new`.
pub(crate) fn relax(old: &ArrayView2<'_, f64>, new: &mut ArrayViewMut2<'_, f64>, reach: Reach) {
    Arch::new().dispatch(Sweep { old: old.view(), new: new.view_mut(), reach });
}

/// Does several sweeps at once with bit-identical results, so that a block is read from memory only once for all of
/// them. `old` has a halo of `sweeps` cells around `new`; `before` is the number of halo cells above and to the left.
/// If the halo is narrower on a side, the boundary is there.
///
/// Each sweep trails the previous sweep by one row: when a sweep has finished a row, the next sweep has everything it
/// needs for the row above. Therefore only the last three rows between two sweeps are kept, and they fit into the
/// caches if rows are not too long.
///
/// Cells that are further away than the number of remaining sweeps are no longer needed, so each sweep leaves out the
/// outermost cells of the previous sweep. Neighbouring blocks compute some halo cells as well.
pub(crate) fn relax_often(
    old: &ArrayView2<'_, f64>,
    before: [usize; 2],
    new: &mut ArrayViewMut2<'_, f64>,
    sweeps: usize,
) {
    Arch::new().dispatch(Sweeps { old: old.view(), before, new: new.view_mut(), sweeps });
}

/// Returns how many halo cells block `number` (of `cells` cells) has before it along an axis. There are fewer next to
/// the boundary.
pub(crate) fn before(number: usize, cells: usize, sweeps: usize) -> usize {
    sweeps.min(1 + number * cells)
}

/// [`relax`] with the processor's vectors.
struct Sweep<'a> {
    old: ArrayView2<'a, f64>,
    new: ArrayViewMut2<'a, f64>,
    reach: Reach,
}

impl Sweep<'_> {
    #[inline(always)]
    fn in_cache<S: Simd>(&mut self, simd: S) {
        for row in 0..self.new.nrows() {
            let around = around(&self.old, row);
            relax_row(simd, around, self.new.row_mut(row).into_slice().expect(CONTIGUOUS));
        }
    }

    #[inline(always)]
    fn in_memory<S: Simd>(&mut self, simd: S) {
        let last = self.old.nrows() - 1;
        let rows_ahead = AHEAD.div_ceil(self.old.ncols());
        Past::during(
            #[inline(always)]
            |past| {
                for (row, new) in self.new.rows_mut().into_iter().enumerate() {
                    let around = around(&self.old, row);
                    let later = contiguous(self.old.row(last.min(row + 2 + rows_ahead)));
                    relax_far_row(simd, around, later, past, new.into_slice().expect(CONTIGUOUS));
                }
            },
        );
    }
}

impl WithSimd for Sweep<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        match self.reach {
            Reach::Cache => self.in_cache(simd),
            Reach::Memory => self.in_memory(simd),
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
    /// Returns the rows and the columns of `old` that a sweep computes if `left` sweeps follow it.
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
                    // The boundary is not changed.
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
                    // Boundary cells are not changed either. Halo cells at these positions are never read.
                    for edge in [first, last] {
                        new[edge] = self.old[[row, around.start + edge]];
                    }
                }
            }
        }
        BETWEEN.set(between);
    }
}

/// Returns the row above row `row` of the array inside the halo, that row itself, and the row below.
#[inline(always)]
fn around<'a>(old: &'a ArrayView2<'_, f64>, row: usize) -> [&'a [f64]; 3] {
    [contiguous(old.row(row)), contiguous(old.row(row + 1)), contiguous(old.row(row + 2))]
}

/// Returns the numbers of a row.
fn contiguous<'a>(row: ArrayView1<'a, f64>) -> &'a [f64] {
    row.to_slice().expect(CONTIGUOUS)
}

/// Sets a row to the mean of the rows above and below and of its neighbours. The row has one cell less on either
/// side than the surrounding rows.
///
/// The loops use indices instead of iterators, because code that is not inlined here is not compiled for the
/// processor's vector instructions.
#[inline(always)]
fn relax_row<S: Simd>(simd: S, around: [&[f64]; 3], new: &mut [f64]) {
    let (vectors, after) = S::as_mut_simd_f64s(new);
    let rest = vectors.len() * S::F64_LANES;
    let neighbours = Neighbours::new(simd, around, 0, vectors.len());
    for (i, new) in vectors.iter_mut().enumerate() {
        *new = neighbours.mean(i);
    }
    relax_cells(around, rest, after);
}

/// [`relax_row`] for arrays in memory. The last of the surrounding rows comes from memory, and `later` is prefetched
/// from memory.
#[inline(always)]
fn relax_far_row<'r, S: Simd>(simd: S, around: [&[f64]; 3], later: &[f64], past: &Past<'r>, new: &'r mut [f64]) {
    let (before, mut vectors, after) = past.split::<S>(new);
    let first = before.len();
    relax_cells(around, 0, before);
    let neighbours = Neighbours::new(simd, around, first, vectors.len());
    for i in 0..vectors.len() {
        let cell = first + i * S::F64_LANES;
        ask(later, cell + 1, Near::Second);
        ask(around[0], cell + NEARER, Near::First);
        ask(around[1], cell + NEARER, Near::First);
        vectors.set(i, neighbours.mean(i));
    }
    relax_cells(around, first + vectors.len() * S::F64_LANES, after);
}

/// Relaxes the cells of a row from `first` on, one by one.
#[inline(always)]
fn relax_cells([north, here, south]: [&[f64]; 3], first: usize, new: &mut [f64]) {
    for (cell, new) in new.iter_mut().enumerate() {
        let i = first + cell;
        *new = 0.25 * ((north[i + 1] + south[i + 1]) + (here[i] + here[i + 2]));
    }
}

/// The neighbours of cells, as vectors.
struct Neighbours<'a, S: Simd> {
    simd: S,
    quarter: S::f64s,
    norths: &'a [S::f64s],
    souths: &'a [S::f64s],
    wests: &'a [S::f64s],
    easts: &'a [S::f64s],
}

impl<'a, S: Simd> Neighbours<'a, S> {
    /// Returns the neighbours of `vectors` vectors of cells, from cell `first` on.
    #[inline(always)]
    fn new(simd: S, [north, here, south]: [&'a [f64]; 3], first: usize, vectors: usize) -> Self {
        let vertical = first + 1..first + 1 + vectors * S::F64_LANES;
        let (norths, souths) =
            (S::as_simd_f64s(&north[vertical.clone()]).0, S::as_simd_f64s(&south[vertical.clone()]).0);
        let wests = S::as_simd_f64s(&here[vertical.start - 1..vertical.end - 1]).0;
        let easts = S::as_simd_f64s(&here[vertical.start + 1..vertical.end + 1]).0;
        Self { simd, quarter: simd.splat_f64s(0.25), norths, souths, wests, easts }
    }

    /// Returns the means of the neighbours of vector `i`.
    #[inline(always)]
    fn mean(&self, i: usize) -> S::f64s {
        let Self { simd, quarter, norths, souths, wests, easts } = self;
        let sum = simd.add_f64s(simd.add_f64s(norths[i], souths[i]), simd.add_f64s(wests[i], easts[i]));
        simd.mul_f64s(*quarter, sum)
    }
}

/// Returns the largest change over all points. `old` has a halo of one cell around `new`.
pub(crate) fn largest_change(old: &ArrayView2<'_, f64>, new: &ArrayViewMut2<'_, f64>) -> f64 {
    let (rows, columns) = new.dim();
    Zip::from(old.slice(s![1..=rows, 1..=columns]))
        .and(new)
        .fold(0.0, |largest, old, new| f64::max(largest, (new - old).abs()))
}
