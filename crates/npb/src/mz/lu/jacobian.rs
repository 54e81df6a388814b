//! The matrices of LU's two sweeps, applied to vectors without being formed.
//!
//! With s_c = w_{c+1} − v_c w₁ (ρ times the change of a velocity), the product of a flux Jacobian A_d with w is the
//! change of the flux, and that of a viscous Jacobian N_d the change of the stress: a few operations each, most of them
//! shared by the three directions (NASA report RNR-94-007, section 3). The diagonal block is *lower triangular*, since
//! N_d is and no A_d enters it: it is never factored, only substituted.
//!
//! Invariant: velocities along the three directions are components 2, 3, 4 of the state.

use pulp::Simd;

use crate::mz::lanes::{Lane, splats};
use crate::mz::physics::{C1, C2, C34, C1345, COMPONENTS, CON43, DISSIPATION, Mesh};

/// Over-relaxation.
pub(crate) const OMEGA: f64 = 1.2;

/// A vector of the five components.
pub(crate) type State<S> = [Lane<S>; COMPONENTS];

/// What the matrices have in common at all points of a zone.
#[derive(Clone, Copy)]
pub(crate) struct Coefficients<S: Simd> {
    /// ω Δt / 2h_d, negative in the backward sweep.
    advection: [Lane<S>; 3],
    /// ω Δt / h_d².
    diffusion: [Lane<S>; 3],
    /// The same times the second-difference dissipation.
    dissipation: [Lane<S>; 3],
    /// ω Δt / h_d² (κ − 1) c₃₄ = ω Δt / 3h_d² c₃₄: what is added for the velocity along the direction.
    along: [Lane<S>; 3],
    /// c₃₄ and c₁₃₄₅.
    viscosity: Lane<S>,
    conduction: Lane<S>,
    /// 1/3.
    third: Lane<S>,
    /// The constant part of the diagonal, and its inverse.
    diagonal: Lane<S>,
    diagonal_inverse: Lane<S>,
    /// The diagonal's dependence on 1/ρ: of the momenta, of the energy.
    momentum: [Lane<S>; 3],
    energy: Lane<S>,
    /// c₁, c₂ and 1/2.
    c1: Lane<S>,
    c2: Lane<S>,
    half: Lane<S>,
}

impl<S: Simd> Coefficients<S> {
    /// Of the forward (lower) or the `backward` (upper) sweep on a mesh.
    #[inline(always)]
    pub(crate) fn new(simd: S, mesh: &Mesh, backward: bool) -> Self {
        let sign = if backward { -1.0 } else { 1.0 };
        let dt = mesh.dt;
        let t1 = mesh.h.map(|h| 1.0 / (h * h));
        let total: f64 = t1.iter().sum();
        let diagonal = 1.0 + 2.0 * dt * (t1[0] * DISSIPATION[0] + t1[1] * DISSIPATION[1] + t1[2] * DISSIPATION[2]);
        let momentum = t1.map(|t1| 2.0 * dt * C34 * (total + (CON43 - 1.0) * t1));
        let dissipation = std::array::from_fn(|d| OMEGA * dt * t1[d] * DISSIPATION[d]);
        Self {
            advection: splats(simd, mesh.h.map(|h| sign * OMEGA * dt / (2.0 * h))),
            diffusion: splats(simd, t1.map(|t1| OMEGA * dt * t1)),
            dissipation: splats(simd, dissipation),
            along: splats(simd, t1.map(|t1| OMEGA * dt * t1 * (CON43 - 1.0))),
            viscosity: Lane::splat(simd, C34),
            conduction: Lane::splat(simd, C1345),
            third: Lane::splat(simd, CON43 - 1.0),
            diagonal: Lane::splat(simd, diagonal),
            diagonal_inverse: Lane::splat(simd, 1.0 / diagonal),
            momentum: splats(simd, momentum),
            energy: Lane::splat(simd, 2.0 * dt * C1345 * total),
            c1: Lane::splat(simd, C1),
            c2: Lane::splat(simd, C2),
            half: Lane::splat(simd, 0.5),
        }
    }
}

