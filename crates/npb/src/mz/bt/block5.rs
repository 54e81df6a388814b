//! LU factorization of 5 × 5 blocks, one block per lane, and solution with the factors.
//!
//! Blocks are stored by columns. Elimination needs no pivoting because BT's blocks are diagonally dominant.

use pulp::Simd;

use super::jacobian::Vector;
use crate::mz::lanes::Lane;

/// A block's columns.
pub(super) type Block<S> = [Vector<S>; 5];

/// The triangular factors of a block. The unit lower factor is below the diagonal. The upper factor, with its rows
/// divided by their pivots, is above it. The reciprocals of the pivots are on the diagonal.
///
/// Each point of a line depends on the factors and solution of the previous point, so latency matters. The
/// operations are ordered such that each pivot is only one multiply-add away from the reciprocal of the previous
/// pivot, and each row of a solution only one away from the row below it.
pub(super) struct Factors<S: Simd>(Block<S>);

impl<S: Simd> Factors<S> {
    /// Factorizes a block.
    #[inline(always)]
    pub(super) fn new(mut block: Block<S>) -> Self {
        let mut inverse = block[0][0].exact_recip();
        unroll!(5, |pivot| {
            let next = pivot + 1;
            let next_inverse = if next < 5 {
                let product = block[pivot][next] * block[next][pivot];
                product.mul_sub_from(inverse, block[next][next]).exact_recip()
            } else {
                inverse
            };
            block[pivot][pivot] = inverse;
            unroll!(5, |row| {
                if row > pivot {
                    block[pivot][row] = block[pivot][row] * inverse;
                }
            });
            unroll!(5, |column| {
                if column > pivot {
                    let top = block[column][pivot];
                    unroll!(5, |row| {
                        if row > pivot && (row, column) != (next, next) {
                            block[column][row] = block[pivot][row].mul_sub_from(top, block[column][row]);
                        }
                    });
                    block[column][pivot] = top * inverse;
                }
            });
            inverse = next_inverse;
        });
        Self(block)
    }

    /// Returns the solution for a right-hand side.
    #[inline(always)]
    pub(super) fn solve(&self, right: Vector<S>) -> Vector<S> {
        self.solve_sparse([Some(right[0]), Some(right[1]), Some(right[2]), Some(right[3]), Some(right[4])])
    }

    /// Returns the solution for a right-hand side with components that are always zero (`None`). At least one of
    /// the last two components must be present.
    #[inline(always)]
    pub(super) fn solve_sparse(&self, mut right: [Option<Lane<S>>; 5]) -> Vector<S> {
        let factors = &self.0;
        unroll!(5, |column| {
            if let Some(value) = right[column] {
                unroll!(5, |row| {
                    if row > column {
                        right[row] = Some(match right[row] {
                            Some(other) => factors[column][row].mul_sub_from(value, other),
                            None => -(factors[column][row] * value),
                        });
                    }
                });
            }
        });
        let last = right[4].expect("a right-hand side that is not zero") * factors[4][4];
        let mut x = [last; 5];
        unroll!(5, |below| {
            if below > 0 {
                let row = 4 - below;
                x[row] = match right[row] {
                    Some(value) => factors[4][row].mul_sub_from(last, value * factors[row][row]),
                    None => -(factors[4][row] * last),
                };
                unroll!(5, |above| {
                    if above > 0 && above < below {
                        let column = 4 - above;
                        x[row] = factors[column][row].mul_sub_from(x[column], x[row]);
                    }
                });
            }
        });
        x
    }
}
