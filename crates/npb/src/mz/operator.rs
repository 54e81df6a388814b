//! The spatial operator: r = scale · (S(u) + forcing) at the interior points of a zone.
//!
//! S(u) is the sum over the three directions of central differences of the inviscid fluxes, the viscous terms, and
//! second and fourth differences of u as artificial dissipation (NASA report RNR-94-007, sections 3.2 and 4.2). Its
//! stencil is a star: no point on an edge of the zone is ever read to effect.
//!
//! Planes of constant z are swept upwards. Those around are kept as blocks, each row of the topmost one read just before it is
//! needed; then a row is one loop along x, in vectors, of which the first and the last may reach beyond the row's interior.
//! Of r, the interior is written, and zeros at the ends of its rows, where r is 0 in all that uses it.

use std::ops::Range;

use ndarray::{ArrayView4, ArrayViewMut4, s};
use pulp::{Simd, WithSimd};

use super::components::{ComponentsMut, Slab, components_mut, for_planes, over_planes};
use super::faces::{State, StatePlanes};
use super::initial::exact_state;
use super::lanes::{Lane, dispatch, vectorize, with_scratch};
use super::physics::{COMPONENTS, Mesh};
use super::planes::Planes;
use super::prefetch::prefetch;
use super::stencil::{Constants, DissipationWeights, Star};
use super::zones::Shape;

/// Sets the interior of `r` to S(u) + forcing, on `threads` threads; of its boundary nothing is changed but to 0. All arrays are
/// `[5, nz, ny, nx]`.
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
    residual_of(mesh, &u.into(), forcing, r, threads);
}

/// [`residual`] of a state whose outer faces may be elsewhere.
///
/// # Panics
/// As [`residual`].
pub(crate) fn residual_of(
    mesh: &Mesh,
    u: &State<'_>,
    forcing: &ArrayView4<'_, f64>,
    r: ArrayViewMut4<'_, f64>,
    threads: usize,
) {
    apply(mesh, u, forcing, 1.0, r, threads);
}

/// [`residual`] in the interior planes `planes` alone: `u` is given whole, `forcing` and `r` in these planes.
///
/// # Panics
/// If an array does not have this shape, or a component of it is not contiguous.
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

/// Asserts that arrays have the shapes that [`residual_in_planes`] asks for.
pub(crate) fn assert_shapes(mesh: &Mesh, planes: &Range<usize>, [u, forcing, r]: [&[usize]; 3]) {
    let Shape { nx, ny, .. } = mesh.shape;
    let part = [COMPONENTS, planes.len(), ny, nx];
    assert_eq!([u, forcing, r], [mesh.shape.array(), part, part], "shapes in planes {planes:?}");
}

/// Sets the interior of `r` to Δt · (S(u) + forcing): the right-hand side of a step of BT and of SP.
///
/// # Panics
/// As [`residual`].
pub(crate) fn scaled_residual(
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

/// Sets `forcing` to what makes the exact solution a steady state: −S(u) of the exact solution, 0 on the boundary.
///
/// # Panics
/// As [`residual`].
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
                let planes = scratch.numbers(Planes::numbers(mesh.shape));
                let mut operator = Operator::new(simd, mesh, u, forcing, scale, planes, first);
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

/// How far ahead, in points, what is read next is asked for.
const AHEAD: usize = 32;

/// The operator on its way up through the planes of a zone.
pub(crate) struct Operator<'a, S: Simd> {
    simd: S,
    mesh: &'a Mesh,
    u: StatePlanes<'a>,
    forcing: Slab<'a>,
    constants: Constants<S>,
    weights: DissipationWeights,
    planes: Planes<'a>,
}

impl<'a, S: Simd> Operator<'a, S> {
    /// An operator about to compute plane `first`, with scratch of [`Planes::numbers`].
    #[inline(always)]
    pub(crate) fn new(
        simd: S,
        mesh: &'a Mesh,
        u: StatePlanes<'a>,
        forcing: Slab<'a>,
        scale: f64,
        scratch: &'a mut [f64],
        first: usize,
    ) -> Self {
        let mut planes = Planes::new(mesh.shape, scratch);
        for k in first.saturating_sub(2)..first + 2 {
            planes.read(simd, &u, k);
        }
        let (constants, weights) = (Constants::new(simd, mesh, scale), DissipationWeights::new(mesh));
        Self { simd, mesh, u, forcing, constants, weights, planes }
    }

    /// Sets the interior of plane `k` of r, the plane above the last one computed, and the ends of its rows to 0.
    #[inline(always)]
    pub(crate) fn plane(&mut self, k: usize, r: ComponentsMut<'_>) {
        vectorize(self.simd, Plane { operator: self, k, r });
    }

    #[inline(always)]
    fn in_plane(&mut self, k: usize, mut r: ComponentsMut<'_>) {
        let Shape { nx, ny, nz } = self.mesh.shape;
        // A copy, which what is written cannot change: so it need not be read again.
        let constants = self.constants;
        let (simd, forcing) = (self.simd, self.forcing.plane(k));
        let (above, is_above) = if k + 2 < nz { (self.u.plane(k + 2), true) } else { (self.u.plane(k), false) };
        for j in 1..ny - 1 {
            if is_above {
                // The first row and the last one have no turn of their own.
                let (first, last) = (if j == 1 { 0 } else { j }, if j == ny - 2 { ny } else { j + 1 });
                for j in first..last {
                    self.planes.read_row(simd, &above, k + 2, j);
                }
            }
            let weights = self.weights.row(simd, j, k);
            let star = Star::new(&self.planes, self.weights.outer(j, k), j, k);
            let [row, interior] = [j * nx..(j + 1) * nx, j * nx + 1..(j + 1) * nx - 1];
            for i in (0..nx).step_by(S::F64_LANES) {
                // The processor does not foresee the first lines of many short rows, and a row is too short to wait for them.
                let at = row.start + i;
                unroll!(5, |m| prefetch(forcing[m], at + AHEAD));
                unroll!(5, |m| prefetch(above.u[m], at + AHEAD + nx));
                unroll!(5, |m| prefetch(r[m], at + AHEAD));
                let sums = star.apply(&constants, &weights, i);
                let sums: [Lane<S>; 5] = tabulate!(|m| (sums[m] + Lane::load(simd, forcing[m], at)) * constants.scale);
                unroll!(5, |m| sums[m].store_or_zero(r[m], at, &interior));
            }
        }
    }
}

/// One call of [`Operator::plane`], a function of its own: registers are few, and its caller's numbers want some too.
struct Plane<'o, 'a, 'r, S: Simd> {
    operator: &'o mut Operator<'a, S>,
    k: usize,
    r: ComponentsMut<'r>,
}

impl<V: Simd> WithSimd for Plane<'_, '_, '_, V> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        self.operator.in_plane(self.k, self.r);
    }
}
