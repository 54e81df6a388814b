//! The star of points the spatial operator reads, and its constants.
//!
//! The points of a plane from its first interior one to its last, the boundary points between rows included, are one
//! slice; each neighbour of these points is a slice of the same length, shifted by a point, a row or a plane. So a
//! vector of points has its neighbours at the same place in other slices, and one check of the bounds does for all. Two
//! points away a slice may leave the plane: where it does the weight is zero, and what is read does not matter.

use pulp::Simd;

use super::lanes::{Lane, splats, tabulate, unroll};
use super::physics::{C34, CON43, DISSIPATION, EPS4, Mesh};
use super::zones::Shape;

/// The interior points of a plane of constant z, and the boundary points between them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    /// The plane.
    pub(crate) k: usize,
    /// Points of a row, boundary included: the distance to the next point in y.
    pub(crate) nx: usize,
    /// Points of a plane: the distance to the next point in z.
    pub(crate) plane: usize,
    /// From the first interior point to the last.
    pub(crate) length: usize,
}

impl Frame {
    /// That of plane `k`.
    #[inline(always)]
    pub(crate) fn new(Shape { nx, ny, .. }: Shape, k: usize) -> Self {
        Self { k, nx, plane: nx * ny, length: (ny - 2) * nx - 2 }
    }

    /// Its points of a component of the zone.
    #[inline(always)]
    pub(crate) fn of_zone<'a>(&self, component: &'a [f64]) -> &'a [f64] {
        &component[self.k * self.plane + self.nx + 1..][..self.length]
    }

    /// Its points of a component of the plane.
    #[inline(always)]
    pub(crate) fn of_plane<'a>(&self, component: &'a mut [f64]) -> &'a mut [f64] {
        &mut component[self.nx + 1..][..self.length]
    }
}

/// A field within a frame, and its six neighbours: before and after in x, y, z.
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
    /// That of a field given by its plane below, its plane, and its plane above.
    #[inline(always)]
    pub(crate) fn new([below, plane, above]: [&'a [f64]; 3], frame: Frame) -> Self {
        let (nx, length) = (frame.nx, frame.length);
        let here = nx + 1;
        Self {
            here: &plane[here..][..length],
            sides: [
                [&plane[here - 1..][..length], &plane[here + 1..][..length]],
                [&plane[here - nx..][..length], &plane[here + nx..][..length]],
                [&below[here..][..length], &above[here..][..length]],
            ],
        }
    }

    /// That of a component of the zone.
    #[inline(always)]
    pub(crate) fn of_zone(component: &'a [f64], frame: Frame) -> Self {
        let plane = frame.plane;
        Self::new(
            tabulate(
                #[inline(always)]
                |z| &component[(frame.k + z - 1) * plane..][..plane],
            ),
            frame,
        )
    }

    /// The points from `at` on, without neighbours.
    #[inline(always)]
    pub(crate) fn load_here<S: Simd>(&self, simd: S, at: usize) -> Lane<S> {
        Lane::load(simd, self.here, at)
    }

    /// The neighbours in direction `d` of the points from `at` on.
    #[inline(always)]
    pub(crate) fn load_sides<S: Simd>(&self, simd: S, d: usize, at: usize) -> [Lane<S>; 2] {
        let [before, after] = self.sides[d];
        [Lane::load(simd, before, at), Lane::load(simd, after, at)]
    }

    /// The points from `at` on and their neighbours.
    #[inline(always)]
    pub(crate) fn load<S: Simd>(&self, simd: S, at: usize) -> Points<S> {
        Points {
            here: self.load_here(simd, at),
            sides: tabulate(
                #[inline(always)]
                |d| self.load_sides(simd, d, at),
            ),
        }
    }
}

/// A field two points away: before and after in x, y, z.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Far<'a>([[&'a [f64]; 2]; 3]);

impl<'a> Far<'a> {
    /// That of a component of the zone.
    #[inline(always)]
    pub(crate) fn new(component: &'a [f64], frame: Frame) -> Self {
        let begin = frame.k * frame.plane + frame.nx + 1;
        let distances = [2, 2 * frame.nx, 2 * frame.plane];
        Self(tabulate(
            #[inline(always)]
            |d| {
                let distance = distances[d];
                // Out of the component the weight is zero: anything will do.
                let before = if begin >= distance { begin - distance } else { begin };
                let after = if begin + distance + frame.length <= component.len() { begin + distance } else { begin };
                [&component[before..][..frame.length], &component[after..][..frame.length]]
            },
        ))
    }

    /// Those of the points from `at` on.
    #[inline(always)]
    pub(crate) fn load<S: Simd>(&self, simd: S, at: usize) -> [[Lane<S>; 2]; 3] {
        tabulate(
            #[inline(always)]
            |d| {
                let [before, after] = self.0[d];
                [Lane::load(simd, before, at), Lane::load(simd, after, at)]
            },
        )
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
    pub(crate) simd: S,
    /// Dissipation in x: by position in the row, the weights of the points −2 … +2.
    x: [&'a [f64]; 5],
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
        let length = mesh.shape.nx - 2;
        Self {
            simd,
            x: tabulate(
                #[inline(always)]
                |w| &x[w][..length],
            ),
            across: [splats(simd, [y[0], y[1], y[3], y[4]]), splats(simd, [z[0], z[1], z[3], z[4]])],
            here: Lane::splat(simd, y[2] + z[2]),
            convection: splats(simd, mesh.h.map(|h| -0.5 / h)),
            viscosity: splats(simd, mesh.h.map(|h| C34 / (h * h))),
            viscosity_along: splats(simd, mesh.h.map(|h| CON43 * C34 / (h * h))),
            scale: Lane::splat(simd, scale),
        }
    }

    /// Interior points of a row.
    #[inline(always)]
    pub(crate) fn length(&self) -> usize {
        self.x[0].len()
    }

    /// The dissipation at points of which the first is the `i`-th of its row, in three sums, one per direction: three
    /// short chains of additions take less time than a long one. `sum` goes into the first.
    #[inline(always)]
    pub(crate) fn dissipation(
        &self,
        sum: Lane<S>,
        points: &Points<S>,
        far: [[Lane<S>; 2]; 3],
        i: usize,
    ) -> [Lane<S>; 3] {
        let x: [Lane<S>; 5] = tabulate(
            #[inline(always)]
            |w| Lane::load(self.simd, self.x[w], i),
        );
        let weights = [[x[0], x[1], x[3], x[4]], self.across[0], self.across[1]];
        tabulate(
            #[inline(always)]
            |d| {
                let [before2, before, after, after2] = weights[d];
                let [[u_before, u_after], [u_before2, u_after2]] = [points.sides[d], far[d]];
                let near = match d {
                    0 => before.mul_add(u_before, sum),
                    1 => before.mul_add(u_before, (x[2] + self.here) * points.here),
                    _ => before * u_before,
                };
                after2.mul_add(u_after2, before2.mul_add(u_before2, after.mul_add(u_after, near)))
            },
        )
    }
}
