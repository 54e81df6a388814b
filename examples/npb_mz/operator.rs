//! The spatial operator: r = scale · (S(u) + forcing) at the interior points of a zone.
//!
//! S(u) is the sum over the three directions of central differences of the inviscid fluxes, the viscous terms, and
//! second and fourth differences of u as artificial dissipation (NASA report RNR-94-007, sections 3.2 and 4.2). Its
//! stencil is a star: no point on an edge of the zone is ever read to effect.
//!
//! Planes of constant z are swept upwards. Velocities, pressure and a combination of energies are computed once
//! per point, for the plane above, and kept for three planes; then each row of each component is one loop along x,
//! in vectors, of which the last overlaps the one before. Nothing but the interior of r is written.

use ndarray::{ArrayView4, ArrayViewMut4};
use pulp::{Simd, WithSimd};

use super::components::{Components, ComponentsMut, components, components_mut, over_planes};
use super::initial::exact_state;
use super::lanes::{Lane, dispatch, for_vectors, splats, tabulate, unroll, with_scratch};
use super::physics::{C1C5, C2, Mesh};
use super::stencil::{Far, Frame, Star, Stencil, dissipation};
use super::zones::Shape;

/// Quantities kept per point: v₁, v₂, v₃, pressure, and (1 − c₁c₅) q + c₁c₅ E/ρ.
pub(crate) const PRIMITIVES: usize = 5;
const PRESSURE: usize = 3;
const HEAT: usize = 4;

/// Sets the interior of `r` to `scale` · (S(u) + forcing), on `threads` threads. All arrays are `[5, nz, ny, nx]`.
///
/// # Panics
/// If an array does not have the shape of the mesh, or a component of it is not contiguous.
pub(crate) fn residual(
    mesh: &Mesh,
    u: &ArrayView4<'_, f64>,
    forcing: &ArrayView4<'_, f64>,
    scale: f64,
    r: ArrayViewMut4<'_, f64>,
    threads: usize,
) {
    for shape in [u.shape(), forcing.shape(), r.shape()] {
        assert_eq!(shape, mesh.shape.array(), "shape of a zone's array");
    }
    let Shape { nx, ny, nz } = mesh.shape;
    let (u, forcing) = (components(u), components(forcing));
    over_planes(threads, components_mut(r), nx * ny, 1..nz - 1, |planes, r| {
        dispatch(nx - 2, Planes { mesh, u, forcing, scale, first: planes.start, r });
    });
}

/// Sets `forcing` to what makes the exact solution a steady state: −S(u) of the exact solution, 0 on the boundary.
///
/// # Panics
/// As [`residual`].
pub(crate) fn force(mesh: &Mesh, mut forcing: ArrayViewMut4<'_, f64>) {
    forcing.fill(0.0);
    let none = forcing.to_owned();
    residual(mesh, &exact_state(mesh).view(), &none.view(), -1.0, forcing, 1);
}

/// The planes of `r` from `first` on.
struct Planes<'a> {
    mesh: &'a Mesh,
    u: Components<'a>,
    forcing: Components<'a>,
    scale: f64,
    first: usize,
    r: ComponentsMut<'a>,
}

impl WithSimd for Planes<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { mesh, u, forcing, scale, first, r } = self;
        let plane = mesh.shape.nx * mesh.shape.ny;
        with_scratch(
            #[inline(always)]
            |scratch| {
                let primitives = scratch.numbers(3 * PRIMITIVES * plane);
                let mut operator = Operator::new(simd, mesh, u, forcing, scale, primitives, first);
                let mut rest = r;
                for k in first..first + rest[0].len() / plane {
                    operator.plane(k, rest.each_mut().map(|component| &mut component[..plane]));
                    rest = rest.map(|component| &mut component[plane..]);
                }
            },
        );
    }
}

/// The operator on its way up through the planes of a zone.
pub(crate) struct Operator<'a, S: Simd> {
    simd: S,
    mesh: &'a Mesh,
    u: Components<'a>,
    forcing: Components<'a>,
    scale: f64,
    /// Of three planes, that of plane k at k mod 3: each quantity's plane one after the other.
    primitives: &'a mut [f64],
    /// Weights of u(i−2) … u(i+2) by the position i − 1 in a row: dissipation in x.
    weights: [Vec<f64>; 5],
}

