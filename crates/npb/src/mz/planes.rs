//! Five planes of a zone as the spatial operator reads them: the state, and what follows from it at each point.
//!
//! A copy, because zones often have widths that are powers of two: then neighbouring planes and components lie a
//! multiple of the cache's way apart, and of the fifty rows a row's result depends on, no more than eight would stay in
//! the nearest cache. Here the planes are an odd number of cache lines apart, and the first interior point of every row begins
//! one: a vector of points, and those of its neighbours in y and z, each come from one line.
//!
//! Invariant: each plane has a row of zeros before and after it, and the state has zeros between its rows if anything, so that two
//! points away is always within.

use pulp::Simd;

use super::components::{Components, Slab};
use super::lanes::{Lane, splats};
use super::physics::{C1C5, C2};
use super::stencil::{Far, Rows, Star};
use super::zones::Shape;

/// Fields per plane: the five components of u, v₁, v₂, v₃, pressure, and (1 − c₁c₅) q + c₁c₅ E/ρ.
const FIELDS: usize = 10;
/// Planes kept.
const KEPT: usize = 5;
/// Numbers of a cache line.
const LINE: usize = 8;
/// Numbers before a field's first row, so that its second point begins a line.
const LEAD: usize = LINE - 1;
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
    /// How much scratch is needed, which has to begin at a cache line.
    pub(crate) fn numbers(shape: Shape) -> usize {
        KEPT * FIELDS * Self::distance(shape)
    }

    /// From a row to the next.
    #[inline(always)]
    pub(crate) fn pitch(Shape { nx, .. }: Shape) -> usize {
        nx.next_multiple_of(LINE)
    }

    /// Numbers of a field: its rows, the one before and the one after, and as much as vectors reach beyond.
    #[inline(always)]
    fn field_numbers(shape: Shape) -> usize {
        Self::pitch(shape) * (shape.ny + 2) + LINE
    }

    /// From a field of a plane to the next: an odd number of cache lines.
    fn distance(shape: Shape) -> usize {
        let lines = Self::field_numbers(shape).div_ceil(LINE);
        // 13 more than a multiple of 16 spreads the fifty fields over the 64 sets of a cache.
        LINE * (lines + (13 + 16 - lines % 16) % 16)
    }

    /// Planes of nothing yet.
    pub(crate) fn new(shape: Shape, scratch: &'a mut [f64]) -> Self {
        Self { shape, numbers: scratch }
    }

    /// Reads plane `k` of the state into the place of plane k − 5.
    #[inline(always)]
    pub(crate) fn read<S: Simd>(&mut self, simd: S, u: Slab<'_>, k: usize) {
        let Shape { nx, ny, .. } = self.shape;
        let (pitch, distance) = (Self::pitch(self.shape), Self::distance(self.shape));
        let u = u.plane(k);
        let fields = &mut self.numbers[k % KEPT * FIELDS * distance..][..FIELDS * distance];
        for state in fields.chunks_exact_mut(distance).take(5) {
            state[LEAD..][..nx].fill(0.0);
            state[LEAD + pitch * (ny + 1)..][..nx].fill(0.0);
        }
        let mut fields = fields.chunks_exact_mut(distance).map(
            #[inline(always)]
            |field| &mut field[LEAD + pitch..][..pitch * ny],
        );
        let mut fields: [&mut [f64]; FIELDS] = std::array::from_fn(|_| fields.next().expect("ten fields"));
        let constants = splats(simd, [0.5, C2, 1.0 - C1C5, C1C5]);
        // Rows without a gap are one.
        let (rows, length, pitch) = if pitch == nx { (1, nx * ny, nx * ny) } else { (ny, nx, pitch) };
        for row in 0..rows {
            // Two points away in x a row may be left: the weight there is 0, which not all numbers stand.
            for state in &mut fields[..5] {
                state[row * pitch + length..(row + 1) * pitch].fill(0.0);
            }
            // The first vector is there for the first point: from the next one on they begin at lines.
            let (from, to) = (row * length, row * pitch);
            derive(simd, &constants, &u, from, &mut fields, to);
            for_vectors!(S, length - 1, |at| derive(simd, &constants, &u, from + 1 + at, &mut fields, to + 1 + at));
        }
    }

    /// A field of a plane, with the rows before and after.
    #[inline(always)]
    fn field(&self, field: usize, k: usize) -> &[f64] {
        let distance = Self::distance(self.shape);
        &self.numbers[(k % KEPT * FIELDS + field) * distance..][..Self::field_numbers(self.shape)]
    }

    /// Where the interior points are that vectors begin at.
    #[inline(always)]
    fn rows(shape: Shape) -> Rows {
        let pitch = Self::pitch(shape);
        let length = pitch * (shape.ny - 3) + (shape.nx - 2).next_multiple_of(LINE);
        Rows { first: LEAD + 2 * pitch + 1, pitch, length }
    }

    /// A field of plane `k` and its neighbours.
    #[inline(always)]
    pub(crate) fn star(&self, field: usize, k: usize) -> Star<'_> {
        let planes = tabulate!(|z| self.field(field, k + z - 1));
        Star::new(planes, Self::rows(self.shape))
    }

    /// A field two points away from those of plane `k`. Where there is no such plane, it is plane `k` itself.
    #[inline(always)]
    pub(crate) fn far(&self, field: usize, k: usize) -> Far<'_> {
        let below = if k >= 2 { k - 2 } else { k };
        let above = if k + 2 < self.shape.nz { k + 2 } else { k };
        Far::new([self.field(field, below), self.field(field, k), self.field(field, above)], Self::rows(self.shape))
    }
}

/// Reads the points from `from` on to the place `to` of all fields.
#[inline(always)]
fn derive<S: Simd>(
    simd: S,
    &[half, c2, q_weight, e_weight]: &[Lane<S>; 4],
    u: &Components<'_>,
    from: usize,
    fields: &mut [&mut [f64]; FIELDS],
    to: usize,
) {
    let state: [Lane<S>; 5] = tabulate!(|m| Lane::load(simd, u[m], from));
    let [rho, ma, mb, mc, energy] = state;
    let inverse = rho.recip();
    let [va, vb, vc] = [ma * inverse, mb * inverse, mc * inverse];
    let kinetic = half * mc.mul_add(vc, mb.mul_add(vb, ma * va));
    let heat = inverse * energy.mul_add(e_weight, kinetic * q_weight);
    unroll!(5, |m| state[m].store(fields[m], to));
    let derived = [va, vb, vc, c2 * (energy - kinetic), heat];
    unroll!(5, |m| derived[m].store(fields[5 + m], to));
}
