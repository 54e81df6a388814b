//! The spatial operator: r = scale · (S(u) + forcing) at the interior points of a zone.
//!
//! S(u) is the sum over the three directions of central differences of the inviscid fluxes, the viscous terms, and
//! second and fourth differences of u as artificial dissipation (NASA report RNR-94-007, sections 3.2 and 4.2). Its
//! stencil is a star: no point on an edge of the zone is ever read to effect.
//!
//! Planes of constant z are swept upwards. The state and what follows from it are kept for five planes, laid out so
//! that they do not compete for the same lines of a cache; then each row is one loop along x, in vectors, of which the
//! last may reach beyond the row. Nothing but the interior of r is written.

use std::ops::Range;

use ndarray::{ArrayView4, ArrayViewMut4, s};
use pulp::{Simd, WithSimd};

use super::components::{ComponentsMut, Slab, components_mut, for_planes, over_planes};
use super::initial::exact_state;
use super::lanes::{Lane, MAX_LANES, dispatch, with_scratch};
use super::physics::{COMPONENTS, Mesh};
use super::planes::{HEAT, PRESSURE, Planes};
use super::prefetch::prefetch;
use super::stencil::{Constants, DissipationWeights, Far, Star, Weights};
use super::zones::Shape;

/// Sets the interior of `r` to S(u) + forcing, on `threads` threads. All arrays are `[5, nz, ny, nx]`.
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
    apply(mesh, u, forcing, 1.0, r, threads);
}

/// [`residual`] in the interior planes `planes` alone: `u` is given whole, `forcing` and `r` in these planes.
///
/// # Panics
/// If an array does not have this shape, or a component of it is not contiguous.
pub(crate) fn residual_in_planes(
    mesh: &Mesh,
    planes: Range<usize>,
    u: &ArrayView4<'_, f64>,
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
    apply(mesh, u, forcing, mesh.dt, r, threads);
}

fn apply(
    mesh: &Mesh,
    u: &ArrayView4<'_, f64>,
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
    u: &ArrayView4<'_, f64>,
    forcing: &ArrayView4<'_, f64>,
    scale: f64,
    r: ArrayViewMut4<'_, f64>,
    threads: usize,
) {
    assert_shapes(mesh, &planes, [u.shape(), forcing.shape(), r.shape()]);
    let Shape { nx, ny, .. } = mesh.shape;
    let (u, forcing) = (Slab::new(0, u), Slab::new(planes.start, forcing));
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
    apply(mesh, &exact_state(mesh).view(), &none.view(), -1.0, forcing, 1);
}

/// The planes of `r` from `first` on.
struct InPlanes<'a> {
    mesh: &'a Mesh,
    u: Slab<'a>,
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

/// The operator on its way up through the planes of a zone.
pub(crate) struct Operator<'a, S: Simd> {
    simd: S,
    mesh: &'a Mesh,
    u: Slab<'a>,
    forcing: Slab<'a>,
    constants: Constants<S>,
    weights: DissipationWeights,
    planes: Planes<'a>,
    /// A row of each component of the result, and what vectors reach beyond it.
    row: [Vec<f64>; 5],
}

impl<'a, S: Simd> Operator<'a, S> {
    /// An operator about to compute plane `first`, with scratch of [`Planes::numbers`].
    #[inline(always)]
    pub(crate) fn new(
        simd: S,
        mesh: &'a Mesh,
        u: Slab<'a>,
        forcing: Slab<'a>,
        scale: f64,
        scratch: &'a mut [f64],
        first: usize,
    ) -> Self {
        let mut planes = Planes::new(mesh.shape, scratch);
        for k in first.saturating_sub(2)..first + 2 {
            planes.read(simd, u, k);
        }
        let (constants, weights) = (Constants::new(simd, mesh, scale), DissipationWeights::new(mesh));
        let row = std::array::from_fn(|_| vec![0.0; (mesh.shape.nx - 2).next_multiple_of(MAX_LANES)]);
        Self { simd, mesh, u, forcing, constants, weights, planes, row }
    }

    /// Sets the interior of plane `k` of r, the plane above the last one computed.
    #[inline(always)]
    pub(crate) fn plane(&mut self, k: usize, r: ComponentsMut<'_>) {
        let Shape { nx, ny, nz } = self.mesh.shape;
        if k + 2 < nz {
            self.planes.read(self.simd, self.u, k + 2);
        }
        let fields = Fields {
            u: tabulate!(|m| self.planes.star(m, k)),
            far: tabulate!(|m| self.planes.far(m, k)),
            primitives: tabulate!(|quantity| self.planes.star(5 + quantity, k)),
        };
        let (scale, forcing) = (self.constants.scale, self.forcing.plane(k));
        // What is read next is asked for in between, or reading it would be waiting for it.
        let next = (k + 3 < nz).then(
            #[inline(always)]
            || self.u.plane(k + 3),
        );
        let (pitch, whole) = (Planes::pitch(self.mesh.shape), self.row[0].len());
        for j in 1..ny - 1 {
            let weights = self.weights.row(self.simd, j, k);
            let [r0, r1, r2, r3, r4] = self.row.each_mut();
            let row = [&mut r0[..whole], &mut r1[..whole], &mut r2[..whole], &mut r3[..whole], &mut r4[..whole]];
            for i in (0..nx - 2).step_by(S::F64_LANES) {
                // The processor does not foresee the first lines of five short rows, and a row is too short to wait for them.
                unroll!(5, |m| prefetch(forcing[m], (j + 1) * nx + i));
                if let Some(next) = &next {
                    unroll!(5, |m| prefetch(next[m], j * nx + i));
                }
                let sums = fields.apply(&self.constants, &weights, (j - 1) * pitch + i, i);
                unroll!(5, |m| sums[m].store(row[m], i));
            }
            // One component after the other: the ten arrays at once may well compete for the same lines of the cache.
            unroll!(5, |m| {
                let at = j * nx + 1;
                let (forcing, r) = (&forcing[m][at..][..nx - 2], &mut r[m][at..][..nx - 2]);
                for_vectors!(S, nx - 2, |i| {
                    let sum = Lane::load(self.simd, row[m], i) + Lane::load(self.simd, forcing, i);
                    (sum * scale).store(r, i);
                });
            });
        }
    }
}