impl<'a, S: Simd> Operator<'a, S> {
    /// An operator about to compute plane `first`; `primitives` is scratch for 3 · [`PRIMITIVES`] planes.
    #[inline(always)]
    pub(crate) fn new(
        simd: S,
        mesh: &'a Mesh,
        u: Components<'a>,
        forcing: Components<'a>,
        scale: f64,
        primitives: &'a mut [f64],
        first: usize,
    ) -> Self {
        let nx = mesh.shape.nx;
        let weights = std::array::from_fn(|w| (1..nx - 1).map(|i| dissipation(mesh, 0, i, nx)[w]).collect());
        let mut operator = Self { simd, mesh, u, forcing, scale, primitives, weights };
        operator.find_primitives(first - 1);
        operator.find_primitives(first);
        operator
    }

    /// Sets the interior of plane `k` of r, the plane above the last one computed.
    #[inline(always)]
    pub(crate) fn plane(&mut self, k: usize, r: ComponentsMut<'_>) {
        self.find_primitives(k + 1);
        let Shape { nx, ny, .. } = self.mesh.shape;
        let frame = Frame::new(self.mesh.shape, k);
        let fields = Fields {
            u: tabulate(
                #[inline(always)]
                |m| Star::of_zone(self.u[m], frame),
            ),
            far: tabulate(
                #[inline(always)]
                |m| Far::new(self.u[m], frame),
            ),
            primitives: tabulate(
                #[inline(always)]
                |quantity| self.star(quantity, frame),
            ),
            forcing: tabulate(
                #[inline(always)]
                |m| frame.of_zone(self.forcing[m]),
            ),
        };
        let [r0, r1, r2, r3, r4] = r;
        let [r0, r1, r2, r3, r4] =
            [frame.of_plane(r0), frame.of_plane(r1), frame.of_plane(r2), frame.of_plane(r3), frame.of_plane(r4)];
        for j in 1..ny - 1 {
            let row = (j - 1) * nx;
            let stencil = Stencil::new(self.simd, self.mesh, self.scale, &self.weights, j, k);
            fields.density(&stencil, row, r0);
            fields.momentum::<S, 0>(&stencil, row, r1);
            fields.momentum::<S, 1>(&stencil, row, r2);
            fields.momentum::<S, 2>(&stencil, row, r3);
            fields.energy(&stencil, row, r4);
        }
    }

    /// Computes the primitive quantities at all points of plane `k`.
    #[inline(always)]
    fn find_primitives(&mut self, k: usize) {
        let simd = self.simd;
        let plane = self.mesh.shape.nx * self.mesh.shape.ny;
        let u = self.u.map(|component| &component[k * plane..(k + 1) * plane]);
        let kept = &mut self.primitives[k % 3 * PRIMITIVES * plane..][..PRIMITIVES * plane];
        let mut kept = kept.chunks_exact_mut(plane);
        let mut kept: [&mut [f64]; PRIMITIVES] =
            std::array::from_fn(|_| kept.next().expect("a plane of each quantity"));
        let [half, c2, q_weight, e_weight] = splats(simd, [0.5, C2, 1.0 - C1C5, C1C5]);
        for_vectors::<S>(
            plane,
            #[inline(always)]
            |at| {
                let [rho, m1, m2, m3, energy] = tabulate(
                    #[inline(always)]
                    |m| Lane::load(simd, u[m], at),
                );
                let inverse = rho.recip();
                let [v1, v2, v3] = [m1 * inverse, m2 * inverse, m3 * inverse];
                let kinetic = half * m3.mul_add(v3, m2.mul_add(v2, m1 * v1));
                let pressure = c2 * (energy - kinetic);
                let heat = inverse * energy.mul_add(e_weight, kinetic * q_weight);
                for (kept, value) in kept.iter_mut().zip([v1, v2, v3, pressure, heat]) {
                    value.store(kept, at);
                }
            },
        );
    }

    /// A primitive quantity and its six neighbours.
    #[inline(always)]
    fn star(&self, quantity: usize, frame: Frame) -> Star<'_> {
        let plane = frame.plane;
        Star::new(
            tabulate(
                #[inline(always)]
                |z| {
                    let slot = (frame.k + z + 2) % 3 * PRIMITIVES + quantity;
                    &self.primitives[slot * plane..][..plane]
                },
            ),
            frame,
        )
    }
}

