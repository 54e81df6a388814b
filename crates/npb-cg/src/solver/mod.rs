//! The benchmark as tasks: an inverse power iteration in which every step is a conjugate gradient solve.
//!
//! Each phase has one task per block of rows. The scalars of the iteration (ρ, p·q, …) are data objects of the
//! runtime, as the vectors are. Reductions add them up, and the next phase's tasks take them as inputs and compute
//! α and β themselves. So the submitting thread never waits: a whole step of the power iteration, some 80 tasks per
//! block, is submitted while an earlier step is still running.
//!
//! Every scalar of the 25 CG iterations has its own element, so no task waits until a scalar can be reused; one
//! task per step clears all of them.
//!
//! Source of the algorithm: NASA report RNR-94-007, section 2.4. Two fusions save passes over memory: z is updated
//! after r, where p is read anyway, and the three sums that follow the solve share the matrix product of its
//! residual.

mod product;
mod until;

use std::ops::Range;

use thalweg::prelude::*;

use super::classes::{CG_ITERATIONS, Problem};
use super::front::{Front, Hints};
use super::gpu;
use super::kernels;
use super::matrix::Matrix;
use super::storage::{Entries, Storage};

/// A range of rows with their number of entries.
#[derive(Clone, Debug)]
struct Block {
    rows: Range<usize>,
    entries: usize,
}

impl Block {
    /// Returns the cost of a product with the block's rows.
    fn cost(&self) -> f64 {
        2.0 * self.entries as f64
    }
}

/// The matrix, vectors and scalars, as data objects of the runtime.
pub struct Solver<'rt> {
    rt: &'rt Runtime,
    shift: f64,
    blocks: Vec<Block>,
    entries: Entries,
    x: Data<f64>,
    z: Data<f64>,
    r: Data<f64>,
    /// The search direction, which alternates between two vectors so that no task writes a vector that all other
    /// tasks still have in their caches.
    p: [Data<f64>; 2],
    /// A p. If only one triangle is stored, the shares of A p one after the other, and later those of A z.
    q: Data<f64>,
    /// r · r before each CG iteration and after the last.
    rho: Data<f64>,
    /// r · r after the last iteration of a loop.
    rho_now: Data<f64>,
    /// p · A p of each CG iteration.
    p_dot_q: Data<f64>,
    /// ‖x − A z‖², x · z and z · z after the solve.
    residual: Data<f64>,
    x_dot_z: Data<f64>,
    z_dot_z: Data<f64>,
    /// ζ and ‖x − A z‖ for each step of the power iteration, side by side.
    history: Data<f64>,
}

impl<'rt> Solver<'rt> {
    /// Registers the problem with the runtime, divided into about `blocks` blocks of rows. If `storage` is `None`,
    /// the matrix is stored in a way that all units support: as one triangle if the matrix is large, otherwise in
    /// the way that is faster on this machine.
    ///
    /// # Errors
    /// Returns an error if the runtime is shutting down.
    pub fn new(
        rt: &'rt Runtime,
        problem: &Problem,
        matrix: Matrix,
        blocks: usize,
        storage: impl Into<Option<Storage>>,
    ) -> Result<Self, SubmitError> {
        let rows = matrix.row_blocks(blocks);
        let storage = storage.into().unwrap_or_else(|| Storage::of(rt, &matrix, &rows));
        let blocks =
            rows.iter().map(|rows| Block { entries: matrix.entries(rows).len(), rows: rows.clone() }).collect();
        let entries = Entries::new(rt, matrix, &rows, storage)?;
        let vector = |name| rt.data(vec![0.0; problem.rows]).named(name);
        let scalar = |name| rt.scalar(0.0).named(name);
        Ok(Self {
            rt,
            shift: problem.shift,
            blocks,
            x: vector("x"),
            z: vector("z"),
            r: vector("r"),
            p: [vector("p of even iterations"), vector("p of odd iterations")],
            q: rt.data(vec![0.0; entries.product(problem.rows)]).named("q"),
            entries,
            rho: rt.data(vec![0.0; CG_ITERATIONS + 1]).named("rho"),
            rho_now: scalar("rho_now"),
            p_dot_q: rt.data(vec![0.0; CG_ITERATIONS]).named("p_dot_q"),
            residual: scalar("residual"),
            x_dot_z: scalar("x_dot_z"),
            z_dot_z: scalar("z_dot_z"),
            history: rt.data(vec![0.0; 2 * problem.iterations]).named("history"),
        })
    }

    /// Returns how the matrix is stored.
    pub fn storage(&self) -> Storage {
        self.entries.storage()
    }

    /// Returns the number of blocks.
    pub fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Submits x = (1, …, 1), the start of the power iteration.
    pub fn reset(&self) -> Result<(), SubmitError> {
        for block in &self.blocks {
            self.rt
                .task("reset", (self.x.slice(block.rows.clone()).output(),))
                .cpu(|_, (x,)| x.fill(1.0))
                .gpu(|k, (mut x,)| gpu::fill(k, &mut x, 1.0))
                .submit()?;
        }
        Ok(())
    }

    /// Submits one step of the power iteration: solves A z = x, then computes ζ = shift + 1 / (x·z) and x = z /
    /// ‖z‖.
    pub fn step(&self, step: usize) -> Result<(), SubmitError> {
        self.solve(self.rt)?;
        self.finish(step)
    }

