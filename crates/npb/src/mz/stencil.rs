//! The star of rows the spatial operator reads, and what it computes of them.
//!
//! A point has its neighbours in x in its own row, those in y and z at the same place of other rows. Two points away a row
//! may lie outside the zone: there the weight is zero, any row will do, and what is read does not matter.

use pulp::Simd;

use super::lanes::{Lane, MAX_LANES, splats};
use super::physics::{C34, CON43, DISSIPATION, EPS4, Mesh};
use super::planes::{HEAT, PRESSURE, Planes, Row};
use super::zones::Shape;

/// A row and those around it in y and z.
pub(crate) struct Star<'a> {
    state: Row<'a>,
    flow: Row<'a>,
    /// In y and in z: two before, one before, one after, two after.
    states: [[Row<'a>; 4]; 2],
    /// In y and in z: one before, one after.
    flows: [[Row<'a>; 2]; 2],
}

impl<'a> Star<'a> {
    /// That of row (j, k).
    #[inline(always)]
    pub(crate) fn new(planes: &'a Planes<'_>, Shape { ny, nz, .. }: Shape, j: usize, k: usize) -> Self {
        let [south, north] = [if j < 2 { j } else { j - 2 }, if j + 2 < ny { j + 2 } else { j }];
        let [below, above] = [if k < 2 { k } else { k - 2 }, if k + 2 < nz { k + 2 } else { k }];
        Self {
            state: planes.state(k, j),
            flow: planes.flow(k, j),
            states: [
                [south, j - 1, j + 1, north].map(
                    #[inline(always)]
                    |j| planes.state(k, j),
                ),
                [below, k - 1, k + 1, above].map(
                    #[inline(always)]
                    |k| planes.state(k, j),
                ),
            ],
            flows: [[planes.flow(k, j - 1), planes.flow(k, j + 1)], [planes.flow(k - 1, j), planes.flow(k + 1, j)]],
        }
    }

    /// S(u) at the points from the `i`-th of the row on; at the row's ends, any numbers.
    #[inline(always)]
    pub(crate) fn apply<S: Simd>(&self, constants: &Constants<S>, weights: &Weights<'_, S>, i: usize) -> [Lane<S>; 5] {
        let simd = constants.simd;
        let here = self.here(constants, weights.here(i), i);
        let x = {
            let states: [[Lane<S>; 4]; 5] = tabulate!(|m| self.state.load_sides(simd, m, i));
            let flows: [[Lane<S>; 4]; 5] = tabulate!(|m| self.flow.load_sides(simd, m, i));
            direction(
                constants,
                weights.sides(0, i),
                0,
                #[inline(always)]
                |m, side| states[m][side],
                #[inline(always)]
                |m, end| flows[m][1 + end],
            )
        };
        let across: [[Lane<S>; 5]; 2] = tabulate!(|d| {
            let (states, flows) = (&self.states[d], &self.flows[d]);
            direction(
                constants,
                weights.sides(1 + d, i),
                1 + d,
                #[inline(always)]
                |m, side| states[side].load(simd, m, i),
                #[inline(always)]
                |m, end| flows[end].load(simd, m, i),
            )
        });
        tabulate!(|m| (here[m] + x[m]) + (across[0][m] + across[1][m]))
    }

    /// What the points themselves contribute: the middle of all differences, with `weight` that of the dissipation.
    #[inline(always)]
    fn here<S: Simd>(&self, constants: &Constants<S>, weight: Lane<S>, i: usize) -> [Lane<S>; 5] {
        let simd = constants.simd;
        let mut sums: [Lane<S>; 5] = tabulate!(|m| weight * self.state.load(simd, m, i));
        let velocity: [Lane<S>; 3] = tabulate!(|c| self.flow.load(simd, c, i));
        unroll!(3, |c| sums[c + 1] = constants.viscosity_here[c].mul_add(velocity[c], sums[c + 1]));
        let kinetic: [Lane<S>; 3] = tabulate!(|c| constants.square_here[c] * velocity[c]);
        let kinetic = kinetic[2].mul_add(velocity[2], kinetic[1].mul_add(velocity[1], kinetic[0] * velocity[0]));
        sums[4] = constants.heat_here.mul_add(self.flow.load(simd, HEAT, i), sums[4]) + kinetic;
        sums
    }
}

/// What the neighbours in direction `d` contribute: their fluxes, their part in the viscous terms, and their part in the
/// dissipation, which has the given weights. `state` is a quantity two points before, one before, one after, two after;
/// `flow` is one before and one after.
#[inline(always)]
fn direction<S: Simd>(
    constants: &Constants<S>,
    weights: [Lane<S>; 4],
    d: usize,
    state: impl Fn(usize, usize) -> Lane<S>,
    flow: impl Fn(usize, usize) -> Lane<S>,
) -> [Lane<S>; 5] {
    let convection = constants.convection[d];
    let normal = [flow(d, 0), flow(d, 1)];
    let pressure = [flow(PRESSURE, 0), flow(PRESSURE, 1)];
    let carried = [convection * normal[0], convection * normal[1]];
    let of_state = [weights[1] + carried[0], weights[2] - carried[1]];
    let mut sums: [Lane<S>; 5] = tabulate!(|m| weights[3].mul_add(state(m, 3), weights[0] * state(m, 0)));

    sums[0] = weights[2].mul_add(state(0, 2), weights[1].mul_add(state(0, 1), sums[0]));
    unroll!(4, |m| {
        let (before, after) = (state(m + 1, 1), state(m + 1, 2));
        sums[m + 1] = of_state[1].mul_add(after, of_state[0].mul_add(before, sums[m + 1]));
        if m == d {
            sums[0] = convection.mul_add(before - after, sums[0]);
        }
    });
    unroll!(3, |c| {
        let velocities = if c == d { normal[0] + normal[1] } else { flow(c, 0) + flow(c, 1) };
        let mut stress = constants.viscosity[d][c] * velocities;
        if c == d {
            stress = convection.mul_add(pressure[0] - pressure[1], stress);
        }
        sums[c + 1] = sums[c + 1] + stress;
    });
    let squares = normal[0].mul_add(normal[0], normal[1] * normal[1]);
    let heat = constants.square[d].mul_add(squares, constants.heat[d] * (flow(HEAT, 0) + flow(HEAT, 1)));
    sums[4] = sums[4] + carried[1].mul_sub_from(pressure[1], carried[0].mul_add(pressure[0], heat));
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

    /// Those of row (j, k).
    #[inline(always)]
    pub(crate) fn row<S: Simd>(&self, simd: S, j: usize, k: usize) -> Weights<'_, S> {
        let (y, z, length) = (self.y[j - 1], self.z[k - 1], self.x[0].len());
        Weights {
            simd,
            x: tabulate!(|w| &self.x[w][..length]),
            across: [splats(simd, [y[0], y[1], y[3], y[4]]), splats(simd, [z[0], z[1], z[3], z[4]])],
            here: Lane::splat(simd, y[2] + z[2]),
        }
    }
}

/// The weights of the dissipation on a row.
pub(crate) struct Weights<'a, S: Simd> {
    simd: S,
    /// In x, by the position in the row: those of the points −2 … +2.
    x: [&'a [f64]; 5],
    /// In y and z: those of the points −2, −1, +1, +2.
    across: [[Lane<S>; 4]; 2],
    /// In y and z: that of the point itself.
    here: Lane<S>,
}

impl<S: Simd> Weights<'_, S> {
    /// The weight of the point itself, in all directions, from the `i`-th point of the row on.
    #[inline(always)]
    pub(crate) fn here(&self, i: usize) -> Lane<S> {
        Lane::load(self.simd, self.x[2], i) + self.here
    }

    /// The weights of the points −2, −1, +1, +2 in direction `d`, from the `i`-th point of the row on.
    #[inline(always)]
    pub(crate) fn sides(&self, d: usize, i: usize) -> [Lane<S>; 4] {
        match d {
            0 => tabulate!(|w| Lane::load(self.simd, self.x[w + w / 2], i)),
            _ => self.across[d - 1],
        }
    }
}

/// The constants of the operator that are the same on all rows.
pub(crate) struct Constants<S: Simd> {
    pub(crate) simd: S,
    /// Of the fluxes, by direction: 1/(2h), before the point; after it, less that.
    pub(crate) convection: [Lane<S>; 3],
    /// Of a neighbour's velocity, by direction and component.
    pub(crate) viscosity: [[Lane<S>; 3]; 3],
    /// Of a neighbour's (1 − c₁c₅) q + c₁c₅ E/ρ, by direction.
    pub(crate) heat: [Lane<S>; 3],
    /// Of the square of a neighbour's normal velocity, by direction.
    pub(crate) square: [Lane<S>; 3],
    /// The same of the point itself, all directions together.
    pub(crate) viscosity_here: [Lane<S>; 3],
    pub(crate) heat_here: Lane<S>,
    pub(crate) square_here: [Lane<S>; 3],
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
            scale: Lane::splat(simd, scale),
        }
    }
}
