//! Regions of multi-dimensional arrays: how much a task's submission slows down when other tasks have cut the array
//! into many parts.

use crate::meter::{Result, closed_gate, nanoseconds_each, runtime, without_window};
use thalweg::prelude::*;

/// Side length of a tile, in elements.
const TILE: usize = 4;
/// Number of tiles along the shorter side of the array.
const ROWS: usize = 25;

/// Returns the time in nanoseconds to submit a task on one element of an array of about n elements.
pub(super) fn one_element(n: usize) -> Result<f64> {
    let rt = runtime("1:CPU:1")?;
    let side = 8;
    let x: Data<u32, Ix4> = rt.zeros([n / (side * side * side), side, side, side]);
    let cost = nanoseconds_each(1, || {
        let element = x.block((0..1, 0..1, 0..1, 0..1));
        rt.task("tiny", (element.reduction(Sum),)).cpu(|_, _| ()).submit()?;
        Ok(())
    })?;
    rt.wait()?;
    Ok(cost)
}

/// The row and the column of a tile.
type Tile = (usize, usize);

fn by_rows(n: usize) -> Vec<Tile> {
    (0..ROWS).flat_map(|i| (0..n / ROWS).map(move |j| (i, j))).collect()
}

pub(super) fn tiles_by_rows(n: usize) -> Result<f64> {
    tiles(n, &by_rows(n), false)
}

pub(super) fn tiles_by_columns(n: usize) -> Result<f64> {
    let order: Vec<Tile> = (0..n / ROWS).flat_map(|j| (0..ROWS).map(move |i| (i, j))).collect();
    tiles(n, &order, false)
}

pub(super) fn tiles_in_random_order(n: usize) -> Result<f64> {
    let mut order = by_rows(n);
    // Fisher-Yates shuffle, with draws of Knuth's generator.
    let mut state = 1u64;
    for at in (1..order.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        order.swap(at, (state >> 33) as usize % (at + 1));
    }
    tiles(n, &order, false)
}

pub(super) fn tiles_after_halves(n: usize) -> Result<f64> {
    tiles(n, &by_rows(n), true)
}

/// Returns the time in nanoseconds to submit one task, averaged over two sweeps over all tiles during which no task can
/// run.
fn tiles(n: usize, order: &[Tile], halves: bool) -> Result<f64> {
    let rt = without_window("1:CPU:1")?;
    let (rows, columns) = (ROWS * TILE, n / ROWS * TILE);
    let x: Data<u8, Ix2> = rt.zeros((rows, columns));
    let (open, gate) = closed_gate(&rt)?;
    if halves {
        for part in blocks(columns, columns.div_ceil(2)) {
            rt.task("init", (x.block((0..rows, part)).output(), gate.input())).cpu(|_, _| ()).submit()?;
        }
    }
    let along = |at: usize| at * TILE..(at + 1) * TILE;
    let cost = nanoseconds_each(2 * order.len(), || {
        for &(i, j) in order.iter().chain(order) {
            rt.task("tile", (x.block((along(i), along(j))).inout(), gate.input())).cpu(|_, _| ()).submit()?;
        }
        Ok(())
    })?;
    drop(open);
    rt.wait()?;
    Ok(cost)
}

/// Returns the time in nanoseconds to submit a stencil task, which reads a tile of one array with its halo and writes
/// the same tile of another array. There are two sweeps, one in each direction between the arrays.
pub(super) fn halos(n: usize) -> Result<f64> {
    stencil(n, &Before::Nothing)
}

/// Measures the same as [`halos`] after two tasks have added to the first rows of each array.
pub(super) fn halos_after_a_group(n: usize) -> Result<f64> {
    stencil(n, &Before::Group)
}

/// Measures the same as [`halos`] while a task that writes the first row of each array is pending.
pub(super) fn halos_after_a_row(n: usize) -> Result<f64> {
    stencil(n, &Before::Row)
}

/// The tasks before a stencil.
#[derive(PartialEq)]
enum Before {
    Nothing,
    Group,
    Row,
}

fn stencil(n: usize, before: &Before) -> Result<f64> {
    let rt = without_window("1:CPU:1")?;
    let (rows, columns) = (ROWS * TILE, n / ROWS * TILE);
    let [a, b] = [0, 1].map(|_| rt.zeros::<u8, _>((rows, columns)));
    for x in [&a, &b, &a, &b].into_iter().filter(|_| *before == Before::Group) {
        rt.task("add", (x.block((0..2, 0..)).commutative(),)).cpu(|_, _| ()).submit()?;
    }
    rt.wait()?;
    let (open, gate) = closed_gate(&rt)?;
    for x in [&a, &b].into_iter().filter(|_| *before == Before::Row) {
        rt.task("row", (x.block((0, 0..)).output(), gate.input())).cpu(|_, _| ()).submit()?;
    }
    let along = |at: usize| at * TILE..(at + 1) * TILE;
    let around = |at: usize, end: usize| (at * TILE).saturating_sub(1)..((at + 1) * TILE + 1).min(end);
    let order = by_rows(n);
    let cost = nanoseconds_each(2 * order.len(), || {
        for (from, to) in [(&a, &b), (&b, &a)] {
            for &(i, j) in &order {
                let halo = from.block((around(i, rows), around(j, columns)));
                let accesses = (halo.input(), to.block((along(i), along(j))).output(), gate.input());
                rt.task("stencil", accesses).cpu(|_, _| ()).submit()?;
            }
        }
        Ok(())
    })?;
    drop(open);
    rt.wait()?;
    Ok(cost)
}
