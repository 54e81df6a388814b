//! The matrices of LU's two sweeps, applied to vectors without being formed.
//!
//! A vector w of the five components is equivalent to its [`Change`]: the change of density, w₁; the changes of the
//! velocities (times ρ), s_c = w_{c+1} − v_c w₁; and the change of inner energy, τ = w₅ − (E/ρ) w₁ − Σ v_c s_c. The
//! product of a flux Jacobian A_d with w is the change of the flux, and the product of a viscous Jacobian N_d with
//! w is the change of the stress. Both take a few operations, most of which the three directions share (NASA report
//! RNR-94-007, section 3). In these unknowns the diagonal block *is diagonal*, because N_d is diagonal and no A_d
//! contributes to the block. So five multiplications turn a change of b into a change of the solution.
//!
//! Invariant: components 2, 3, 4 of the state belong to the velocities along the three directions.

use pulp::Simd;

use crate::mz::lanes::{Lane, splats};
use crate::mz::physics::{C1, C2, C34, C1345, COMPONENTS, CON43, DISSIPATION, Mesh};

/// Over-relaxation factor ω.
pub const OMEGA: f64 = 1.2;

/// A vector of the five components.
pub(crate) type State<S> = [Lane<S>; COMPONENTS];

/// Coefficients of the matrices, which are the same at all points of a zone.
#[derive(Clone, Copy)]
pub struct Coefficients<S: Simd> {
    /// ω Δt / 2h_d, negative in the backward sweep, and that value times c₁.
    advection: [Lane<S>; 3],
    elastic: [Lane<S>; 3],
    /// ω Δt / h_d².
    diffusion: [Lane<S>; 3],
    /// ω Δt / h_d² times the second-difference dissipation.
    dissipation: [Lane<S>; 3],
    /// ω Δt / h_d² (κ − 1) c₃₄ = ω Δt / 3h_d² c₃₄: the additional term for the velocity along the direction.
    along: [Lane<S>; 3],
    /// c₃₄ and c₁₃₄₅.
    viscosity: Lane<S>,
    conduction: Lane<S>,
    /// The constant part of the diagonal, and its inverse.
    diagonal: Lane<S>,
    diagonal_inverse: Lane<S>,
    /// The diagonal's dependence on 1/ρ: for the momenta and for the energy.
    momentum: [Lane<S>; 3],
    energy: Lane<S>,
    /// c₂ and 1/2.
    c2: Lane<S>,
    half: Lane<S>,
}

impl<S: Simd> Coefficients<S> {
    /// Returns the coefficients of the forward (lower) or the `backward` (upper) sweep on a mesh.
    #[inline(always)]
    pub fn new(simd: S, mesh: &Mesh, backward: bool) -> Self {
        let sign = if backward { -1.0 } else { 1.0 };
        let dt = mesh.dt;
        let advection = mesh.h.map(|h| sign * OMEGA * dt / (2.0 * h));
        let t1 = mesh.h.map(|h| 1.0 / (h * h));
        let total: f64 = t1.iter().sum();
        let diagonal = 1.0 + 2.0 * dt * (t1[0] * DISSIPATION[0] + t1[1] * DISSIPATION[1] + t1[2] * DISSIPATION[2]);
        let momentum = t1.map(|t1| 2.0 * dt * C34 * (total + (CON43 - 1.0) * t1));
        let dissipation = std::array::from_fn(|d| OMEGA * dt * t1[d] * DISSIPATION[d]);
        Self {
            advection: splats(simd, advection),
            elastic: splats(simd, advection.map(|advection| C1 * advection)),
            diffusion: splats(simd, t1.map(|t1| OMEGA * dt * t1)),
            dissipation: splats(simd, dissipation),
            along: splats(simd, t1.map(|t1| OMEGA * dt * t1 * (CON43 - 1.0))),
            viscosity: Lane::splat(simd, C34),
            conduction: Lane::splat(simd, C1345),
            diagonal: Lane::splat(simd, diagonal),
            diagonal_inverse: Lane::splat(simd, 1.0 / diagonal),
            momentum: splats(simd, momentum),
            energy: Lane::splat(simd, 2.0 * dt * C1345 * total),
            c2: Lane::splat(simd, C2),
            half: Lane::splat(simd, 0.5),
        }
    }
}

/// The flow at a point, in the quantities that the matrices need.
#[derive(Clone, Copy)]
pub struct Flow<S: Simd> {
    /// 1/ρ.
    volume: Lane<S>,
    /// v₁, v₂, v₃.
    velocity: [Lane<S>; 3],
    /// Energy per mass, E/ρ.
    energy: Lane<S>,
    /// Pressure per mass, p/ρ.
    pressure: Lane<S>,
}

/// A vector of components, expressed as changes of physical quantities.
#[derive(Clone, Copy)]
pub struct Change<S: Simd> {
    /// Change of density.
    density: Lane<S>,
    /// ρ times the changes of the velocities.
    velocity: [Lane<S>; 3],
    /// ρ times the change of inner energy per mass.
    heat: Lane<S>,
}

impl<S: Simd> Change<S> {
    /// Multiplies each quantity by the corresponding quantity of `factor`.
    #[inline(always)]
    pub fn mul(&self, factor: &Self) -> Self {
        Self {
            density: self.density * factor.density,
            velocity: tabulate!(|d| self.velocity[d] * factor.velocity[d]),
            heat: self.heat * factor.heat,
        }
    }

