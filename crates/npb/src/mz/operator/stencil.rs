//! A point's contributions to the spatial operator, both at the point itself and at adjacent points.
//!
//! If each sum computed its own terms, the same flux would be computed once for each of the point's six neighbours.
//! Here it is computed once and added to all their sums, together with the viscous terms and the dissipation.
//! Points two away contribute only to the fourth differences, which need nothing but the points' state.

use pulp::Simd;

use super::blocks::{Block, Five, POINTS, load, pitch};
use crate::mz::lanes::{Lane, splats};
use crate::mz::physics::{C1C5, C2, C34, CON43, DISSIPATION, EPS4, Mesh};
use crate::mz::zones::Shape;

/// A point's state and the quantities derived from it.
pub(super) struct Point<S: Simd> {
    state: Five<S>,
    velocity: [Lane<S>; 3],
    pressure: Lane<S>,
    /// (1 − c₁c₅) q + c₁c₅ E/ρ, the combination of kinetic and total energy whose second difference conducts heat.
    heat: Lane<S>,
}

impl<S: Simd> Point<S> {
    /// Derives the quantities from a state.
    #[inline(always)]
    pub(super) fn new(constants: &Constants<S>, state: Five<S>) -> Self {
        let [density, ma, mb, mc, energy] = state;
        let volume = density.recip();
        let [va, vb, vc] = [ma * volume, mb * volume, mc * volume];
        let double_kinetic = vc.mul_add(mc, vb.mul_add(mb, va * ma));
        let pressure = constants.pressure[1].mul_add(double_kinetic, constants.pressure[0] * energy);
        let heat = constants.heat_of[1].mul_add(double_kinetic, constants.heat_of[0] * energy) * volume;
        Self { state, velocity: [va, vb, vc], pressure, heat }
    }

    /// Returns `sums` plus the point's contribution to itself, as the centre of all differences. `weight` is the
    /// weight of the dissipation.
    #[inline(always)]
    pub(super) fn to_itself(&self, constants: &Constants<S>, weight: Lane<S>, sums: Five<S>) -> Five<S> {
        let velocity = self.velocity;
        let mut sums: Five<S> = tabulate!(|m| weight.mul_add(self.state[m], sums[m]));
        unroll!(3, |c| sums[c + 1] = constants.viscosity_here[c].mul_add(velocity[c], sums[c + 1]));
        let squares: [Lane<S>; 3] = tabulate!(|c| constants.square_here[c] * velocity[c]);
        let squares = squares[2].mul_add(velocity[2], squares[1].mul_add(velocity[1], squares[0] * velocity[0]));
        sums[4] = constants.heat_here.mul_add(self.heat, sums[4]) + squares;
        sums
    }

    /// Returns the contributions in direction `d` to the previous and to the next point: the flux, the viscous
    /// terms, and the dissipation terms with the given weights.
    #[inline(always)]
    pub(super) fn beside(&self, constants: &Constants<S>, d: usize, weights: [Lane<S>; 2]) -> [Five<S>; 2] {
        let (state, velocity) = (self.state, self.velocity);
        // The convected part is added at the next point and subtracted at the previous one.
        let carried = constants.convection[d] * velocity[d];
        let push = constants.convection[d] * self.pressure;
        let work = carried * self.pressure;
        // The diffused part is the same for both points.
        let shear: [Lane<S>; 3] = tabulate!(|c| {
            let viscosity = if c == d { constants.viscosity_along[d] } else { constants.viscosity[d] };
            viscosity * velocity[c]
        });
        let square = constants.square[d] * velocity[d];
        let conducted = square.mul_add(velocity[d], constants.viscosity[d] * self.heat);
        let of_state = [weights[0] - carried, weights[1] + carried];
        tabulate!(|side| {
            let of_state = of_state[side];
            let flux = {
                #[inline(always)]
                |diffused: Lane<S>, flowing| if side == 0 { diffused - flowing } else { diffused + flowing }
            };
            tabulate!(|m| match m {
                0 => of_state * state[0],
                4 => of_state.mul_add(state[4], flux(conducted, work)),
                _ if m == d + 1 => of_state.mul_add(state[m], flux(shear[d], push)),
                _ => of_state.mul_add(state[m], shear[m - 1]),
            })
        })
    }
}

