//! The sums at a zone's points, from their first contribution until they are complete.
//!
//! A sum is complete once the point above it, in the next plane, has contributed. So the sums of two planes are in
//! progress, of which the upper plane's sums contain only contributions from below. Within a plane, a row's
//! contributions to the next row wait in `ahead`, and the row's own sums wait in `behind` for the next row's
//! contributions.
//!
//! Invariant: the initial contents of scratch memory affect only the sums at the boundary, which are never read.

use pulp::Simd;

use super::blocks::{Block, Five, POINTS, add, distance, load, pitch, store};
use crate::mz::physics::COMPONENTS;
use crate::mz::zones::Shape;

/// The sums of the planes k and k + 1, where plane k is at index k mod 2, and three rows.
pub(super) struct Sums<'a> {
    pitch: usize,
    planes: [&'a mut [Block]; 2],
    ahead: &'a mut [Block],
    behind: Behind<'a>,
}

/// The sums to which a row contributes.
pub(super) struct SumsOfRow<'a> {
    /// On entry, the sums of the same row in the plane below, which this row completes. On exit, the sums of the
    /// row in the plane above, which begin with this row's contributions.
    pub(super) across: &'a mut [Block],
    /// The row's own sums, with the contributions from below.
    pub(super) own: &'a mut [Block],
    /// Sums of the previous row. Once this row has contributed, they lack only the contributions from above.
    pub(super) before: &'a mut [Block],
    /// On entry, the contributions from the previous row; on exit, the contributions to the next row.
    pub(super) ahead: &'a mut [Block],
    /// On entry, the previous row's sums so far; on exit, this row's own sums.
    pub(super) behind: Behind<'a>,
}

/// A row of sums that still lack the next row's contributions.
///
/// The last point of a vector also receives a contribution from the next vector. That contribution is kept
/// separately, because adding it to the vector at once would read and write part of a vector that has just been
/// stored.
///
/// Both rows begin with an empty block.
pub(super) struct Behind<'a> {
    sums: &'a mut [Block],
    /// The next vector's contribution to the last point of each vector; 0 at all other points.
    late: &'a mut [Block],
}

impl Behind<'_> {
    /// Returns the sums of the vector that starts at point `l` of block `b`.
    #[inline(always)]
    pub(super) fn get<S: Simd>(&self, simd: S, (b, l): (usize, usize)) -> Five<S> {
        add(load(simd, &self.sums[b + 1], l), load(simd, &self.late[b + 1], l))
    }

    /// Sets the vector's sums to `sums`, which lack the next vector's contribution. The first lane of `to_before`
    /// is a contribution to the previous vector and is stored there.
    #[inline(always)]
    pub(super) fn set<S: Simd>(&mut self, (b, l): (usize, usize), sums: Five<S>, to_before: Five<S>) {
        let (block, lane) = if l == 0 { (b, POINTS - 1) } else { (b + 1, l - 1) };
        unroll!(COMPONENTS, |m| self.late[block][m][lane] = to_before[m].first());
        store(sums, &mut self.sums[b + 1], l);
    }
}

impl<'a> Sums<'a> {
    /// Returns the size of the scratch memory needed, in numbers.
    pub(super) fn numbers(shape: Shape) -> usize {
        let pitch = pitch(shape);
        (2 * distance(pitch * shape.ny) + 3 * pitch + 2) * size_of::<Block>() / size_of::<f64>()
    }

    /// Creates sums whose initial values are the arbitrary contents of `scratch`.
    pub(super) fn new(shape: Shape, scratch: &'a mut [f64]) -> Self {
        let (pitch, blocks) = (pitch(shape), bytemuck::cast_slice_mut::<f64, Block>(scratch));
        let distance = distance(pitch * shape.ny);
        let (even, rest) = blocks.split_at_mut(distance);
        let (odd, rest) = rest.split_at_mut(distance);
        let (ahead, rest) = rest.split_at_mut(pitch);
        let (sums, late) = rest.split_at_mut(pitch + 1);
        sums[0] = Block::default();
        late.fill(Block::default());
        Self { pitch, planes: [even, odd], ahead, behind: Behind { sums, late } }
    }

    /// Returns the sums for row `j` of plane `k`. The first row has no row before it, so it gets the same `before`
    /// as the second row.
    #[inline(always)]
    pub(super) fn row(&mut self, k: usize, j: usize) -> SumsOfRow<'_> {
        let Self { pitch, planes: [even, odd], ahead, behind: Behind { sums, late } } = self;
        let (own, across) = if k.is_multiple_of(2) { (even, odd) } else { (odd, even) };
        let (before, own) = own[(j.max(1) - 1) * *pitch..][..2 * *pitch].split_at_mut(*pitch);
        let across = &mut across[j * *pitch..][..*pitch];
        let behind = Behind { sums: &mut sums[..*pitch + 1], late: &mut late[..*pitch + 1] };
        SumsOfRow { across, own, before, ahead: &mut ahead[..*pitch], behind }
    }
}
