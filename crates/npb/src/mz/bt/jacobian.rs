//! The Jacobians of the flux along a direction, as the blocks of a line's system need them.
//!
//! Components are in the order of the direction: density, the two transverse momenta, the normal momentum, energy. So
//! the formulas are the same in x, y and z, and elimination meets the rows with most zeros first. A flux couples a
//! transverse momentum only to density, to itself and to the normal momentum: of the 25 entries of a block, 7 are
//! always zero and are neither kept nor multiplied.
//!
//! Source: NASA report RNR-94-007, section 4.3.1, and the derivatives of the fluxes given there.

use pulp::Simd;

use crate::mz::lanes::{Lane, splats};
use crate::mz::physics::{C1, C1C5, C2, C34, CON43, DISSIPATION, Mesh};

/// Density, transverse momenta, normal momentum, energy.
pub(super) type Vector<S> = [Lane<S>; 5];

/// The components in the order of direction `d`: 0 (x), 1 (y) or 2 (z).
pub(super) const fn order(d: usize) -> [usize; 5] {
    [0, (d + 1) % 3 + 1, (d + 2) % 3 + 1, d + 1, 4]
}

/// The numbers that weigh the Jacobians of a direction.
pub(super) struct Weights<S: Simd> {
    simd: S,
    /// dt/(2h): of the inviscid flux.
    inviscid: Lane<S>,
    /// dt c₃c₄/h²: of the viscous one.
    viscous: Lane<S>,
    /// dt D/h²: dissipation.
    dissipation: Lane<S>,
}

impl<S: Simd> Weights<S> {
    /// Those of direction `d`.
    #[inline(always)]
    pub(super) fn new(simd: S, mesh: &Mesh, d: usize) -> Self {
        let square = mesh.dt / (mesh.h[d] * mesh.h[d]);
        Self {
            simd,
            inviscid: Lane::splat(simd, 0.5 * mesh.dt / mesh.h[d]),
            viscous: Lane::splat(simd, C34 * square),
            dissipation: Lane::splat(simd, DISSIPATION[d] * square),
        }
    }
}

/// A block that couples a point to the next one of its line, without its zeros.
pub(super) struct Coupling<S: Simd> {
    /// Density: its coefficients of density and normal momentum.
    density: [Lane<S>; 2],
    /// Each transverse momentum: of density, itself, normal momentum.
    transverse: [[Lane<S>; 3]; 2],
    /// Normal momentum: of all.
    normal: Vector<S>,
    /// Energy: of all.
    energy: Vector<S>,
}

/// What a point contributes to the system of its line; A and N are the inviscid and viscous Jacobians, weighted, N
/// with the dissipation on its diagonal.
pub(super) struct Blocks<S: Simd> {
    /// A + N: minus the coefficients in the next point's equations.
    pub(super) to_next: Coupling<S>,
    /// A − N: the coefficients in the previous point's equations.
    pub(super) to_previous: Coupling<S>,
    /// I + 2N, by rows: the coefficients in its own.
    pub(super) own: Own<S>,
}

/// The diagonal block I + 2N without its zeros.
pub(super) struct Own<S: Simd> {
    /// The diagonal of density.
    density: Lane<S>,
    /// Each momentum, normal last: the coefficients of density and of itself.
    momentum: [[Lane<S>; 2]; 3],
    /// Energy: of all.
    energy: Vector<S>,
}

