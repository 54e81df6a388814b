//! Block-tridiagonal systems along lines, one line per lane: block Thomas elimination without pivoting.
//!
//! Elimination forms the blocks from the state on the fly. For each point it stores only what substitution needs:
//! one block and the right-hand side. Source: NASA report RNR-94-007, section 4.3.1; the elimination is the
//! textbook algorithm.
//!
//! A block has 25 vectors and AVX-512 has 32 registers; a spilled vector costs as much as two multiply-adds
//! (`docs/results/zen5.md`). So elimination proceeds in phases. Each keeps one block in registers and reads
//! everything else from memory, whose cost is negligible compared with the arithmetic. [`reread`] ends a phase.

use std::hint::black_box;

use pulp::Simd;

use super::block5::Factors;
use super::jacobian::{Column, Jacobians, Vector, Weights};
use crate::mz::lanes::Lane;

/// Number of vectors stored per point for substitution: the columns of a block, and the right-hand side.
const STORED: usize = RIGHT + 5;
const RIGHT: usize = 25;
type Stored<V> = [V; STORED];

/// Returns the number of scratch vectors that a line of `length` points needs.
pub const fn stored(length: usize) -> usize {
    STORED * length
}

/// Eliminates the blocks below the diagonal on lines of `length` interior points. The unknowns beyond the ends of
/// the lines are zero. Calls `state` and `right` once for each point, `state` first.
///
/// # Panics
/// Panics if the length of `rows` is not [`stored`]`(length)`.
#[inline(always)]
pub fn eliminate<S: Simd>(
    simd: S,
    weights: &Weights<S>,
    length: usize,
    rows: &mut [S::f64s],
    state: impl Fn(usize) -> Vector<S>,
    right: impl Fn(usize) -> Vector<S>,
) {
    let rows: &mut [Stored<S::f64s>] = bytemuck::cast_slice_mut(rows);
    assert_eq!(rows.len(), length, "rows of lines of {length} points");
    if length == 0 {
        return;
    }
    let [mut a, mut b, mut c] = [Jacobians::new(weights, state(0)); 3];
    let (mut before, mut here, mut after) = (&mut a, &mut b, &mut c);
    let mut factors = Factors::new(tabulate!(|column| dense(simd, here.own(weights, column))));
    put(factors.solve(right(0)), &mut rows[0][RIGHT..]);
    if length > 1 {
        *after = Jacobians::new(weights, state(1));
    }
    for l in 1..length {
        (before, here, after) = (here, after, before);
        let (last, row) = rows[l - 1..=l].split_at_mut(1);
        let (last, row) = (&mut last[0], &mut row[0]);
        unroll!(5, |column| {
            reread(here);
            put(factors.solve_sparse(here.previous(weights, column)), &mut last[5 * column..][..5]);
        });
        if l + 1 < length {
            *after = Jacobians::new(weights, state(l + 1));
        }

        reread(last);
        let mut sum = right(l);
        unroll!(5, |middle| {
            let entries = before.next(weights, middle);
            let factor = Lane::new(simd, last[RIGHT + middle]);
            unroll!(5, |row| if let Some(entry) = entries[row] {
                sum[row] = entry.mul_add(factor, sum[row]);
            });
        });
        put(sum, &mut row[RIGHT..]);

        reread(here);
        let mut block: [Column<S>; 5] = tabulate!(|column| here.own(weights, column));
        unroll!(5, |middle| {
            reread(before);
            let entries = before.next(weights, middle);
            unroll!(5, |column| {
                let factor = Lane::new(simd, last[5 * column + middle]);
                unroll!(5, |row| if let Some(entry) = entries[row] {
                    block[column][row] = Some(match block[column][row] {
                        Some(sum) => entry.mul_add(factor, sum),
                        None => entry * factor,
                    });
                });
            });
        });
        factors = Factors::new(tabulate!(|column| dense(simd, block[column])));
        reread(row);
        put(factors.solve(load(simd, &row[RIGHT..])), &mut row[RIGHT..]);
        reread(row);
    }
}

/// Solves the systems prepared by [`eliminate`], and passes the solution to `put` point by point, last point first.
///
/// # Panics
/// Panics if `rows` is not the one that was passed to [`eliminate`].
#[inline(always)]
pub fn substitute<S: Simd>(simd: S, rows: &[S::f64s], mut put: impl FnMut(usize, Vector<S>)) {
    let rows: &[Stored<S::f64s>] = bytemuck::cast_slice(rows);
    let Some((last, others)) = rows.split_last() else { return };
    let mut x = load(simd, &last[RIGHT..]);
    put(others.len(), x);
    for (l, row) in others.iter().enumerate().rev() {
        let mut next = load(simd, &row[RIGHT..]);
        unroll!(5, |column| {
            unroll!(5, |m| next[m] = Lane::new(simd, row[5 * column + m]).mul_sub_from(x[column], next[m]))
        });
        x = next;
        put(l, x);
    }
}

/// Ends a phase by forcing the compiler to reload all values from memory when they are next needed, instead of
/// keeping them in registers.
#[inline(always)]
fn reread<T>(memory: &mut T) {
    black_box(memory);
}

/// Loads five vectors.
#[inline(always)]
pub(super) fn load<S: Simd>(simd: S, from: &[S::f64s]) -> Vector<S> {
    tabulate!(|m| Lane::new(simd, from[m]))
}

/// Stores five vectors.
#[inline(always)]
pub(super) fn put<S: Simd>(x: Vector<S>, to: &mut [S::f64s]) {
    unroll!(5, |m| to[m] = x[m].value());
}

/// Replaces a column's missing entries by zeros.
#[inline(always)]
fn dense<S: Simd>(simd: S, column: Column<S>) -> Vector<S> {
    tabulate!(|row| match column[row] {
        Some(entry) => entry,
        None => Lane::splat(simd, 0.0),
    })
}
