//! The star of rows the spatial operator reads, and what it computes of them.
//!
//! A point has its neighbours in x in its own row, those in y and z at the same place of other rows. Two points away a row
//! may lie outside the zone: there the weight is zero, any row will do, and what is read does not matter.

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
    /// That of row (j, k).
    #[inline(always)]
    pub(crate) fn new(planes: &'a Planes<'_>, Shape { ny, nz, .. }: Shape, j: usize, k: usize) -> Self {
        let [south, north] = [if j < 2 { j } else { j - 2 }, if j + 2 < ny { j + 2 } else { j }];
        let [below, above] = [if k < 2 { k } else { k - 2 }, if k + 2 < nz { k + 2 } else { k }];
        let y = tabulate!(|side| planes.row(k, [south, j - 1, j + 1, north][side]));
        let z = tabulate!(|side| planes.row([below, k - 1, k + 1, above][side], j));
        Self { here: planes.row(k, j), around: [y, z] }
    }

    /// S(u) at the points from the `i`-th of the row on; at the row's ends, any numbers.
    #[inline(always)]
    pub(crate) fn apply<S: Simd>(&self, constants: &Constants<S>, weights: &Weights<'_, S>, i: usize) -> [Lane<S>; 5] {
        let simd = constants.simd;
        let all: [Lane<S>; 6] = tabulate!(|quantity| self.here.load(simd, quantity, i));
        let here = here(constants, weights.here(i), all);
        let sides: [[Lane<S>; 4]; 6] = tabulate!(|quantity| self.here.load_sides(simd, quantity, i));
        let x = direction(
            constants,
            weights.sides(0, i),
            0,
            #[inline(always)]
            |quantity, side| sides[quantity][side],
        );
        let across: [[Lane<S>; 5]; 2] = tabulate!(|d| {
            let rows = &self.around[d];
            direction(
                constants,
                weights.sides(1 + d, i),
                1 + d,
                #[inline(always)]
                |quantity, side| rows[side].load(simd, quantity, i),
            )
        });
        tabulate!(|m| (here[m] + x[m]) + (across[0][m] + across[1][m]))
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

/// What the neighbours in direction `d` contribute: their fluxes, their part in the viscous terms, and their part in the
/// dissipation, which has the given weights. `quantity` is one of the state, or 1/ρ, two points before, one before, one
/// after, two after.
#[inline(always)]
fn direction<S: Simd>(
    constants: &Constants<S>,
    weights: [Lane<S>; 4],
    d: usize,
    quantity: impl Fn(usize, usize) -> Lane<S>,
) -> [Lane<S>; 5] {
    let convection = constants.convection[d];
    let mut sums: [Lane<S>; 5] = tabulate!(|m| weights[3].mul_add(quantity(m, 3), weights[0] * quantity(m, 0)));

    let (before, after): ([Lane<S>; 6], [Lane<S>; 6]) = (tabulate!(|q| quantity(q, 1)), tabulate!(|q| quantity(q, 2)));
    let flows = [Flow::new(constants, before), Flow::new(constants, after)];
    let normal = [flows[0].velocity[d], flows[1].velocity[d]];
    let carried = [convection * normal[0], convection * normal[1]];
    let of_state = [weights[1] + carried[0], weights[2] - carried[1]];

    sums[0] = weights[2].mul_add(after[0], weights[1].mul_add(before[0], sums[0]));
    sums[0] = convection.mul_add(before[d + 1] - after[d + 1], sums[0]);
    unroll!(3, |c| {
        let mut stress = constants.viscosity[d][c] * (flows[0].velocity[c] + flows[1].velocity[c]);
        if c == d {
            stress = convection.mul_add(flows[0].pressure - flows[1].pressure, stress);
        }
        let convected = of_state[1].mul_add(after[c + 1], of_state[0].mul_add(before[c + 1], sums[c + 1]));
        sums[c + 1] = convected + stress;
    });
    let squares = normal[0].mul_add(normal[0], normal[1] * normal[1]);
    let conducted = constants.square[d].mul_add(squares, constants.heat[d] * (flows[0].heat + flows[1].heat));
    let work = carried[1].mul_sub_from(flows[1].pressure, carried[0].mul_add(flows[0].pressure, conducted));
    sums[4] = of_state[1].mul_add(after[4], of_state[0].mul_add(before[4], sums[4])) + work;
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
            scale: Lane::splat(simd, scale),
        }
    }
}
