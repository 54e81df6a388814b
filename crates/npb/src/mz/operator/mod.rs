//! The spatial operator: r = scale · (S(u) + forcing) at the interior points of a zone.
//!
//! S(u) is the sum over the three directions of central differences of the inviscid fluxes, the viscous terms, and
//! second and fourth differences of u as artificial dissipation (NASA report RNR-94-007, sections 3.2 and 4.2). The
//! stencil is a star, so points on an edge of the zone never affect the result.
//!
//! A point's fluxes are computed once and added to the sums of its neighbours. The operator sweeps upwards through
//! the planes of constant z. A row is a single vectorized loop along x, whose first and last vector may reach
//! beyond the row's interior. Copies of nearby planes are kept as blocks. The operator writes the interior of r and
//! zeros at the ends of its rows; all code that uses r expects 0 there.

pub mod blocks;
mod planes;
mod residual;
pub mod stencil;
mod sums;
mod sweep;

use std::ops::Range;

use ndarray::{ArrayView4, ArrayViewMut4, s};
use pulp::{Simd, WithSimd};

use crate::mz::components::{ComponentsMut, Slab, components_mut, for_planes, over_planes};
use crate::mz::faces::{State, StatePlanes};
use crate::mz::initial::exact_state;
use crate::mz::lanes::{dispatch, with_scratch};
use crate::mz::physics::{COMPONENTS, Mesh};
use crate::mz::zones::Shape;

pub use sweep::Operator;

/// Prefetch distance, in blocks.
const AHEAD: usize = 4;

/// Sets the interior of `r` to S(u) + forcing, on `threads` threads. Boundary elements of `r` are either left alone
/// or set to 0. All arrays have the shape `[5, nz, ny, nx]`.
///
/// # Panics
/// Panics if an array does not have the shape of the mesh, or a component of it is not contiguous.
pub fn residual(
    mesh: &Mesh,
    u: &ArrayView4<'_, f64>,
    forcing: &ArrayView4<'_, f64>,
    r: ArrayViewMut4<'_, f64>,
    threads: usize,
) {
    residual_of(mesh, &u.into(), forcing, r, threads);
}

/// Variant of [`residual()`] for a state whose outer faces may be in a halo.
///
/// # Panics
/// Panics under the same conditions as [`residual()`].
pub fn residual_of(
    mesh: &Mesh,
    u: &State<'_>,
    forcing: &ArrayView4<'_, f64>,
    r: ArrayViewMut4<'_, f64>,
    threads: usize,
) {
    apply(mesh, u, forcing, 1.0, r, threads);
}

/// Variant of [`residual()`] that computes only the interior planes `planes`. `u` is the whole array; `forcing` and
/// `r` contain only these planes.
///
/// # Panics
/// Panics if an array does not have this shape, or a component of it is not contiguous.
pub(crate) fn residual_in_planes(
    mesh: &Mesh,
    planes: Range<usize>,
    u: &State<'_>,
    forcing: &ArrayView4<'_, f64>,
    r: ArrayViewMut4<'_, f64>,
    threads: usize,
) {
    apply_in_planes(mesh, planes, u, forcing, 1.0, r, threads);
}

/// Asserts that arrays have the shapes that [`residual_in_planes`] requires.
pub(crate) fn assert_shapes(mesh: &Mesh, planes: &Range<usize>, [u, forcing, r]: [&[usize]; 3]) {
    let Shape { nx, ny, .. } = mesh.shape;
    let part = [COMPONENTS, planes.len(), ny, nx];
    assert_eq!([u, forcing, r], [mesh.shape.array(), part, part], "shapes in planes {planes:?}");
}

/// Sets the interior of `r` to Δt · (S(u) + forcing): the right-hand side of a step of BT and of SP.
///
/// # Panics
/// Panics under the same conditions as [`residual()`].
pub fn scaled_residual(
    mesh: &Mesh,
    u: &ArrayView4<'_, f64>,
    forcing: &ArrayView4<'_, f64>,
    r: ArrayViewMut4<'_, f64>,
    threads: usize,
) {
    apply(mesh, &u.into(), forcing, mesh.dt, r, threads);
}

fn apply(
    mesh: &Mesh,
    u: &State<'_>,
    forcing: &ArrayView4<'_, f64>,
    scale: f64,
    mut r: ArrayViewMut4<'_, f64>,
    threads: usize,
) {
    let interior = s![.., 1..-1, .., ..];
    let planes = 1..mesh.shape.nz - 1;
    apply_in_planes(mesh, planes, u, &forcing.slice(interior), scale, r.slice_mut(interior), threads);
}

fn apply_in_planes(
    mesh: &Mesh,
    planes: Range<usize>,
    u: &State<'_>,
    forcing: &ArrayView4<'_, f64>,
    scale: f64,
    r: ArrayViewMut4<'_, f64>,
    threads: usize,
) {
    assert_shapes(mesh, &planes, [u.u.shape(), forcing.shape(), r.shape()]);
    let Shape { nx, ny, .. } = mesh.shape;
    let (u, forcing) = (u.planes(), Slab::new(planes.start, forcing));
    over_planes(threads, components_mut(r), nx * ny, 0..planes.len(), |share, r| {
        dispatch(nx - 2, InPlanes { mesh, u, forcing, scale, first: planes.start + share.start, r });
    });
}

/// Sets `forcing` so that the exact solution is a steady state: −S(u) of the exact solution, 0 on the boundary.
///
/// # Panics
/// Panics under the same conditions as [`residual()`].
pub(crate) fn force(mesh: &Mesh, mut forcing: ArrayViewMut4<'_, f64>) {
    forcing.fill(0.0);
    let none = forcing.to_owned();
    apply(mesh, &(&exact_state(mesh).view()).into(), &none.view(), -1.0, forcing, 1);
}

/// The planes of `r` from `first` on.
struct InPlanes<'a> {
    mesh: &'a Mesh,
    u: StatePlanes<'a>,
    forcing: Slab<'a>,
    scale: f64,
    first: usize,
    r: ComponentsMut<'a>,
}

impl WithSimd for InPlanes<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { mesh, u, forcing, scale, first, r } = self;
        let plane = mesh.shape.nx * mesh.shape.ny;
        with_scratch(
            #[inline(always)]
            |scratch| {
                let scratch = scratch.numbers(Operator::<S>::numbers(mesh.shape));
                let planes = first..first + r[0].len() / plane;
                let mut operator = Operator::new(simd, mesh, (u, forcing), scale, planes, scratch);
                for_planes(
                    plane,
                    first,
                    r,
                    #[inline(always)]
                    |k, r| operator.plane(k, r),
                );
            },
        );
    }
}
