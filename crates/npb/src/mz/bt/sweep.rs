//! BT's sweeps, which solve all lines of a direction, one line per lane.
//!
//! Lines in x and y lie within a plane of constant z, lines in z within rows of constant y. Accordingly, the
//! threads divide up the planes or the rows. The state is only read; the solution replaces the right-hand side in
//! the interior. Lines in x are packed side by side; lines in y and z are solved in place.
//!
//! Invariant: the right-hand side is 0 on the boundary. So a line on the boundary may be included to fill a
//! vector's spare lanes: its solution is zero.

use std::ops::Range;

use ndarray::{ArrayView4, ArrayViewMut4};
use pulp::{Simd, WithSimd};

use super::jacobian::{Weights, order};
use super::tridiagonal::{eliminate, load, put, stored, substitute};
use crate::mz::columns::{Columns, bundles, solved};
use crate::mz::components::{Components, ComponentsMut, Slab, components_mut, for_slabs, over_planes, reborrow};
use crate::mz::in_z::{self, InZ, Rows};
use crate::mz::lanes::{Scratch, dispatch, vectorize, with_scratch};
use crate::mz::lines::{Lines, planes_together};
use crate::mz::physics::Mesh;
use crate::mz::prefetch::{asks_for_line, prefetch_far};
use crate::mz::zones::Shape;
use crate::with_columns;

/// Solves all lines in x for the right-hand side `r`, which the solution replaces.
///
/// # Panics
/// Panics if an array does not have the shape of the mesh, or a component of it is not contiguous.
pub fn x_sweep(mesh: &Mesh, u: &ArrayView4<'_, f64>, r: ArrayViewMut4<'_, f64>, threads: usize) {
    sweep_planes::<0>(mesh, u, r, threads);
}

/// Solves all lines in y for the right-hand side `r`, which the solution replaces.
///
/// # Panics
/// Panics under the same conditions as [`x_sweep`].
pub fn y_sweep(mesh: &Mesh, u: &ArrayView4<'_, f64>, r: ArrayViewMut4<'_, f64>, threads: usize) {
    sweep_planes::<1>(mesh, u, r, threads);
}

/// Solves all lines in z for the right-hand side `r`, which the solution replaces.
///
/// # Panics
/// Panics under the same conditions as [`x_sweep`].
pub fn z_sweep(mesh: &Mesh, u: &ArrayView4<'_, f64>, r: ArrayViewMut4<'_, f64>, threads: usize) {
    in_z::replace(LinesInZ, mesh, u, r, threads);
}

/// Completes a step by updating `u` in the rows `rows`; see [`in_z::add`].
pub fn in_rows(mesh: &Mesh, rows: Range<usize>, u: ArrayViewMut4<'_, f64>, r: &ArrayView4<'_, f64>, threads: usize) {
    in_z::add(LinesInZ, mesh, rows, u, r, threads);
}

/// Solves all lines in direction `D`, x or y.
fn sweep_planes<const D: usize>(mesh: &Mesh, u: &ArrayView4<'_, f64>, r: ArrayViewMut4<'_, f64>, threads: usize) {
    let Shape { nx, ny, nz } = mesh.shape;
    let u = Slab::new(0, u);
    over_planes(threads, components_mut(r), nx * ny, 1..nz - 1, |planes, r| {
        dispatch(nx - 2, InPlanes::<D> { mesh, u, first: planes.start, r });
    });
}

/// Number of vectors per packed point: state and right-hand side, ordered relative to the direction.
const POINT: usize = 10;

/// The planes of `r` from `first` on, whose lines in direction `D` (x or y) are to be solved.
struct InPlanes<'a, const D: usize> {
    mesh: &'a Mesh,
    u: Slab<'a>,
    first: usize,
    r: ComponentsMut<'a>,
}

impl<const D: usize> WithSimd for InPlanes<'_, D> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { mesh, u, first, r } = self;
        let Shape { nx, ny, .. } = mesh.shape;
        with_scratch(
            #[inline(always)]
            |scratch| {
                let scratch = scratch.vectors::<S>(vectors(nx, ny));
                for_slabs(
                    nx * ny,
                    together::<S>(mesh),
                    first,
                    r,
                    #[inline(always)]
                    |ks, mut r| {
                        let planes = ks.len();
                        sweep::<S, D, true>(simd, mesh, planes, u.planes(ks), &mut r, scratch);
                    },
                );
            },
        );
    }
}

