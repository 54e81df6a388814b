//! A zone's step in two passes: residual, x and y plane by plane, then z together with the addition to the state.
//!
//! The arithmetic is the same as in the separate stages, so the results agree to the last bit. The benefit is that
//! the sweeps find a plane's residual still in the cache, and that the solution is written only to the state.

use std::ops::Range;

use ndarray::{ArrayView4, ArrayViewMut4};
use pulp::{Simd, WithSimd};

use super::sweep::{in_rows, sweep, together, vectors};
use crate::mz::components::{ComponentsMut, Slab, components_mut, for_slabs, over_planes, plane_mut};
use crate::mz::faces::{Halo, State, StatePlanes};
use crate::mz::lanes::{dispatch, with_scratch};
use crate::mz::operator::{Operator, assert_shapes};
use crate::mz::passes;
use crate::mz::physics::Mesh;
use crate::mz::zones::Shape;

/// Performs a whole step of a zone whose outer faces are in `halo`, or have been exchanged; see [`passes::step`].
pub fn step(
    mesh: &Mesh,
    u: ArrayViewMut4<'_, f64>,
    halo: Option<Halo<'_>>,
    forcing: &ArrayView4<'_, f64>,
    threads: usize,
) {
    passes::step((in_planes, in_rows), mesh, (u, halo), forcing, threads);
}

/// Performs the part of a step that stays within the interior planes `planes`: residual, x and y. `u` is the whole
/// array; `forcing` and `r` contain only these planes.
///
/// # Panics
/// Panics if an array does not have this shape, or a component of it is not contiguous.
pub fn in_planes(
    mesh: &Mesh,
    planes: Range<usize>,
    u: &State<'_>,
    forcing: &ArrayView4<'_, f64>,
    r: ArrayViewMut4<'_, f64>,
    threads: usize,
) {
    assert_shapes(mesh, &planes, [u.u.shape(), forcing.shape(), r.shape()]);
    let Shape { nx, ny, .. } = mesh.shape;
    let (u, forcing) = (u.planes(), Slab::new(planes.start, forcing));
    over_planes(threads, components_mut(r), nx * ny, 0..planes.len(), |share, r| {
        dispatch(nx - 2, ToY { mesh, u, forcing, first: planes.start + share.start, r });
    });
}

/// Work on the planes of `r` from `first` on, from the residual to the sweep in y.
struct ToY<'a> {
    mesh: &'a Mesh,
    u: StatePlanes<'a>,
    forcing: Slab<'a>,
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
                let of_bundle = vectors(nx, ny) * S::F64_LANES;
                let of_operator = Operator::<S>::numbers(mesh.shape);
                let (of_operator, bundle) = scratch.numbers(of_operator + of_bundle).split_at_mut(of_operator);
                let bundle = bytemuck::cast_slice_mut::<f64, S::f64s>(bundle);
                let planes = first..first + r[0].len() / (nx * ny);
                let mut operator = Operator::new(simd, mesh, (u, forcing), mesh.dt, planes, of_operator);
                for_slabs(
                    nx * ny,
                    together::<S>(mesh),
                    first,
                    r,
                    #[inline(always)]
                    |ks, mut r| {
                        for (n, k) in ks.clone().enumerate() {
                            operator.plane(k, plane_mut(&mut r, n, nx * ny));
                        }
                        let (planes, u) = (ks.len(), u.slab.planes(ks));
                        sweep::<S, 0, false>(simd, mesh, planes, u, &mut r, bundle);
                        sweep::<S, 1, false>(simd, mesh, planes, u, &mut r, bundle);
                    },
                );
            },
        );
    }
}
