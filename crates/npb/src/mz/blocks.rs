//! Blocks: five quantities at eight neighbouring points of a row, in one piece of memory.
//!
//! So all that is known of a vector of points has one address, and a row is one stream of memory. In the arrays the five components of
//! a row are streams of their own, of which a processor foresees only so many, and in zones whose widths are powers of two
//! they compete for the same lines of a cache.
//!
//! Invariant: a block begins with a point whose index in x is a multiple of eight.

use pulp::Simd;

use super::lanes::Lane;
use super::physics::COMPONENTS;
use super::zones::Shape;

/// Points of a block: as many numbers as a cache line has.
pub(crate) const POINTS: usize = 8;

/// Five quantities at eight points.
pub(crate) type Block = [[f64; POINTS]; COMPONENTS];

/// The same at as many points as there are lanes.
pub(crate) type Five<S> = [Lane<S>; COMPONENTS];

/// Blocks of a row.
#[inline(always)]
pub(crate) fn pitch(Shape { nx, .. }: Shape) -> usize {
    nx.div_ceil(POINTS)
}

/// How far apart planes of so many blocks are to be.
///
/// 53 blocks more than a multiple of 64 are 9 lines more than one: so the same rows of up to seven planes are spread over the 64 sets
/// of a cache.
#[inline(always)]
pub(crate) fn distance(blocks: usize) -> usize {
    blocks + (53 + 64 - blocks % 64) % 64
}

/// What a block holds from its `l`-th point on, where a vector begins.
#[inline(always)]
pub(crate) fn load<S: Simd>(simd: S, block: &Block, l: usize) -> Five<S> {
    tabulate!(|m| Lane::load(simd, &block[m], l))
}

/// Sets it.
#[inline(always)]
pub(crate) fn store<S: Simd>(numbers: Five<S>, block: &mut Block, l: usize) {
    unroll!(COMPONENTS, |m| numbers[m].store(&mut block[m], l));
}

/// Component by component.
#[inline(always)]
pub(crate) fn add<S: Simd>(one: Five<S>, other: Five<S>) -> Five<S> {
    tabulate!(|m| one[m] + other[m])
}

/// Row `j` of a plane of rows of `nx` points of an array's component, eight points at a time; the last ones may be the next row's.
///
/// # Panics
/// If the row is the last one.
#[inline(always)]
pub(crate) fn row(points: &[f64], nx: usize, j: usize) -> &[[f64; POINTS]] {
    &points[j * nx..].as_chunks().0[..nx.div_ceil(POINTS)]
}

/// [`row`], to be written.
#[inline(always)]
pub(crate) fn row_mut(points: &mut [f64], nx: usize, j: usize) -> &mut [[f64; POINTS]] {
    &mut points[j * nx..].as_chunks_mut().0[..nx.div_ceil(POINTS)]
}
