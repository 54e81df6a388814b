//! Wavefronts in the lanes of a vector: neighbouring rows of a plane, each a point behind the one before.
//!
//! In LU's sweeps a point waits for the ones before it in x, y and z. Step t of a strip of rows takes point t of the
//! first row, point t − 1 of the second and so on: points of one diagonal i + j, which do not wait for each other.
//! What a lane hands on in x stays in its lane, what it hands on in y moves to the next lane; both are in
//! registers when the next step wants them. The backward sweep walks the very same steps in reverse.
//!
//! A bundle holds vectors in the order `[step][field]`. Invariant: lanes that are not at an interior point of the
//! plane — before a row's begin, after its end, or without a row — hold numbers of points nearby (so that a
//! formula stays finite there), and the mask is 0.

use std::ops::Range;

use pulp::Simd;

use crate::mz::lanes::{Lane, MAX_LANES};

/// Up to as many neighbouring rows of a plane as there are lanes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Strip {
    /// The first row within the plane.
    row: usize,
    /// How many rows there are.
    count: usize,
    /// Points of a row, its two boundary points included.
    nx: usize,
}

impl Strip {
    /// The rows `rows` of a plane with rows of `nx` points.
    #[inline(always)]
    pub(crate) fn new(rows: Range<usize>, nx: usize) -> Self {
        Self { row: rows.start, count: rows.len(), nx }
    }

    /// The same rows in a block that begins with row `first` of the plane.
    #[inline(always)]
    pub(crate) fn within(self, first: usize) -> Self {
        Self { row: self.row - first, ..self }
    }

    /// How many steps a strip takes.
    #[inline(always)]
    pub(crate) fn steps<S: Simd>(nx: usize) -> usize {
        nx - 2 + S::F64_LANES - 1
    }

    /// 1 where a lane is at an interior point, else 0, per step.
    #[inline(always)]
    pub(crate) fn mask<S: Simd>(&self, mask: &mut [S::f64s]) {
        for (step, lanes) in mask.iter_mut().enumerate() {
            let lanes = bytemuck::cast_slice_mut::<S::f64s, f64>(std::slice::from_mut(lanes));
            for (lane, value) in lanes.iter_mut().enumerate() {
                *value = f64::from(self.point(step, lane).is_some());
            }
        }
    }

    /// The point of the plane at which a lane is in a step, if it is an interior one.
    #[inline(always)]
    fn point(&self, step: usize, lane: usize) -> Option<usize> {
        (lane < self.count && lane <= step && step - lane < self.nx - 2)
            .then(|| (self.row + lane) * self.nx + step - lane + 1)
    }

    /// The steps of which four each can be moved at once: those in which the first and the last of four lanes are
    /// within their rows. The last four may overlap the ones before.
    #[inline(always)]
    fn fours<S: Simd>(&self) -> impl Iterator<Item = usize> + use<S> {
        let end = self.in_fours::<S>().end;
        (2..end.saturating_sub(4)).step_by(4).chain((end > 0).then(|| end - 4))
    }

    /// The steps that [`Strip::fours`] move: none, where lanes are not four or rows too short.
    #[inline(always)]
    fn in_fours<S: Simd>(&self) -> Range<usize> {
        if S::F64_LANES == 4 && self.nx >= 7 { 2..self.nx - 1 } else { 0..0 }
    }

    /// The steps that [`Strip::fours`] leave.
    #[inline(always)]
    fn singles<S: Simd>(&self) -> impl Iterator<Item = usize> + use<S> {
        let fours = self.in_fours::<S>();
        (0..fours.start).chain(fours.end..Self::steps::<S>(self.nx))
    }

