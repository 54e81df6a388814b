//! Flux Jacobians along a direction, in the form needed for the blocks of a line's system.
//!
//! Components are ordered relative to the direction: density, the two transverse momenta, the normal momentum,
//! energy. So the formulas are the same in x, y and z, and elimination processes the rows with the most zeros
//! first. A flux couples a transverse momentum only to density, to itself and to the normal momentum. Of the 25
//! entries of a block, 7 are always zero; they are neither stored nor multiplied.
//!
//! Source: NASA report RNR-94-007, section 4.3.1, and the derivatives of the fluxes given there.

use pulp::Simd;

use crate::mz::lanes::{Lane, splats};
use crate::mz::physics::{C1, C1C5, C2, C34, CON43, DISSIPATION, Mesh};

/// A vector of density, transverse momenta, normal momentum, and energy.
pub type Vector<S> = [Lane<S>; 5];

/// Returns the order of the components for direction `d`: 0 (x), 1 (y) or 2 (z).
pub(super) const fn order(d: usize) -> [usize; 5] {
    [0, (d + 1) % 3 + 1, (d + 2) % 3 + 1, d + 1, 4]
}

/// The weights of the Jacobians along one direction.
pub struct Weights<S: Simd> {
    simd: S,
    /// dt/(2h): the weight of the inviscid flux.
    inviscid: Lane<S>,
    /// dt c₃c₄/h²: the weight of the viscous flux.
    viscous: Lane<S>,
    /// dt D/h²: the weight of the dissipation.
    dissipation: Lane<S>,
    /// 1 + twice the dissipation.
    diagonal: Lane<S>,
    /// c₂ times the inviscid weight.
    pressure: Lane<S>,
}

impl<S: Simd> Weights<S> {
    /// Returns the weights for direction `d`.
    #[inline(always)]
    pub fn new(simd: S, mesh: &Mesh, d: usize) -> Self {
        let inviscid = 0.5 * mesh.dt / mesh.h[d];
        let square = mesh.dt / (mesh.h[d] * mesh.h[d]);
        let dissipation = DISSIPATION[d] * square;
        Self {
            simd,
            inviscid: Lane::splat(simd, inviscid),
            viscous: Lane::splat(simd, C34 * square),
            dissipation: Lane::splat(simd, dissipation),
            diagonal: Lane::splat(simd, 1.0 + 2.0 * dissipation),
            pressure: Lane::splat(simd, C2 * inviscid),
        }
    }
}

/// The terms from which a point's blocks are computed, column by column. A is the weighted inviscid Jacobian, and N
/// the weighted viscous Jacobian.
///
/// Values that take only an addition or one multiplication to derive are computed on demand, because storing a
/// vector costs as much as two multiplications. With c₁ = 1 + c₂, the weighted c₁v and (2 − c₂)v are sums of v and
/// c₂v.
#[derive(Clone, Copy)]
pub struct Jacobians<S: Simd> {
    /// The velocity, with the normal component last.
    velocity: [Lane<S>; 3],
    /// The normal velocity times the weight of A: as it is, and multiplied by c₂.
    convection: [Lane<S>; 2],
    /// A: the coefficients of density for normal momentum and energy.
    of_density: [Lane<S>; 2],
    /// A: the coefficient of normal momentum for energy.
    of_normal: Lane<S>,
    /// N: the coefficients of a transverse momentum, the normal one and energy for themselves.
    diffusion: [Lane<S>; 3],
    /// N: minus the coefficient of density for energy.
    conduction: Lane<S>,
}

/// A column of a block. Entries that are always zero are `None`.
pub type Column<S> = [Option<Lane<S>>; 5];

