//! Five planes of a zone as the spatial operator reads them: the state, and what follows from it at each point.
//!
//! A copy, because zones often have widths that are powers of two: then neighbouring planes and components lie a
//! multiple of the cache's way apart, and of the fifty rows a row's result depends on, no more than eight would stay in
//! the nearest cache. Here the planes are an odd number of cache lines apart.
//!
//! Invariant: each plane has a row of zeros before and after it, so that two points away in y is always within.

use pulp::Simd;

use super::components::Slab;
use super::lanes::{Lane, splats};
use super::physics::{C1C5, C2};
use super::stencil::{Far, Star};
use super::zones::Shape;

/// Fields per plane: the five components of u, v₁, v₂, v₃, pressure, and (1 − c₁c₅) q + c₁c₅ E/ρ.
const FIELDS: usize = 10;
/// Planes kept.
const KEPT: usize = 5;
/// Which of the quantities after the state is the pressure.
pub(crate) const PRESSURE: usize = 3;
/// Which is the combination of kinetic and total energy whose second difference conducts heat.
pub(crate) const HEAT: usize = 4;

/// The planes, that of k at k mod 5, its fields one after the other.
pub(crate) struct Planes<'a> {
    shape: Shape,
    numbers: &'a mut [f64],
}

impl<'a> Planes<'a> {
    /// How much scratch is needed.
    pub(crate) fn numbers(shape: Shape) -> usize {
        KEPT * FIELDS * Self::distance(shape)
    }

    /// From a field of a plane to the next: an odd number of cache lines.
    fn distance(Shape { nx, ny, .. }: Shape) -> usize {
        let lines = (nx * (ny + 2)).div_ceil(8);
        // 13 more than a multiple of 16 spreads the fifty fields over the 64 sets of a cache.
        8 * (lines + (13 + 16 - lines % 16) % 16)
    }

    /// Planes of nothing yet.
    pub(crate) fn new(shape: Shape, scratch: &'a mut [f64]) -> Self {
        Self { shape, numbers: scratch }
    }

    /// Reads plane `k` of the state into the place of plane k − 5.
    #[inline(always)]
    pub(crate) fn read<S: Simd>(&mut self, simd: S, u: Slab<'_>, k: usize) {
        let Shape { nx, ny, .. } = self.shape;
        let (plane, distance) = (nx * ny, Self::distance(self.shape));
        let u = u.plane(k);
        let (state, derived) =
            self.numbers[k % KEPT * FIELDS * distance..][..FIELDS * distance].split_at_mut(5 * distance);
        for field in state.chunks_exact_mut(distance) {
            field[..nx].fill(0.0);
            field[nx + plane..][..nx].fill(0.0);
        }
        let mut state = state.chunks_exact_mut(distance).map(|field| &mut field[nx..][..plane]);
        let mut derived = derived.chunks_exact_mut(distance).map(|field| &mut field[nx..][..plane]);
        let [s0, s1, s2, s3, s4]: [&mut [f64]; 5] = std::array::from_fn(|_| state.next().expect("five components"));
        let [v0, v1, v2, p, h]: [&mut [f64]; 5] = std::array::from_fn(|_| derived.next().expect("five quantities"));
        let [half, c2, q_weight, e_weight] = splats(simd, [0.5, C2, 1.0 - C1C5, C1C5]);
        for_vectors!(S, plane, |at| {
            let [rho, ma, mb, mc, energy] = tabulate!(|m| Lane::load(simd, u[m], at));
            let inverse = rho.recip();
            let [va, vb, vc] = [ma * inverse, mb * inverse, mc * inverse];
            let kinetic = half * mc.mul_add(vc, mb.mul_add(vb, ma * va));
            rho.store(s0, at);
            ma.store(s1, at);
            mb.store(s2, at);
            mc.store(s3, at);
            energy.store(s4, at);
            va.store(v0, at);
            vb.store(v1, at);
            vc.store(v2, at);
            (c2 * (energy - kinetic)).store(p, at);
            (inverse * energy.mul_add(e_weight, kinetic * q_weight)).store(h, at);
        });
    }

    /// A field of a plane, with the rows before and after.
    #[inline(always)]
    fn field(&self, field: usize, k: usize) -> &[f64] {
        let (Shape { nx, ny, .. }, distance) = (self.shape, Self::distance(self.shape));
        &self.numbers[(k % KEPT * FIELDS + field) * distance..][..nx * (ny + 2)]
    }

    /// A field of plane `k` and its neighbours.
    #[inline(always)]
    pub(crate) fn star(&self, field: usize, k: usize) -> Star<'_> {
        let planes = tabulate!(|z| self.field(field, k + z - 1));
        Star::new(planes, self.shape)
    }

    /// A field two points away from those of plane `k`. Where there is no such plane, it is plane `k` itself.
    #[inline(always)]
    pub(crate) fn far(&self, field: usize, k: usize) -> Far<'_> {
        let below = if k >= 2 { k - 2 } else { k };
        let above = if k + 2 < self.shape.nz { k + 2 } else { k };
        Far::new([self.field(field, below), self.field(field, k), self.field(field, above)], self.shape)
    }
}