/// What the operator reads of a plane and of those around it.
struct Fields<'a> {
    u: [Star<'a>; 5],
    far: [Far<'a>; 5],
    primitives: [Star<'a>; 5],
}

impl Fields<'_> {
    /// S(u) at the points from `at` on, of which the first is the `i`-th of its row.
    ///
    /// What a neighbour contributes is a sum of products with its own quantities. Those of the neighbours before and
    /// those of the neighbours after are summed up apart, so that neither chain of additions waits for the other.
    #[inline(always)]
    fn apply<S: Simd>(&self, constants: &Constants<S>, weights: &Weights<'_, S>, at: usize, i: usize) -> [Lane<S>; 5] {
        let mut before = self.here(constants, weights.here(i), at);
        let mut after = [Lane::splat(constants.simd, 0.0); 5];
        unroll!(3, |d| {
            let [far_before, near_before, near_after, far_after] = weights.sides(d, i);
            self.far(far_before, [d, 0], at, &mut before);
            self.far(far_after, [d, 1], at, &mut after);
            self.near(constants, near_before, [d, 0], at, &mut before);
            self.near(constants, near_after, [d, 1], at, &mut after);
        });
        tabulate!(|m| before[m] + after[m])
    }

    /// What the point itself contributes: the middle of the differences, with `weight` that of the dissipation.
    #[inline(always)]
    fn here<S: Simd>(&self, constants: &Constants<S>, weight: Lane<S>, at: usize) -> [Lane<S>; 5] {
        let simd = constants.simd;
        let mut sums: [Lane<S>; 5] = tabulate!(|m| weight * self.u[m].load(simd, at));
        unroll!(3, |c| {
            let v = self.primitives[c].load(simd, at);
            sums[c + 1] = constants.viscosity_here[c].mul_add(v, sums[c + 1]);
            sums[4] = (constants.square_here[c] * v).mul_add(v, sums[4]);
        });
        sums[4] = constants.heat_here.mul_add(self.primitives[HEAT].load(simd, at), sums[4]);
        sums
    }

    /// What the neighbour at `side` contributes: its flux, its part in the viscous terms, and its part in the
    /// dissipation, which has the given weight.
    #[inline(always)]
    fn near<S: Simd>(
        &self,
        constants: &Constants<S>,
        weight: Lane<S>,
        side @ [d, end]: [usize; 2],
        at: usize,
        sums: &mut [Lane<S>; 5],
    ) {
        let simd = constants.simd;
        let convection = constants.convection[d][end];
        let normal = self.primitives[d].load_side(simd, side, at);
        let pressure = self.primitives[PRESSURE].load_side(simd, side, at);
        let carried = convection * normal;
        let weight_carried = weight + carried;
        sums[0] = weight.mul_add(self.u[0].load_side(simd, side, at), sums[0]);
        unroll!(3, |c| {
            let momentum = self.u[c + 1].load_side(simd, side, at);
            let velocity = if c == d { normal } else { self.primitives[c].load_side(simd, side, at) };
            sums[c + 1] = weight_carried.mul_add(momentum, sums[c + 1]);
            sums[c + 1] = constants.viscosity[d][c].mul_add(velocity, sums[c + 1]);
            if c == d {
                sums[0] = convection.mul_add(momentum, sums[0]);
                sums[c + 1] = convection.mul_add(pressure, sums[c + 1]);
            }
        });
        sums[4] = weight_carried.mul_add(self.u[4].load_side(simd, side, at), sums[4]);
        sums[4] = carried.mul_add(pressure, sums[4]);
        sums[4] = constants.heat[d].mul_add(self.primitives[HEAT].load_side(simd, side, at), sums[4]);
        sums[4] = (constants.square[d] * normal).mul_add(normal, sums[4]);
    }

    /// What the point two away at `side` contributes: the end of the fourth difference, with the given weight.
    #[inline(always)]
    fn far<S: Simd>(&self, weight: Lane<S>, side: [usize; 2], at: usize, sums: &mut [Lane<S>; 5]) {
        unroll!(5, |m| sums[m] = weight.mul_add(self.far[m].load_side(weight.simd(), side, at), sums[m]));
    }
}
