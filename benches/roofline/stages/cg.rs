//! Operations, minimum traffic and measurement of CG's stages. The matrix is stored in the program's default form: as
//! rows, as slices, or, if it is large, as one triangle, where each block of rows has a share of the product. As in the
//! program's default, there is one block per unit.

use std::error::Error;
use std::ops::Range;

use npb_cg::kernels::{self, Product};
use npb_cg::sliced::{Part, Sliced, WINDOW};
use npb_cg::symmetric::{self, Symmetric};
use npb_cg::{Matrix, Problem, Solver, Storage};
use rayon::prelude::*;
use thalweg::Runtime;

use super::{Effort, Measured, Shares, Work, runtime, timed, timed_tasks};
use crate::class::Class;
use crate::crew::Crew;

/// Iterations of conjugate gradients in a step of the power iteration.
const ITERATIONS: usize = 25;

/// Sizes that determine the work of the stages.
struct Sizes {
    rows: f64,
    entries: f64,
    storage: Storage,
    /// Number of elements in the product: the number of rows, or the total length of all shares.
    product: f64,
}

impl Sizes {
    /// q = A p and p · q: a multiply-add for each entry, and another for each row; the stored matrix and p are
    /// read, q is written. Each entry gathers one number; an entry of the triangle counts as two, and gathers one
    /// of p and one of q.
    fn product(&self) -> Work {
        let Self { rows, entries, product, storage } = *self;
        let gathers = if storage == Storage::Symmetric { entries - rows } else { entries };
        let bytes = self.matrix_bytes() + 8.0 * rows + 8.0 * product;
        Work { operations: 2.0 * entries + 2.0 * rows, bytes, gathers }
    }

    /// Returns the size of the stored matrix: a value and a column for each entry, and the start of each row. A
    /// triangle has only half of the off-diagonal entries, and the diagonal.
    fn matrix_bytes(&self) -> f64 {
        match self.storage {
            Storage::Rows => 12.0 * self.entries + 4.0 * self.rows,
            Storage::Sliced => 10.0 * self.entries + 4.0 * self.rows,
            Storage::Symmetric => 10.0 * (self.entries - self.rows) / 2.0 + 8.0 * self.rows,
        }
    }

    /// r ← r − α q and r · r: two multiply-adds; q is read, all its shares are added up, r is read and written.
    fn update_residual(&self) -> Work {
        Work::new(4.0, 16.0) * self.rows + Work::new(0.0, 8.0) * self.product + self.adding_up()
    }

    /// Returns the number of additions for elements of the product that have several shares.
    fn adding_up(&self) -> Work {
        Work::new(1.0, 0.0) * (self.product - self.rows)
    }

    /// The norms need a product and three sums for each row. Shares are read again.
    fn norms(&self) -> Work {
        let read = if self.storage == Storage::Symmetric { self.product } else { 0.0 };
        self.product() + Work::new(5.0, 8.0) * self.rows + Work::new(0.0, 8.0) * read + self.adding_up()
    }

    /// Returns the work of a stage.
    fn work(&self, stage: &str) -> Work {
        match stage {
            "sparse product" => self.product(),
            "update residual" => self.update_residual(),
            "advance" => ADVANCE * self.rows,
            "step" => {
                let iteration = self.product() + self.update_residual() + ADVANCE * self.rows;
                iteration * ITERATIONS as f64 + self.norms() + (BEGIN + NORMALISE) * self.rows
            }
            _ => unreachable!("CG has no stage {stage}"),
        }
    }
}

/// z ← z + α p, next ← r + β p: two multiply-adds; r and p are read, z is read and written, the next p is written.
const ADVANCE: Work = Work::new(4.0, 40.0);

/// z = 0, r = p = x, x · x: a multiply-add; x is read, three vectors are written.
const BEGIN: Work = Work::new(2.0, 32.0);

/// x = z / ‖z‖: a product; z is read, x is written.
const NORMALISE: Work = Work::new(1.0, 16.0);

