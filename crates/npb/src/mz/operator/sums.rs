//! The sums that points contribute to, until each has all that it consists of.
//!
//! A sum is complete when the point above it has contributed, a plane later. So those of two planes are on their way; the
//! upper ones have what comes from below, and nothing else yet. Within a plane, what a row contributes to the next one waits in
//! `ahead`, and the row's own sums, which want the next row's part, in `behind`.
//!
//! Invariant: what scratch memory held comes to no sums but those of the boundary, which nobody reads.

use pulp::Simd;

use super::blocks::{Block, Five, POINTS, add, distance, load, pitch, store};
use crate::mz::physics::COMPONENTS;
use crate::mz::zones::Shape;

/// The sums of the planes k and k + 1, those of k at k mod 2, and three rows.
pub(super) struct Sums<'a> {
    pitch: usize,
    planes: [&'a mut [Block]; 2],
    ahead: &'a mut [Block],
    behind: Behind<'a>,
}

/// The sums that a row has part in.
pub(super) struct SumsOfRow<'a> {
    /// Those of the same row in the plane below, which it completes, and then of the one above, which begin with it.
    pub(super) across: &'a mut [Block],
    /// Its own, with what comes from below.
    pub(super) own: &'a mut [Block],
    /// Those of the row before: with this row they have all but what comes from above.
    pub(super) before: &'a mut [Block],
    /// What comes from the row before, and then what goes to the one after.
    pub(super) ahead: &'a mut [Block],
    /// What has come to the row before, and then what has to its own.
    pub(super) behind: Behind<'a>,
}

/// What has come to a row of sums but for the next row's part.
///
/// Of a vector, the last point wants a part of the next vector, too. That is kept apart: to add it to the vector at once would be to
/// read, and to write, a part of what has just been written.
///
/// Both rows begin with one block of nothing.
pub(super) struct Behind<'a> {
    sums: &'a mut [Block],
    /// What the last point of each vector has from the next one; 0 at all others.
    late: &'a mut [Block],
}

impl Behind<'_> {
    /// What has come to the vector from the `l`-th point of block `b` on.
    #[inline(always)]
    pub(super) fn get<S: Simd>(&self, simd: S, (b, l): (usize, usize)) -> Five<S> {
        add(load(simd, &self.sums[b + 1], l), load(simd, &self.late[b + 1], l))
    }

    /// Sets it, but for what comes from the next vector, to `sums`, of which the first lane of `to_before` is no part: that
    /// goes to the vector before.
    #[inline(always)]
    pub(super) fn set<S: Simd>(&mut self, (b, l): (usize, usize), sums: Five<S>, to_before: Five<S>) {
        let (block, lane) = if l == 0 { (b, POINTS - 1) } else { (b + 1, l - 1) };
        unroll!(COMPONENTS, |m| self.late[block][m][lane] = to_before[m].first());
        store(sums, &mut self.sums[b + 1], l);
    }
}

impl<'a> Sums<'a> {
    /// How much scratch is needed.
    pub(super) fn numbers(shape: Shape) -> usize {
        let pitch = pitch(shape);
        (2 * distance(pitch * shape.ny) + 3 * pitch + 2) * size_of::<Block>() / size_of::<f64>()
    }

    /// Sums that hold whatever `scratch` holds.
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

    /// Those of row `j` of plane `k`. There is none before the first one, whose `before` is that of the second.
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
