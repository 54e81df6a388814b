//! The sweeps of BT: every line of a direction solved, as many at once as there are lanes.
//!
//! Lines in x and y lie within a plane of constant z, lines in z within rows of constant y; so threads share out planes or
//! rows. The state is only read; the right-hand side is replaced by the solution, on the interior.

use ndarray::{ArrayView4, ArrayViewMut4};
use pulp::{Simd, WithSimd};

use super::jacobian::{Weights, order};
use super::tridiagonal::{POINT, STORED, solve};
use crate::components::{Components, ComponentsMut, components, components_mut, over_planes, over_rows};
use crate::lanes::{MAX_LANES, Scratch, dispatch, with_scratch};
use crate::lines::Lines;
use crate::physics::Mesh;
use crate::zones::Shape;

/// Solves all lines in x for the right-hand side `r`, which the solution replaces.
///
/// # Panics
/// If an array does not have the shape of the mesh, or a component of it is not contiguous.
pub(crate) fn x_sweep(mesh: &Mesh, u: &ArrayView4<'_, f64>, r: ArrayViewMut4<'_, f64>, threads: usize) {
    let plane = mesh.shape.nx * mesh.shape.ny;
    let u = components(u);
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
    let u = components(u);
    over_planes(threads, components_mut(r), plane, 1..mesh.shape.nz - 1, |planes, r| {
        dispatch(MAX_LANES, InPlanes::<1> { mesh, u, first: planes.start, r });
    });
}

/// Solves all lines in z for the right-hand side `r`, which the solution replaces.
///
/// # Panics
/// If an array does not have the shape of the mesh, or a component of it is not contiguous.
pub(crate) fn z_sweep(mesh: &Mesh, u: &ArrayView4<'_, f64>, r: ArrayViewMut4<'_, f64>, threads: usize) {
    let u = components(u);
    over_rows(threads, components_mut(r), mesh.shape, |rows, r| {
        dispatch(MAX_LANES, InRows { mesh, u, first: rows.start, rows: rows.len(), r });
    });
}

/// The planes of `r` from `first` on: lines in direction `D`, x or y.
struct InPlanes<'a, const D: usize> {
    mesh: &'a Mesh,
    u: Components<'a>,
    first: usize,
    r: ComponentsMut<'a>,
}

impl<const D: usize> WithSimd for InPlanes<'_, D> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { mesh, u, first, r } = self;
        let plane = mesh.shape.nx * mesh.shape.ny;
        with_scratch(
            #[inline(always)]
            |scratch| {
                let mut rest = r;
                for k in first..first + rest[0].len() / plane {
                    let u = u.map(|component| &component[k * plane..][..plane]);
                    sweep_plane::<S, D>(
                        simd,
                        mesh,
                        u,
                        rest.each_mut().map(|component| &mut component[..plane]),
                        scratch,
                    );
                    rest = rest.map(|component| &mut component[plane..]);
                }
            },
        );
    }
}

/// Solves the lines in direction `D`, x or y, of one plane of constant z.
#[inline(always)]
pub(super) fn sweep_plane<S: Simd, const D: usize>(
    simd: S,
    mesh: &Mesh,
    u: Components<'_>,
    r: ComponentsMut<'_>,
    scratch: &mut Scratch,
) {
    let Shape { nx, ny, .. } = mesh.shape;
    let weights = Weights::new(simd, mesh, D);
    let (lines, length) = if D == 0 { (ny - 2, nx - 2) } else { (nx - 2, ny - 2) };
    let [apart, stride] = if D == 0 { [nx, 1] } else { [1, nx] };
    for begin in (0..lines).step_by(S::F64_LANES) {
        let count = S::F64_LANES.min(lines - begin);
        let lines = Lines::apart(nx + 1 + begin * apart, apart, count, stride, length);
        let (points, stored) = scratch.vectors::<S>((POINT + STORED) * length).split_at_mut(POINT * length);
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

/// The rows of `r` from `first` on, per plane: lines in z.
struct InRows<'a, 'r> {
    mesh: &'a Mesh,
    u: Components<'a>,
    first: usize,
    rows: usize,
    r: &'a mut [ComponentsMut<'r>],
}

impl WithSimd for InRows<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { mesh, u, first, rows, r } = self;
        let Shape { nx, ny, nz } = mesh.shape;
        let weights = Weights::new(simd, mesh, 2);
        let (plane, length, width) = (nx * ny, nz - 2, nx - 2);
        let total = rows * width;
        with_scratch(
            #[inline(always)]
            |scratch| {
                let (points, stored) = scratch.vectors::<S>((POINT + STORED) * length).split_at_mut(POINT * length);
                for begin in (0..total).step_by(S::F64_LANES) {
                    let count = S::F64_LANES.min(total - begin);
                    // Lines are counted through the rows, so that only the very last bundle may be short.
                    let starts: [usize; MAX_LANES] = std::array::from_fn(|lane| {
                        let line = (begin + lane).min(total - 1);
                        line / width * nx + line % width + 1
                    });
                    let of_r = Lines::new(&starts[..count], 0, length);
                    let of_u = Lines::new(&starts.map(|start| start + first * nx + plane)[..count], plane, length);
                    for (m, component) in order(2).into_iter().enumerate() {
                        of_u.pack(simd, u[component], points, (m, POINT));
                        of_r.pack_planes::<S>(r, component, points, (m + 5, POINT));
                    }
                    solve(simd, &weights, points, stored);
                    for (m, component) in order(2).into_iter().enumerate() {
                        of_r.unpack_planes::<S>(r, component, points, (m + 5, POINT));
                    }
                }
            },
        );
    }
}
