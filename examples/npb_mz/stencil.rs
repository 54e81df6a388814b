//! The star of points the spatial operator reads around a row, and its constants.
//!
//! A row runs along x through the interior of a zone. Each neighbour of its points lies on a row of the same length,
//! shifted by a point, a row or a plane; so a vector of points has its neighbours at the same place in other slices.
//! Two points away a row may leave the plane or the zone: there its weight is zero and what is read does not matter.

use pulp::Simd;

use super::lanes::{Lane, splats, tabulate};
use super::physics::{C34, CON43, DISSIPATION, EPS4, Mesh};
use super::zones::Shape;

/// A row of interior points.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    /// The plane of constant z it is in.
    pub(crate) k: usize,
    /// Where in a component its first point is.
    pub(crate) begin: usize,
    /// Its points.
    pub(crate) length: usize,
    /// Points of a row, boundary included: the distance to the next point in y.
    pub(crate) nx: usize,
    /// Points of a plane: the distance to the next point in z.
    pub(crate) plane: usize,
}

impl Row {
    /// Row (j, k).
    #[inline(always)]
    pub(crate) fn new(Shape { nx, ny, .. }: Shape, j: usize, k: usize) -> Self {
        Self { k, begin: (k * ny + j) * nx + 1, length: nx - 2, nx, plane: nx * ny }
    }

    /// Its points of a component.
    #[inline(always)]
    pub(crate) fn of<'a>(&self, component: &'a [f64]) -> &'a [f64] {
        &component[self.begin..][..self.length]
    }
}

/// A row and the six that are its neighbours: before and after it in x, y, z.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Star<'a> {
    here: &'a [f64],
    sides: [[&'a [f64]; 2]; 3],
}

/// A vector of points and of their six neighbours.
pub(crate) struct Points<S: Simd> {
    pub(crate) here: Lane<S>,
    pub(crate) sides: [[Lane<S>; 2]; 3],
}

impl<'a> Star<'a> {
    /// The row that begins at `at` within the second of three planes.
    #[inline(always)]
    pub(crate) fn new([below, plane, above]: [&'a [f64]; 3], at: usize, row: Row) -> Self {
        let (here, length, nx) = (at, row.length, row.nx);
        Self {
            here: &plane[here..][..length],
            sides: [
                [&plane[here - 1..][..length], &plane[here + 1..][..length]],
                [&plane[here - nx..][..length], &plane[here + nx..][..length]],
                [&below[here..][..length], &above[here..][..length]],
            ],
        }
    }

    /// The points from `i` on, without neighbours.
    #[inline(always)]
    pub(crate) fn load_here<S: Simd>(&self, simd: S, i: usize) -> Lane<S> {
        Lane::load(simd, self.here, i)
    }

    /// The neighbours in direction `d` of the points from `i` on.
    #[inline(always)]
    pub(crate) fn load_sides<S: Simd>(&self, simd: S, d: usize, i: usize) -> [Lane<S>; 2] {
        let [before, after] = self.sides[d];
        [Lane::load(simd, before, i), Lane::load(simd, after, i)]
    }

    /// The points from `i` on and their neighbours.
    #[inline(always)]
    pub(crate) fn load<S: Simd>(&self, simd: S, i: usize) -> Points<S> {
        Points {
            here: self.load_here(simd, i),
            sides: tabulate(
                #[inline(always)]
                |d| self.load_sides(simd, d, i),
            ),
        }
    }
}

/// The rows two points away: before and after in x, y, z.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Far<'a>([[&'a [f64]; 2]; 3]);

impl<'a> Far<'a> {
    /// Those around `row` in a component.
    #[inline(always)]
    pub(crate) fn new(component: &'a [f64], row: Row) -> Self {
        let distances = [2, 2 * row.nx, 2 * row.plane];
        Self(tabulate(
            #[inline(always)]
            |d| {
                let distance = distances[d];
                // Out of the component the weight is zero: any row will do.
                let before = row.begin.checked_sub(distance).unwrap_or(row.begin);
                let after =
                    if row.begin + distance + row.length <= component.len() { row.begin + distance } else { row.begin };
                [&component[before..][..row.length], &component[after..][..row.length]]
            },
        ))
    }
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

/// The constants of the operator on one row.
pub(crate) struct Stencil<'a, S: Simd> {
    simd: S,
    /// Dissipation in x: by position in the row, the weights of the points −2 … +2.
    x: &'a [Vec<f64>; 5],
    /// Dissipation in y and z: the weights of the points −2, −1, +1, +2.
    across: [[Lane<S>; 4]; 2],
    /// Dissipation in y and z: the weight of the point itself.
    here: Lane<S>,
    /// −1/(2h) per direction.
    pub(crate) convection: [Lane<S>; 3],
    /// c₃c₄/h² per direction.
    pub(crate) viscosity: [Lane<S>; 3],
    /// The same for the velocity in this direction.
    pub(crate) viscosity_along: [Lane<S>; 3],
    /// Of the result.
    pub(crate) scale: Lane<S>,
}

impl<'a, S: Simd> Stencil<'a, S> {
    /// The constants on row (j, k); `x` are the weights of [`dissipation`] by the position in the row.
    #[inline(always)]
    pub(crate) fn new(simd: S, mesh: &Mesh, scale: f64, x: &'a [Vec<f64>; 5], j: usize, k: usize) -> Self {
        let y = dissipation(mesh, 1, j, mesh.shape.ny);
        let z = dissipation(mesh, 2, k, mesh.shape.nz);
        Self {
            simd,
            x,
            across: [splats(simd, [y[0], y[1], y[3], y[4]]), splats(simd, [z[0], z[1], z[3], z[4]])],
            here: Lane::splat(simd, y[2] + z[2]),
            convection: splats(simd, mesh.h.map(|h| -0.5 / h)),
            viscosity: splats(simd, mesh.h.map(|h| C34 / (h * h))),
            viscosity_along: splats(simd, mesh.h.map(|h| CON43 * C34 / (h * h))),
            scale: Lane::splat(simd, scale),
        }
    }

    /// `sum` and the dissipation at the points from `i` on.
    #[inline(always)]
    pub(crate) fn dissipation(&self, sum: Lane<S>, points: &Points<S>, far: &Far<'_>, i: usize) -> Lane<S> {
        let x: [Lane<S>; 5] = tabulate(
            #[inline(always)]
            |w| Lane::load(self.simd, &self.x[w], i),
        );
        let mut sum = (x[2] + self.here).mul_add(points.here, sum);
        let weights = [[x[0], x[1], x[3], x[4]], self.across[0], self.across[1]];
        for d in 0..3 {
            let [before2, before, after, after2] = weights[d];
            let [u_before, u_after] = points.sides[d];
            let [far_before, far_after] = far.0[d];
            let [u_before2, u_after2] = [Lane::load(self.simd, far_before, i), Lane::load(self.simd, far_after, i)];
            sum = before.mul_add(u_before, after.mul_add(u_after, sum));
            sum = before2.mul_add(u_before2, after2.mul_add(u_after2, sum));
        }
        sum
    }
}