impl<S: Simd> Blocks<S> {
    /// Those of a point with the state `u`.
    #[inline(always)]
    pub(super) fn new(weights: &Weights<S>, u: Vector<S>) -> Self {
        let Weights { simd, inviscid, viscous, dissipation } = *weights;
        let [half_c2, c2, two_less_c2, c1] = splats(simd, [0.5 * C2, C2, 2.0 - C2, C1]);
        let [con43, con43_less, one_less, c1c5] = splats(simd, [CON43, CON43 - C1C5, 1.0 - C1C5, C1C5]);
        let [one, two] = splats(simd, [1.0, 2.0]);
        let [rho, ma, mb, mn, energy] = u;
        let inverse = rho.exact_recip();
        let [va, vb, vn, e] = [ma * inverse, mb * inverse, mn * inverse, energy * inverse];
        let transverse_squares = vb.mul_add(vb, va * va);
        let normal_square = vn * vn;
        let double_q = transverse_squares + normal_square;

        // A, weighted by dt/(2h).
        let w = inviscid;
        let [wa, wb, wn] = [va * w, vb * w, vn * w];
        let c2wn = c2 * wn;
        let a_transverse = [-(va * wn), -(vb * wn)];
        let a_normal_density = w * (half_c2 * double_q - normal_square);
        let c1e = c1 * e;
        let a_energy_density = wn * c2.mul_add(double_q, -c1e);
        let a_energy_normal = w * (c1e - half_c2.mul_add(double_q, c2 * normal_square));

        // N, weighted by dt/h².
        let g = viscous * inverse;
        let g43 = con43 * g;
        let h = one_less * g;
        let h43 = con43_less * g;
        let heat = c1c5 * g;
        let [ga, gb] = [va * g, vb * g];
        let gn = g43 * vn;
        let [ha, hb] = [va * h, vb * h];
        let hn = h43 * vn;
        let conduction = heat.mul_add(e, h43.mul_add(normal_square, h * transverse_squares));
        let d = dissipation;

        let to_next = Coupling {
            density: [d, w],
            transverse: [[a_transverse[0] - ga, wn + g + d, wa], [a_transverse[1] - gb, wn + g + d, wb]],
            normal: [a_normal_density - gn, -(c2 * wa), -(c2 * wb), two_less_c2.mul_add(wn, g43 + d), c2 * w],
            energy: [
                a_energy_density - conduction,
                c2wn.mul_sub_from(va, ha),
                c2wn.mul_sub_from(vb, hb),
                a_energy_normal + hn,
                c1.mul_add(wn, heat + d),
            ],
        };
        let to_previous = Coupling {
            density: [-d, w],
            transverse: [[a_transverse[0] + ga, wn - (g + d), wa], [a_transverse[1] + gb, wn - (g + d), wb]],
            normal: [a_normal_density + gn, -(c2 * wa), -(c2 * wb), two_less_c2.mul_add(wn, -(g43 + d)), c2 * w],
            energy: [
                a_energy_density + conduction,
                -(c2wn.mul_add(va, ha)),
                -(c2wn.mul_add(vb, hb)),
                a_energy_normal - hn,
                c1.mul_add(wn, -(heat + d)),
            ],
        };
        let diagonal = two.mul_add(d, one);
        let own = Own {
            density: diagonal,
            momentum: [
                [-(two * ga), two.mul_add(g, diagonal)],
                [-(two * gb), two.mul_add(g, diagonal)],
                [-(two * gn), two.mul_add(g43, diagonal)],
            ],
            energy: [-(two * conduction), two * ha, two * hb, two * hn, two.mul_add(heat, diagonal)],
        };
        Self { to_next, to_previous, own }
    }
}

impl<S: Simd> Coupling<S> {
    /// `sum` + this block times `x`.
    #[inline(always)]
    pub(super) fn mul_add(&self, x: Vector<S>, sum: Vector<S>) -> Vector<S> {
        [
            self.density[1].mul_add(x[3], self.density[0].mul_add(x[0], sum[0])),
            sparse_dot(self.transverse[0], [x[0], x[1], x[3]], sum[1]),
            sparse_dot(self.transverse[1], [x[0], x[2], x[3]], sum[2]),
            dot(self.normal, x, sum[3]),
            dot(self.energy, x, sum[4]),
        ]
    }

    /// The columns of the block; `None` where an entry is always zero.
    #[inline(always)]
    pub(super) fn columns(&self) -> [[Option<Lane<S>>; 5]; 5] {
        let [a, b] = self.transverse;
        let (normal, energy) = (self.normal, self.energy);
        [
            [Some(self.density[0]), Some(a[0]), Some(b[0]), Some(normal[0]), Some(energy[0])],
            [None, Some(a[1]), None, Some(normal[1]), Some(energy[1])],
            [None, None, Some(b[1]), Some(normal[2]), Some(energy[2])],
            [Some(self.density[1]), Some(a[2]), Some(b[2]), Some(normal[3]), Some(energy[3])],
            [None, None, None, Some(normal[4]), Some(energy[4])],
        ]
    }
}

impl<S: Simd> Own<S> {
    /// The columns of the block; `None` where an entry is always zero.
    #[inline(always)]
    pub(super) fn columns(&self) -> [[Option<Lane<S>>; 5]; 5] {
        let [a, b, normal] = self.momentum;
        let energy = self.energy;
        [
            [Some(self.density), Some(a[0]), Some(b[0]), Some(normal[0]), Some(energy[0])],
            [None, Some(a[1]), None, None, Some(energy[1])],
            [None, None, Some(b[1]), None, Some(energy[2])],
            [None, None, None, Some(normal[1]), Some(energy[3])],
            [None, None, None, None, Some(energy[4])],
        ]
    }
}

/// `sum` + the product of a row with three entries and a vector.
#[inline(always)]
fn sparse_dot<S: Simd>(row: [Lane<S>; 3], x: [Lane<S>; 3], sum: Lane<S>) -> Lane<S> {
    row[2].mul_add(x[2], row[1].mul_add(x[1], row[0].mul_add(x[0], sum)))
}

/// `sum` + the product of a row and a vector, in two sums so that neither waits long for the other.
#[inline(always)]
fn dot<S: Simd>(row: Vector<S>, x: Vector<S>, sum: Lane<S>) -> Lane<S> {
    let even = row[4].mul_add(x[4], row[2].mul_add(x[2], row[0].mul_add(x[0], sum)));
    even + row[3].mul_add(x[3], row[1] * x[1])
}