/// Returns the number of planes to solve together.
pub(super) fn together<S: Simd>(mesh: &Mesh) -> usize {
    let Shape { nx, ny, .. } = mesh.shape;
    planes_together(S::F64_LANES, nx * ny, &[ny - 2, nx - 2])
}

/// Returns the number of scratch vectors that the lines in planes of `nx` × `ny` points need.
pub(super) fn vectors(nx: usize, ny: usize) -> usize {
    (POINT * nx + stored(nx)).max(stored(ny))
}

/// Solves the lines in direction `D`, x (0) or y (1), of some planes of constant z, using as many scratch vectors
/// as [`vectors`] returns. A sweep that is `ALONE` finds the planes in memory rather than in the cache, so it
/// prefetches the same number of planes above them.
#[inline(always)]
pub(super) fn sweep<S: Simd, const D: usize, const ALONE: bool>(
    simd: S,
    mesh: &Mesh,
    planes: usize,
    u: Components<'_>,
    r: &mut ComponentsMut<'_>,
    scratch: &mut [S::f64s],
) {
    const { assert!(D < 2, "lines within planes") };
    let r = reborrow(r);
    if D == 0 {
        vectorize(simd, LinesInPlanes::<S, 0, ALONE> { simd, mesh, planes, u, r, scratch });
    } else {
        vectorize(simd, LinesInPlanes::<S, 1, ALONE> { simd, mesh, planes, u, r, scratch });
    }
}

/// The lines in direction `D` of some planes.
struct LinesInPlanes<'a, S: Simd, const D: usize, const ALONE: bool> {
    simd: S,
    mesh: &'a Mesh,
    planes: usize,
    u: Components<'a>,
    r: ComponentsMut<'a>,
    scratch: &'a mut [S::f64s],
}

impl<V: Simd, const ALONE: bool> WithSimd for LinesInPlanes<'_, V, 0, ALONE> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { simd, mesh, planes, u, mut r, scratch } = self;
        let Shape { nx, ny, .. } = mesh.shape;
        let weights = Weights::new(simd, mesh, 0);
        let (lines, length) = (ny - 2, nx - 2);
        let (points, rows) = scratch[..POINT * length + stored(length)].split_at_mut(POINT * length);
        let end = planes * lines;
        for begin in (0..end).step_by(V::F64_LANES) {
            let numbers = begin..end.min(begin + V::F64_LANES);
            let first_row = begin / lines * ny + 1 + begin % lines;
            let lines = Lines::in_planes((nx + 1, nx, lines), nx * ny, numbers, length);
            let state: Components<'_> = tabulate!(|m| u[order(0)[m]]);
            let right: Components<'_> = tabulate!(|m| &*r[order(0)[m]]);
            lines.pack(simd, state, points, (0, POINT));
            lines.pack(simd, right, points, (5, POINT));
            eliminate(
                simd,
                &weights,
                length,
                rows,
                #[inline(always)]
                |l| {
                    if ALONE {
                        let above = first_row * nx + planes * nx * ny + l * V::F64_LANES;
                        prefetch_points::<V>(&u, above, &r, above);
                    }
                    load(simd, &points[l * POINT..][..5])
                },
                #[inline(always)]
                |l| load(simd, &points[l * POINT + 5..][..5]),
            );
            substitute(
                simd,
                rows,
                #[inline(always)]
                |l, solution| put(solution, &mut points[l * POINT + 5..][..5]),
            );
            const { assert!(matches!(order(0), [0, 2, 3, 1, 4])) };
            let [density, x, y, z, energy] = reborrow(&mut r);
            lines.unpack(simd, [density, y, z, x, energy], points, (5, POINT));
        }
    }
}

impl<V: Simd, const ALONE: bool> WithSimd for LinesInPlanes<'_, V, 1, ALONE> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) {
        let Shape { nx, ny, .. } = self.mesh.shape;
        let weights = Weights::new(self.simd, self.mesh, 1);
        let columns = solved::<V>(nx);
        for bundle in bundles::<V>(self.planes, nx * ny, nx + columns.start..nx + columns.end) {
            with_columns!(bundle, |columns| self.solve(&weights, columns));
        }
    }
}

