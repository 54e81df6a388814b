//! CG's stages: operations, least bytes, and how they are measured. With rows or slices, whatever the class: the program stores one
//! triangle of what is larger than class A.

use std::error::Error;
use std::ops::Range;
use std::time::Instant;

use npb_cg::kernels::{self, Norms};
use npb_cg::sliced::{Part, Sliced, WINDOW};
use npb_cg::{Matrix, Problem, Solver, Storage};
use rayon::prelude::*;
use thalweg::Runtime;

use super::{Effort, Measured, Shares, Work, timed};
use crate::class::Class;
use crate::crew::Crew;

/// Blocks of rows for each unit, as the program has by default.
const BLOCKS: usize = 2;
/// Iterations of conjugate gradients in a step of the power iteration.
const ITERATIONS: usize = 25;

/// q = A p and p · q: for each entry a multiply-add, of a value and a column and a number that is gathered; for each row another,
/// where its entries are (4 bytes), a number of p and one of q.
fn product(rows: f64, entries: f64, storage: Storage) -> Work {
    let bytes = entry_bytes(storage) * entries + 20.0 * rows;
    Work { operations: 2.0 * entries + 2.0 * rows, bytes, gathers: entries }
}

/// A value and its column.
fn entry_bytes(storage: Storage) -> f64 {
    match storage {
        Storage::Rows => 12.0,
        Storage::Sliced => 10.0,
        Storage::Symmetric => unreachable!("it is not measured"),
    }
}

/// r ← r − α q and r · r: two multiply-adds; q is read, r is read and written.
const UPDATE_RESIDUAL: Work = Work::new(4.0, 24.0);

/// z ← z + α p, next ← r + β p: two multiply-adds; r and p are read, z is read and written, the next p is written.
const ADVANCE: Work = Work::new(4.0, 40.0);

/// z = 0, r = p = x, x · x: a multiply-add; x is read, three vectors are written.
const BEGIN: Work = Work::new(2.0, 32.0);

/// x = z / ‖z‖: a product; z is read, x is written.
const NORMALISE: Work = Work::new(1.0, 16.0);

/// The work of a stage.
fn work(stage: &str, rows: f64, entries: f64, storage: Storage) -> Work {
    match stage {
        "sparse product" => product(rows, entries, storage),
        "update residual" => UPDATE_RESIDUAL * rows,
        "advance" => ADVANCE * rows,
        "step" => {
            let iteration = product(rows, entries, storage) + (UPDATE_RESIDUAL + ADVANCE) * rows;
            // The norms take a product, with three sums for each row.
            let norms = product(rows, entries, storage) + Work::new(5.0, 8.0) * rows;
            iteration * ITERATIONS as f64 + norms + (BEGIN + NORMALISE) * rows
        }
        _ => unreachable!("CG has no stage {stage}"),
    }
}

/// Measures the stages, and whole steps of the power iteration.
pub(crate) fn measure(crew: &Crew, class: Class, effort: Effort) -> Result<Vec<Measured>, Box<dyn Error>> {
    let problem = class.cg().problem();
    let matrix = Matrix::generate(&problem);
    let (rows, entries) = (matrix.rows() as f64, matrix.nonzeros() as f64);
    let same =
        Matrix { offsets: matrix.offsets.clone(), columns: matrix.columns.clone(), values: matrix.values.clone() };
    let storage = Storage::faster(&matrix, 0..matrix.rows() / (BLOCKS * crew.units()));
    let mut plain = crew.run(|| Plain::new(matrix, BLOCKS * crew.units(), storage));
    let passes = crew.run(|| plain.passes(effort));
    let step = shares(crew, &problem, (same, storage), &mut plain, effort)?;
    // Slices gather from a window of the vector.
    let gathered = if storage == Storage::Sliced { rows.min(WINDOW as f64) } else { rows };
    let measured = |(stage, passes)| Measured {
        program: "CG",
        class: class.letter(),
        units: crew.units(),
        stage,
        work: work(stage, rows, entries, storage),
        resident: entry_bytes(storage) * entries + 44.0 * rows,
        gathered: 8.0 * gathered,
        passes,
        shares: (stage == "step").then_some(step),
    };
    Ok(passes.into_iter().map(measured).collect())
}

