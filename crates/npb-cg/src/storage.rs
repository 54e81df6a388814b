//! Storage of the matrix: as rows, for cores and accelerators; or, for cores only, as slices or as slices of one
//! triangle.
//!
//! By default, the matrix is stored as rows if any unit is an accelerator, and as one triangle if the matrix is
//! large by a fixed rule. Otherwise, it is stored as rows or slices, whichever a measurement on this machine finds
//! faster.
//!
//! With rows and with slices, a product gives the same numbers for any number of blocks and on all cores. Rows and
//! slices add up in different orders, so the last digits depend on the storage. With one triangle, the last digits
//! also depend on the number of blocks. That is why the rule for triangles is fixed and considers only the matrix
//! and the number of blocks.

use std::hint::black_box;
use std::ops::Range;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use thalweg::prelude::*;
use thalweg::task::Input;

use super::kernels::Product;
use super::matrix::Matrix;
use super::sliced::{Part, Sliced};
use super::symmetric::{self, Symmetric};

/// How a matrix is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Storage {
    /// Row by row, for cores and accelerators
    Rows,
    /// Eight rows side by side, in windows of columns, for cores only
    Sliced,
    /// The diagonal and the entries below it, in such slices, for cores only: half of the bytes, but the last
    /// digits depend on the number of blocks
    Symmetric,
}

impl Storage {
    /// Measures whether products with these rows are faster with rows or with slices on this core.
    fn faster(matrix: &Matrix, rows: Range<usize>) -> Self {
        const LEAST: Duration = Duration::from_millis(5);
        const TURNS: usize = 5;
        let (vector, mut product) = (vec![1.0; matrix.rows()], vec![0.0; rows.len()]);
        let mut sliced = Sliced::default();
        let part = sliced.push(matrix, rows.clone());
        let (slices, rows) = (sliced.slices(&part), matrix.block(&rows));
        let mut best = [Duration::MAX; 2];
        let start = Instant::now();
        for turn in 0.. {
            if turn >= TURNS && start.elapsed() >= LEAST {
                break;
            }
            best[0] = best[0].min(time(rows, &vector, &mut product));
            best[1] = best[1].min(time(slices, &vector, &mut product));
        }
        if best[0] < best[1] { Self::Rows } else { Self::Sliced }
    }

    /// Returns the storage that all of a runtime's units support and that is likely to be fastest for these blocks
    /// of rows.
    pub fn of(rt: &Runtime, matrix: &Matrix, blocks: &[Range<usize>]) -> Self {
        let is_core = |units: &str| units.contains("CPU") || units.contains("EMU");
        if rt.machine().is_simulated() || !rt.machine().configuration().split(',').all(is_core) {
            Self::Rows
        } else if is_large(matrix.rows(), matrix.nonzeros(), blocks.len()) {
            Self::Symmetric
        } else {
            Self::faster(matrix, blocks[0].clone())
        }
    }
}

/// Returns whether one triangle is likely to be faster. That is the case if a product is memory-bound, so that half
/// the bytes take less time, and if there are so few blocks that reading and writing their shares of the product
/// costs little in comparison.
pub fn is_large(rows: usize, entries: usize, blocks: usize) -> bool {
    const CACHE: usize = 64 << 20;
    let slices = (size_of::<f64>() + size_of::<u16>()) * entries;
    let shares = 2 * size_of::<f64>() * rows * blocks;
    slices > CACHE && shares <= slices / 4
}

fn time(rows: impl Product, vector: &[f64], product: &mut [f64]) -> Duration {
    let start = Instant::now();
    rows.times(black_box(vector), black_box(product));
    start.elapsed()
}

/// The matrix as data objects of the runtime, in blocks of rows.
pub(crate) enum Entries {
    Rows(AsRows),
    Sliced(AsSlices),
    Symmetric(AsTriangle),
}

impl Entries {
    pub(crate) fn new(
        rt: &Runtime,
        matrix: Matrix,
        blocks: &[Range<usize>],
        storage: Storage,
    ) -> Result<Self, SubmitError> {
        Ok(match storage {
            Storage::Rows => Self::Rows(AsRows {
                blocks: blocks.iter().map(|rows| (rows.start..rows.end + 1, matrix.entries(rows))).collect(),
                offsets: rt.data(matrix.offsets).named("offsets"),
                columns: rt.data(matrix.columns).named("columns"),
                values: rt.data(matrix.values).named("values"),
            }),
            Storage::Sliced => {
                let mut sliced = Sliced::default();
                let blocks = blocks.iter().map(|rows| sliced.push(&matrix, rows.clone())).collect();
                Self::Sliced(AsSlices::new(rt, sliced, blocks)?)
            }
            Storage::Symmetric => {
                let mut symmetric = Symmetric::default();
                let rows = symmetric::row_blocks(&matrix, blocks.len());
                let parts = rows.iter().map(|rows| symmetric.push(&matrix, rows.clone())).collect();
                Self::Symmetric(AsTriangle {
                    rows,
                    diagonal: rt.data(symmetric.diagonal).named("diagonal"),
                    below: AsSlices::new(rt, symmetric.below, parts)?,
                })
            }
        })
    }