    /// Computes [`Change::mul`] and adds `summand`.
    #[inline(always)]
    pub(crate) fn mul_add(&self, factor: &Self, summand: &Self) -> Self {
        Self {
            density: self.density.mul_add(factor.density, summand.density),
            velocity: tabulate!(|d| self.velocity[d].mul_add(factor.velocity[d], summand.velocity[d])),
            heat: self.heat.mul_add(factor.heat, summand.heat),
        }
    }
}

impl<S: Simd> Flow<S> {
    /// Computes the flow from the state `u`.
    #[inline(always)]
    pub fn new(c: &Coefficients<S>, u: State<S>) -> Self {
        let volume = u[0].recip();
        let velocity = [u[1] * volume, u[2] * volume, u[3] * volume];
        let [v1, v2, v3] = velocity;
        let kinetic = c.half * v1.mul_add(v1, v2.mul_add(v2, v3 * v3));
        let energy = u[4] * volume;
        Self { volume, velocity, energy, pressure: c.c2 * (energy - kinetic) }
    }

    /// Converts a vector to a change.
    #[inline(always)]
    pub fn change(&self, w: State<S>) -> Change<S> {
        let [v1, v2, v3] = self.velocity;
        let velocity: [Lane<S>; 3] = tabulate!(|d| self.velocity[d].mul_sub_from(w[0], w[d + 1]));
        let heat = v1.mul_sub_from(velocity[0], self.energy.mul_sub_from(w[0], w[4]));
        Change { density: w[0], velocity, heat: heat - v2.mul_add(velocity[1], v3 * velocity[2]) }
    }

    /// Converts a change back to a vector.
    #[inline(always)]
    pub fn vector(&self, change: &Change<S>) -> State<S> {
        let momentum: [Lane<S>; 3] = tabulate!(|d| self.velocity[d].mul_add(change.density, change.velocity[d]));
        let energy = self.energy.mul_add(change.density, change.heat + self.work(change));
        [change.density, momentum[0], momentum[1], momentum[2], energy]
    }

    /// Returns the change of the kinetic energy at constant density.
    #[inline(always)]
    fn work(&self, change: &Change<S>) -> Lane<S> {
        let [v1, v2, v3] = self.velocity;
        v1.mul_add(change.velocity[0], v2.mul_add(change.velocity[1], v3 * change.velocity[2]))
    }

    /// Returns the inverse of the diagonal block, times `factor`. Multiplying the change of b by it, quantity by
    /// quantity, gives the change of x in D x = b.
    #[inline(always)]
    pub fn inverse(&self, c: &Coefficients<S>, factor: Lane<S>) -> Change<S> {
        let [x, y, z] = tabulate!(|d| c.momentum[d].mul_add(self.volume, c.diagonal));
        let heat = c.energy.mul_add(self.volume, c.diagonal);
        // One reciprocal of a product yields both factors' reciprocals.
        let (xy, zh) = ((x * y).recip() * factor, (z * heat).recip() * factor);
        Change { density: c.diagonal_inverse * factor, velocity: [y * xy, x * xy, heat * zh], heat: z * zh }
    }

    /// Returns what w at this point contributes to the right-hand sides of the next points in x, y and z: ω Δt (±
    /// A_d/2h_d + (N_d + D_d)/h_d²) w, with + in the forward sweep and − in the backward sweep. `w` is the vector
    /// of `change`.
    ///
    /// Let b = ω Δt (± w_{d+1}/2h_d + D_d w₁/h_d²) be the convected and diffused density, and a_c s_c the
    /// corresponding term of a velocity. Then a momentum gains a_c s_c + v_c b, and the energy gains Σ v_c a_c s_c
    /// + (E/ρ) b and the terms of the pressure and the heat.
    #[inline(always)]
    pub fn contributions(&self, c: &Coefficients<S>, w: State<S>, change: &Change<S>) -> [State<S>; 3] {
        let velocity = self.velocity;
        let pressure = c.c2.mul_add(change.heat, self.pressure * w[0]);
        let (viscosity, conduction) = (c.viscosity * self.volume, c.conduction * self.volume);
        let work = self.work(change);
        tabulate!(|d| {
            let carried = c.advection[d] * w[d + 1];
            let density = c.dissipation[d].mul_add(w[0], carried);
            let own = c.advection[d].mul_add(velocity[d], c.dissipation[d]);
            let across = c.diffusion[d].mul_add(viscosity, own);
            let along = c.along[d] * viscosity * change.velocity[d];
            let momentum: [Lane<S>; 3] = tabulate!(|m| {
                let common = velocity[m].mul_add(density, across * change.velocity[m]);
                if m == d { c.advection[d].mul_add(pressure, common + along) } else { common }
            });
            let thermal = c.elastic[d].mul_add(velocity[d], c.dissipation[d]);
            let thermal = c.diffusion[d].mul_add(conduction, thermal);
            let energy = self.energy.mul_add(density, self.pressure * carried);
            let energy = velocity[d].mul_add(along, across.mul_add(work, energy));
            [density, momentum[0], momentum[1], momentum[2], thermal.mul_add(change.heat, energy)]
        })
    }
}