impl<S: Simd, const ALONE: bool> LinesInPlanes<'_, S, 1, ALONE> {
    /// Solves the lines of a bundle, one per lane, in place.
    #[inline(always)]
    fn solve(&mut self, weights: &Weights<S>, columns: impl Columns) {
        let Self { simd, mesh, planes, u, r, scratch } = self;
        let Shape { nx, ny, .. } = mesh.shape;
        let (length, order) = (ny - 2, order(1));
        let rows = &mut scratch[..stored(length)];
        eliminate(
            *simd,
            weights,
            length,
            rows,
            #[inline(always)]
            |j| {
                if ALONE {
                    let above = columns.first() + *planes * nx * ny + j * nx;
                    prefetch_points::<S>(u, above, r, above);
                }
                tabulate!(|m| columns.load(*simd, u[order[m]], j * nx))
            },
            #[inline(always)]
            |j| tabulate!(|m| columns.load(*simd, r[order[m]], j * nx)),
        );
        substitute(
            *simd,
            rows,
            #[inline(always)]
            |j, solution| unroll!(5, |m| columns.store(solution[m], r[order[m]], j * nx)),
        );
    }
}

/// Prefetches a point of the arrays that are read and written, if the vector at that point issues prefetches
/// ([`asks_for_line`]). The point may be beyond the arrays' ends.
#[inline(always)]
fn prefetch_points<S: Simd>(read: &Components<'_>, at: usize, written: &ComponentsMut<'_>, there: usize) {
    if !asks_for_line::<S>(at) {
        return;
    }
    unroll!(5, |m| prefetch_far(read[m], at));
    unroll!(5, |m| prefetch_far(written[m], there));
}

/// The sweep in z.
#[derive(Clone, Copy)]
struct LinesInZ;

impl InZ for LinesInZ {
    #[inline(always)]
    fn sweep<S: Simd>(self, simd: S, mesh: &Mesh, rows: usize, planes: &mut Rows<'_, '_>, scratch: &mut Scratch) {
        let Shape { nx, nz, .. } = mesh.shape;
        let weights = Weights::new(simd, mesh, 2);
        let scratch = scratch.vectors::<S>(stored(nz - 2));
        for bundle in bundles::<S>(rows, nx, solved::<S>(nx)) {
            with_columns!(bundle, |columns| self.solve(simd, mesh, &weights, columns, planes, scratch));
        }
    }
}

impl LinesInZ {
    /// Solves the lines of a bundle, one per lane, in place.
    #[inline(always)]
    fn solve<S: Simd>(
        self,
        simd: S,
        mesh: &Mesh,
        weights: &Weights<S>,
        columns: impl Columns,
        planes: &mut Rows<'_, '_>,
        scratch: &mut [S::f64s],
    ) {
        let Shape { nx, ny, nz } = mesh.shape;
        let (plane, order) = (nx * ny, order(2));
        let read = &*planes;
        eliminate(
            simd,
            weights,
            nz - 2,
            scratch,
            #[inline(always)]
            |k| {
                if let Rows::Replace { u, r } = read {
                    let next = columns.first() + 2 * S::F64_LANES - 1;
                    prefetch_points::<S>(u, k * plane + next, &r[k], next);
                }
                tabulate!(|m| match read {
                    Rows::Replace { u, .. } => columns.load(simd, u[order[m]], k * plane),
                    Rows::Add { u, .. } => columns.load(simd, u[k][order[m]], 0),
                })
            },
            #[inline(always)]
            |k| {
                tabulate!(|m| match read {
                    Rows::Replace { r, .. } => columns.load(simd, r[k][order[m]], 0),
                    Rows::Add { r, .. } => columns.load(simd, r[order[m]], k * plane),
                })
            },
        );
        substitute(
            simd,
            scratch,
            #[inline(always)]
            |k, solution| {
                unroll!(5, |m| match planes {
                    Rows::Replace { r, .. } => columns.store(solution[m], r[k][order[m]], 0),
                    Rows::Add { u, .. } => {
                        let u = &mut *u[k][order[m]];
                        columns.store(columns.load(simd, u, 0) + solution[m], u, 0);
                    }
                });
            },
        );
    }
}
