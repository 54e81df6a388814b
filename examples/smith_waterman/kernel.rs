//! Scores of a part of the table, and the sequences to align.

use ndarray::{ArrayView2, ArrayViewMut2};
use std::sync::Arc;

/// Change of a score for two equal letters, for two different ones, and for one left out.
const EQUAL: i32 = 2;
const DIFFERENT: i32 = -1;
const GAP: i32 = -1;

/// Fills a part of the table, and returns its largest score. `above` begins one column to the left.
pub(crate) fn score(
    a: &[u8],
    b: &[u8],
    above: ArrayView2<'_, i32>,
    left: ArrayView2<'_, i32>,
    scores: &mut ArrayViewMut2<'_, i32>,
) -> i32 {
    let mut best = 0;
    let (mut upper, mut corner) = (above.row(0).to_slice().expect("rows are contiguous"), above[[0, 0]]);
    upper = &upper[1..];
    for ((a, row), first) in a.iter().zip(scores.rows_mut()).zip(left) {
        let row = row.into_slice().expect("rows are contiguous");
        let (mut diagonal, mut west) = (corner, *first);
        for ((score, upper), b) in row.iter_mut().zip(upper).zip(b) {
            west = step(a == b, diagonal, *upper, west);
            (*score, diagonal) = (west, *upper);
            best = best.max(west);
        }
        (upper, corner) = (row, *first);
    }
    best
}

/// Returns a score, given its neighbours.
#[inline(always)]
pub(crate) fn step(equal: bool, diagonal: i32, upper: i32, west: i32) -> i32 {
    let same = diagonal + if equal { EQUAL } else { DIFFERENT };
    same.max(upper + GAP).max(west + GAP).max(0)
}

/// Returns letters drawn by Knuth's linear congruential generator.
pub(crate) fn sequence(len: usize, seed: u64) -> Arc<[u8]> {
    let step =
        |state: &u64| Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407));
    std::iter::successors(Some(seed), step).skip(1).map(|state| b"ACGT"[(state >> 62) as usize]).take(len).collect()
}
