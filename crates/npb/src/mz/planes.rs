//! The planes of a zone that the spatial operator has around it, as it reads them: the state, and what follows from it.
//!
//! A copy, in blocks: five quantities at eight neighbouring points of a row are one block of five cache lines. So all that
//! is known of a vector of points has one address, and a row is one stream of memory. In the arrays the five components of
//! a row are streams of their own, of which a processor foresees only so many, and in zones whose widths are powers of two
//! they compete for the same lines of a cache.
//!
//! Invariant: a block begins with a point whose index in x is a multiple of eight. Where a row ends within a block, and in the
//! blocks before the first row and after the last one, the state is some finite number or other: it is read with weight 0,
//! which not all numbers stand.

use pulp::Simd;

use super::components::{Components, Slab};
use super::lanes::{Lane, splats};
use super::physics::{C1C5, C2};
use super::zones::Shape;

/// Points of a block: as many numbers as a cache line has.
const POINTS: usize = 8;
/// Planes whose state is kept: those up to two away.
const STATES: usize = 5;
/// Planes whose flow is kept: those up to one away, and the one above these, which is written while they are read.
const FLOWS: usize = 4;
/// Which quantity of the flow is the pressure; the three before it are the velocities.
pub(crate) const PRESSURE: usize = 3;
/// Which is (1 − c₁c₅) q + c₁c₅ E/ρ, the combination of kinetic and total energy whose second difference conducts heat.
pub(crate) const HEAT: usize = 4;

/// Five quantities at eight points: the state, or the flow.
type Block = [[f64; POINTS]; 5];

/// The planes: plane k is number k mod [`STATES`] and number k mod [`FLOWS`].
pub(crate) struct Planes<'a> {
    shape: Shape,
    states: &'a mut [Block],
    flows: &'a mut [Block],
}

impl<'a> Planes<'a> {
    /// How much scratch is needed, which has to begin at a cache line.
    pub(crate) fn numbers(shape: Shape) -> usize {
        (STATES + FLOWS) * Self::distance(shape) * size_of::<Block>() / size_of::<f64>()
    }

    /// Blocks of a row.
    #[inline(always)]
    fn pitch(Shape { nx, .. }: Shape) -> usize {
        nx.div_ceil(POINTS)
    }

    /// Blocks of a plane: its rows, one before them and one after them.
    #[inline(always)]
    fn blocks(shape: Shape) -> usize {
        Self::pitch(shape) * shape.ny + 2
    }

    /// Blocks from a plane to the next.
    #[inline(always)]
    fn distance(shape: Shape) -> usize {
        let blocks = Self::blocks(shape);
        // 41 blocks are 13 lines more than a multiple of 64: so planes are spread over the 64 sets of a cache.
        blocks + (41 + 64 - blocks % 64) % 64
    }

    /// Planes of nothing yet.
    pub(crate) fn new(shape: Shape, scratch: &'a mut [f64]) -> Self {
        let distance = Self::distance(shape);
        let (states, flows) = bytemuck::cast_slice_mut::<f64, Block>(scratch).split_at_mut(STATES * distance);
        for plane in states.chunks_exact_mut(distance) {
            (plane[0], plane[Self::blocks(shape) - 1]) = (Block::default(), Block::default());
        }
        Self { shape, states, flows }
    }

    /// Reads plane `k` of the state into the place of plane k − 5.
    #[inline(always)]
    pub(crate) fn read<S: Simd>(&mut self, simd: S, u: Slab<'_>, k: usize) {
        let plane = u.plane(k);
        for j in 0..self.shape.ny {
            self.read_row(simd, &plane, k, j);
        }
    }