/// The flow at a point, as the matrices need it.
#[derive(Clone, Copy)]
pub(crate) struct Flow<S: Simd> {
    /// 1/ρ.
    volume: Lane<S>,
    /// v₁, v₂, v₃.
    velocity: [Lane<S>; 3],
    /// Half the square of the speed.
    kinetic: Lane<S>,
    /// Energy per mass, E/ρ.
    energy: Lane<S>,
    /// Enthalpy per mass, (E + p)/ρ.
    enthalpy: Lane<S>,
}

impl<S: Simd> Flow<S> {
    /// Where the state is `u`.
    #[inline(always)]
    pub(crate) fn new(c: &Coefficients<S>, u: State<S>) -> Self {
        let volume = u[0].recip();
        let velocity = [u[1] * volume, u[2] * volume, u[3] * volume];
        let [v1, v2, v3] = velocity;
        let kinetic = c.half * v1.mul_add(v1, v2.mul_add(v2, v3 * v3));
        let energy = u[4] * volume;
        let enthalpy = c.c2.mul_sub_from(kinetic, c.c1 * energy);
        Self { volume, velocity, kinetic, energy, enthalpy }
    }

    /// The solution of D x = b, D the diagonal block.
    #[inline(always)]
    pub(crate) fn solve(&self, c: &Coefficients<S>, b: State<S>) -> State<S> {
        let x1 = b[0] * c.diagonal_inverse;
        let conductive = c.energy * self.volume;
        let mut energy = (conductive * self.energy).mul_add(x1, b[4]);
        let momenta: [Lane<S>; 3] = tabulate!(|d| {
            let velocity = self.velocity[d];
            let viscous = c.momentum[d] * self.volume;
            let momentum = (viscous * velocity).mul_add(x1, b[d + 1]) / (c.diagonal + viscous);
            let change = velocity.mul_sub_from(x1, momentum);
            energy = ((viscous - conductive) * velocity).mul_sub_from(change, energy);
            momentum
        });
        [x1, momenta[0], momenta[1], momenta[2], energy / (c.diagonal + conductive)]
    }

    /// What w here adds to the right-hand sides of the next points in x, y and z:
    /// ω Δt (± A_d/2h_d + (N_d + D_d)/h_d²) w, + in the forward sweep, − in the backward one.
    #[inline(always)]
    pub(crate) fn contributions(&self, c: &Coefficients<S>, w: State<S>) -> [State<S>; 3] {
        let velocity = self.velocity;
        let change: [Lane<S>; 3] = tabulate!(|d| velocity[d].mul_sub_from(w[0], w[d + 1]));
        let work = velocity[0].mul_add(change[0], velocity[1].mul_add(change[1], velocity[2] * change[2]));
        let pressure = c.c2 * (self.kinetic.mul_sub_from(w[0], w[4]) - work);
        let viscosity = c.viscosity * self.volume;
        let stress = [viscosity * change[0], viscosity * change[1], viscosity * change[2]];
        let heat = self.energy.mul_sub_from(w[0], w[4]) - work;
        let heat = (c.conduction * self.volume).mul_add(heat, viscosity * work);
        tabulate!(|d| {
            let speed = c.advection[d] * velocity[d];
            let own = speed + c.dissipation[d];
            let carried = c.advection[d] * change[d];
            let momentum: [Lane<S>; 3] = tabulate!(|m| {
                let common = velocity[m].mul_add(carried, c.diffusion[d] * stress[m]);
                let common = own.mul_add(w[m + 1], common);
                if m == d { c.advection[d].mul_add(pressure, c.along[d].mul_add(stress[d], common)) } else { common }
            });
            let heat = (c.third * velocity[d]).mul_add(stress[d], heat);
            let advected = self.enthalpy.mul_add(carried, speed * pressure);
            [
                c.advection[d].mul_add(w[d + 1], c.dissipation[d] * w[0]),
                momentum[0],
                momentum[1],
                momentum[2],
                own.mul_add(w[4], c.diffusion[d].mul_add(heat, advected)),
            ]
        })
    }
}