/// Returns the weights of u(l−2) … u(l+2) at point `l` of a line of `n`: the second difference times `weight`,
/// minus [`EPS4`] times the fourth difference, which takes another form near the boundary.
pub fn dissipation(weight: f64, l: usize, n: usize) -> [f64; 5] {
    let fourth = match l {
        1 => [0.0, 0.0, 5.0, -4.0, 1.0],
        2 => [0.0, -4.0, 6.0, -4.0, 1.0],
        l if l == n - 3 => [1.0, -4.0, 6.0, -4.0, 0.0],
        l if l == n - 2 => [1.0, -4.0, 5.0, 0.0, 0.0],
        _ => [1.0, -4.0, 6.0, -4.0, 1.0],
    };
    let second = [0.0, 1.0, -2.0, 1.0, 0.0];
    tabulate!(|w| weight * second[w] - EPS4 * fourth[w])
}

/// The weights of [`dissipation`] in a zone, by position along a line. The five weights of a position are, in this
/// order: the weight of the point two before in this point's sum; the weights of this point in the previous point's
/// sum, in its own sum, and in the next point's sum; and the weight of the point two after in this point's sum. A
/// weight is 0 if there is no such sum.
pub struct DissipationWeights {
    /// The weights in x, in blocks.
    pub x: Vec<Block>,
    pub y: Vec<[f64; 5]>,
    pub z: Vec<[f64; 5]>,
}

impl DissipationWeights {
    /// Computes the weights of a zone, which must have at least six points in each direction.
    pub fn new(mesh: &Mesh) -> Self {
        let Shape { nx, ny, nz } = mesh.shape;
        let line = |d: usize, n: usize| {
            let weight = DISSIPATION[d] / (mesh.h[d] * mesh.h[d]);
            let sum = move |l: usize| if (1..n - 1).contains(&l) { dissipation(weight, l, n) } else { [0.0; 5] };
            move |l: usize| {
                let (before, own, after) = (sum(l.wrapping_sub(1)), sum(l), sum(l + 1));
                [own[0], before[3], own[2], after[1], own[4]]
            }
        };
        let all = |d: usize, n: usize| {
            let line = line(d, n);
            // All positions except the first three and the last three have the same weights.
            let mut weights = vec![line(3); n];
            (0..3).chain(n - 3..n).for_each(|l| weights[l] = line(l));
            weights
        };
        let mut x = vec![Block::default(); pitch(mesh.shape)];
        for (i, weights) in all(0, nx).iter().enumerate() {
            (0..5).for_each(|w| x[i / POINTS][w][i % POINTS] = weights[w]);
        }
        Self { x, y: all(1, ny), z: all(2, nz) }
    }

    /// Returns which of the rows two away from row (j, k) have any weight: before in y, after in y, and below in z.
    #[inline(always)]
    pub(super) fn outer(&self, j: usize, k: usize) -> [bool; 3] {
        let ([south, .., north], [below, ..]) = (self.y[j], self.z[k]);
        tabulate!(|w| [south, north, below][w] != 0.0)
    }

    /// Returns the weights of the points of row (j, k).
    #[inline(always)]
    pub(super) fn row<S: Simd>(&self, simd: S, j: usize, k: usize) -> Weights<'_, S> {
        let here = Lane::splat(simd, self.y[j][2] + self.z[k][2]);
        Weights { simd, x: &self.x, y: self.y(simd, j), z: self.z(simd, k), here }
    }

    /// Returns the weights of row `j` in the sums of the previous and the next row.
    #[inline(always)]
    pub(super) fn y<S: Simd>(&self, simd: S, j: usize) -> [Lane<S>; 2] {
        splats(simd, [self.y[j][1], self.y[j][3]])
    }

    /// Returns the weights of plane `k` in the sums of the planes below and above.
    #[inline(always)]
    pub(super) fn z<S: Simd>(&self, simd: S, k: usize) -> [Lane<S>; 2] {
        splats(simd, [self.z[k][1], self.z[k][3]])
    }
}

