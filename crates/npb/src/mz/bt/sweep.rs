//! The sweeps of BT: every line of a direction solved, as many at once as there are lanes.
//!
//! Lines in x and y lie within a plane of constant z, lines in z within rows of constant y; so threads share out planes or
//! rows. The state is only read; the right-hand side is replaced by the solution, on the interior.

use std::ops::Range;

use ndarray::{ArrayView4, ArrayViewMut4, s};
use pulp::{Simd, WithSimd};

use super::jacobian::{Weights, order};
use super::tridiagonal::{POINT, STORED, solve};
use crate::mz::components::{
    Components, ComponentsMut, Slab, components, components_mut, for_slabs, over_planes, over_rows,
};
use crate::mz::lanes::{MAX_LANES, dispatch, vectorize, with_scratch};
use crate::mz::lines::{Lines, planes_together};
use crate::mz::physics::{COMPONENTS, Mesh};
use crate::mz::zones::Shape;

/// Solves all lines in x for the right-hand side `r`, which the solution replaces.
///
/// # Panics
/// If an array does not have the shape of the mesh, or a component of it is not contiguous.
pub(crate) fn x_sweep(mesh: &Mesh, u: &ArrayView4<'_, f64>, r: ArrayViewMut4<'_, f64>, threads: usize) {
    let plane = mesh.shape.nx * mesh.shape.ny;
    let u = Slab::new(0, u);
    over_planes(threads, components_mut(r), plane, 1..mesh.shape.nz - 1, |planes, r| {
        dispatch(MAX_LANES, InPlanes::<0> { mesh, u, first: planes.start, r });
    });
}

/// Solves all lines in y for the right-hand side `r`, which the solution replaces.
///
/// # Panics
/// If an array does not have the shape of the mesh, or a component of it is not contiguous.
pub(crate) fn y_sweep(mesh: &Mesh, u: &ArrayView4<'_, f64>, r: ArrayViewMut4<'_, f64>, threads: usize) {
    let plane = mesh.shape.nx * mesh.shape.ny;
    let u = Slab::new(0, u);
    over_planes(threads, components_mut(r), plane, 1..mesh.shape.nz - 1, |planes, r| {
        dispatch(MAX_LANES, InPlanes::<1> { mesh, u, first: planes.start, r });
    });
}

/// Solves all lines in z for the right-hand side `r`, which the solution replaces.
///
/// # Panics
/// If an array does not have the shape of the mesh, or a component of it is not contiguous.
pub(crate) fn z_sweep(mesh: &Mesh, u: &ArrayView4<'_, f64>, mut r: ArrayViewMut4<'_, f64>, threads: usize) {
    let u = u.slice(s![.., 1..-1, .., ..]);
    let u = components(&u);
    over_rows(threads, r.slice_mut(s![.., 1..-1, 1..-1, ..]), 1, |rows, target| {
        dispatch(MAX_LANES, InRows::<false> { mesh, target, rows, other: u });
    });
}

/// Solves the lines in z in the rows `rows` for the right-hand side `r`, and adds the solution to the state `u`: the end of
/// a step. Both are given in the interior planes, `u` in these rows.
///
/// # Panics
/// If an array does not have this shape, a row of `u`, or a component of `r`, is not contiguous.
pub(crate) fn in_rows(
    mesh: &Mesh,
    rows: Range<usize>,
    u: ArrayViewMut4<'_, f64>,
    r: &ArrayView4<'_, f64>,
    threads: usize,
) {
    let Shape { nx, ny, nz } = mesh.shape;
    let of = |rows| [COMPONENTS, nz - 2, rows, nx];
    assert_eq!([u.shape(), r.shape()], [of(rows.len()), of(ny)], "shapes in rows {rows:?}");
    let r = components(r);
    over_rows(threads, u, rows.start, |rows, target| {
        dispatch(MAX_LANES, InRows::<true> { mesh, target, rows, other: r });
    });
}

/// The planes of `r` from `first` on: lines in direction `D`, x or y.
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
                let bundle = scratch.vectors::<S>(vectors(nx.max(ny)));
                for_slabs(
                    nx * ny,
                    together::<S>(mesh),
                    first,
                    r,
                    #[inline(always)]
                    |ks, r| {
                        let planes = ks.len();
                        vectorize(simd, LinesInPlanes::<S, D> { simd, mesh, planes, u: u.planes(ks), r, bundle });
                    },
                );
            },
        );
    }
}

