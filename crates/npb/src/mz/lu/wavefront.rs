//! Wavefronts in the lanes of a vector: adjacent rows of all planes, each one point behind the previous row.
//!
//! In LU's sweeps a point depends on the previous ones in x, y and z. Step t of a strip of rows takes point t of
//! the first row, point t − 1 of the second and so on. These points are on one diagonal i + j, and do not depend on
//! each other. A lane's contribution in x stays in its lane; its contribution in y moves to the next lane. Both are
//! in registers when the next step needs them. When a lane's row has ended, the lane continues with the same row of
//! the next plane. So lanes wait for one another at the two ends of a slab of planes, not in each plane. The
//! backward sweep takes the very same steps in reverse.
//!
//! Steps are grouped into turns. In turn m the first lane is in plane m all the time; each other lane ends its row
//! in plane m − 1 before it begins the one in plane m. A turn has at least one step more than a row has interior
//! points, so that no contribution passes from one row's end to another's beginning. The number of steps is rounded
//! up to a multiple of the number of lanes, so that a turn consists of whole blocks of as many steps as there are
//! lanes. So only a turn's first block has points of two planes. The last turn, in which no row begins, is only
//! that block.
//!
//! A bundle holds vectors in the order `[step][field]`. Invariant: lanes that are not at an interior point of the
//! slab — between two rows, before the first plane's, after the last one's, or without a row — hold numbers of
//! points nearby (so that a formula stays finite there), and the mask is 0.

use std::ops::Range;

use pulp::Simd;

use crate::mz::lanes::Lane;

/// A value for the plane in which a turn's rows end, and one for the plane in which they begin; one is missing at
/// each end of a slab.
#[derive(Clone, Copy, Debug)]
pub struct Turn<T> {
    pub ends: Option<T>,
    pub begins: Option<T>,
}

impl Turn<usize> {
    /// Returns the planes of the `number`-th turn through a slab of `planes`; there is one turn more than planes.
    #[inline(always)]
    pub fn new(planes: &Range<usize>, number: usize) -> Self {
        let plane = planes.start + number;
        Self { ends: (number > 0).then(|| plane - 1), begins: (plane < planes.end).then_some(plane) }
    }

    /// Returns how many steps the turn takes, if rows have `nx` points.
    #[inline(always)]
    pub fn steps<S: Simd>(&self, nx: usize) -> usize {
        if self.begins.is_some() { turn_len::<S>(nx) } else { S::F64_LANES }
    }
}

impl<T> Turn<T> {
    /// Applies `of` to both values.
    #[inline(always)]
    pub fn map<U>(self, mut of: impl FnMut(T) -> U) -> Turn<U> {
        Turn { ends: self.ends.map(&mut of), begins: self.begins.map(&mut of) }
    }
}

impl<T: Copy> Turn<T> {
    /// Returns both values; a missing one is replaced by the other.
    #[inline(always)]
    pub(super) fn both(self) -> Option<[T; 2]> {
        Some([self.ends.or(self.begins)?, self.begins.or(self.ends)?])
    }
}

/// Returns how many steps a turn takes if rows have `nx` points, unless it is a slab's last turn.
#[inline(always)]
pub fn turn_len<S: Simd>(nx: usize) -> usize {
    (nx - 1).next_multiple_of(S::F64_LANES)
}

/// One or more planes: the numbers of one or several components, and the index at which a strip's first row begins.
#[derive(Clone, Copy, Debug)]
pub struct Rows<T> {
    pub numbers: T,
    pub first: usize,
}

/// Adjacent rows, at most one per lane, the same ones in all planes.
#[derive(Clone, Copy, Debug)]
pub struct Strip {
    /// The first row within a plane.
    row: usize,
    /// Number of rows.
    pub(super) count: usize,
    /// Points of a row, including its two boundary points.
    pub(super) nx: usize,
}

impl Strip {
    /// Creates the strip of the rows `rows` of planes whose rows have `nx` points.
    #[inline(always)]
    pub fn new(rows: Range<usize>, nx: usize) -> Self {
        Self { row: rows.start, count: rows.len(), nx }
    }

    /// Returns the point that the first row begins with, in a plane whose first row is `first`.
    #[inline(always)]
    pub fn begin(&self, first: usize) -> usize {
        (self.row - first) * self.nx
    }

    /// Sets `mask` for each step of a turn: 1 in lanes that are at an interior point, else 0.
    #[inline(always)]
    pub fn mask<S: Simd>(&self, turn: Turn<()>, mask: &mut [S::f64s]) {
        for (step, lanes) in mask.iter_mut().enumerate() {
            let lanes = bytemuck::cast_slice_mut::<S::f64s, f64>(std::slice::from_mut(lanes));
            for (lane, value) in lanes.iter_mut().enumerate() {
                *value = f64::from(self.point::<S, ()>(turn, step, lane).is_some());
            }
        }
    }

    /// Returns the plane that a lane is in at a step of a turn, and its point, counted from the strip's first one;
    /// `None` if that is not an interior point.
    #[inline(always)]
    pub(super) fn point<S: Simd, T>(&self, turn: Turn<T>, step: usize, lane: usize) -> Option<(T, usize)> {
        let (rows, along) = match step.checked_sub(lane) {
            Some(along) => (turn.begins, along),
            None => (turn.ends, step + turn_len::<S>(self.nx) - lane),
        };
        let rows = rows.filter(|_| lane < self.count && along < self.nx - 2)?;
        Some((rows, lane * self.nx + along + 1))
    }

    /// Returns the point, counted from the strip's first one, at which a lane is after `steps` steps of its row. A
    /// lane without a row gets the point of the last row's lane. Rows continue beyond their ends here.
    #[inline(always)]
    pub(super) fn place(&self, lane: usize, steps: usize) -> usize {
        lane.min(self.count - 1) * (self.nx - 1) + steps + 1
    }
}

/// Entry of numbers into the first or the last lane, after the lanes have shifted between two steps.
#[derive(Clone, Copy)]
pub(crate) struct Shift<S: Simd> {
    simd: S,
    first: S::m64s,
    last: S::m64s,
}

impl<S: Simd> Shift<S> {
    /// Creates the masks for vectors of `simd`.
    #[inline(always)]
    pub(crate) fn new(simd: S) -> Self {
        let lanes = S::F64_LANES as u64;
        Self { simd, first: simd.mask_between_m64s(0, 1).mask(), last: simd.mask_between_m64s(lanes - 1, lanes).mask() }
    }

    /// Replaces the first lane by `number`.
    #[inline(always)]
    pub(crate) fn enter_first(&self, number: f64, value: Lane<S>) -> Lane<S> {
        Lane::new(self.simd, self.simd.select_f64s(self.first, self.simd.splat_f64s(number), value.value()))
    }

    /// Replaces the last lane by `number`.
    #[inline(always)]
    pub(crate) fn enter_last(&self, number: f64, value: Lane<S>) -> Lane<S> {
        Lane::new(self.simd, self.simd.select_f64s(self.last, self.simd.splat_f64s(number), value.value()))
    }
}
