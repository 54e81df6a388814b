//! The three benchmarks, their problem classes, and the reference values that verify a run.
//!
//! The figures are only in `reference.toml`, which also names their source.

use std::collections::BTreeMap;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use thalweg::sched::Neighbour;

use super::exchange::{Side, outer_face};
use super::physics::{COMPONENTS, Mesh};
use super::zones::{Neighbours, Shape, widths};

/// One of the three multi-zone benchmarks, named after its method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Benchmark {
    /// Block-tridiagonal systems along lines, zones of unequal size.
    Bt,
    /// Scalar pentadiagonal systems along lines, zones of equal size.
    Sp,
    /// Symmetric successive over-relaxation, 4 × 4 zones.
    Lu,
}

/// A problem class, named by its official letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Deserialize, Serialize)]
pub enum Class {
    /// 24 × 24 × 6 points: a smoke test.
    #[value(name = "S", alias = "s")]
    S,
    /// 64 × 64 × 8 points.
    #[value(name = "W", alias = "w")]
    W,
    /// 128 × 128 × 16 points.
    #[value(name = "A", alias = "a")]
    A,
    /// 304 × 208 × 17 points.
    #[value(name = "B", alias = "b")]
    B,
    /// 480 × 320 × 28 points.
    #[value(name = "C", alias = "c")]
    C,
    /// 1632 × 1216 × 34 points.
    #[value(name = "D", alias = "d")]
    D,
    /// 4224 × 3456 × 92 points.
    #[value(name = "E", alias = "e")]
    E,
    /// 12032 × 8960 × 250 points.
    #[value(name = "F", alias = "f")]
    F,
}

/// How a zone's step is divided into tasks, or into timed intervals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Fuse {
    /// One task per stage: residual, sweeps, update.
    Stages,
    /// One task for the whole step, including the exchange. Zones send each other their faces as separate arrays.
    Whole,
    /// Like `whole`, for all zones of a batch in one task; on an accelerator, each of its stages is one launch. There
    /// is a batch for each compute unit.
    Batch,
    /// One task for everything after the exchange.
    Step,
    /// One task whose children compute chunks of planes and then chunks of rows. Only CPU units and emulated
    /// devices run the children, even if the machine has other units. A simulation runs no bodies, so it never sees
    /// the children.
    Planes,
}

/// Parameters and reference values of one class of a benchmark.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Problem {
    /// Number of grid points of all zones together, in x, y, z.
    pub points: [usize; 3],
    /// Number of zones in x and y.
    pub zones: [usize; 2],
    /// Ratio of the largest zone's width to the smallest zone's, in each direction.
    pub ratio: f64,
    /// Time steps of a full run.
    pub steps: usize,
    /// Time step.
    pub dt: f64,
    /// Reference: residual norms.
    pub residual: [f64; COMPONENTS],
    /// Reference: error norms.
    pub error: [f64; COMPONENTS],
    /// Reference: the surface integral, for LU only.
    pub surface: Option<f64>,
    /// The published widths of the zones in x, which the formulas must reproduce.
    pub x_sizes: Vec<usize>,
    /// The published widths of the zones in y, which the formulas must reproduce.
    pub y_sizes: Vec<usize>,
}

impl Fuse {
    /// Returns whether a task's step includes the exchange.
    pub(crate) fn is_whole(self) -> bool {
        matches!(self, Self::Whole | Self::Batch)
    }
}

impl Benchmark {
    /// Returns the problem of one class.
    pub fn problem(self, class: Class) -> Problem {
        let mut table: BTreeMap<Benchmark, BTreeMap<Class, Problem>> =
            toml::from_str(include_str!("reference.toml")).expect("the table of classes is checked by the tests");
        let problem = table.get_mut(&self).and_then(|classes| classes.remove(&class));
        problem.expect("every benchmark has every class")
    }

    /// Returns the operations of one step on a zone, in millions, by NPB's own count.
    pub fn operations(self, Shape { nx, ny, nz }: Shape) -> f64 {
        let [nx, ny, nz] = [nx, ny, nz].map(|n| n as f64);
        let volume = nx * ny * nz;
        let surface = (nx * ny + nx * nz + ny * nz) / 3.0;
        let width = (nx + ny + nz) / 3.0;
        1e-6 * match self {
            Benchmark::Bt => 3478.8 * volume - 17655.7 * surface + 28023.7 * width,
            Benchmark::Sp => 881.174 * volume - 4683.91 * surface + 11484.5 * width - 19272.4,
            Benchmark::Lu => 1984.77 * volume - 10923.3 * surface + 27770.9 * width - 144_010.0,
        }
    }
}

impl Problem {
    /// Returns the zones' meshes, in zone order.
    pub fn meshes(&self, benchmark: Benchmark) -> Vec<Mesh> {
        let [gx, gy, nz] = self.points;
        let columns = widths(gx, self.zones[0], self.ratio);
        let rows = widths(gy, self.zones[1], self.ratio);
        let shapes = rows.iter().flat_map(|&ny| columns.iter().map(move |&nx| Shape { nx, ny, nz }));
        shapes.map(|shape| Mesh::new(benchmark, shape, self.points, self.zones, self.dt)).collect()
    }

    /// Returns the operations of `steps` steps on all zones, in millions, by NPB's own count.
    pub fn operations(&self, benchmark: Benchmark, steps: usize) -> f64 {
        let step: f64 = self.meshes(benchmark).iter().map(|mesh| benchmark.operations(mesh.shape)).sum();
        step * steps as f64
    }

    /// Returns each zone's neighbours, in zone order.
    pub fn neighbours(&self) -> Vec<Neighbours> {
        (0..self.zones[0] * self.zones[1]).map(|zone| Neighbours::of(zone, self.zones)).collect()
    }

    /// Returns each zone's points, and the faces that it receives in a step, by which zones are distributed.
    pub fn zones_to_share(&self, benchmark: Benchmark) -> (Vec<f64>, Vec<Vec<Neighbour>>) {
        let shapes: Vec<Shape> = self.meshes(benchmark).iter().map(|mesh| mesh.shape).collect();
        let received = |(Neighbours { west, east, south, north }, shape): (Neighbours, &Shape)| {
            let face = |(index, side)| {
                let (components, z, y, x) = outer_face(*shape, side);
                let numbers: usize = [components, z, y, x].iter().map(ExactSizeIterator::len).product();
                Neighbour { index, bytes: (numbers * size_of::<f64>()) as u64 }
            };
            [west, east, south, north].into_iter().zip(Side::ALL).map(face).collect()
        };
        let faces = self.neighbours().into_iter().zip(&shapes).map(received).collect();
        (shapes.iter().map(|shape| shape.points() as f64).collect(), faces)
    }
}
