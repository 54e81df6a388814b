//! The star of rows the spatial operator reads, and what it computes of them.
//!
//! A point has its neighbours in x in its own row, those in y and z at the same place of other rows. Two points away in y or z the
//! weight is the same on both sides, so that one sum of both is weighed; where it is zero, a row of zeros takes the other's place.

use pulp::Simd;

use super::lanes::{Lane, MAX_LANES, splats};
use super::physics::{C1C5, C2, C34, CON43, DISSIPATION, EPS4, Mesh};
use super::planes::{Planes, Row};
use super::zones::Shape;

/// A row and those around it in y and z.
pub(crate) struct Star<'a> {
    here: Row<'a>,
    /// In y and in z: two before, one before, one after, two after.
    around: [[Row<'a>; 4]; 2],
}

impl<'a> Star<'a> {
    /// That of row (j, k). `outer` tells, in y and in z, whether the points two before have any weight, and those two after.
    #[inline(always)]
    pub(crate) fn new(planes: &'a Planes<'_>, outer: [[bool; 2]; 2], j: usize, k: usize) -> Self {
        let [[is_south, is_north], [is_below, is_above]] = outer;
        let none = planes.zeros();
        let south = if is_south { planes.row(k, j - 2) } else { none };
        let north = if is_north { planes.row(k, j + 2) } else { none };
        let below = if is_below { planes.row(k - 2, j) } else { none };
        let above = if is_above { planes.row(k + 2, j) } else { none };
        let y = [south, planes.row(k, j - 1), planes.row(k, j + 1), north];
        let z = [below, planes.row(k - 1, j), planes.row(k + 1, j), above];
        Self { here: planes.row(k, j), around: [y, z] }
    }

    /// S(u) at the points from the `i`-th of the row on; at the row's ends, any numbers.
    #[inline(always)]
    pub(crate) fn apply<S: Simd>(&self, constants: &Constants<S>, weights: &Weights<'_, S>, i: usize) -> [Lane<S>; 5] {
        let simd = constants.simd;
        let all: [Lane<S>; 6] = tabulate!(|quantity| self.here.load(simd, quantity, i));
        let mut sums = here(constants, weights.here(i), all);
        let sides: [[Lane<S>; 4]; 6] = tabulate!(|quantity| self.here.load_sides(simd, quantity, i));
        let outer = weights.outer(i);
        unroll!(5, |m| sums[m] = outer[1].mul_add(sides[m][3], outer[0].mul_add(sides[m][0], sums[m])));
        let mut sums = direction(
            constants,
            weights.beside(0, i),
            0,
            sums,
            #[inline(always)]
            |quantity, side| sides[quantity][1 + side],
        );
        unroll!(2, |d| {
            let [first, before, after, last] = self.around[d];
            unroll!(5, |m| {
                let outer = first.load(simd, m, i) + last.load(simd, m, i);
                sums[m] = constants.outer.mul_add(outer, sums[m]);
            });
            sums = direction(
                constants,
                weights.beside(1 + d, i),
                1 + d,
                sums,
                #[inline(always)]
                |quantity, side| [before, after][side].load(simd, quantity, i),
            );
        });
        sums
    }
}

/// What follows from the state at a point.
struct Flow<S: Simd> {
    velocity: [Lane<S>; 3],
    pressure: Lane<S>,
    /// (1 − c₁c₅) q + c₁c₅ E/ρ, the combination of kinetic and total energy whose second difference conducts heat.
    heat: Lane<S>,
}

impl<S: Simd> Flow<S> {
    /// Where the state and 1/ρ are these.
    #[inline(always)]
    fn new(constants: &Constants<S>, [_, ma, mb, mc, energy, volume]: [Lane<S>; 6]) -> Self {
        let [va, vb, vc] = [ma * volume, mb * volume, mc * volume];
        let double_kinetic = vc.mul_add(mc, vb.mul_add(mb, va * ma));
        let pressure = constants.pressure[1].mul_add(double_kinetic, constants.pressure[0] * energy);
        let heat = constants.heat_of[1].mul_add(double_kinetic, constants.heat_of[0] * energy) * volume;
        Self { velocity: [va, vb, vc], pressure, heat }
    }
}

/// What points themselves contribute: the middle of all differences, with `weight` that of the dissipation. `all` is their
/// state and 1/ρ.
#[inline(always)]
fn here<S: Simd>(constants: &Constants<S>, weight: Lane<S>, all: [Lane<S>; 6]) -> [Lane<S>; 5] {
    let Flow { velocity, heat, .. } = Flow::new(constants, all);
    let mut sums: [Lane<S>; 5] = tabulate!(|m| weight * all[m]);
    unroll!(3, |c| sums[c + 1] = constants.viscosity_here[c].mul_add(velocity[c], sums[c + 1]));
    let squares: [Lane<S>; 3] = tabulate!(|c| constants.square_here[c] * velocity[c]);
    let squares = squares[2].mul_add(velocity[2], squares[1].mul_add(velocity[1], squares[0] * velocity[0]));
    sums[4] = constants.heat_here.mul_add(heat, sums[4]) + squares;
    sums
}

/// Adds to `sums` what the neighbours in direction `d` contribute: their fluxes, their part in the viscous terms, and their part in
/// the dissipation, which has the given weights. `quantity` is one of the state, or 1/ρ, one point before and one after.
#[inline(always)]
fn direction<S: Simd>(
    constants: &Constants<S>,
    weights: [Lane<S>; 2],
    d: usize,
    mut sums: [Lane<S>; 5],
    quantity: impl Fn(usize, usize) -> Lane<S>,
) -> [Lane<S>; 5] {
    let convection = constants.convection[d];
    let mut one = {
        #[inline(always)]
        |side: usize| {
            let all: [Lane<S>; 6] = tabulate!(|q| quantity(q, side));
            let flow = Flow::new(constants, all);
            let carried = convection * flow.velocity[d];
            let of_state = if side == 0 { weights[0] + carried } else { weights[1] - carried };
            sums[0] = weights[side].mul_add(all[0], sums[0]);
            unroll!(4, |m| sums[m + 1] = of_state.mul_add(all[m + 1], sums[m + 1]));
            sums[4] = if side == 0 {
                carried.mul_add(flow.pressure, sums[4])
            } else {
                carried.mul_sub_from(flow.pressure, sums[4])
            };
            (flow, all[d + 1])
        }
    };
    let (before, mass_before) = one(0);
    let (after, mass_after) = one(1);
    sums[0] = convection.mul_add(mass_before - mass_after, sums[0]);
    sums[d + 1] = convection.mul_add(before.pressure - after.pressure, sums[d + 1]);
    unroll!(3, |c| {
        sums[c + 1] = constants.viscosity[d][c].mul_add(before.velocity[c] + after.velocity[c], sums[c + 1]);
    });
    let [first, second] = [before.velocity[d], after.velocity[d]];
    sums[4] = constants.square[d].mul_add(first.mul_add(first, second * second), sums[4]);
    sums[4] = constants.heat[d].mul_add(before.heat + after.heat, sums[4]);
    sums
}

/// The weights of u(l−2) … u(l+2) at point `l` of a line of `n` in direction `d`: the second difference times
/// dissipation over h², less [`EPS4`] times the fourth difference, which takes another form beside the boundary.
pub(crate) fn dissipation(mesh: &Mesh, d: usize, l: usize, n: usize) -> [f64; 5] {
    let fourth = match l {
        1 => [0.0, 0.0, 5.0, -4.0, 1.0],
        2 => [0.0, -4.0, 6.0, -4.0, 1.0],
        l if l == n - 3 => [1.0, -4.0, 6.0, -4.0, 0.0],
        l if l == n - 2 => [1.0, -4.0, 5.0, 0.0, 0.0],
        _ => [1.0, -4.0, 6.0, -4.0, 1.0],
    };
    let second = [0.0, 1.0, -2.0, 1.0, 0.0];
    let weight = DISSIPATION[d] / (mesh.h[d] * mesh.h[d]);
    std::array::from_fn(|w| weight * second[w] - EPS4 * fourth[w])
}

/// The weights of [`dissipation`] in a zone, by direction and position.
pub(crate) struct DissipationWeights {
    /// In x: each of the five by the position in a row; at the row's ends, and behind them for vectors that reach there, zeros.
    x: [Vec<f64>; 5],
    /// In y, by j.
    y: Vec<[f64; 5]>,
    /// In z, by k.
    z: Vec<[f64; 5]>,
}

impl DissipationWeights {
    /// Those of a zone.
    pub(crate) fn new(mesh: &Mesh) -> Self {
        let Shape { nx, ny, nz } = mesh.shape;
        let line = |d, n| (1..n - 1).map(move |l| dissipation(mesh, d, l, n));
        let mut x: Vec<_> = std::iter::once([0.0; 5]).chain(line(0, nx)).collect();
        x.resize(nx.next_multiple_of(MAX_LANES), [0.0; 5]);
        let x = std::array::from_fn(|w| x.iter().map(|weights| weights[w]).collect());
        Self { x, y: line(1, ny).collect(), z: line(2, nz).collect() }
    }

    /// Whether the points two before row (j, k) have any weight, and those two after, in y and in z.
    #[inline(always)]
    pub(crate) fn outer(&self, j: usize, k: usize) -> [[bool; 2]; 2] {
        [self.y[j - 1], self.z[k - 1]].map(
            #[inline(always)]
            |weights| [weights[0] != 0.0, weights[4] != 0.0],
        )
    }

    /// Those of row (j, k).
    #[inline(always)]
    pub(crate) fn row<S: Simd>(&self, simd: S, j: usize, k: usize) -> Weights<'_, S> {
        let (y, z, length) = (self.y[j - 1], self.z[k - 1], self.x[0].len());
        Weights {
            simd,
            x: tabulate!(|w| &self.x[w][..length]),
            across: [splats(simd, [y[1], y[3]]), splats(simd, [z[1], z[3]])],
            here: Lane::splat(simd, y[2] + z[2]),
        }
    }
}

