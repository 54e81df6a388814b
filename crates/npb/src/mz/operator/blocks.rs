//! Blocks of five quantities at eight adjacent points of a row, contiguous in memory.
//!
//! With blocks, all quantities of a vector of points are at one address, and a row is a single memory stream. In
//! the arrays, a row consists of five streams, one per component. A processor prefetches only a limited number of
//! streams, and in zones whose widths are powers of two, the streams compete for the same cache lines.
//!
//! Invariant: a block begins with a point whose index in x is a multiple of eight.

use pulp::Simd;

use crate::mz::lanes::Lane;
use crate::mz::physics::COMPONENTS;
use crate::mz::zones::Shape;

/// Number of points in a block, which equals the number of `f64` values in a cache line.
pub const POINTS: usize = 8;

/// Five quantities at eight points.
pub(super) type Block = [[f64; POINTS]; COMPONENTS];

/// Five quantities, one per lane.
pub(super) type Five<S> = [Lane<S>; COMPONENTS];

/// Returns the number of blocks of a row.
#[inline(always)]
pub fn pitch(Shape { nx, .. }: Shape) -> usize {
    nx.div_ceil(POINTS)
}

/// Returns the distance between planes that have `blocks` blocks each.
///
/// A distance of a multiple of 64 blocks plus 53 is a multiple of 64 cache lines plus 9. So the corresponding rows
/// of up to seven planes are spread over the 64 sets of a cache.
#[inline(always)]
pub(super) fn distance(blocks: usize) -> usize {
    blocks + (53 + 64 - blocks % 64) % 64
}

/// Calls `work` with the index at which each vector of a block begins. If a block has several vectors, `work` is
/// instantiated twice, so that the compiler knows which of the two vectors comes first.
#[inline(always)]
pub(super) fn each_vector<S: Simd>(mut work: impl FnMut(usize)) {
    for first in (0..POINTS).step_by(2 * S::F64_LANES) {
        unroll!(2, |second| {
            let l = first + second * S::F64_LANES;
            if l < POINTS {
                work(l);
            }
        });
    }
}

/// Loads the numbers of a block starting at point `l`, where a vector begins.
#[inline(always)]
pub(super) fn load<S: Simd>(simd: S, block: &Block, l: usize) -> Five<S> {
    tabulate!(|m| Lane::load(simd, &block[m], l))
}

/// Stores the numbers of a block starting at point `l`.
#[inline(always)]
pub(super) fn store<S: Simd>(numbers: Five<S>, block: &mut Block, l: usize) {
    unroll!(COMPONENTS, |m| numbers[m].store(&mut block[m], l));
}

/// Adds two vectors component by component.
#[inline(always)]
pub(super) fn add<S: Simd>(one: Five<S>, other: Five<S>) -> Five<S> {
    tabulate!(|m| one[m] + other[m])
}

/// Returns the numbers at the points two before and two after those in `here`, which start at point `l` of block
/// `b`. Blocks are counted from the second block of `row`, so that each has a block before it.
#[inline(always)]
pub(super) fn two_away<S: Simd>(row: &[Block], (b, l): (usize, usize), here: Five<S>) -> [Five<S>; 2] {
    let (simd, lanes) = (here[0].simd(), S::F64_LANES);
    let before = if l == 0 { (b, POINTS - lanes) } else { (b + 1, l - lanes) };
    let after = if l + lanes == POINTS { (b + 2, 0) } else { (b + 1, l + lanes) };
    let [before, after]: [Five<S>; 2] = tabulate!(|side| {
        let (block, l) = [before, after][side];
        load(simd, &row[block], l)
    });
    let mut two_away = [here; 2];
    unroll!(COMPONENTS, |m| {
        if let Some([first, .., last]) = Lane::sides([before[m], here[m], after[m]]) {
            (two_away[0][m], two_away[1][m]) = (first, last);
        } else {
            let at = {
                #[inline(always)]
                |first: usize| {
                    let numbers: [f64; POINTS] = tabulate!(|lane| {
                        let at = first + lane % lanes;
                        row[at / POINTS][m][at % POINTS]
                    });
                    Lane::load(simd, &numbers, 0)
                }
            };
            let i = (b + 1) * POINTS + l;
            (two_away[0][m], two_away[1][m]) = (at(i - 2), at(i + 2));
        }
    });
    two_away
}

/// Returns row `j` of a component's plane, eight points at a time. Rows have `nx` points; the last points returned
/// may belong to the next row.
///
/// # Panics
/// Panics if the row is the last one.
#[inline(always)]
pub(super) fn row(points: &[f64], nx: usize, j: usize) -> &[[f64; POINTS]] {
    &points[j * nx..].as_chunks().0[..nx.div_ceil(POINTS)]
}

/// Mutable version of [`row`].
#[inline(always)]
pub(super) fn row_mut(points: &mut [f64], nx: usize, j: usize) -> &mut [[f64; POINTS]] {
    &mut points[j * nx..].as_chunks_mut().0[..nx.div_ceil(POINTS)]
}
