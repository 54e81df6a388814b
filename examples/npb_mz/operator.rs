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
use super::lanes::{Lane, dispatch, for_vectors, splats, tabulate, with_scratch};
use super::physics::{C1C5, C2, Mesh};
use super::stencil::{Far, Row, Star, Stencil, dissipation};
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
        let [r0, r1, r2, r3, r4] = r;
        for j in 1..ny - 1 {
            let row = Row::new(self.mesh.shape, j, k);
            let stencil = Stencil::new(self.simd, self.mesh, self.scale, &self.weights, j, k);
            let target = j * nx + 1..j * nx + nx - 1;
            self.density(row, &stencil, &mut r0[target.clone()]);
            self.momentum::<0>(row, &stencil, &mut r1[target.clone()]);
            self.momentum::<1>(row, &stencil, &mut r2[target.clone()]);
            self.momentum::<2>(row, &stencil, &mut r3[target.clone()]);
            self.energy(row, &stencil, &mut r4[target]);
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

    /// A row of a primitive quantity and of its six neighbours.
    #[inline(always)]
    fn star(&self, quantity: usize, row: Row) -> Star<'_> {
        let Row { k, plane, .. } = row;
        let planes = tabulate(
            #[inline(always)]
            |z| {
                let slot = (k + z + 2) % 3 * PRIMITIVES + quantity;
                &self.primitives[slot * plane..][..plane]
            },
        );
        Star::new(planes, row.begin - k * plane, row)
    }

    /// A row of a component of u and of its six neighbours.
    #[inline(always)]
    fn star_of_u(&self, m: usize, row: Row) -> Star<'a> {
        let Row { k, plane, .. } = row;
        let planes = tabulate(
            #[inline(always)]
            |z| &self.u[m][(k + z - 1) * plane..][..plane],
        );
        Star::new(planes, row.begin - k * plane, row)
    }

    /// ρ is convected as momentum; it has no viscous term.
    #[inline(always)]
    fn density(&self, row: Row, stencil: &Stencil<'_, S>, r: &mut [f64]) {
        let simd = self.simd;
        let density = self.star_of_u(0, row);
        let momentum: [Star<'_>; 3] = tabulate(
            #[inline(always)]
            |d| self.star_of_u(d + 1, row),
        );
        let far = Far::new(self.u[0], row);
        let forcing = row.of(self.forcing[0]);
        for_vectors::<S>(
            row.length,
            #[inline(always)]
            |i| {
                let mut sum = stencil.dissipation(Lane::load(simd, forcing, i), &density.load(simd, i), &far, i);
                for (d, momentum) in momentum.iter().enumerate() {
                    let [before, after] = momentum.load_sides(simd, d, i);
                    sum = stencil.convection[d].mul_add(after - before, sum);
                }
                (sum * stencil.scale).store(r, i);
            },
        );
    }

    /// The momentum in direction `C`.
    #[inline(always)]
    fn momentum<const C: usize>(&self, row: Row, stencil: &Stencil<'_, S>, r: &mut [f64]) {
        let simd = self.simd;
        let momentum = self.star_of_u(C + 1, row);
        let velocity: [Star<'_>; 3] = tabulate(
            #[inline(always)]
            |d| self.star(d, row),
        );
        let pressure = self.star(PRESSURE, row);
        let far = Far::new(self.u[C + 1], row);
        let forcing = row.of(self.forcing[C + 1]);
        let viscosity: [Lane<S>; 3] = tabulate(
            #[inline(always)]
            |d| if d == C { stencil.viscosity_along[d] } else { stencil.viscosity[d] },
        );
        for_vectors::<S>(
            row.length,
            #[inline(always)]
            |i| {
                let momentum = momentum.load(simd, i);
                let mut sum = stencil.dissipation(Lane::load(simd, forcing, i), &momentum, &far, i);
                let here = velocity[C].load_here(simd, i);
                let twice = here + here;
                for d in 0..3 {
                    let [before, after] = velocity[C].load_sides(simd, d, i);
                    sum = viscosity[d].mul_add(before + after - twice, sum);
                    let [m_before, m_after] = momentum.sides[d];
                    let [v_before, v_after] = velocity[d].load_sides(simd, d, i);
                    let mut flux = m_before.mul_sub_from(v_before, m_after * v_after);
                    if d == C {
                        let [p_before, p_after] = pressure.load_sides(simd, d, i);
                        flux = flux + (p_after - p_before);
                    }
                    sum = stencil.convection[d].mul_add(flux, sum);
                }
                (sum * stencil.scale).store(r, i);
            },
        );
    }

    /// The energy, with the work of the pressure and the conduction of heat.
    #[inline(always)]
    fn energy(&self, row: Row, stencil: &Stencil<'_, S>, r: &mut [f64]) {
        let simd = self.simd;
        let energy = self.star_of_u(4, row);
        let velocity: [Star<'_>; 3] = tabulate(
            #[inline(always)]
            |d| self.star(d, row),
        );
        let pressure = self.star(PRESSURE, row);
        let heat = self.star(HEAT, row);
        let far = Far::new(self.u[4], row);
        let forcing = row.of(self.forcing[4]);
        let sixth = Lane::splat(simd, 1.0 / 6.0);
        for_vectors::<S>(
            row.length,
            #[inline(always)]
            |i| {
                let energy = energy.load(simd, i);
                let mut sum = stencil.dissipation(Lane::load(simd, forcing, i), &energy, &far, i);
                let here = heat.load_here(simd, i);
                let twice = here + here;
                for d in 0..3 {
                    let [v_before, v_after] = velocity[d].load_sides(simd, d, i);
                    let [h_before, h_after] = heat.load_sides(simd, d, i);
                    let v = velocity[d].load_here(simd, i);
                    let squares = v_before.mul_add(v_before, v_after * v_after) - (v + v) * v;
                    sum = stencil.viscosity[d].mul_add(sixth.mul_add(squares, h_before + h_after - twice), sum);
                    let [e_before, e_after] = energy.sides[d];
                    let [p_before, p_after] = pressure.load_sides(simd, d, i);
                    let flux = (e_before + p_before).mul_sub_from(v_before, (e_after + p_after) * v_after);
                    sum = stencil.convection[d].mul_add(flux, sum);
                }
                (sum * stencil.scale).store(r, i);
            },
        );
    }
}