    /// Reads row `j` of plane `k`, whose points `plane` has.
    #[inline(always)]
    pub(crate) fn read_row<S: Simd>(&mut self, simd: S, plane: &Components<'_>, k: usize, j: usize) {
        let Shape { nx, ny, .. } = self.shape;
        let (pitch, distance) = (Self::pitch(self.shape), Self::distance(self.shape));
        let first = 1 + j * pitch;
        let states = &mut self.states[k % STATES * distance + first..][..pitch];
        let flows = &mut self.flows[k % FLOWS * distance + first..][..pitch];
        let constants = splats(simd, [0.5, C2, 1.0 - C1C5, C1C5]);
        let plane: Components<'_> = tabulate!(|m| &plane[m][..nx * ny]);
        for i in (0..nx).step_by(S::F64_LANES) {
            let from = j * nx + i;
            let state: [Lane<S>; 5] = if from + S::F64_LANES <= nx * ny {
                tabulate!(|m| Lane::load(simd, plane[m], from))
            } else {
                tabulate!(|m| Lane::load_some(simd, plane[m], from))
            };
            let flow = flow(&constants, state);
            let (block, at) = (i / POINTS, i % POINTS);
            unroll!(5, |m| state[m].store(&mut states[block][m], at));
            unroll!(5, |m| flow[m].store(&mut flows[block][m], at));
        }
        // What narrow vectors leave of the row's last block.
        for i in (nx.next_multiple_of(S::F64_LANES)..pitch * POINTS).step_by(S::F64_LANES) {
            unroll!(5, |m| Lane::splat(simd, 0.0).store(&mut states[i / POINTS][m], i % POINTS));
        }
    }

    /// The state in row `j` of plane `k`.
    #[inline(always)]
    pub(crate) fn state(&self, k: usize, j: usize) -> Row<'_> {
        self.row(&self.states[k % STATES * Self::distance(self.shape)..], j)
    }

    /// The flow in row `j` of plane `k`.
    #[inline(always)]
    pub(crate) fn flow(&self, k: usize, j: usize) -> Row<'_> {
        self.row(&self.flows[k % FLOWS * Self::distance(self.shape)..], j)
    }

    #[inline(always)]
    fn row<'b>(&self, plane: &'b [Block], j: usize) -> Row<'b> {
        let pitch = Self::pitch(self.shape);
        Row(&plane[j * pitch..][..pitch + 2])
    }
}

/// The flow of a state.
#[inline(always)]
fn flow<S: Simd>(&[half, c2, q_weight, e_weight]: &[Lane<S>; 4], state: [Lane<S>; 5]) -> [Lane<S>; 5] {
    let [rho, ma, mb, mc, energy] = state;
    let inverse = rho.recip();
    let [va, vb, vc] = [ma * inverse, mb * inverse, mc * inverse];
    let kinetic = half * mc.mul_add(vc, mb.mul_add(vb, ma * va));
    let heat = inverse * energy.mul_add(e_weight, kinetic * q_weight);
    [va, vb, vc, c2 * (energy - kinetic), heat]
}

/// A row's blocks, with one before and one after them.
#[derive(Clone, Copy)]
pub(crate) struct Row<'a>(&'a [Block]);

impl Row<'_> {
    /// Quantity `m` at the points from the `i`-th on, where a vector begins.
    #[inline(always)]
    pub(crate) fn load<S: Simd>(&self, simd: S, m: usize, i: usize) -> Lane<S> {
        Lane::load(simd, &self.0[1 + i / POINTS][m], i % POINTS)
    }

    /// The same at the points two before them, one before, one after, and two after.
    #[inline(always)]
    pub(crate) fn load_sides<S: Simd>(&self, simd: S, m: usize, i: usize) -> [Lane<S>; 4] {
        let (at, lanes) = (POINTS + i, S::F64_LANES);
        let vector = {
            #[inline(always)]
            |at: usize| Lane::load(simd, &self.0[at / POINTS][m], at % POINTS)
        };
        if let Some(sides) = Lane::sides([vector(at - lanes), vector(at), vector(at + lanes)]) {
            return sides;
        }
        tabulate!(|side| {
            let first = [at - 2, at - 1, at + 1, at + 2][side];
            let numbers: [f64; POINTS] = tabulate!(|lane| {
                let at = first + lane % lanes;
                self.0[at / POINTS][m][at % POINTS]
            });
            Lane::load(simd, &numbers, 0)
        })
    }
}