/// How many planes are solved together.
pub(super) fn together<S: Simd>(mesh: &Mesh) -> usize {
    let Shape { nx, ny, .. } = mesh.shape;
    planes_together(S::F64_LANES, nx * ny, &[ny - 2, nx - 2])
}

/// How many vectors of scratch a line of `length` points takes.
pub(super) fn vectors(length: usize) -> usize {
    (POINT + STORED) * length
}

/// The lines in direction `D`, x or y, of some planes of constant z, with scratch of [`vectors`].
pub(super) struct LinesInPlanes<'a, S: Simd, const D: usize> {
    pub(super) simd: S,
    pub(super) mesh: &'a Mesh,
    pub(super) planes: usize,
    pub(super) u: Components<'a>,
    pub(super) r: ComponentsMut<'a>,
    pub(super) bundle: &'a mut [S::f64s],
}

impl<V: Simd, const D: usize> WithSimd for LinesInPlanes<'_, V, D> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { simd, mesh, planes, u, r, bundle } = self;
        let Shape { nx, ny, .. } = mesh.shape;
        let weights = Weights::new(simd, mesh, D);
        let (lines, length) = if D == 0 { (ny - 2, nx - 2) } else { (nx - 2, ny - 2) };
        let [apart, stride] = if D == 0 { [nx, 1] } else { [1, nx] };
        let (points, stored) = bundle[..vectors(length)].split_at_mut(POINT * length);
        let end = planes * lines;
        for begin in (0..end).step_by(V::F64_LANES) {
            let numbers = begin..end.min(begin + V::F64_LANES);
            let lines = Lines::in_planes((nx + 1, apart, lines), nx * ny, numbers, (stride, length));
            for (m, component) in order(D).into_iter().enumerate() {
                lines.pack(simd, u[component], points, (m, POINT));
                lines.pack(simd, r[component], points, (m + 5, POINT));
            }
            solve(simd, &weights, points, stored);
            for (m, component) in order(D).into_iter().enumerate() {
                lines.unpack(simd, r[component], points, (m + 5, POINT));
            }
        }
    }
}

/// Lines in z through a range of rows. Of state and right-hand side, `target` is the one that the solution goes to,
/// given by its rows per interior plane, and `other` the interior planes of the one that is only read. `ADD`: the solution is added to the state.
struct InRows<'a, 'r, const ADD: bool> {
    mesh: &'a Mesh,
    target: &'a mut [ComponentsMut<'r>],
    rows: Range<usize>,
    other: Components<'a>,
}

impl<const ADD: bool> WithSimd for InRows<'_, '_, ADD> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { mesh, target, rows, other } = self;
        let Shape { nx, ny, nz } = mesh.shape;
        let weights = Weights::new(simd, mesh, 2);
        let (plane, length, width) = (nx * ny, nz - 2, nx - 2);
        let total = rows.len() * width;
        let [of_target, of_other] = if ADD { [0, 5] } else { [5, 0] };
        with_scratch(
            #[inline(always)]
            |scratch| {
                let (points, stored) = scratch.vectors::<S>(vectors(length)).split_at_mut(POINT * length);
                for begin in (0..total).step_by(S::F64_LANES) {
                    let count = S::F64_LANES.min(total - begin);
                    // Lines are counted through the rows, so that only the very last bundle may be short.
                    let starts: [usize; MAX_LANES] = std::array::from_fn(|lane| {
                        let line = (begin + lane).min(total - 1);
                        line / width * nx + line % width + 1
                    });
                    let in_rows = Lines::new(&starts[..count], 0, length);
                    let in_zone = Lines::new(&starts.map(|start| start + rows.start * nx)[..count], plane, length);
                    for (m, component) in order(2).into_iter().enumerate() {
                        in_rows.pack_planes::<S>(target, component, points, (m + of_target, POINT));
                        in_zone.pack(simd, other[component], points, (m + of_other, POINT));
                    }
                    solve(simd, &weights, points, stored);
                    if ADD {
                        for point in points.chunks_exact_mut(POINT) {
                            let (state, solution) = point.split_at_mut(5);
                            unroll!(5, |m| solution[m] = simd.add_f64s(state[m], solution[m]));
                        }
                    }
                    for (m, component) in order(2).into_iter().enumerate() {
                        in_rows.unpack_planes::<S>(target, component, points, (m + 5, POINT));
                    }
                }
            },
        );
    }
}
