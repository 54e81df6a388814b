//! The sums at the points of a zone, from the first contribution until they are complete.
//!
//! A sum is complete when the point above it has contributed, a plane later. So the sums of two planes are in
//! progress; those of the upper plane have only the contributions from below. Within a plane, a row's contributions
//! to the next row wait in `ahead`, and the row's own sums wait in `behind` for the next row's contributions.
//!
//! Invariant: the initial contents of scratch memory affect no sums but those of the boundary, which are never read.

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
    /// Sums of the same row in the plane below, which this row completes; afterwards, those in the plane above,
    /// which begin with this row's contributions.
    pub(super) across: &'a mut [Block],
    /// Its own sums, with the contributions from below.
    pub(super) own: &'a mut [Block],
    /// Sums of the previous row: with this row's contributions they lack only those from above.
    pub(super) before: &'a mut [Block],
    /// Contributions of the previous row; afterwards, those to the next row.
    pub(super) ahead: &'a mut [Block],
    /// Sums of the previous row so far; afterwards, the row's own.
    pub(super) behind: Behind<'a>,
}

/// A row of sums that lack the next row's contributions.
///
/// The last point of a vector also receives a contribution from the next vector. It is kept separately: adding it
/// to the vector at once would read and write a part of a vector that has just been stored.
///
/// Both rows begin with an empty block.
pub(super) struct Behind<'a> {
    sums: &'a mut [Block],
    /// The next vector's contribution to the last point of each vector; 0 at all other points.
    late: &'a mut [Block],
}

impl Behind<'_> {
    /// Returns the sums of the vector from the `l`-th point of block `b` on.
    #[inline(always)]
    pub(super) fn get<S: Simd>(&self, simd: S, (b, l): (usize, usize)) -> Five<S> {
        add(load(simd, &self.sums[b + 1], l), load(simd, &self.late[b + 1], l))
    }

    /// Sets these sums, except for the next vector's contribution, to `sums`. The first lane of `to_before` belongs
    /// to the previous vector and is stored there.
    #[inline(always)]
    pub(super) fn set<S: Simd>(&mut self, (b, l): (usize, usize), sums: Five<S>, to_before: Five<S>) {
        let (block, lane) = if l == 0 { (b, POINTS - 1) } else { (b + 1, l - 1) };
        unroll!(COMPONENTS, |m| self.late[block][m][lane] = to_before[m].first());
        store(sums, &mut self.sums[b + 1], l);
    }
}

impl<'a> Sums<'a> {
    /// Returns how many numbers of scratch are needed.
    pub(super) fn numbers(shape: Shape) -> usize {
        let pitch = pitch(shape);
        (2 * distance(pitch * shape.ny) + 3 * pitch + 2) * size_of::<Block>() / size_of::<f64>()
    }

    /// Creates sums with the arbitrary contents of `scratch`.
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

    /// Returns the sums for row `j` of plane `k`. The first row has none before it; its `before` is that of the
    /// second row.
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
