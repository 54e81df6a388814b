//! SP-MZ: approximate factorisation into scalar pentadiagonal systems along x, y and z.
//!
//! A step of a zone, after the exchange: residual, transform into waves, a sweep in each direction with the transform
//! to the next, and the addition of the result to the state. Each is a function of its own, which may be a task;
//! [`step`] does them all, plane by plane as far as lines lie in planes. Source: NASA reports RNR-94-007, section 4.4,
//! and NAS-03-010.

mod penta;
mod sweep;
mod transforms;

#[cfg(test)]
mod tests;

use ndarray::{ArrayView4, ArrayViewMut4};
use pulp::{Simd, WithSimd};

use crate::components::{Components, ComponentsMut, components, components_mut, over_planes, over_rows};
use crate::lanes::{Scratch, dispatch, with_scratch};
use crate::operator::{self, Operator, PRIMITIVES};
use crate::physics::Mesh;
use sweep::{FlowPlane, Planes, enter_plane, find_flow, sweep_plane, sweep_rows};

pub(crate) use crate::bt::add;

/// Sets the interior of `r` to dt · (S(u) + forcing).
///
/// # Panics
/// If an array does not have the shape of the mesh, or a component of it is not contiguous.
pub(crate) fn residual(
    mesh: &Mesh,
    u: &ArrayView4<'_, f64>,
    forcing: &ArrayView4<'_, f64>,
    r: ArrayViewMut4<'_, f64>,
    threads: usize,
) {
    operator::residual(mesh, u, forcing, mesh.dt, r, threads);
}

/// Transforms the right-hand side `r` into waves in x ("txinvr").
///
/// # Panics
/// As [`residual`].
pub(crate) fn transform(mesh: &Mesh, u: &ArrayView4<'_, f64>, r: ArrayViewMut4<'_, f64>, threads: usize) {
    in_planes::<Transform>(mesh, u, None, r, threads);
}

/// Solves all lines in x for the right-hand side `r`, which the solution replaces, as waves in y ("ninvr").
///
/// # Panics
/// As [`residual`].
pub(crate) fn x_sweep(mesh: &Mesh, u: &ArrayView4<'_, f64>, r: ArrayViewMut4<'_, f64>, threads: usize) {
    in_planes::<SweepX>(mesh, u, None, r, threads);
}

/// Solves all lines in y for the right-hand side `r`, which the solution replaces, as waves in z ("pinvr").
///
/// # Panics
/// As [`residual`].
pub(crate) fn y_sweep(mesh: &Mesh, u: &ArrayView4<'_, f64>, r: ArrayViewMut4<'_, f64>, threads: usize) {
    in_planes::<SweepY>(mesh, u, None, r, threads);
}

/// Solves all lines in z for the right-hand side `r`, which the solution replaces, as conserved quantities ("tzetar").
///
/// # Panics
/// As [`residual`].
pub(crate) fn z_sweep(mesh: &Mesh, u: &ArrayView4<'_, f64>, r: ArrayViewMut4<'_, f64>, threads: usize) {
    let plane = mesh.shape.nx * mesh.shape.ny;
    let u = components(u);
    over_rows(threads, components_mut(r), mesh.shape, |rows, r| {
        let u = u.map(|component| &component[plane + rows.start * mesh.shape.nx..]);
        dispatch(mesh.shape.nx - 2, InRows { mesh, rows: rows.len(), planes: Planes::Replace { u, r } });
    });
}

/// A whole step of a zone whose faces have been exchanged. `r` has to be 0 on the boundary; what its interior holds
/// afterwards is of no use.
///
/// # Panics
/// As [`residual`].
pub(crate) fn step(
    mesh: &Mesh,
    mut u: ArrayViewMut4<'_, f64>,
    forcing: &ArrayView4<'_, f64>,
    mut r: ArrayViewMut4<'_, f64>,
    threads: usize,
) {
    in_planes::<All>(mesh, &u.view(), Some(forcing), r.view_mut(), threads);
    let plane = mesh.shape.nx * mesh.shape.ny;
    let r = r.view();
    let r = components(&r);
    over_rows(threads, components_mut(u.view_mut()), mesh.shape, |rows, u| {
        let r = r.map(|component| &component[plane + rows.start * mesh.shape.nx..]);
        dispatch(mesh.shape.nx - 2, InRows { mesh, rows: rows.len(), planes: Planes::Add { u, r } });
    });
}

/// Runs stages that lie within planes of constant z.
fn in_planes<W: PlaneWork>(
    mesh: &Mesh,
    u: &ArrayView4<'_, f64>,
    forcing: Option<&ArrayView4<'_, f64>>,
    r: ArrayViewMut4<'_, f64>,
    threads: usize,
) {
    let plane = mesh.shape.nx * mesh.shape.ny;
    let u = components(u);
    let forcing = forcing.map(components);
    over_planes(threads, components_mut(r), plane, 1..mesh.shape.nz - 1, |planes, r| {
        let work = InPlanes { mesh, u, forcing, first: planes.start, r, work: std::marker::PhantomData::<W> };
        dispatch(mesh.shape.nx - 2, work);
    });
}

/// What is done in a plane.
trait PlaneWork {
    /// Whether the residual comes first.
    const RESIDUAL: bool = false;

    /// Works on a plane of the state and of the right-hand side; the flow's slices are scratch.
    fn run<S: Simd>(
        simd: S,
        mesh: &Mesh,
        u: Components<'_>,
        flow: &mut FlowPlane<'_>,
        r: &mut ComponentsMut<'_>,
        scratch: &mut Scratch,
    );
}

struct Transform;
struct SweepX;
struct SweepY;
struct All;

impl PlaneWork for Transform {
    #[inline(always)]
    fn run<S: Simd>(
        simd: S,
        _: &Mesh,
        u: Components<'_>,
        flow: &mut FlowPlane<'_>,
        r: &mut ComponentsMut<'_>,
        _: &mut Scratch,
    ) {
        enter_plane(simd, u, r, flow);
    }
}

impl PlaneWork for SweepX {
    #[inline(always)]
    fn run<S: Simd>(
        simd: S,
        mesh: &Mesh,
        u: Components<'_>,
        flow: &mut FlowPlane<'_>,
        r: &mut ComponentsMut<'_>,
        scratch: &mut Scratch,
    ) {
        find_flow(simd, u, flow);
        sweep_plane::<S, 0>(simd, mesh, u, flow, r, scratch);
    }
}

impl PlaneWork for SweepY {
    #[inline(always)]
    fn run<S: Simd>(
        simd: S,
        mesh: &Mesh,
        u: Components<'_>,
        flow: &mut FlowPlane<'_>,
        r: &mut ComponentsMut<'_>,
        scratch: &mut Scratch,
    ) {
        find_flow(simd, u, flow);
        sweep_plane::<S, 1>(simd, mesh, u, flow, r, scratch);
    }
}

impl PlaneWork for All {
    const RESIDUAL: bool = true;

    #[inline(always)]
    fn run<S: Simd>(
        simd: S,
        mesh: &Mesh,
        u: Components<'_>,
        flow: &mut FlowPlane<'_>,
        r: &mut ComponentsMut<'_>,
        scratch: &mut Scratch,
    ) {
        enter_plane(simd, u, r, flow);
        sweep_plane::<S, 0>(simd, mesh, u, flow, r, scratch);
        sweep_plane::<S, 1>(simd, mesh, u, flow, r, scratch);
    }
}
