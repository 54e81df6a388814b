//! Blocks: five quantities at eight neighbouring points of a row, in one piece of memory.
//!
//! So all that is known of a vector of points has one address, and a row is one stream of memory. In the arrays the five components of
//! a row are streams of their own, of which a processor foresees only so many, and in zones whose widths are powers of two
//! they compete for the same lines of a cache.
//!
//! Invariant: a block begins with a point whose index in x is a multiple of eight.

use pulp::Simd;

use crate::mz::lanes::Lane;
use crate::mz::physics::COMPONENTS;
use crate::mz::zones::Shape;

/// Points of a block: as many numbers as a cache line has.
pub const POINTS: usize = 8;

/// Five quantities at eight points.
pub(super) type Block = [[f64; POINTS]; COMPONENTS];

/// The same at as many points as there are lanes.
pub(super) type Five<S> = [Lane<S>; COMPONENTS];

/// Blocks of a row.
#[inline(always)]
pub fn pitch(Shape { nx, .. }: Shape) -> usize {
    nx.div_ceil(POINTS)
}

/// How far apart planes of so many blocks are to be.
///
/// 53 blocks more than a multiple of 64 make 9 lines more than a multiple of 64: so the same rows of up to seven planes are spread
/// over the 64 sets of a cache.
#[inline(always)]
pub(super) fn distance(blocks: usize) -> usize {
    blocks + (53 + 64 - blocks % 64) % 64
}

/// Calls `work` with where each vector of a block begins. Where a block has several, the code has `work` twice: so it is known at
/// compile time which of two vectors is the first.
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

/// What a block holds from its `l`-th point on, where a vector begins.
#[inline(always)]
pub(super) fn load<S: Simd>(simd: S, block: &Block, l: usize) -> Five<S> {
    tabulate!(|m| Lane::load(simd, &block[m], l))
}

/// Sets it.
#[inline(always)]
pub(super) fn store<S: Simd>(numbers: Five<S>, block: &mut Block, l: usize) {
    unroll!(COMPONENTS, |m| numbers[m].store(&mut block[m], l));
}

/// Component by component.
#[inline(always)]
pub(super) fn add<S: Simd>(one: Five<S>, other: Five<S>) -> Five<S> {
    tabulate!(|m| one[m] + other[m])
}

/// What the points two before and two after have, if `here` is what those from the `l`-th point of block `b` on have. Blocks are counted
/// from the second one of `row`, so that each has one before it.
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

/// Row `j` of a plane of rows of `nx` points of an array's component, eight points at a time; the last ones may be the next row's.
///
/// # Panics
/// If the row is the last one.
#[inline(always)]
pub(super) fn row(points: &[f64], nx: usize, j: usize) -> &[[f64; POINTS]] {
    &points[j * nx..].as_chunks().0[..nx.div_ceil(POINTS)]
}

/// [`row`], to be written.
#[inline(always)]
pub(super) fn row_mut(points: &mut [f64], nx: usize, j: usize) -> &mut [[f64; POINTS]] {
    &mut points[j * nx..].as_chunks_mut().0[..nx.div_ceil(POINTS)]
}