/// The weights of a row's points.
pub(super) struct Weights<'a, S: Simd> {
    simd: S,
    x: &'a [Block],
    /// Weights in the adjacent sums in y and in z.
    pub(super) y: [Lane<S>; 2],
    pub(super) z: [Lane<S>; 2],
    /// Weight in the points' own sums, without the part due to x.
    here: Lane<S>,
}

/// The weights of a vector of points.
pub(super) struct InX<S: Simd> {
    /// Weights in the points' own sums.
    pub(super) here: Lane<S>,
    /// Weights in the sums of the previous and the next points.
    pub(super) beside: [Lane<S>; 2],
    /// Weights of the points two before and two after, in the points' own sums.
    pub(super) outer: [Lane<S>; 2],
}

impl<S: Simd> Weights<'_, S> {
    /// Returns the weights starting at point `l` of block `b`.
    #[inline(always)]
    pub(super) fn x(&self, b: usize, l: usize) -> InX<S> {
        let [first, before, here, after, last] = load(self.simd, &self.x[b], l);
        InX { here: here + self.here, beside: [before, after], outer: [first, last] }
    }
}

/// The operator's constants, which are the same for all rows.
#[derive(Clone, Copy)]
pub(super) struct Constants<S: Simd> {
    /// Factors of the fluxes, by direction: 1/(2h).
    convection: [Lane<S>; 3],
    /// Factors of the velocities across a direction and of [`Point::heat`], and of the velocity along it.
    viscosity: [Lane<S>; 3],
    viscosity_along: [Lane<S>; 3],
    /// Factors of the square of the velocity along a direction.
    square: [Lane<S>; 3],
    /// The corresponding factors for the point itself, summed over all directions: of the velocities, of the heat,
    /// and of the squares.
    viscosity_here: [Lane<S>; 3],
    heat_here: Lane<S>,
    square_here: [Lane<S>; 3],
    /// Factors of the energy and of twice the kinetic energy: for the pressure, and for ρ times [`Point::heat`].
    pressure: [Lane<S>; 2],
    heat_of: [Lane<S>; 2],
    /// Factor of states two points away in y or z.
    pub(super) outer: Lane<S>,
    /// Factor of the result.
    pub(super) scale: Lane<S>,
}

impl<S: Simd> Constants<S> {
    /// Computes the constants of a zone.
    #[inline(always)]
    pub(super) fn new(simd: S, mesh: &Mesh, scale: f64) -> Self {
        let viscosity = mesh.h.map(|h| C34 / (h * h));
        let total: f64 = viscosity.iter().sum();
        Self {
            convection: splats(simd, mesh.h.map(|h| 0.5 / h)),
            viscosity: splats(simd, viscosity),
            viscosity_along: splats(simd, viscosity.map(|viscosity| CON43 * viscosity)),
            square: splats(simd, viscosity.map(|viscosity| viscosity / 6.0)),
            viscosity_here: splats(simd, viscosity.map(|along| -2.0 * (total + (CON43 - 1.0) * along))),
            heat_here: Lane::splat(simd, -2.0 * total),
            square_here: splats(simd, viscosity.map(|viscosity| -viscosity / 3.0)),
            pressure: splats(simd, [C2, -0.5 * C2]),
            heat_of: splats(simd, [C1C5, 0.5 * (1.0 - C1C5)]),
            outer: Lane::splat(simd, -EPS4),
            scale: Lane::splat(simd, scale),
        }
    }
}