/// What the operator reads of a plane and of those around it.
struct Fields<'a> {
    u: [Star<'a>; 5],
    far: [Far<'a>; 5],
    primitives: [Star<'a>; PRIMITIVES],
    forcing: Components<'a>,
}

impl Fields<'_> {
    /// ρ is convected as momentum; it has no viscous term. As all three: the row that begins at `row`, to `r`.
    #[inline(always)]
    fn density<S: Simd>(&self, stencil: &Stencil<'_, S>, row: usize, r: &mut [f64]) {
        let simd = stencil.simd;
        for_vectors::<S>(
            stencil.length(),
            #[inline(always)]
            |i| {
                let at = row + i;
                let density = self.u[0].load(simd, at);
                let mut sums =
                    stencil.dissipation(Lane::load(simd, self.forcing[0], at), &density, self.far[0].load(simd, at), i);
                unroll::<3>(
                    #[inline(always)]
                    |d| {
                        let [before, after] = self.u[d + 1].load_sides(simd, d, at);
                        sums[d] = stencil.convection[d].mul_add(after - before, sums[d]);
                    },
                );
                ((sums[0] + sums[1] + sums[2]) * stencil.scale).store(r, at);
            },
        );
    }

    /// The momentum in direction `C`.
    #[inline(always)]
    fn momentum<S: Simd, const C: usize>(&self, stencil: &Stencil<'_, S>, row: usize, r: &mut [f64]) {
        let simd = stencil.simd;
        let velocity = &self.primitives[..3];
        for_vectors::<S>(
            stencil.length(),
            #[inline(always)]
            |i| {
                let at = row + i;
                let momentum = self.u[C + 1].load(simd, at);
                let far = self.far[C + 1].load(simd, at);
                let mut sums = stencil.dissipation(Lane::load(simd, self.forcing[C + 1], at), &momentum, far, i);
                let here = velocity[C].load_here(simd, at);
                let twice = here + here;
                unroll::<3>(
                    #[inline(always)]
                    |d| {
                        let viscosity = if d == C { stencil.viscosity_along[d] } else { stencil.viscosity[d] };
                        let [before, after] = velocity[C].load_sides(simd, d, at);
                        sums[d] = viscosity.mul_add(before + after - twice, sums[d]);
                        let [m_before, m_after] = momentum.sides[d];
                        let [v_before, v_after] = velocity[d].load_sides(simd, d, at);
                        let mut flux = m_before.mul_sub_from(v_before, m_after * v_after);
                        if d == C {
                            let [p_before, p_after] = self.primitives[PRESSURE].load_sides(simd, d, at);
                            flux = flux + (p_after - p_before);
                        }
                        sums[d] = stencil.convection[d].mul_add(flux, sums[d]);
                    },
                );
                ((sums[0] + sums[1] + sums[2]) * stencil.scale).store(r, at);
            },
        );
    }

    /// The energy, with the work of the pressure and the conduction of heat.
    #[inline(always)]
    fn energy<S: Simd>(&self, stencil: &Stencil<'_, S>, row: usize, r: &mut [f64]) {
        let simd = stencil.simd;
        let [v1, v2, v3, pressure, heat] = &self.primitives;
        let velocity = [v1, v2, v3];
        let sixth = Lane::splat(simd, 1.0 / 6.0);
        for_vectors::<S>(
            stencil.length(),
            #[inline(always)]
            |i| {
                let at = row + i;
                let energy = self.u[4].load(simd, at);
                let mut sums =
                    stencil.dissipation(Lane::load(simd, self.forcing[4], at), &energy, self.far[4].load(simd, at), i);
                let here = heat.load_here(simd, at);
                let twice = here + here;
                unroll::<3>(
                    #[inline(always)]
                    |d| {
                        let [v_before, v_after] = velocity[d].load_sides(simd, d, at);
                        let [h_before, h_after] = heat.load_sides(simd, d, at);
                        let v = velocity[d].load_here(simd, at);
                        let squares = v_before.mul_add(v_before, v_after * v_after) - (v + v) * v;
                        sums[d] =
                            stencil.viscosity[d].mul_add(sixth.mul_add(squares, h_before + h_after - twice), sums[d]);
                        let [e_before, e_after] = energy.sides[d];
                        let [p_before, p_after] = pressure.load_sides(simd, d, at);
                        let flux = (e_before + p_before).mul_sub_from(v_before, (e_after + p_after) * v_after);
                        sums[d] = stencil.convection[d].mul_add(flux, sums[d]);
                    },
                );
                ((sums[0] + sums[1] + sums[2]) * stencil.scale).store(r, at);
            },
        );
    }
}