/// The weights of the dissipation on a row.
pub(crate) struct Weights<'a, S: Simd> {
    simd: S,
    /// In x, by the position in the row: those of the points −2 … +2.
    x: [&'a [f64]; 5],
    /// In y and z: those of the points −1 and +1.
    across: [[Lane<S>; 2]; 2],
    /// In y and z: that of the point itself.
    here: Lane<S>,
}

impl<S: Simd> Weights<'_, S> {
    /// The weight of the point itself, in all directions, from the `i`-th point of the row on.
    #[inline(always)]
    pub(crate) fn here(&self, i: usize) -> Lane<S> {
        Lane::load(self.simd, self.x[2], i) + self.here
    }

    /// The weights of the points −1 and +1 in direction `d`, from the `i`-th point of the row on.
    #[inline(always)]
    pub(crate) fn beside(&self, d: usize, i: usize) -> [Lane<S>; 2] {
        match d {
            0 => tabulate!(|side| Lane::load(self.simd, self.x[1 + 2 * side], i)),
            _ => self.across[d - 1],
        }
    }

    /// The weights of the points −2 and +2 in x, from the `i`-th point of the row on.
    #[inline(always)]
    pub(crate) fn outer(&self, i: usize) -> [Lane<S>; 2] {
        tabulate!(|side| Lane::load(self.simd, self.x[4 * side], i))
    }
}

