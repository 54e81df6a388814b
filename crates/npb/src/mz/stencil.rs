//! The star of points the spatial operator reads, and its constants.
//!
//! The points of a plane from its first interior one to its last, with all that lies between rows, are one slice, which ends with
//! a whole cache line; each neighbour of these points is a slice of the same length, shifted by a point, a row or a plane. So a
//! vector of points has its neighbours at the same place in other slices, and one check of the bounds does for all. Two
//! points away a slice may leave the plane: where it does the weight is zero, and what is read does not matter.

use pulp::Simd;

use super::lanes::{Lane, MAX_LANES, splats};
use super::physics::{C34, CON43, DISSIPATION, EPS4, Mesh};
use super::zones::Shape;

/// Where the interior points of a field's plane lie.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows {
    /// The first one, with two rows before it.
    pub(crate) first: usize,
    /// From a row to the next.
    pub(crate) pitch: usize,
    /// From the first one to the last one that vectors reach.
    pub(crate) length: usize,
}

/// A field at the interior points of a plane, and its six neighbours: before and after in x, y, z.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Star<'a> {
    here: &'a [f64],
    sides: [[&'a [f64]; 2]; 3],
}

impl<'a> Star<'a> {
    /// That of a field given by its plane below, its plane, and its plane above, each with a row before and after.
    #[inline(always)]
    pub(crate) fn new([below, plane, above]: [&'a [f64]; 3], Rows { first: here, pitch, length }: Rows) -> Self {
        Self {
            here: &plane[here..][..length],
            sides: [
                [&plane[here - 1..][..length], &plane[here + 1..][..length]],
                [&plane[here - pitch..][..length], &plane[here + pitch..][..length]],
                [&below[here..][..length], &above[here..][..length]],
            ],
        }
    }

    /// The points from `at` on.
    #[inline(always)]
    pub(crate) fn load<S: Simd>(&self, simd: S, at: usize) -> Lane<S> {
        Lane::load(simd, self.here, at)
    }

    /// Their neighbours in direction `d`, before (0) or after (1) them.
    #[inline(always)]
    pub(crate) fn load_side<S: Simd>(&self, simd: S, [d, end]: [usize; 2], at: usize) -> Lane<S> {
        Lane::load(simd, self.sides[d][end], at)
    }
}

/// A field two points away: before and after in x, y, z.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Far<'a>([[&'a [f64]; 2]; 3]);

impl<'a> Far<'a> {
    /// That of a field given by its second plane below, its plane, and its second plane above, each with a row before
    /// and after.
    #[inline(always)]
    pub(crate) fn new([below, plane, above]: [&'a [f64]; 3], Rows { first: here, pitch, length }: Rows) -> Self {
        Self([
            [&plane[here - 2..][..length], &plane[here + 2..][..length]],
            [&plane[here - 2 * pitch..][..length], &plane[here + 2 * pitch..][..length]],
            [&below[here..][..length], &above[here..][..length]],
        ])
    }

    /// Those of the points from `at` on in direction `d`, before (0) or after (1) them.
    #[inline(always)]
    pub(crate) fn load_side<S: Simd>(&self, simd: S, [d, end]: [usize; 2], at: usize) -> Lane<S> {
        Lane::load(simd, self.0[d][end], at)
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

/// The weights of [`dissipation`] in a zone, by direction and position.
pub(crate) struct DissipationWeights {
    /// In x: each of the five by the position in a row, and zeros behind its end for vectors that reach there.
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
        let mut x: Vec<_> = line(0, nx).collect();
        x.resize((nx - 2).next_multiple_of(MAX_LANES), [0.0; 5]);
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
    /// Of the fluxes, by direction: 1/(2h) before the point, −1/(2h) after it.
    pub(crate) convection: [[Lane<S>; 2]; 3],
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
            convection: tabulate!(|d| splats(simd, [0.5 / mesh.h[d], -0.5 / mesh.h[d]])),
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
