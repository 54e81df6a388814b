//! The planes of a zone that the spatial operator has around it, as it reads them: the state, and 1/ρ.
//!
//! A copy, in blocks: six quantities at eight neighbouring points of a row are one block of six cache lines. So all that
//! is known of a vector of points has one address, and a row is one stream of memory. In the arrays the five components of
//! a row are streams of their own, of which a processor foresees only so many, and in zones whose widths are powers of two
//! they compete for the same lines of a cache.
//!
//! Velocities, pressure and the like are found anew wherever they are used. To keep them in blocks of their own, which was
//! tried, takes more time, for all the arithmetic it saves.
//!
//! Invariant: a block begins with a point whose index in x is a multiple of eight. Where a row ends within a block, and in the
//! blocks before the first row and after the last one, the state is some finite number or other: it is read with weight 0,
//! which not all numbers stand.

use pulp::Simd;

use super::components::Components;
use super::faces::{StatePlane, StatePlanes};
use super::lanes::Lane;
use super::zones::Shape;

/// Points of a block: as many numbers as a cache line has.
const POINTS: usize = 8;
/// Planes kept: those up to two away.
const KEPT: usize = 5;
/// Which quantity of a block is 1/ρ, after the five of the state.
const VOLUME: usize = 5;

/// Six quantities at eight points.
type Block = [[f64; POINTS]; 6];

/// The planes, that of k at k mod 5.
pub(crate) struct Planes<'a> {
    shape: Shape,
    blocks: &'a mut [Block],
}

impl<'a> Planes<'a> {
    /// How much scratch is needed, which has to begin at a cache line.
    pub(crate) fn numbers(shape: Shape) -> usize {
        (KEPT * Self::distance(shape) + Self::pitch(shape) + 2) * size_of::<Block>() / size_of::<f64>()
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
        // 13 blocks more than a multiple of 32 are 14 lines more than a multiple of 64: so planes are spread over the 64 sets of a
        // cache.
        blocks + (13 + 32 - blocks % 32) % 32
    }

    /// Planes of nothing yet.
    pub(crate) fn new(shape: Shape, scratch: &'a mut [f64]) -> Self {
        let blocks = bytemuck::cast_slice_mut::<f64, Block>(scratch);
        let (planes, zeros) = blocks.split_at_mut(KEPT * Self::distance(shape));
        zeros.fill(Block::default());
        for plane in planes.chunks_exact_mut(Self::distance(shape)) {
            (plane[0], plane[Self::blocks(shape) - 1]) = (Block::default(), Block::default());
        }
        Self { shape, blocks }
    }

    /// Reads plane `k` of the state into the place of plane k − 5.
    #[inline(always)]
    pub(crate) fn read<S: Simd>(&mut self, simd: S, u: &StatePlanes<'_>, k: usize) {
        let plane = u.plane(k);
        for j in 0..self.shape.ny {
            self.read_row(simd, &plane, k, j);
        }
    }

    /// Reads row `j` of plane `k`, whose points `plane` has.
    #[inline(always)]
    pub(crate) fn read_row<S: Simd>(&mut self, simd: S, plane: &StatePlane<'_>, k: usize, j: usize) {
        let Shape { nx, ny, .. } = self.shape;
        let (pitch, distance) = (Self::pitch(self.shape), Self::distance(self.shape));
        let blocks = &mut self.blocks[k % KEPT * distance + 1 + j * pitch..][..pitch];
        let (points, first) = match &plane.halo {
            Some([_, _, south, _]) if j == 0 => (south, 0),
            Some([_, _, _, north]) if j == ny - 1 => (north, 0),
            _ => (&plane.u, j * nx),
        };
        let end = points[0].len();
        let points: Components<'_> = tabulate!(|m| &points[m][..end]);
        for i in (0..nx).step_by(S::F64_LANES) {
            let from = first + i;
            let state: [Lane<S>; 5] = if from + S::F64_LANES <= end {
                tabulate!(|m| Lane::load(simd, points[m], from))
            } else {
                tabulate!(|m| Lane::load_some(simd, points[m], from))
            };
            let block = &mut blocks[i / POINTS];
            unroll!(5, |m| state[m].store(&mut block[m], i % POINTS));
            state[0].recip().store(&mut block[VOLUME], i % POINTS);
        }
        if let Some([west, east, ..]) = &plane.halo
            && (1..ny - 1).contains(&j)
        {
            for (face, i) in [(west, 0), (east, nx - 1)] {
                let block = &mut blocks[i / POINTS];
                unroll!(5, |m| block[m][i % POINTS] = face[m][j - 1]);
                block[VOLUME][i % POINTS] = Lane::splat(simd, face[0][j - 1]).recip().first();
            }
        }
        // What narrow vectors leave of the row's last block.
        for i in (nx.next_multiple_of(S::F64_LANES)..pitch * POINTS).step_by(S::F64_LANES) {
            unroll!(5, |m| Lane::splat(simd, 0.0).store(&mut blocks[i / POINTS][m], i % POINTS));
        }
    }

    /// Row `j` of plane `k`.
    #[inline(always)]
    pub(crate) fn row(&self, k: usize, j: usize) -> Row<'_> {
        let pitch = Self::pitch(self.shape);
        Row(&self.blocks[k % KEPT * Self::distance(self.shape) + j * pitch..][..pitch + 2])
    }

    /// A row of zeros.
    #[inline(always)]
    pub(crate) fn zeros(&self) -> Row<'_> {
        Row(&self.blocks[KEPT * Self::distance(self.shape)..][..Self::pitch(self.shape) + 2])
    }
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