impl<S: Simd> Jacobians<S> {
    /// Computes the terms of a point with the state `u`.
    #[inline(always)]
    pub fn new(weights: &Weights<S>, u: Vector<S>) -> Self {
        let Weights { simd, inviscid: w, viscous, .. } = *weights;
        let [half_c2, c2, c1] = splats(simd, [0.5 * C2, C2, C1]);
        let [con43, c1c5] = splats(simd, [CON43, C1C5]);
        let [rho, ma, mb, mn, energy] = u;
        let inverse = rho.exact_recip();
        let [va, vb, vn, e] = [ma * inverse, mb * inverse, mn * inverse, energy * inverse];
        let transverse_squares = vb.mul_add(vb, va * va);
        let normal_square = vn * vn;
        let double_q = transverse_squares + normal_square;

        let wn = vn * w;
        let c2wn = c2 * wn;
        let c1e = c1 * e;

        let g = viscous * inverse;
        let g43 = con43 * g;
        let heat = c1c5 * g;
        let conduction = heat.mul_add(e, (g43 - heat).mul_add(normal_square, (g - heat) * transverse_squares));
        Self {
            velocity: [va, vb, vn],
            convection: [wn, c2wn],
            of_density: [w * (half_c2 * double_q - normal_square), wn * c2.mul_add(double_q, -c1e)],
            of_normal: w * (c1e - half_c2.mul_add(double_q, c2 * normal_square)),
            diffusion: [g, g43, heat],
            conduction,
        }
    }

    /// Returns column `column` of A + N, with the dissipation on N's diagonal: minus the coefficients in the next
    /// point's equations.
    #[inline(always)]
    pub fn next(&self, weights: &Weights<S>, column: usize) -> Column<S> {
        self.coupling(
            weights,
            column,
            #[inline(always)]
            |viscous| viscous,
        )
    }

    /// Returns column `column` of A − N: the coefficients in the previous point's equations.
    #[inline(always)]
    pub fn previous(&self, weights: &Weights<S>, column: usize) -> Column<S> {
        self.coupling(
            weights,
            column,
            #[inline(always)]
            |viscous| -viscous,
        )
    }

    /// Returns column `column` of A + N, where `signed` gives N its sign.
    #[inline(always)]
    fn coupling(&self, weights: &Weights<S>, column: usize, signed: impl Fn(Lane<S>) -> Lane<S>) -> Column<S> {
        let Weights { inviscid: w, dissipation, pressure, .. } = *weights;
        let minus_pressure = -pressure;
        let Self { velocity: [va, vb, vn], convection: [wn, c2wn], of_density, of_normal, diffusion, conduction } =
            *self;
        let [g, g43, heat] = tabulate!(|n| signed(diffusion[n]));
        let (d, conduction) = (signed(dissipation), signed(conduction));
        match column {
            0 => {
                let transverse = -g - wn;
                [
                    Some(d),
                    Some(va * transverse),
                    Some(vb * transverse),
                    Some(g43.mul_sub_from(vn, of_density[0])),
                    Some(of_density[1] - conduction),
                ]
            }
            1 => [None, Some(wn + (g + d)), None, Some(minus_pressure * va), Some(((g - heat) - c2wn) * va)],
            2 => [None, None, Some(wn + (g + d)), Some(minus_pressure * vb), Some(((g - heat) - c2wn) * vb)],
            3 => [
                Some(w),
                Some(w * va),
                Some(w * vb),
                Some(((wn - c2wn) + wn) + (g43 + d)),
                Some((g43 - heat).mul_add(vn, of_normal)),
            ],
            _ => [None, None, None, Some(pressure), Some((wn + c2wn) + (heat + d))],
        }
    }

    /// Returns column `column` of I + 2N: the coefficients in the point's own equations.
    #[inline(always)]
    pub fn own(&self, weights: &Weights<S>, column: usize) -> Column<S> {
        let diagonal = weights.diagonal;
        let Self { velocity: [va, vb, vn], diffusion: [g, g43, heat], conduction, .. } = *self;
        let (g2, g43_2, heat2) = (g + g, g43 + g43, heat + heat);
        match column {
            0 => [
                Some(diagonal),
                Some(-(g2 * va)),
                Some(-(g2 * vb)),
                Some(-(g43_2 * vn)),
                Some(-(conduction + conduction)),
            ],
            1 => [None, Some(g2 + diagonal), None, None, Some((g2 - heat2) * va)],
            2 => [None, None, Some(g2 + diagonal), None, Some((g2 - heat2) * vb)],
            3 => [None, None, None, Some(g43_2 + diagonal), Some((g43_2 - heat2) * vn)],
            _ => [None, None, None, None, Some(heat2 + diagonal)],
        }
    }
}
