//! Wavefronts in the lanes of a vector, which process adjacent rows such that each row is one point behind the
//! previous row.
//!
//! In LU's sweeps a point depends on the previous ones in x, y and z. Step t of a strip of rows processes point t
//! of the first row, point t − 1 of the second row, and so on. These points lie on one diagonal i + j, so they do
//! not depend on each other. A lane's contribution in x stays in the lane, and its contribution in y moves to the
//! next lane, so both are in registers when the next step needs them. At the end of its row, a lane continues with
//! the same row of the next plane. So lanes idle only at the two ends of a slab of planes, instead of in every
//! plane. The backward sweep takes exactly the same steps in reverse.
//!
//! Steps are grouped into turns. In turn m, the first lane is in plane m throughout, while each other lane finishes
//! its row in plane m − 1 before it begins the row in plane m. A turn has at least one step more than a row has
//! interior points, so no contribution passes from the end of one row to the beginning of another. The number of
//! steps is rounded up to a multiple of the number of lanes, so a turn consists of whole blocks, each with as many
//! steps as there are lanes. Therefore, only a turn's first block contains points of two planes. The last turn, in
//! which no row begins, consists of that block alone.
//!
//! A bundle holds vectors in the order `[step][field]`. Invariant: lanes that are not at an interior point of the
//! slab — between two rows, before the first plane's, after the last one's, or without a row — hold numbers of
//! nearby points (so that formulas stay finite there), and their mask is 0.

use std::ops::Range;

use pulp::Simd;

use crate::mz::lanes::Lane;

/// A pair of values: one for the plane in which a turn's rows end, and one for the plane in which they begin. At
/// each end of a slab, one of the two is missing.
#[derive(Clone, Copy, Debug)]
pub struct Turn<T> {
    pub ends: Option<T>,
    pub begins: Option<T>,
}

impl Turn<usize> {
    /// Returns the planes of turn `number` through a slab of `planes` planes. There is one more turn than there are
    /// planes.
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
    /// Returns both values, replacing a missing value by the other one.
    #[inline(always)]
    pub(super) fn both(self) -> Option<[T; 2]> {
        Some([self.ends.or(self.begins)?, self.begins.or(self.ends)?])
    }
}

/// Returns how many steps any turn but a slab's last one takes if rows have `nx` points.
#[inline(always)]
pub fn turn_len<S: Simd>(nx: usize) -> usize {
    (nx - 1).next_multiple_of(S::F64_LANES)
}

/// One or more planes, given as the numbers of one or several components and the index at which a strip's first row
/// begins.
#[derive(Clone, Copy, Debug)]
pub struct Rows<T> {
    pub numbers: T,
    pub first: usize,
}

/// Adjacent rows, at most one per lane. The rows are the same in all planes.
#[derive(Clone, Copy, Debug)]
pub struct Strip {
    /// Index of the strip's first row within a plane.
    row: usize,
    /// Number of rows.
    pub(super) count: usize,
    /// Number of points in a row, including its two boundary points.
    pub(super) nx: usize,
}

impl Strip {
    /// Creates the strip of the rows `rows` of planes whose rows have `nx` points.
    #[inline(always)]
    pub fn new(rows: Range<usize>, nx: usize) -> Self {
        Self { row: rows.start, count: rows.len(), nx }
    }

    /// Returns the first point of the strip's first row, in a plane whose first row is `first`.
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

    /// Returns a lane's plane and point at a step of a turn, where points are counted from the strip's first point;
    /// `None` if the lane is not at an interior point.
    #[inline(always)]
    pub(super) fn point<S: Simd, T>(&self, turn: Turn<T>, step: usize, lane: usize) -> Option<(T, usize)> {
        let (rows, along) = match step.checked_sub(lane) {
            Some(along) => (turn.begins, along),
            None => (turn.ends, step + turn_len::<S>(self.nx) - lane),
        };
        let rows = rows.filter(|_| lane < self.count && along < self.nx - 2)?;
        Some((rows, lane * self.nx + along + 1))
    }

    /// Returns the point of a lane after `steps` steps of its row, counted from the strip's first point. A lane
    /// without a row gets the point of the last row's lane. For this purpose, rows continue beyond their ends.
    #[inline(always)]
    pub(super) fn place(&self, lane: usize, steps: usize) -> usize {
        lane.min(self.count - 1) * (self.nx - 1) + steps + 1
    }
}

/// Masks for inserting a number into the first or the last lane, after the lanes have been shifted between two
/// steps.
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