/// Measures the stages and whole steps of the power iteration.
pub(crate) fn measure(crew: &Crew, class: Class, effort: Effort) -> Result<Vec<Measured>, Box<dyn Error>> {
    let problem = class.cg().problem();
    let matrix = Matrix::generate(&problem);
    let (rows, entries) = (matrix.rows() as f64, matrix.nonzeros() as f64);
    let rt = runtime(crew)?;
    let same =
        Matrix { offsets: matrix.offsets.clone(), columns: matrix.columns.clone(), values: matrix.values.clone() };
    let storage = Storage::of(&rt, &matrix, &matrix.row_blocks(crew.units()));
    let mut plain = crew.run(|| Plain::new(matrix, crew.units(), storage));
    let passes = crew.run(|| plain.passes(effort));
    let step = shares(crew, &rt, &problem, (same, storage), &mut plain, effort)?;
    // Slices gather from a window of the vector.
    let gathered = if storage == Storage::Rows { rows } else { rows.min(WINDOW as f64) };
    let sizes = Sizes { rows, entries, storage, product: plain.q.len() as f64 };
    let measured = |(stage, passes)| Measured {
        program: "CG",
        class: class.letter(),
        units: crew.units(),
        stage,
        work: sizes.work(stage),
        resident: sizes.matrix_bytes() + 40.0 * rows + 8.0 * sizes.product,
        gathered: 8.0 * gathered,
        passes,
        shares: (stage == "step").then_some(step),
    };
    Ok(passes.into_iter().map(measured).collect())
}

/// The program's kernels in a plain loop, with one thread for the row blocks of each unit.
struct Plain {
    matrix: Stored,
    blocks: Vec<Range<usize>>,
    /// The rows that each block's share of the product covers.
    shares: Vec<Range<usize>>,
    x: Vec<f64>,
    z: Vec<f64>,
    r: Vec<f64>,
    p: Vec<f64>,
    /// The product, or its shares stored one after the other.
    q: Vec<f64>,
    /// The vector p of the next iteration.
    next: Vec<f64>,
}

enum Stored {
    Rows(Matrix),
    Sliced(Sliced, Vec<Part>),
    /// A triangle, with the rows of each block. A block's share ends with its last row.
    Symmetric(Symmetric, Vec<(Range<usize>, Part)>),
}

impl Plain {
    fn new(matrix: Matrix, blocks: usize, storage: Storage) -> Self {
        let rows = matrix.rows();
        let [x, z, r, p, next] = [(); 5].map(|()| vec![1.0; rows]);
        let blocks = matrix.row_blocks(blocks);
        let matrix = match storage {
            Storage::Rows => Stored::Rows(matrix),
            Storage::Sliced => {
                let mut sliced = Sliced::default();
                let parts = blocks.iter().map(|rows| sliced.push(&matrix, rows.clone())).collect();
                Stored::Sliced(sliced, parts)
            }
            Storage::Symmetric => {
                let mut symmetric = Symmetric::default();
                let rows = symmetric::row_blocks(&matrix, blocks.len());
                let parts = rows.into_iter().map(|rows| (rows.clone(), symmetric.push(&matrix, rows))).collect();
                Stored::Symmetric(symmetric, parts)
            }
        };
        let shares = match &matrix {
            Stored::Rows(_) | Stored::Sliced(..) => blocks.clone(),
            Stored::Symmetric(_, parts) => parts.iter().map(|(rows, _)| 0..rows.end).collect(),
        };
        let q = vec![1.0; shares.iter().map(Range::len).sum()];
        Self { blocks, shares, matrix, x, z, r, p, q, next }
    }

    /// Computes a block's share of the product of the matrix and a vector.
    fn times(&self, block: usize, vector: &[f64], share: &mut [f64]) {
        match &self.matrix {
            Stored::Rows(matrix) => matrix.block(&self.blocks[block]).times(vector, share),
            Stored::Sliced(sliced, parts) => sliced.slices(&parts[block]).times(vector, share),
            Stored::Symmetric(symmetric, parts) => {
                let (rows, part) = &parts[block];
                symmetric.block(rows, part).times(&vector[..rows.end], share);
            }
        }
    }

