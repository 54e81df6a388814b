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

use crate::mz::lanes::{Lane, MAX_LANES, is_avx512, transpose};

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

    /// Where the share of its points begins, one line after the other, that is as large as a step's.
    #[inline(always)]
    pub(crate) fn share<S: Simd>(&self, step: usize) -> usize {
        self.row * self.nx + step * S::F64_LANES
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

    /// How many vectors of each field a bundle has: one per step, and as many more as make whole blocks.
    #[inline(always)]
    pub(crate) fn stored<S: Simd>(nx: usize) -> usize {
        Self::steps::<S>(nx).next_multiple_of(S::F64_LANES)
    }

    /// Where in the plane a lane is in a step, as if rows went on beyond their ends. Lanes without a row may be before the plane's
    /// first point, which wraps around.
    #[inline(always)]
    fn place(&self, step: usize, lane: usize) -> usize {
        ((self.row + lane.min(self.count - 1)) * self.nx + step + 1).wrapping_sub(lane)
    }

    /// Where in the plane all lanes are during `N` steps from `step` on, if all have rows: each begins `nx` − 1 points after the one
    /// before.
    #[inline(always)]
    fn block<const N: usize>(&self, step: usize) -> Option<Range<usize>> {
        let first = self.place(step, 0);
        (self.count == N).then_some(first..first + (N - 1) * (self.nx - 1) + N)
    }

    /// Copies the rows of one component of a plane into field `field` of a bundle of `fields` fields per step.
    ///
    /// # Panics
    /// If the plane does not have these rows.
    #[inline(always)]
    pub(crate) fn pack<S: Simd>(
        &self,
        simd: S,
        plane: &[f64],
        bundle: &mut [S::f64s],
        (field, fields): (usize, usize),
    ) {
        if S::F64_LANES == 4 {
            self.pack_blocks::<S, 4>(simd, plane, bundle, (field, fields));
        } else if is_avx512::<S>() {
            self.pack_blocks::<S, 8>(simd, plane, bundle, (field, fields));
        } else {
            for (step, point) in bundle.chunks_exact_mut(fields).enumerate() {
                let lanes = bytemuck::cast_slice_mut::<S::f64s, f64>(std::slice::from_mut(&mut point[field]));
                for (lane, value) in lanes.iter_mut().enumerate() {
                    *value = plane[nearest(plane, self.place(step, lane))];
                }
            }
        }
    }

    /// [`Strip::pack`], `N` steps of `N` lanes at a time.
    #[inline(always)]
    fn pack_blocks<S: Simd, const N: usize>(
        &self,
        simd: S,
        plane: &[f64],
        bundle: &mut [S::f64s],
        (field, fields): (usize, usize),
    ) {
        for (number, block) in bundle.chunks_exact_mut(N * fields).enumerate() {
            let step = number * N;
            let rows: [S::f64s; N] = match self.block::<N>(step).and_then(
                #[inline(always)]
                |block| plane.get(block),
            ) {
                Some(rows) => tabulate!(|lane| Lane::load(simd, rows, lane * (self.nx - 1)).value()),
                None => tabulate!(|lane| load_near(simd, plane, self.place(step, lane)).value()),
            };
            let columns = transpose(simd, rows);
            unroll!(N, |i| block[i * fields + field] = columns[i]);
        }
    }

    /// Updates the interior points of the rows of one component of a plane from field `field` of a bundle of `fields`
    /// fields per step.
    ///
    /// # Panics
    /// If the plane does not have these rows.
    #[inline(always)]
    pub(crate) fn unpack<S: Simd>(
        &self,
        simd: S,
        plane: &mut [f64],
        bundle: &[S::f64s],
        (field, fields): (usize, usize),
        update: impl Fn(Lane<S>, Lane<S>) -> Lane<S>,
    ) {
        if S::F64_LANES == 4 {
            self.unpack_blocks::<S, 4>(simd, plane, bundle, (field, fields), update);
        } else if is_avx512::<S>() {
            self.unpack_blocks::<S, 8>(simd, plane, bundle, (field, fields), update);
        } else {
            for (step, point) in bundle.chunks_exact(fields).enumerate() {
                let mut old = [0.0; MAX_LANES];
                for (lane, old) in old.iter_mut().enumerate().take(S::F64_LANES) {
                    *old = plane[nearest(plane, self.place(step, lane))];
                }
                let new = [update(Lane::load(simd, &old, 0), Lane::new(simd, point[field])).value()];
                for (lane, &new) in bytemuck::cast_slice::<S::f64s, f64>(&new).iter().enumerate() {
                    if let Some(point) = self.point(step, lane) {
                        plane[point] = new;
                    }
                }
            }
        }
    }

    /// [`Strip::unpack`], `N` steps of `N` lanes at a time.
    #[inline(always)]
    fn unpack_blocks<S: Simd, const N: usize>(
        &self,
        simd: S,
        plane: &mut [f64],
        bundle: &[S::f64s],
        (field, fields): (usize, usize),
        update: impl Fn(Lane<S>, Lane<S>) -> Lane<S>,
    ) {
        // The blocks that begin with these steps are in the interior of all rows.
        let inside = N - 1..(self.nx - 1).saturating_sub(N);
        for (number, block) in bundle.chunks_exact(N * fields).enumerate() {
            let step = number * N;
            let columns: [S::f64s; N] = tabulate!(|i| block[i * fields + field]);
            let rows = transpose(simd, columns);
            if inside.contains(&step) {
                let plane = &mut plane[self.place(step, 0)..];
                unroll!(N, |lane| if lane < self.count {
                    let (place, new) = (lane * (self.nx - 1), Lane::new(simd, rows[lane]));
                    update(Lane::load(simd, plane, place), new).store(plane, place);
                });
                continue;
            }
            unroll!(N, |lane| if lane < self.count {
                let (place, new) = (self.place(step, lane), Lane::new(simd, rows[lane]));
                let (begin, end) = (lane.saturating_sub(step), (self.nx - 2 + lane).saturating_sub(step));
                let interior = simd.mask_between_m64s(begin as u64, end as u64).mask();
                let old = load_near(simd, plane, place);
                let new = simd.select_f64s(interior, update(old, new).value(), old.value());
                store_near(Lane::new(simd, new), plane, place);
            });
        }
    }
}

