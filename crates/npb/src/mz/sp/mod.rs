//! SP-MZ: approximate factorisation into scalar pentadiagonal systems along x, y and z.
//!
//! A step of a zone, after the exchange, is a residual, a transform into waves, a sweep in each direction with the
//! transform to the next, and the addition of the result to the state. Each of these stages is a function that can
//! run as a task. [`step`] performs all stages, plane by plane as far as lines lie in planes. Source: NASA reports
//! RNR-94-007, section 4.4, and NAS-03-010.

pub mod penta;
mod sweep;
mod transforms;
mod z_sweep;

use std::ops::Range;

use ndarray::{ArrayView4, ArrayViewMut4};
use pulp::{Simd, WithSimd};

use crate::mz::components::{ComponentsMut, Slab, components_mut, for_planes, for_slabs, over_planes, reborrow};
use crate::mz::faces::{Halo, State, StatePlanes};
use crate::mz::in_z;
use crate::mz::lanes::{dispatch, vectorize, with_scratch};
use crate::mz::lines::planes_together;
use crate::mz::operator::{Operator, assert_shapes};
use crate::mz::passes;
use crate::mz::physics::Mesh;
use crate::mz::zones::Shape;
use sweep::{FlowPlane, Sweep, enter_plane, find_flow, scratch_vectors};
use z_sweep::LinesInZ;

pub use crate::mz::bt::add;

/// Transforms the right-hand side `r` into waves in x ("txinvr").
///
/// # Panics
/// Panics if an array does not have the shape of the mesh, or a component of it is not contiguous.
pub fn transform(mesh: &Mesh, u: &ArrayView4<'_, f64>, r: ArrayViewMut4<'_, f64>, threads: usize) {
    sweep_planes::<true, false, false>(mesh, u, r, threads);
}

/// Solves all lines in x for the right-hand side `r`. The solution replaces `r`, as waves in y ("ninvr").
///
/// # Panics
/// Panics under the same conditions as [`transform`].
pub fn x_sweep(mesh: &Mesh, u: &ArrayView4<'_, f64>, r: ArrayViewMut4<'_, f64>, threads: usize) {
    sweep_planes::<false, true, false>(mesh, u, r, threads);
}

/// Solves all lines in y for the right-hand side `r`. The solution replaces `r`, as waves in z ("pinvr").
///
/// # Panics
/// Panics under the same conditions as [`transform`].
pub fn y_sweep(mesh: &Mesh, u: &ArrayView4<'_, f64>, r: ArrayViewMut4<'_, f64>, threads: usize) {
    sweep_planes::<false, false, true>(mesh, u, r, threads);
}

/// Solves all lines in z for the right-hand side `r`. The solution replaces `r`, as conserved quantities ("tzetar").
///
/// # Panics
/// Panics under the same conditions as [`transform`].
pub fn z_sweep(mesh: &Mesh, u: &ArrayView4<'_, f64>, r: ArrayViewMut4<'_, f64>, threads: usize) {
    in_z::replace(LinesInZ, mesh, u, r, threads);
}

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

/// Performs the part of a step that stays within the interior planes `planes`: residual, transform, x and y. `u` is
/// the whole array; `forcing` and `r` contain only these planes.
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
        dispatch(nx - 2, InPlanes::<true, true, true> { mesh, u, forcing, first: planes.start + share.start, r });
    });
}

/// Completes a step by updating `u` in the rows `rows`; see [`in_z::add`].
pub fn in_rows(mesh: &Mesh, rows: Range<usize>, u: ArrayViewMut4<'_, f64>, r: &ArrayView4<'_, f64>, threads: usize) {
    in_z::add(LinesInZ, mesh, rows, u, r, threads);
}

/// Runs one of the stages that stay within planes of constant z: the transform into waves, the sweep in x, or the
/// sweep in y.
fn sweep_planes<const TRANSFORM: bool, const X: bool, const Y: bool>(
    mesh: &Mesh,
    u: &ArrayView4<'_, f64>,
    r: ArrayViewMut4<'_, f64>,
    threads: usize,
) {
    let Shape { nx, ny, nz } = mesh.shape;
    let u = State::from(u).planes();
    over_planes(threads, components_mut(r), nx * ny, 1..nz - 1, |planes, r| {
        dispatch(nx - 2, InPlanes::<TRANSFORM, X, Y> { mesh, u, forcing: u.slab, first: planes.start, r });
    });
}

/// Work on the planes of `r` from `first` on: either one of the stages, or the residual followed by all stages.
/// Only the residual needs `forcing`.
struct InPlanes<'a, const TRANSFORM: bool, const X: bool, const Y: bool> {
    mesh: &'a Mesh,
    u: StatePlanes<'a>,
    forcing: Slab<'a>,
    first: usize,
    r: ComponentsMut<'a>,
}

impl<const TRANSFORM: bool, const X: bool, const Y: bool> WithSimd for InPlanes<'_, TRANSFORM, X, Y> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { mesh, u, forcing, first, r } = self;
        let Shape { nx, ny, .. } = mesh.shape;
        let plane = nx * ny;
        let together = planes_together(S::F64_LANES, plane, &[ny - 2]);
        with_scratch(
            #[inline(always)]
            |scratch| {
                let of_operator = Operator::<S>::numbers(mesh.shape);
                let of_sweeps = scratch_vectors(mesh.shape) * S::F64_LANES;
                let scratch = scratch.numbers(of_operator + of_sweeps + 2 * together * plane);
                let (of_operator, scratch) = scratch.split_at_mut(of_operator);
                let (of_sweeps, flow) = scratch.split_at_mut(of_sweeps);
                let (volume, sound) = flow.split_at_mut(together * plane);
                let whole = TRANSFORM && X && Y;
                let mut operator = whole.then(
                    #[inline(always)]
                    || {
                        let planes = first..first + r[0].len() / plane;
                        Operator::new(simd, mesh, (u, forcing), mesh.dt, planes, of_operator)
                    },
                );
                for_slabs(
                    plane,
                    together,
                    first,
                    r,
                    #[inline(always)]
                    |ks, mut r| {
                        let planes = ks.len();
                        let (volume, sound) = (&mut volume[..planes * plane], &mut sound[..planes * plane]);
                        let flows = volume.chunks_exact_mut(plane).zip(sound.chunks_exact_mut(plane));
                        let mut flows = flows.map(|(volume, sound)| FlowPlane { volume, sound });
                        for_planes(
                            plane,
                            ks.start,
                            reborrow(&mut r),
                            #[inline(always)]
                            |k, mut r| {
                                let (u, mut flow) = (u.slab.plane(k), flows.next().expect("one for each plane"));
                                if let Some(operator) = &mut operator {
                                    operator.plane(k, reborrow(&mut r));
                                }
                                if TRANSFORM {
                                    enter_plane(simd, u, &mut r, &mut flow, !whole);
                                } else {
                                    find_flow(simd, u, &r, &mut flow);
                                }
                            },
                        );
                        let (u, flow, scratch) = (u.slab.planes(ks), &FlowPlane { volume, sound }, &mut *of_sweeps);
                        if X {
                            vectorize(simd, Sweep::<0> { mesh, planes, u, flow, r: &mut r, scratch: &mut *scratch });
                        }
                        if Y {
                            vectorize(simd, Sweep::<1> { mesh, planes, u, flow, r: &mut r, scratch });
                        }
                    },
                );
            },
        );
    }
}
