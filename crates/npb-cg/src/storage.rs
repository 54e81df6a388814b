//! How the matrix is stored: as rows, which cores and accelerators take, or for cores as slices, or as slices of one triangle.
//!
//! Which is taken if nobody says so: rows where a unit is an accelerator; one triangle if the matrix is large, by a rule; else
//! what is faster here of rows and slices, by measurement.
//!
//! With rows and with slices a product gives the same numbers for every number of blocks and on all cores; they add up in
//! different orders, so that the last digits depend on which it is. With one triangle those depend on the number of blocks
//! too, hence the rule: it asks for nothing but the matrix and the number of blocks.

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
    /// Eight rows side by side, in windows of columns, for cores alone
    Sliced,
    /// The diagonal and what is below it, in such slices, for cores alone: half of the bytes; the last digits depend on the number
    /// of blocks
    Symmetric,
}

impl Storage {
    /// Rows or slices: what is faster for products with these rows on this core, by measurement.
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

    /// What all of a runtime's units can take and is likely to be fastest, for these blocks of rows.
    pub fn of(rt: &Runtime, matrix: &Matrix, blocks: &[Range<usize>]) -> Self {
        let is_core = |units: &str| units.contains("CPU") || units.contains("EMU");
        if rt.is_simulated() || !rt.configuration().split(',').all(is_core) {
            Self::Rows
        } else if is_large(matrix.rows(), matrix.nonzeros(), blocks.len()) {
            Self::Symmetric
        } else {
            Self::faster(matrix, blocks[0].clone())
        }
    }
}

/// Whether a product waits for memory, so that half of the bytes take less time, and blocks are so few that their shares of the
/// product, which are written and read, are few bytes in comparison.
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

/// The matrix in the runtime's hands, in blocks of rows.
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

    /// How long a product with a vector of so many elements is: as long, or as all shares of it are together.
    pub(crate) fn product(&self, rows: usize) -> usize {
        match self {
            Self::Rows(_) | Self::Sliced(_) => rows,
            Self::Symmetric(matrix) => matrix.rows.iter().map(|rows| rows.end).sum(),
        }
    }
}

type In<'d, T> = Input<'d, T, Ix1>;

/// See [`Rows`](super::kernels::Rows).
pub(crate) struct AsRows {
    /// Where each block lies: in `offsets`, and in the others.
    blocks: Vec<(Range<usize>, Range<usize>)>,
    offsets: Data<u32>,
    columns: Data<u32>,
    values: Data<f64>,
}

impl AsRows {
    /// A block's offsets, columns and values.
    pub(crate) fn block(&self, block: usize) -> (In<'_, u32>, In<'_, u32>, In<'_, f64>) {
        let (offsets, entries) = &self.blocks[block];
        (
            self.offsets.slice(offsets.clone()).input(),
            self.columns.slice(entries.clone()).input(),
            self.values.slice(entries.clone()).input(),
        )
    }
}

/// See [`Sliced`].
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
            // Copied into memory that lies in huge pages, near to the units.
            columns: rt.data_with(columns.len(), move |entry| columns[entry])?.named("columns"),
            values: rt.data_with(values.len(), move |entry| values[entry])?.named("values"),
        })
    }

    /// A block's lengths, places, columns and values.
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

/// See [`Symmetric`].
pub(crate) struct AsTriangle {
    /// The rows of each block. With its share of a product, each goes from the first row to its last one.
    rows: Vec<Range<usize>>,
    diagonal: Data<f64>,
    below: AsSlices,
}

impl AsTriangle {
    /// How many blocks there are.
    pub(crate) fn blocks(&self) -> usize {
        self.rows.len()
    }

    /// A block's diagonal, and lengths, places, columns and values of what is below.
    pub(crate) fn block(&self, block: usize) -> (In<'_, f64>, (In<'_, u32>, In<'_, u16>, In<'_, u16>, In<'_, f64>)) {
        (self.diagonal.slice(self.rows[block].clone()).input(), self.below.block(block))
    }

    /// What a product with a block costs: each entry below the diagonal counts twice.
    pub(crate) fn cost(&self, block: usize) -> f64 {
        4.0 * self.below.blocks[block].entries().len() as f64
    }

    /// Where a block's share lies among all of them, one after the other.
    pub(crate) fn share(&self, block: usize) -> Range<usize> {
        let first = self.rows[..block].iter().map(|rows| rows.end).sum();
        first..first + self.rows[block].end
    }

    /// The blocks whose shares have something for these rows.
    pub(crate) fn blocks_for(&self, rows: &Range<usize>) -> Range<usize> {
        self.rows.partition_point(|block| block.end <= rows.start)..self.rows.len()
    }
}
