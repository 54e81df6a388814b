//! Block-tridiagonal systems along lines, one line per lane: block Thomas elimination without pivoting.
//!
//! The blocks are formed from the state as elimination passes, and never stored; only the one block per point that
//! substitution needs is. Source: NASA report RNR-94-007, section 4.3.1; the elimination is the textbook's.

use pulp::Simd;

use super::block5::{Block, Factors};
use super::jacobian::{Blocks, Vector, Weights};
use crate::mz::lanes::Lane;

/// Vectors per point of packed lines: state and right-hand side, in the order of the direction.
pub(super) const POINT: usize = 10;
type Point<V> = [V; POINT];

/// Vectors per point that substitution needs: the columns of a block.
pub(super) const STORED: usize = 25;
type Stored<V> = [V; STORED];

/// Replaces the right-hand sides at the interior `points` of lines by the solution of their systems; the unknowns
/// at the ends of the lines, beyond the points, are zero. `stored` is scratch for as many points.
///
/// # Panics
/// If `points` or `stored` are no whole numbers of points.
#[inline(always)]
pub(super) fn solve<S: Simd>(simd: S, weights: &Weights<S>, points: &mut [S::f64s], stored: &mut [S::f64s]) {
    let points: &mut [Point<S::f64s>] = bytemuck::cast_slice_mut(points);
    let stored: &mut [Stored<S::f64s>] = bytemuck::cast_slice_mut(stored);
    let Some((first, rest)) = points.split_first_mut() else { return };
    let zero = Lane::splat(simd, 0.0);

    let blocks = Blocks::new(weights, load(simd, &first[..5]));
    let own = blocks.own.columns();
    let mut factors = Factors::new(tabulate!(|column| dense(own[column], zero)));
    let mut y = factors.solve(load(simd, &first[5..]));
    put(y, &mut first[5..]);
    let mut to_next = blocks.to_next;

    for (point, stored) in rest.iter_mut().zip(stored.iter_mut()) {
        let blocks = Blocks::new(weights, load(simd, &point[..5]));
        let (own, above) = (blocks.own.columns(), blocks.to_previous.columns());
        let block: Block<S> = tabulate!(|column| {
            let eliminated = factors.solve_sparse(above[column]);
            put(eliminated, &mut stored[5 * column..][..5]);
            to_next.mul_add(eliminated, dense(own[column], zero))
        });
        y = to_next.mul_add(y, load(simd, &point[5..]));
        factors = Factors::new(block);
        y = factors.solve(y);
        put(y, &mut point[5..]);
        to_next = blocks.to_next;
    }

    let mut x = y;
    let before = points.len() - 1;
    for (point, stored) in points[..before].iter_mut().zip(&stored[..before]).rev() {
        let mut next = load(simd, &point[5..]);
        unroll!(5, |column| {
            unroll!(5, |row| {
                next[row] = Lane::new(simd, stored[5 * column + row]).mul_sub_from(x[column], next[row]);
            })
        });
        x = next;
        put(x, &mut point[5..]);
    }
}

/// Five vectors.
#[inline(always)]
fn load<S: Simd>(simd: S, from: &[S::f64s]) -> Vector<S> {
    tabulate!(|m| Lane::new(simd, from[m]))
}

/// Stores five vectors.
#[inline(always)]
fn put<S: Simd>(x: Vector<S>, to: &mut [S::f64s]) {
    unroll!(5, |m| to[m] = x[m].value());
}

/// A column with its zeros.
#[inline(always)]
fn dense<S: Simd>(column: [Option<Lane<S>>; 5], zero: Lane<S>) -> Vector<S> {
    tabulate!(|row| match column[row] {
        Some(entry) => entry,
        None => zero,
    })
}