/// The constants of the operator that are the same on all rows.
#[derive(Clone, Copy)]
pub(crate) struct Constants<S: Simd> {
    simd: S,
    /// Of the fluxes, by direction: 1/(2h), before the point; after it, less that.
    convection: [Lane<S>; 3],
    /// Of a neighbour's velocity, by direction and component.
    viscosity: [[Lane<S>; 3]; 3],
    /// Of a neighbour's [`Flow::heat`], by direction.
    heat: [Lane<S>; 3],
    /// Of the square of a neighbour's normal velocity, by direction.
    square: [Lane<S>; 3],
    /// The same of the point itself, all directions together.
    viscosity_here: [Lane<S>; 3],
    heat_here: Lane<S>,
    square_here: [Lane<S>; 3],
    /// Of the energy and of twice the kinetic energy: the pressure, and ρ times what [`Flow::heat`] is.
    pressure: [Lane<S>; 2],
    heat_of: [Lane<S>; 2],
    /// Of what is two points away in y or z.
    outer: Lane<S>,
    /// Of the result.
    pub(crate) scale: Lane<S>,
}

impl<S: Simd> Constants<S> {
    /// Those of a zone.
    #[inline(always)]
    pub(crate) fn new(simd: S, mesh: &Mesh, scale: f64) -> Self {
        let heat = mesh.h.map(|h| C34 / (h * h));
        let viscosity = [0, 1, 2].map(|d| [0, 1, 2].map(|c| if c == d { CON43 * heat[d] } else { heat[d] }));
        let of_velocity = [0, 1, 2].map(|c| -2.0 * (viscosity[0][c] + viscosity[1][c] + viscosity[2][c]));
        Self {
            simd,
            convection: splats(simd, mesh.h.map(|h| 0.5 / h)),
            viscosity: tabulate!(|d| splats(simd, viscosity[d])),
            heat: splats(simd, heat),
            square: splats(simd, heat.map(|heat| heat / 6.0)),
            viscosity_here: splats(simd, of_velocity),
            heat_here: Lane::splat(simd, -2.0 * (heat[0] + heat[1] + heat[2])),
            square_here: splats(simd, heat.map(|heat| -heat / 3.0)),
            pressure: splats(simd, [C2, -0.5 * C2]),
            heat_of: splats(simd, [C1C5, 0.5 * (1.0 - C1C5)]),
            outer: Lane::splat(simd, -EPS4),
            scale: Lane::splat(simd, scale),
        }
    }
}