/// The program's kernels in a plain loop, a thread for each unit's blocks of rows.
struct Plain {
    matrix: Stored,
    blocks: Vec<Range<usize>>,
    x: Vec<f64>,
    z: Vec<f64>,
    r: Vec<f64>,
    p: Vec<f64>,
    q: Vec<f64>,
    /// The p of the next iteration.
    next: Vec<f64>,
}

enum Stored {
    Rows(Matrix),
    Sliced(Sliced, Vec<Part>),
}

impl Stored {
    /// q = A p on a block of rows, and the block's part of p · q.
    fn multiply(&self, (block, rows): (usize, &Range<usize>), p: &[f64], q: &mut [f64]) -> f64 {
        let own = &p[rows.clone()];
        match self {
            Self::Rows(matrix) => kernels::multiply(matrix.block(rows), p, own, q),
            Self::Sliced(sliced, parts) => kernels::multiply(sliced.slices(&parts[block]), p, own, q),
        }
    }

    fn norms(&self, (block, rows): (usize, &Range<usize>), x: &[f64], z: &[f64]) -> Norms {
        let (x, own) = (&x[rows.clone()], &z[rows.clone()]);
        match self {
            Self::Rows(matrix) => kernels::norms(matrix.block(rows), x, z, own),
            Self::Sliced(sliced, parts) => kernels::norms(sliced.slices(&parts[block]), x, z, own),
        }
    }
}

impl Plain {
    fn new(matrix: Matrix, blocks: usize, storage: Storage) -> Self {
        let [x, z, r, p, q, next] = [(); 6].map(|()| vec![1.0; matrix.rows()]);
        let blocks = matrix.row_blocks(blocks);
        let matrix = match storage {
            Storage::Rows => Stored::Rows(matrix),
            Storage::Sliced => {
                let mut sliced = Sliced::default();
                let parts = blocks.iter().map(|rows| sliced.push(&matrix, rows.clone())).collect();
                Stored::Sliced(sliced, parts)
            }
            Storage::Symmetric => unreachable!("it is not measured"),
        };
        Self { blocks, matrix, x, z, r, p, q, next }
    }

    /// Seconds of each stage, and of whole steps.
    fn passes(&mut self, effort: Effort) -> Vec<(&'static str, Vec<f64>)> {
        let first = timed(|| self.step());
        let mut seconds =
            vec![("sparse product", vec![]), ("update residual", vec![]), ("advance", vec![]), ("step", vec![])];
        for _ in 0..effort.times(effort.passes, first * 2.0) {
            seconds[3].1.push(timed(|| self.step()));
        }
        for _ in 0..effort.times(effort.passes, first / ITERATIONS as f64) {
            let mut p_dot_q = 0.0;
            seconds[0].1.push(timed(|| p_dot_q = self.multiply()));
            // With factors that leave the vectors as they are, however often.
            seconds[1].1.push(timed(|| p_dot_q = self.update_residual(0.0 * p_dot_q)));
            seconds[2].1.push(timed(|| self.advance(0.0, 0.5)));
        }
        seconds
    }

    /// One step of the power iteration.
    fn step(&mut self) {
        let Self { blocks, x, z, r, p, .. } = self;
        let parts = split(z, blocks).into_iter().zip(split(r, blocks)).zip(split(p, blocks)).zip(blocks.iter());
        let parts: Vec<_> = parts.collect();
        let mut rho: f64 = parts
            .into_par_iter()
            .with_min_len(BLOCKS)
            .map(|(((z, r), p), rows)| {
                let x = &x[rows.clone()];
                z.fill(0.0);
                r.copy_from_slice(x);
                p.copy_from_slice(x);
                kernels::square(x)
            })
            .sum();
        for _ in 0..ITERATIONS {
            let alpha = rho / self.multiply();
            let next = self.update_residual(alpha);
            self.advance(alpha, next / rho);
            rho = next;
        }
        self.finish();
    }