/// The numbers of a plane that begin at `place`, or where the plane has none, those at its ends.
#[inline(always)]
fn load_near<S: Simd>(simd: S, plane: &[f64], place: usize) -> Lane<S> {
    if place < plane.len() && plane.len() - place >= S::F64_LANES {
        return Lane::load(simd, plane, place);
    }
    let near: [f64; MAX_LANES] = tabulate!(|i| plane[nearest(plane, place.wrapping_add(i))]);
    Lane::load(simd, &near, 0)
}

/// Stores lanes from `place` on as far as the plane has points.
#[inline(always)]
fn store_near<S: Simd>(numbers: Lane<S>, plane: &mut [f64], place: usize) {
    let Some(rest) = plane.get_mut(place..) else { return };
    if rest.len() >= S::F64_LANES {
        numbers.store(rest, 0);
    } else {
        rest.copy_from_slice(&bytemuck::cast_slice::<S::f64s, f64>(&[numbers.value()])[..rest.len()]);
    }
}

/// The point of a plane that is nearest to `place`, which may be before it by wrapping around.
#[inline(always)]
fn nearest(plane: &[f64], place: usize) -> usize {
    (place.cast_signed().max(0) as usize).min(plane.len() - 1)
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

    /// Each lane's number in the next lane, and the last one's, which leaves, in the first.
    #[inline(always)]
    pub(crate) fn up(&self, value: Lane<S>) -> Lane<S> {
        Lane::new(self.simd, self.simd.rotate_right_f64s(value.value(), 1))
    }

    /// Each lane's number in the lane before, and the first one's in the last.
    #[inline(always)]
    pub(crate) fn down(&self, value: Lane<S>) -> Lane<S> {
        Lane::new(self.simd, self.simd.rotate_left_f64s(value.value(), 1))
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
