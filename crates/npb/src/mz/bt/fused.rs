//! A step of a zone in two passes: residual, x and y plane by plane, then z with the addition to the state.
//!
//! The same arithmetic as the stages one after the other, with the same results to the last bit; but what a plane's
//! residual leaves in the cache the sweeps still find there, and the solution is never written but to the state.

use ndarray::{ArrayView4, ArrayViewMut4};
use pulp::{Simd, WithSimd};

use super::sweep::{InPlane, vectors, z_sweep_and_add};
use crate::mz::components::{Components, ComponentsMut, components, components_mut, for_planes, over_planes, plane_of};
use crate::mz::lanes::{dispatch, with_scratch};
use crate::mz::operator::Operator;
use crate::mz::physics::Mesh;
use crate::mz::planes::Planes;
use crate::mz::zones::Shape;

/// A whole step of a zone whose faces have been exchanged. Leaves `r` with the right-hand side before the sweep in z.
///
/// # Panics
/// If an array does not have the shape of the mesh, or a component of it is not contiguous.
pub(crate) fn step(
    mesh: &Mesh,
    u: ArrayViewMut4<'_, f64>,
    forcing: &ArrayView4<'_, f64>,
    mut r: ArrayViewMut4<'_, f64>,
    threads: usize,
) {
    for shape in [u.shape(), forcing.shape(), r.shape()] {
        assert_eq!(shape, mesh.shape.array(), "shape of a zone's array");
    }
    let Shape { nx, ny, nz } = mesh.shape;
    let (state, forcing) = (u.view(), components(forcing));
    let state = components(&state);
    over_planes(threads, components_mut(r.view_mut()), nx * ny, 1..nz - 1, |planes, r| {
        dispatch(nx - 2, ToY { mesh, u: state, forcing, first: planes.start, r });
    });
    z_sweep_and_add(mesh, u, &r.view(), threads);
}

/// The planes of `r` from `first` on, from the residual to the sweep in y.
struct ToY<'a> {
    mesh: &'a Mesh,
    u: Components<'a>,
    forcing: Components<'a>,
    first: usize,
    r: ComponentsMut<'a>,
}

impl WithSimd for ToY<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { mesh, u, forcing, first, r } = self;
        let Shape { nx, ny, .. } = mesh.shape;
        with_scratch(
            #[inline(always)]
            |scratch| {
                let of_bundle = vectors(nx.max(ny)) * S::F64_LANES;
                let (bundle, planes) = scratch.numbers(of_bundle + Planes::numbers(mesh.shape)).split_at_mut(of_bundle);
                let bundle = bytemuck::cast_slice_mut::<f64, S::f64s>(bundle);
                let mut operator = Operator::new(simd, mesh, u, forcing, mesh.dt, planes, first);
                for_planes(
                    nx * ny,
                    first,
                    r,
                    #[inline(always)]
                    |k, mut r| {
                        let u = plane_of(u, nx * ny, k);
                        operator.plane(k, r.each_mut().map(|component| &mut **component));
                        let plane = r.each_mut().map(|component| &mut **component);
                        Simd::vectorize(simd, InPlane::<S, 0> { simd, mesh, u, r: plane, bundle: &mut *bundle });
                        Simd::vectorize(simd, InPlane::<S, 1> { simd, mesh, u, r, bundle: &mut *bundle });
                    },
                );
            },
        );
    }
}