    /// Copies the rows of one component of a plane into field `field` of a bundle of `fields` fields per step.
    ///
    /// # Panics
    /// If the plane does not have these rows, or the bundle is too short.
    #[inline(always)]
    pub(crate) fn pack<S: Simd>(
        &self,
        simd: S,
        plane: &[f64],
        bundle: &mut [S::f64s],
        (field, fields): (usize, usize),
    ) {
        let mut rows = [&plane[..0]; MAX_LANES];
        for (lane, row) in rows.iter_mut().enumerate().take(S::F64_LANES) {
            *row = &plane[(self.row + lane.min(self.count - 1)) * self.nx..][..self.nx];
        }
        for step in self.fours::<S>() {
            let four: [S::f64s; 4] = tabulate!(|lane| S::as_simd_f64s(&rows[lane][step + 1 - lane..][..4]).0[0]);
            let columns = simd.deinterleave_shfl_f64s(four);
            let steps = &mut bundle[step * fields..][..3 * fields + field + 1];
            steps[field] = columns[0];
            steps[field + fields] = columns[1];
            steps[field + 2 * fields] = columns[2];
            steps[field + 3 * fields] = columns[3];
        }
        for step in self.singles::<S>() {
            let lanes =
                bytemuck::cast_slice_mut::<S::f64s, f64>(std::slice::from_mut(&mut bundle[step * fields + field]));
            for (lane, value) in lanes.iter_mut().enumerate() {
                *value = rows[lane][(step + 1).saturating_sub(lane).min(self.nx - 1)];
            }
        }
    }

    /// Updates the interior points of the rows of one component of a plane from field `field` of a bundle of `fields`
    /// fields per step. What the bundle holds elsewhere must leave a point as it is.
    ///
    /// # Panics
    /// If the plane does not have these rows, or the bundle is too short.
    #[inline(always)]
    pub(crate) fn unpack<S: Simd>(
        &self,
        simd: S,
        plane: &mut [f64],
        bundle: &[S::f64s],
        (field, fields): (usize, usize),
        update: impl Fn(Lane<S>, Lane<S>) -> Lane<S>,
    ) {
        let mut done = 0;
        for step in self.fours::<S>() {
            let four: [S::f64s; 4] = tabulate!(|i| bundle[(step + i) * fields + field]);
            let four = simd.interleave_shfl_f64s(four);
            for (lane, &row) in four.iter().enumerate().take(self.count) {
                let first = (self.row + lane) * self.nx + step + 1 - lane;
                let old = Lane::load(simd, plane, first);
                let new = update(old, Lane::new(simd, row));
                if done > step {
                    // The last four steps overlap those before: only their rest is new.
                    let new = [new.value()];
                    let new = bytemuck::cast_slice::<S::f64s, f64>(&new);
                    for (point, new) in plane[first..first + 4].iter_mut().zip(new).skip(done - step) {
                        *point = *new;
                    }
                } else {
                    new.store(plane, first);
                }
            }
            done = step + 4;
        }
        for step in self.singles::<S>() {
            let mut old = [0.0; MAX_LANES];
            for (lane, old) in old.iter_mut().enumerate().take(S::F64_LANES) {
                if let Some(point) = self.point(step, lane) {
                    *old = plane[point];
                }
            }
            let new = [update(Lane::load(simd, &old, 0), Lane::new(simd, bundle[step * fields + field])).value()];
            let new = bytemuck::cast_slice::<S::f64s, f64>(&new);
            for (lane, &new) in new.iter().enumerate() {
                if let Some(point) = self.point(step, lane) {
                    plane[point] = new;
                }
            }
        }
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

    /// Each lane's number in the next lane, `entering` in the first.
    #[inline(always)]
    pub(crate) fn up(&self, value: Lane<S>, entering: f64) -> Lane<S> {
        let rotated = self.simd.rotate_right_f64s(value.value(), 1);
        Lane::new(self.simd, self.simd.select_f64s(self.first, self.simd.splat_f64s(entering), rotated))
    }

    /// Each lane's number in the lane before, `entering` in the last.
    #[inline(always)]
    pub(crate) fn down(&self, value: Lane<S>, entering: f64) -> Lane<S> {
        let rotated = self.simd.rotate_left_f64s(value.value(), 1);
        Lane::new(self.simd, self.simd.select_f64s(self.last, self.simd.splat_f64s(entering), rotated))
    }
}
