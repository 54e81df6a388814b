//! How the matrix is stored: as rows, which cores and accelerators take, or as slices, for cores; and which is faster here.
//!
//! A product gives the same numbers with every number of blocks and on all cores, but rows and slices add up in different
//! orders, so that the last digits depend on which it is.

use std::hint::black_box;
use std::ops::Range;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use thalweg::prelude::*;
use thalweg::task::Input;

use super::kernels::Product;
use super::matrix::Matrix;
use super::sliced::{Part, Sliced};

/// How a matrix is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Storage {
    /// Row by row, for cores and accelerators
    Rows,
    /// Eight rows side by side, in windows of columns, for cores alone
    Sliced,
}

impl Storage {
    /// The faster one for products with these rows on this core, by measurement.
    pub fn faster(matrix: &Matrix, rows: Range<usize>) -> Self {
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

    /// The faster one of those that all of a runtime's units can take.
    pub(crate) fn of(rt: &Runtime, matrix: &Matrix, rows: Range<usize>) -> Self {
        let is_core = |units: &str| units.contains("CPU") || units.contains("EMU");
        if rt.is_simulated() || !rt.configuration().split(',').all(is_core) {
            return Self::Rows;
        }
        Self::faster(matrix, rows)
    }
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
}

impl Entries {
    pub(crate) fn new(rt: &Runtime, matrix: Matrix, blocks: &[Range<usize>], storage: Storage) -> Self {
        match storage {
            Storage::Rows => Self::Rows(AsRows {
                blocks: blocks.iter().map(|rows| (rows.start..rows.end + 1, matrix.entries(rows))).collect(),
                offsets: rt.data(matrix.offsets).named("offsets"),
                columns: rt.data(matrix.columns).named("columns"),
                values: rt.data(matrix.values).named("values"),
            }),
            Storage::Sliced => {
                let mut sliced = Sliced::default();
                Self::Sliced(AsSlices {
                    blocks: blocks.iter().map(|rows| sliced.push(&matrix, rows.clone())).collect(),
                    lengths: rt.data(sliced.lengths).named("lengths"),
                    places: rt.data(sliced.places).named("places"),
                    columns: rt.data(sliced.columns).named("columns"),
                    values: rt.data(sliced.values).named("values"),
                })
            }
        }
    }

    pub(crate) fn storage(&self) -> Storage {
        match self {
            Self::Rows(_) => Storage::Rows,
            Self::Sliced(_) => Storage::Sliced,
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