    fn multiply(&mut self) -> f64 {
        let mut q = std::mem::take(&mut self.q);
        let parts: Vec<_> = split(&mut q, &self.blocks).into_iter().zip(self.blocks.iter().enumerate()).collect();
        let of_block = |(q, block): (&mut [f64], _)| self.matrix.multiply(block, &self.p, q);
        let p_dot_q = parts.into_par_iter().with_min_len(BLOCKS).map(of_block).sum();
        self.q = q;
        p_dot_q
    }

    fn update_residual(&mut self, alpha: f64) -> f64 {
        let parts: Vec<_> = split(&mut self.r, &self.blocks).into_iter().zip(&self.blocks).collect();
        let of_block =
            |(r, rows): (&mut [f64], &Range<usize>)| kernels::update_residual(alpha, &self.q[rows.clone()], r);
        parts.into_par_iter().with_min_len(BLOCKS).map(of_block).sum()
    }

    fn advance(&mut self, alpha: f64, beta: f64) {
        let Self { blocks, z, r, p, next, .. } = self;
        let parts: Vec<_> = split(z, blocks).into_iter().zip(split(next, blocks)).zip(blocks.iter()).collect();
        parts.into_par_iter().with_min_len(BLOCKS).for_each(|((z, next), rows)| {
            kernels::advance(alpha, beta, &r[rows.clone()], z, &p[rows.clone()], next);
        });
        std::mem::swap(p, next);
    }

    fn finish(&mut self) {
        let of_block = |block: (usize, &Range<usize>)| self.matrix.norms(block, &self.x, &self.z).z_dot_z;
        let square: f64 = self.blocks.par_iter().enumerate().with_min_len(BLOCKS).map(of_block).sum();
        let Self { blocks, x, z, .. } = self;
        let parts: Vec<_> = split(x, blocks).into_iter().zip(blocks.iter()).collect();
        let scale = 1.0 / square.sqrt();
        parts.into_par_iter().with_min_len(BLOCKS).for_each(|(x, rows)| {
            x.iter_mut().zip(&z[rows.clone()]).for_each(|(x, z)| *x = scale * z);
        });
    }
}

/// The parts of a vector that blocks of rows have.
fn split<'a>(mut vector: &'a mut [f64], blocks: &[Range<usize>]) -> Vec<&'a mut [f64]> {
    blocks.iter().map(|rows| vector.split_off_mut(..rows.len()).expect("blocks are within the vector")).collect()
}

/// Steps as a plain loop and as tasks, by turns.
fn shares(
    crew: &Crew,
    problem: &Problem,
    (matrix, storage): (Matrix, Storage),
    plain: &mut Plain,
    effort: Effort,
) -> Result<Shares, Box<dyn Error>> {
    let units = crew.units();
    let rt = Runtime::builder().compute_units(format!("{units}:CPU:1")).submitter_hosts_unit(true).build()?;
    let solver = Solver::new(&rt, problem, matrix, BLOCKS * units, storage)?;
    solver.reset()?;
    solver.step(0)?;
    rt.wait()?;
    let steps = effort.times(1, timed(|| crew.run(|| plain.step())));
    let mut repetitions = Vec::new();
    for _ in 0..effort.repetitions {
        let in_loop = timed(|| crew.run(|| (0..steps).for_each(|_| plain.step())));
        let start = Instant::now();
        for step in 0..steps {
            solver.step(step % problem.iterations)?;
        }
        rt.wait()?;
        let per_step = units as f64 / steps as f64;
        repetitions.push((in_loop * per_step, start.elapsed().as_secs_f64() * per_step));
    }
    Ok(Shares::of(&repetitions))
}