    /// Records the solve of a step, for [`replayed_step`](Self::replayed_step).
    pub fn record(&self) -> Result<Recording, SubmitError> {
        self.rt.record(|recorder| self.solve(recorder))
    }

    /// Variant of [`step`](Self::step) that replays a solve recorded from this solver.
    pub fn replayed_step(&self, solve: &mut Recording, step: usize) -> Result<(), SubmitError> {
        solve.replay()?;
        self.finish(step)
    }

    fn solve(&self, front: &impl Front<Error = SubmitError>) -> Result<(), SubmitError> {
        self.begin(front)?;
        (0..CG_ITERATIONS).try_for_each(|iteration| self.iterate(front, iteration))
    }

    /// Waits for a step; returns its ζ and the norm of its solve's residual.
    pub fn outcome(&self, step: usize) -> Result<(f64, f64), RunError> {
        let outcome = self.rt.read(&self.history.slice(2 * step..2 * step + 2))?;
        Ok((outcome[0], outcome[1]))
    }

    /// Sets z = 0, r = p = x, ρ₀ = x · x, and all other scalars to zero.
    fn begin(&self, front: &impl Front<Error = SubmitError>) -> Result<(), SubmitError> {
        let scalars = (
            self.rho.output(),
            self.p_dot_q.output(),
            self.residual.output(),
            self.x_dot_z.output(),
            self.z_dot_z.output(),
        );
        front.task(
            "clear",
            scalars,
            Hints::default(),
            |_, (a, b, c, d, e)| {
                for scalars in [a, b, c, d, e] {
                    scalars.fill(0.0);
                }
            },
            |k, (a, b, c, d, e)| {
                [a, b, c, d, e].into_iter().try_for_each(|mut scalars| gpu::fill(k, &mut scalars, 0.0))
            },
        )?;
        for Block { rows, .. } in &self.blocks {
            let accesses = (
                self.x.slice(rows.clone()).input(),
                self.z.slice(rows.clone()).output(),
                self.r.slice(rows.clone()).output(),
                self.p[0].slice(rows.clone()).output(),
                self.rho.slice(0..1).reduction(Sum),
            );
            front.task(
                "begin",
                accesses,
                Hints::default(),
                |_, (x, z, r, p, rho)| {
                    z.fill(0.0);
                    r.copy_from_slice(x);
                    p.copy_from_slice(x);
                    rho[0] += kernels::square(x);
                },
                |k, (x, mut z, mut r, mut p, mut rho)| gpu::begin(k, &x, [&mut z, &mut r, &mut p], &mut rho),
            )?;
        }
        Ok(())
    }

    /// Submits or records one CG iteration: three phases, each with one task per block.
    fn iterate(&self, front: &impl Front<Error = SubmitError>, k: usize) -> Result<(), SubmitError> {
        self.multiply(front, k)?;
        self.update_residual(front, k)?;
        let (p, next_p, p_dot_q) = (&self.p[k % 2], &self.p[(k + 1) % 2], self.p_dot_q.slice(k..k + 1));
        for Block { rows, .. } in &self.blocks {
            let accesses = (
                self.rho.slice(k..k + 2).input(),
                p_dot_q.input(),
                self.r.slice(rows.clone()).input(),
                self.z.slice(rows.clone()).inout(),
                p.slice(rows.clone()).input(),
                next_p.slice(rows.clone()).output(),
            );
            front.task(
                "advance",
                accesses,
                Hints::cost(4.0 * rows.len() as f64),
                |_, (rho, p_dot_q, r, z, p, next)| {
                    kernels::advance(rho[0] / p_dot_q[0], rho[1] / rho[0], r, z, p, next);
                },
                |k, (rho, p_dot_q, r, mut z, p, mut next)| gpu::advance(k, [&rho, &p_dot_q], &r, &mut z, &p, &mut next),
            )?;
        }
        Ok(())
    }

    /// Submits the computation of the solution's norms, ζ, and the next x.
    fn finish(&self, step: usize) -> Result<(), SubmitError> {
        self.norms()?;
        let accesses =
            (self.residual.input(), self.x_dot_z.input(), self.history.slice(2 * step..2 * step + 2).output());
        let shift = self.shift;
        self.rt
            .task("zeta", accesses)
            .cpu(move |_, (residual, x_dot_z, outcome)| {
                outcome[0] = shift + 1.0 / x_dot_z[0];
                outcome[1] = residual[0].sqrt();
            })
            .gpu(move |k, (residual, x_dot_z, mut outcome)| gpu::zeta(k, [&residual, &x_dot_z], &mut outcome, shift))
            .submit()?;
        for Block { rows, .. } in &self.blocks {
            let accesses =
                (self.z_dot_z.input(), self.z.slice(rows.clone()).input(), self.x.slice(rows.clone()).output());
            self.rt
                .task("normalise", accesses)
                .cpu(|_, (z_dot_z, z, x)| {
                    let scale = 1.0 / z_dot_z[0].sqrt();
                    for (x, z) in x.iter_mut().zip(z) {
                        *x = scale * z;
                    }
                })
                .gpu(|k, (z_dot_z, z, mut x)| gpu::normalise(k, [&z_dot_z, &z], &mut x))
                .submit()?;
        }
        Ok(())
    }
}
