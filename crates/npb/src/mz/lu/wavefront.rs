//! Wavefronts in the lanes of a vector: neighbouring rows of all planes, each a point behind the one before.
//!
//! In LU's sweeps a point waits for the ones before it in x, y and z. Step t of a strip of rows takes point t of the
//! first row, point t − 1 of the second and so on: points of one diagonal i + j, which do not wait for each other.
//! What a lane hands on in x stays in its lane, what it hands on in y moves to the next lane; both are in
//! registers when the next step wants them. A lane whose row has ended goes on with the same row of the next plane, so lanes wait
//! for one another at the two ends of a slab of planes, not in each plane. The backward sweep walks the very same steps in reverse.
//!
//! The steps go in turns. In turn m the first lane is in plane m all the time; each other one ends its row in plane m − 1
//! before it begins the one in plane m. A turn has at least one step more than a row has interior points, so that nothing is handed on
//! from one row's end to another's begin, and as many more as make whole blocks of as many steps as there are lanes. So only a
//! turn's first block has points of two planes. The last turn, in which no row begins, is that block alone.
//!
//! A bundle holds vectors in the order `[step][field]`. Invariant: lanes that are not at an interior point of the
//! slab — between two rows, before the first plane's, after the last one's, or without a row — hold numbers of points nearby (so
//! that a formula stays finite there), and the mask is 0.

use std::ops::Range;

use pulp::Simd;

use crate::mz::lanes::Lane;

/// What belongs to the planes in which a turn's rows end, and to those in which they begin; none at the ends of a slab.
#[derive(Clone, Copy, Debug)]
pub struct Turn<T> {
    pub ends: Option<T>,
    pub begins: Option<T>,
}

impl Turn<usize> {
    /// The planes of the `number`-th turn through a slab of `planes`; there is one turn more than planes.
    #[inline(always)]
    pub fn new(planes: &Range<usize>, number: usize) -> Self {
        let plane = planes.start + number;
        Self { ends: (number > 0).then(|| plane - 1), begins: (plane < planes.end).then_some(plane) }
    }

    /// How many steps it takes, if rows have `nx` points.
    #[inline(always)]
    pub fn steps<S: Simd>(&self, nx: usize) -> usize {
        if self.begins.is_some() { turn_len::<S>(nx) } else { S::F64_LANES }
    }
}

impl<T> Turn<T> {
    /// The same of what belongs to these.
    #[inline(always)]
    pub fn map<U>(self, mut of: impl FnMut(T) -> U) -> Turn<U> {
        Turn { ends: self.ends.map(&mut of), begins: self.begins.map(&mut of) }
    }
}

impl<T: Copy> Turn<T> {
    /// Both, one for the other where there is none.
    #[inline(always)]
    pub(super) fn both(self) -> Option<[T; 2]> {
        Some([self.ends.or(self.begins)?, self.begins.or(self.ends)?])
    }
}

/// How many steps a turn takes that is not a slab's last one, if rows have `nx` points.
#[inline(always)]
pub fn turn_len<S: Simd>(nx: usize) -> usize {
    (nx - 1).next_multiple_of(S::F64_LANES)
}

/// One plane or more: their numbers, of a component or of several, and where among them a strip's first row begins.
#[derive(Clone, Copy, Debug)]
pub struct Rows<T> {
    pub numbers: T,
    pub first: usize,
}

/// Up to as many neighbouring rows as there are lanes, the same ones in all planes.
#[derive(Clone, Copy, Debug)]
pub struct Strip {
    /// The first row within a plane.
    row: usize,
    /// How many rows there are.
    pub(super) count: usize,
    /// Points of a row, its two boundary points included.
    pub(super) nx: usize,
}

impl Strip {
    /// The rows `rows` of planes with rows of `nx` points.
    #[inline(always)]
    pub fn new(rows: Range<usize>, nx: usize) -> Self {
        Self { row: rows.start, count: rows.len(), nx }
    }

    /// The point that the first row begins with, in a plane whose first row is `first`.
    #[inline(always)]
    pub fn begin(&self, first: usize) -> usize {
        (self.row - first) * self.nx
    }

    /// 1 where a lane is at an interior point, else 0, per step of a turn.
    #[inline(always)]
    pub fn mask<S: Simd>(&self, turn: Turn<()>, mask: &mut [S::f64s]) {
        for (step, lanes) in mask.iter_mut().enumerate() {
            let lanes = bytemuck::cast_slice_mut::<S::f64s, f64>(std::slice::from_mut(lanes));
            for (lane, value) in lanes.iter_mut().enumerate() {
                *value = f64::from(self.point::<S, ()>(turn, step, lane).is_some());
            }
        }
    }

    /// The plane that a lane is in at a step of a turn, and its point, counted from the strip's first one; none if that is not an
    /// interior point.
    #[inline(always)]
    pub(super) fn point<S: Simd, T>(&self, turn: Turn<T>, step: usize, lane: usize) -> Option<(T, usize)> {
        let (rows, along) = match step.checked_sub(lane) {
            Some(along) => (turn.begins, along),
            None => (turn.ends, step + turn_len::<S>(self.nx) - lane),
        };
        let rows = rows.filter(|_| lane < self.count && along < self.nx - 2)?;
        Some((rows, lane * self.nx + along + 1))
    }

    /// The point, counted from the strip's first one, at which a lane is after so many steps of its row, or where the last row's lane
    /// is if it has none. Rows go on beyond their ends here.
    #[inline(always)]
    pub(super) fn place(&self, lane: usize, steps: usize) -> usize {
        lane.min(self.count - 1) * (self.nx - 1) + steps + 1
    }
}

/// How numbers move from lane to lane between two steps.
#[derive(Clone, Copy)]
pub(crate) struct Shift<S: Simd> {
    simd: S,
    first: S::m64s,
    last: S::m64s,
}

impl<S: Simd> Shift<S> {
    /// For vectors of `simd`.
    #[inline(always)]
    pub(crate) fn new(simd: S) -> Self {
        let lanes = S::F64_LANES as u64;
        Self { simd, first: simd.mask_between_m64s(0, 1).mask(), last: simd.mask_between_m64s(lanes - 1, lanes).mask() }
    }

    /// `number` in the first lane.
    #[inline(always)]
    pub(crate) fn enter_first(&self, number: f64, value: Lane<S>) -> Lane<S> {
        Lane::new(self.simd, self.simd.select_f64s(self.first, self.simd.splat_f64s(number), value.value()))
    }

    /// `number` in the last lane.
    #[inline(always)]
    pub(crate) fn enter_last(&self, number: f64, value: Lane<S>) -> Lane<S> {
        Lane::new(self.simd, self.simd.select_f64s(self.last, self.simd.splat_f64s(number), value.value()))
    }
}
