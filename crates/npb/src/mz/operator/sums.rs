//! The sums that points contribute to, until each has all that it consists of.
//!
//! A sum is complete when the point above it has contributed, a plane later. So those of two planes are on their way; the
//! upper ones have what comes from below, and nothing else yet. Within a plane, what a row contributes to the next one waits in
//! `ahead`, and the row's own sums, which want the next row's part, in `behind`. Of a vector, the last point wants a part of the next
//! vector, too. That waits in `late`: to add it to the vector at once would be to read, and to write, a part of what
//! has just been written.
//!
//! Invariant: what scratch memory held comes to no sums but those of the boundary, which nobody reads.

use super::blocks::{Block, distance, pitch};
use crate::mz::zones::Shape;

/// The sums of the planes k and k + 1, those of k at k mod 2, and three rows.
pub(super) struct Sums<'a> {
    pitch: usize,
    planes: [&'a mut [Block]; 2],
    ahead: &'a mut [Block],
    /// From the second block on, so that each has one before it.
    behind: &'a mut [Block],
    /// Likewise.
    late: &'a mut [Block],
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
    /// What has come to the row before, and then what has to its own. It begins with one block of nothing.
    pub(super) behind: &'a mut [Block],
    /// What `behind` lacks of this at the last point of each vector; 0 at all others.
    pub(super) late: &'a mut [Block],
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
        let (behind, late) = rest.split_at_mut(pitch + 1);
        behind[0] = Block::default();
        late.fill(Block::default());
        Self { pitch, planes: [even, odd], ahead, behind, late }
    }

    /// Those of row `j` of plane `k`. There is none before the first one, whose `before` is that of the second.
    #[inline(always)]
    pub(super) fn row(&mut self, k: usize, j: usize) -> SumsOfRow<'_> {
        let Self { pitch, planes: [even, odd], ahead, behind, late } = self;
        let (own, across) = if k.is_multiple_of(2) { (even, odd) } else { (odd, even) };
        let (before, own) = own[(j.max(1) - 1) * *pitch..][..2 * *pitch].split_at_mut(*pitch);
        let across = &mut across[j * *pitch..][..*pitch];
        let (ahead, behind, late) = (&mut ahead[..*pitch], &mut behind[..=*pitch], &mut late[..=*pitch]);
        SumsOfRow { across, own, before, ahead, behind, late }
    }
}
