//! Block-tridiagonal systems along lines, one line per lane: block Thomas elimination without pivoting.
//!
//! The blocks are formed from the state as elimination passes, and never stored; only the one block per point that
//! substitution needs is. Source: NASA report RNR-94-007, section 4.3.1; the elimination is the textbook's.

use pulp::Simd;

use super::block5::{Block, Factors};
use super::jacobian::{Blocks, Vector, Weights};
use crate::lanes::Lane;

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
    let state = |point: &Point<S::f64s>| -> Vector<S> { std::array::from_fn(|m| Lane::new(simd, point[m])) };
    let right = |point: &Point<S::f64s>| -> Vector<S> { std::array::from_fn(|m| Lane::new(simd, point[m + 5])) };
    let put = |point: &mut Point<S::f64s>, x: &Vector<S>| {
        for (target, value) in point[5..].iter_mut().zip(x) {
            *target = value.value();
        }
    };
    let Some((first, rest)) = points.split_first_mut() else { return };
    let zero = Lane::splat(simd, 0.0);

    let blocks = Blocks::new(weights, state(first));
    let own = blocks.own.columns().map(|column| column.map(|entry| entry.unwrap_or(zero)));
    let mut factors = Factors::new(own);
    let mut y = factors.solve(right(first));
    put(first, &y);
    let mut to_next = blocks.to_next;

    for (point, stored) in rest.iter_mut().zip(stored.iter_mut()) {
        let blocks = Blocks::new(weights, state(point));
        let eliminated: Block<S> = blocks.to_previous.columns().map(|column| factors.solve_sparse(column));
        for (target, column) in stored.chunks_exact_mut(5).zip(&eliminated) {
            for (target, value) in target.iter_mut().zip(column) {
                *target = value.value();
            }
        }
        let own = blocks.own.columns();
        let block: Block<S> = std::array::from_fn(|column| {
            to_next.mul_add(eliminated[column], own[column].map(|entry| entry.unwrap_or(zero)))
        });
        y = to_next.mul_add(y, right(point));
        factors = Factors::new(block);
        y = factors.solve(y);
        put(point, &y);
        to_next = blocks.to_next;
    }

    let mut x = y;
    let before = points.len() - 1;
    for (point, stored) in points[..before].iter_mut().zip(&stored[..before]).rev() {
        let mut next = right(point);
        for (column, x) in stored.chunks_exact(5).zip(x) {
            for (sum, entry) in next.iter_mut().zip(column) {
                *sum = Lane::new(simd, *entry).mul_sub_from(x, *sum);
            }
        }
        x = next;
        put(point, &x);
    }
}