    /// Returns the times of each stage and of whole steps, in seconds.
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
            // With these factors, the vectors stay unchanged however often the stages run.
            seconds[1].1.push(timed(|| p_dot_q = self.update_residual(0.0 * p_dot_q)));
            seconds[2].1.push(timed(|| self.advance(0.0, 0.5)));
        }
        seconds
    }

    /// Does one step of the power iteration.
    fn step(&mut self) {
        let Self { blocks, x, z, r, p, .. } = self;
        let parts = split(z, blocks).into_iter().zip(split(r, blocks)).zip(split(p, blocks)).zip(blocks.iter());
        let parts: Vec<_> = parts.collect();
        let mut rho: f64 = parts
            .into_par_iter()
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
        let parts: Vec<_> = split(&mut q, &self.shares).into_iter().zip(self.shares.iter().enumerate()).collect();
        let of_block = |(q, (block, rows)): (&mut [f64], (usize, &Range<usize>))| {
            self.times(block, &self.p, q);
            kernels::dot(&self.p[rows.clone()], q)
        };
        let p_dot_q = parts.into_par_iter().map(of_block).sum();
        self.q = q;
        p_dot_q
    }

    fn update_residual(&mut self, alpha: f64) -> f64 {
        let q = cut(&self.q, &self.shares);
        let parts: Vec<_> = split(&mut self.r, &self.blocks).into_iter().zip(&self.blocks).collect();
        let of_block = |(r, rows): (&mut [f64], &Range<usize>)| {
            kernels::update_residual_by_shares(alpha, within(&q, &self.shares, rows), r)
        };
        parts.into_par_iter().map(of_block).sum()
    }

    fn advance(&mut self, alpha: f64, beta: f64) {
        let Self { blocks, z, r, p, next, .. } = self;
        let parts: Vec<_> = split(z, blocks).into_iter().zip(split(next, blocks)).zip(blocks.iter()).collect();
        parts.into_par_iter().for_each(|((z, next), rows)| {
            kernels::advance(alpha, beta, &r[rows.clone()], z, &p[rows.clone()], next);
        });
        std::mem::swap(p, next);
    }

    fn finish(&mut self) {
        if let Stored::Symmetric(..) = self.matrix {
            let mut q = std::mem::take(&mut self.q);
            let parts: Vec<_> = split(&mut q, &self.shares).into_iter().enumerate().collect();
            parts.into_par_iter().for_each(|(block, q)| self.times(block, &self.z, q));
            self.q = q;
        }
        let q = cut(&self.q, &self.shares);
        let of_block = |(block, rows): (usize, &Range<usize>)| {
            let (x, own) = (&self.x[rows.clone()], &self.z[rows.clone()]);
            match &self.matrix {
                Stored::Rows(matrix) => kernels::norms(matrix.block(rows), x, &self.z, own),
                Stored::Sliced(sliced, parts) => kernels::norms(sliced.slices(&parts[block]), x, &self.z, own),
                Stored::Symmetric(..) => kernels::norms_by_shares(within(&q, &self.shares, rows), x, own),
            }
        };
        let of_block = |block| of_block(block).z_dot_z;
        let square: f64 = self.blocks.par_iter().enumerate().map(of_block).sum();
        let Self { blocks, x, z, .. } = self;
        let parts: Vec<_> = split(x, blocks).into_iter().zip(blocks.iter()).collect();
        let scale = 1.0 / square.sqrt();
        parts.into_par_iter().for_each(|(x, rows)| {
            x.iter_mut().zip(&z[rows.clone()]).for_each(|(x, z)| *x = scale * z);
        });
    }
}

/// Splits `numbers` into consecutive parts with the lengths of `ranges`.
fn split<'a>(mut numbers: &'a mut [f64], ranges: &[Range<usize>]) -> Vec<&'a mut [f64]> {
    ranges.iter().map(|range| numbers.split_off_mut(..range.len()).expect("as long as all of them")).collect()
}

/// Like [`split`], for shared slices.
fn cut<'a>(mut numbers: &'a [f64], ranges: &[Range<usize>]) -> Vec<&'a [f64]> {
    ranges.iter().map(|range| numbers.split_off(..range.len()).expect("as long as all of them")).collect()
}

/// Returns the parts of a product's shares that belong to `rows`, given the rows that each share covers.
fn within<'a>(
    product: &[&'a [f64]],
    shares: &[Range<usize>],
    rows: &Range<usize>,
) -> impl DoubleEndedIterator<Item = &'a [f64]> {
    let parts = product.iter().zip(shares).filter(|(_, own)| own.start <= rows.start && own.end > rows.start);
    parts.map(|(part, own)| &part[rows.start - own.start..own.end.min(rows.end) - own.start])
}

/// Measures steps in a plain loop and as tasks, interleaved.
fn shares(
    crew: &Crew,
    rt: &Runtime,
    problem: &Problem,
    (matrix, storage): (Matrix, Storage),
    plain: &mut Plain,
    effort: Effort,
) -> Result<Shares, Box<dyn Error>> {
    let units = crew.units();
    let solver = Solver::new(rt, problem, matrix, units, storage)?;
    solver.reset()?;
    solver.step(0)?;
    rt.wait()?;
    let (turns, steps) = effort.turns(timed(|| crew.run(|| plain.step())));
    let mut solve = solver.record()?;
    let mut repetitions = Vec::new();
    for _ in 0..turns {
        let in_loop = timed(|| crew.run(|| (0..steps).for_each(|_| plain.step())));
        let as_tasks = timed_tasks(rt, steps, |step| Ok(solver.step(step % problem.iterations)?))?;
        let replayed = timed_tasks(rt, steps, |step| Ok(solver.replayed_step(&mut solve, step % problem.iterations)?))?;
        repetitions.push([in_loop, as_tasks, replayed].map(|seconds| seconds * units as f64 / steps as f64));
    }
    Ok(Shares::with_replays(&repetitions))
}
