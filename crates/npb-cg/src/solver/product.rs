//! The phases that compute or use a product with the matrix, for each way of storing the matrix.
//!
//! With rows and with slices, each block of rows has its own part of the product. With one triangle, each block has
//! a share of the product, which extends from the first row to the block's last row (see `symmetric.rs`). Tasks
//! that use the product add up the shares, in block order. The sum p · q does not need the complete product,
//! because a block's part of the sum is its share times p.

use std::ops::Range;

use thalweg::prelude::*;
use thalweg::task::Input;

use super::super::front::{Front, Hints};
use super::super::gpu;
use super::super::kernels::{self, Norms, Product, Rows};
use super::super::sliced::Slices;
use super::super::storage::{AsTriangle, Entries};
use super::super::symmetric::Triangle;
use super::{Block, Solver};

impl Solver<'_> {
    /// Computes q = A p and p · q.
    pub(super) fn multiply(&self, front: &impl Front<Error = SubmitError>, k: usize) -> Result<(), SubmitError> {
        let (p, p_dot_q) = (&self.p[k % 2], self.p_dot_q.slice(k..k + 1));
        let vectors = |q: Range<usize>| (p.input(), self.q.slice(q).output(), p_dot_q.reduction(Sum));
        let mut blocks = self.blocks.iter().enumerate();
        match &self.entries {
            Entries::Rows(matrix) => blocks.try_for_each(|(number, block)| {
                let (rows, first) = (block.rows.clone(), block.rows.start);
                front.task(
                    "multiply",
                    (matrix.block(number), vectors(rows.clone())),
                    Hints::cost(block.cost()),
                    move |_, ((offsets, columns, values), (p, q, p_dot_q))| {
                        let block = Rows { offsets, columns, values };
                        p_dot_q[0] += kernels::multiply(block, p, &p[rows.clone()], q);
                    },
                    move |k, ((offsets, columns, values), (p, mut q, mut p_dot_q))| {
                        let rows = gpu::Rows { offsets: &offsets, columns: &columns, values: &values, first };
                        gpu::multiply(k, rows, &p, &mut q, &mut p_dot_q)
                    },
                )
            }),
            Entries::Sliced(matrix) => blocks.try_for_each(|(number, block)| {
                let rows = block.rows.clone();
                front.on_cores(
                    "multiply",
                    (matrix.block(number), vectors(rows.clone())),
                    Hints::cost(block.cost()),
                    move |_, ((lengths, places, columns, values), (p, q, p_dot_q))| {
                        let block = Slices { lengths, places, columns, values };
                        p_dot_q[0] += kernels::multiply(block, p, &p[rows.clone()], q);
                    },
                )
            }),
            Entries::Symmetric(matrix) => (0..matrix.blocks()).try_for_each(|block| {
                front.on_cores(
                    "multiply",
                    (matrix.block(block), vectors(matrix.share(block))),
                    Hints::cost(matrix.cost(block)),
                    |_, ((diagonal, (lengths, places, columns, values)), (p, share, p_dot_q))| {
                        let block = Triangle { diagonal, below: Slices { lengths, places, columns, values } };
                        let p = &p[..share.len()];
                        p_dot_q[0] += kernels::multiply(block, p, p, share);
                    },
                )
            }),
        }
    }

    /// Computes r -= α q and r · r.
    pub(super) fn update_residual(&self, front: &impl Front<Error = SubmitError>, k: usize) -> Result<(), SubmitError> {
        let (rho, p_dot_q) = (self.rho.slice(k..k + 1), self.p_dot_q.slice(k..k + 1));
        for Block { rows, .. } in &self.blocks {
            let scalars = (rho.input(), p_dot_q.input());
            let residual = (self.r.slice(rows.clone()).inout(), self.rho.slice(k + 1..k + 2).reduction(Sum));
            let hints = Hints::cost(4.0 * rows.len() as f64);
            match &self.entries {
                Entries::Rows(_) | Entries::Sliced(_) => front.task(
                    "update residual",
                    (scalars, self.q.slice(rows.clone()).input(), residual),
                    hints,
                    |_, ((rho, p_dot_q), q, (r, next_rho))| {
                        next_rho[0] += kernels::update_residual(rho[0] / p_dot_q[0], q, r);
                    },
                    |k, ((rho, p_dot_q), q, (mut r, mut next_rho))| {
                        gpu::update_residual(k, [&rho, &p_dot_q], &q, &mut r, &mut next_rho)
                    },
                ),
                Entries::Symmetric(matrix) => {
                    let rows = rows.clone();
                    front.on_cores(
                        "update residual",
                        (scalars, self.shares_for(matrix, &rows), residual),
                        hints,
                        move |_, ((rho, p_dot_q), shares, (r, next_rho))| {
                            let shares = within(&shares, &rows);
                            next_rho[0] += kernels::update_residual_by_shares(rho[0] / p_dot_q[0], shares, r);
                        },
                    )
                }
            }?;
        }
        Ok(())
    }

    /// Computes ‖x − A z‖², x · z and z · z.
    pub(super) fn norms(&self) -> Result<(), SubmitError> {
        if let Entries::Symmetric(matrix) = &self.entries {
            self.multiply_solution(matrix)?;
        }
        for (number, block) in self.blocks.iter().enumerate() {
            let (rows, first) = (block.rows.clone(), block.rows.start);
            let vectors = (self.x.slice(rows.clone()).input(), self.z.input());
            let sums = (self.residual.reduction(Sum), self.x_dot_z.reduction(Sum), self.z_dot_z.reduction(Sum));
            match &self.entries {
                Entries::Rows(matrix) => Front::task(
                    self.rt,
                    "norms",
                    (matrix.block(number), vectors, sums),
                    Hints::cost(block.cost()),
                    move |_, ((offsets, columns, values), (x, z), sums)| {
                        add(kernels::norms(Rows { offsets, columns, values }, x, z, &z[rows.clone()]), sums);
                    },
                    move |k, ((offsets, columns, values), (x, z), (mut residual, mut x_dot_z, mut z_dot_z))| {
                        let rows = gpu::Rows { offsets: &offsets, columns: &columns, values: &values, first };
                        gpu::norms(k, rows, [&x, &z], [&mut residual, &mut x_dot_z, &mut z_dot_z])
                    },
                ),
                Entries::Sliced(matrix) => self.rt.on_cores(
                    "norms",
                    (matrix.block(number), vectors, sums),
                    Hints::cost(block.cost()),
                    move |_, ((lengths, places, columns, values), (x, z), sums)| {
                        let block = Slices { lengths, places, columns, values };
                        add(kernels::norms(block, x, z, &z[rows.clone()]), sums);
                    },
                ),
                Entries::Symmetric(matrix) => self.rt.on_cores(
                    "norms",
                    (self.shares_for(matrix, &rows), vectors, sums),
                    Hints::cost(6.0 * rows.len() as f64),
                    move |_, (shares, (x, z), sums)| {
                        add(kernels::norms_by_shares(within(&shares, &rows), x, &z[rows.clone()]), sums);
                    },
                ),
            }?;
        }
        Ok(())
    }

    /// Computes q = A z, in shares.
    fn multiply_solution(&self, matrix: &AsTriangle) -> Result<(), SubmitError> {
        (0..matrix.blocks()).try_for_each(|block| {
            self.rt.on_cores(
                "multiply solution",
                (matrix.block(block), self.z.input(), self.q.slice(matrix.share(block)).output()),
                Hints::cost(matrix.cost(block)),
                |_, ((diagonal, (lengths, places, columns, values)), z, share)| {
                    let block = Triangle { diagonal, below: Slices { lengths, places, columns, values } };
                    block.times(&z[..share.len()], share);
                },
            )
        })
    }

    /// Returns the shares that contribute to these rows, in block order.
    fn shares_for(&self, matrix: &AsTriangle, rows: &Range<usize>) -> Vec<Input<'_, f64, Ix1>> {
        matrix.blocks_for(rows).map(|block| self.q.slice(matrix.share(block)).input()).collect()
    }
}

/// Returns the parts of shares that belong to these rows.
fn within<'a>(shares: &[&'a [f64]], rows: &Range<usize>) -> impl DoubleEndedIterator<Item = &'a [f64]> {
    shares.iter().map(|share| &share[rows.start..rows.end.min(share.len())])
}

fn add(norms: Norms, (residual, x_dot_z, z_dot_z): (&mut [f64], &mut [f64], &mut [f64])) {
    residual[0] += norms.residual;
    x_dot_z[0] += norms.x_dot_z;
    z_dot_z[0] += norms.z_dot_z;
}
