//! Copies, in [blocks](super::blocks), of the planes around the plane that the spatial operator processes.
//!
//! The first and last planes, and the first and last rows of the other planes, are not copied. The operator
//! computes their contributions to the interior from the original arrays.
//!
//! Invariant: where a row ends within a block, and in the blocks before the first row and after the last one, the
//! state is arbitrary but finite. It must be finite because it is read with weight 0, and 0 times infinity or NaN
//! is not 0.

use std::ops::Range;

use pulp::Simd;

use super::blocks::{Block, POINTS, distance, each_vector, pitch, row, store};
use crate::mz::faces::{StatePlane, StatePlanes};
use crate::mz::lanes::Lane;
use crate::mz::physics::COMPONENTS;
use crate::mz::zones::Shape;

/// Number of planes kept, which are the current plane and those up to two away.
const KEPT: usize = 5;

/// The planes, where plane k is at index k mod 5.
pub(super) struct Planes<'a> {
    shape: Shape,
    planes: [&'a mut [Block]; KEPT],
    zeros: &'a [Block],
}

/// A row of blocks, with the rows two away that the fourth differences need.
pub(super) struct Around<'a> {
    /// The row itself, with one extra block before and after it.
    pub(super) here: &'a [Block],
    /// The rows two before and two after in y. A row without weight is replaced by zeros.
    pub(super) y: [&'a [Block]; 2],
    /// The row two below in z, replaced by zeros if it has no weight.
    pub(super) below: &'a [Block],
    /// Destination for the copy of the row two above.
    pub(super) above: &'a mut [Block],
}

/// Returns the range of blocks that inner row `j` occupies in a plane.
#[inline(always)]
fn inner(pitch: usize, j: usize) -> Range<usize> {
    1 + (j - 1) * pitch..1 + j * pitch
}

impl<'a> Planes<'a> {
    /// Returns the size of the scratch memory needed, in numbers. The scratch memory must begin at a cache line.
    pub(super) fn numbers(shape: Shape) -> usize {
        (KEPT * distance(Self::blocks(shape)) + pitch(shape)) * size_of::<Block>() / size_of::<f64>()
    }

    /// Returns the number of blocks in a plane: those of its inner rows, plus one block before and one after them.
    #[inline(always)]
    fn blocks(shape: Shape) -> usize {
        pitch(shape) * (shape.ny - 2) + 2
    }

    /// Creates planes whose rows have not been copied yet.
    pub(super) fn new(shape: Shape, scratch: &'a mut [f64]) -> Self {
        let blocks = bytemuck::cast_slice_mut::<f64, Block>(scratch);
        let distance = distance(Self::blocks(shape));
        let (planes, zeros) = blocks.split_at_mut(KEPT * distance);
        zeros.fill(Block::default());
        let mut planes = planes.chunks_exact_mut(distance);
        let planes = std::array::from_fn(|_| {
            let plane = &mut planes.next().expect("the scratch has room for all planes")[..Self::blocks(shape)];
            (plane[0], plane[Self::blocks(shape) - 1]) = (Block::default(), Block::default());
            plane
        });
        Self { shape, planes, zeros }
    }

    /// Copies the inner rows of the state's inner plane `k`, overwriting plane k − 5.
    #[inline(always)]
    pub(super) fn copy<S: Simd>(&mut self, simd: S, u: &StatePlanes<'_>, k: usize) {
        let Shape { nx, ny, .. } = self.shape;
        let (plane, pitch) = (u.plane(k), pitch(self.shape));
        for j in 1..ny - 1 {
            let rows: [_; COMPONENTS] = tabulate!(|m| row(plane.u[m], nx, j));
            let blocks = &mut self.planes[k % KEPT][inner(pitch, j)];
            for (b, block) in blocks.iter_mut().enumerate() {
                each_vector::<S>(
                    #[inline(always)]
                    |l| store(tabulate!(|m| Lane::load(simd, &rows[m][b], l)), block, l),
                );
            }
            self.copy_ends(&plane, k, j);
        }
    }

    /// Copies the first and the last point of row `j` of plane `k`, if they are in a halo.
    #[inline(always)]
    pub(super) fn copy_ends(&mut self, plane: &StatePlane<'_>, k: usize, j: usize) {
        let Some([west, east, ..]) = &plane.halo else { return };
        let pitch = pitch(self.shape);
        let blocks = &mut self.planes[k % KEPT][inner(pitch, j)];
        for (face, i) in [(west, 0), (east, self.shape.nx - 1)] {
            unroll!(COMPONENTS, |m| blocks[i / POINTS][m][i % POINTS] = face[m][j - 1]);
        }
    }

    /// Returns the inner row `j` of plane `k` and the rows around it. The flags say whether the rows two before,
    /// two after and two below have any weight.
    #[inline(always)]
    pub(super) fn around(&mut self, k: usize, j: usize, [south, north, below]: [bool; 3]) -> Around<'_> {
        let (pitch, zeros) = (pitch(self.shape), self.zeros);
        let places = [k % KEPT, (k + 3) % KEPT, (k + 2) % KEPT];
        let [plane, under, over] = self.planes.get_disjoint_mut(places).expect("planes up to two away are distinct");
        Around {
            here: &plane[(j - 1) * pitch..j * pitch + 2],
            y: [
                if south { &plane[inner(pitch, j - 2)] } else { zeros },
                if north { &plane[inner(pitch, j + 2)] } else { zeros },
            ],
            below: if below { &under[inner(pitch, j)] } else { zeros },
            above: &mut over[inner(pitch, j)],
        }
    }

    /// Returns zeros for each component, which replace a row that has no weight, eight points at a time.
    #[inline(always)]
    pub(super) fn zeros(&self) -> &'a [[f64; POINTS]] {
        &self.zeros.as_flattened()[..pitch(self.shape)]
    }
}