    pub(crate) fn storage(&self) -> Storage {
        match self {
            Self::Rows(_) => Storage::Rows,
            Self::Sliced(_) => Storage::Sliced,
            Self::Symmetric(_) => Storage::Symmetric,
        }
    }

    /// Returns the length of the array for a product with a vector of `rows` elements: either the length of the
    /// vector, or the total length of all shares.
    pub(crate) fn product(&self, rows: usize) -> usize {
        match self {
            Self::Rows(_) | Self::Sliced(_) => rows,
            Self::Symmetric(matrix) => matrix.rows.iter().map(|rows| rows.end).sum(),
        }
    }
}

type In<'d, T> = Input<'d, T, Ix1>;

/// Storage by rows; see [`Rows`](super::kernels::Rows).
pub(crate) struct AsRows {
    /// Per block, its range in `offsets` and its range in the other arrays.
    blocks: Vec<(Range<usize>, Range<usize>)>,
    offsets: Data<u32>,
    columns: Data<u32>,
    values: Data<f64>,
}

impl AsRows {
    /// Returns a block's offsets, columns and values.
    pub(crate) fn block(&self, block: usize) -> (In<'_, u32>, In<'_, u32>, In<'_, f64>) {
        let (offsets, entries) = &self.blocks[block];
        (
            self.offsets.slice(offsets.clone()).input(),
            self.columns.slice(entries.clone()).input(),
            self.values.slice(entries.clone()).input(),
        )
    }
}

/// Storage in slices; see [`Sliced`].
pub(crate) struct AsSlices {
    blocks: Vec<Part>,
    lengths: Data<u32>,
    places: Data<u16>,
    columns: Data<u16>,
    values: Data<f64>,
}

impl AsSlices {
    fn new(rt: &Runtime, sliced: Sliced, blocks: Vec<Part>) -> Result<Self, SubmitError> {
        let Sliced { lengths, places, columns, values } = sliced;
        Ok(Self {
            blocks,
            lengths: rt.data(lengths).named("lengths"),
            places: rt.data(places).named("places"),
            // The runtime copies the arrays into huge pages near the units.
            columns: rt.data_with(columns.len(), move |entry| columns[entry])?.named("columns"),
            values: rt.data_with(values.len(), move |entry| values[entry])?.named("values"),
        })
    }

    /// Returns a block's lengths, places, columns and values.
    pub(crate) fn block(&self, block: usize) -> (In<'_, u32>, In<'_, u16>, In<'_, u16>, In<'_, f64>) {
        let part = &self.blocks[block];
        (
            self.lengths.slice(part.lengths()).input(),
            self.places.slice(part.places()).input(),
            self.columns.slice(part.entries()).input(),
            self.values.slice(part.entries()).input(),
        )
    }
}

/// Storage as one triangle; see [`Symmetric`].
pub(crate) struct AsTriangle {
    /// The rows of each block. A block's share of a product extends from the first row of the matrix to the block's
    /// last row.
    rows: Vec<Range<usize>>,
    diagonal: Data<f64>,
    below: AsSlices,
}

impl AsTriangle {
    /// Returns the number of blocks.
    pub(crate) fn blocks(&self) -> usize {
        self.rows.len()
    }

    /// Returns a block's diagonal, and the lengths, places, columns and values of the entries below it.
    pub(crate) fn block(&self, block: usize) -> (In<'_, f64>, (In<'_, u32>, In<'_, u16>, In<'_, u16>, In<'_, f64>)) {
        (self.diagonal.slice(self.rows[block].clone()).input(), self.below.block(block))
    }

    /// Returns the cost of a product with a block: each entry below the diagonal counts twice.
    pub(crate) fn cost(&self, block: usize) -> f64 {
        4.0 * self.below.blocks[block].entries().len() as f64
    }

    /// Returns the range of a block's share in the array of all shares.
    pub(crate) fn share(&self, block: usize) -> Range<usize> {
        let first = self.rows[..block].iter().map(|rows| rows.end).sum();
        first..first + self.rows[block].end
    }

    /// Returns the blocks whose shares contribute to these rows.
    pub(crate) fn blocks_for(&self, rows: &Range<usize>) -> Range<usize> {
        self.rows.partition_point(|block| block.end <= rows.start)..self.rows.len()
    }
}
