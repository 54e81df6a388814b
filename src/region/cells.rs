//! Cells of a grid, identified by their position along each axis.

use super::block::MAX_DIMS;

/// The position of a cell along each axis.
pub(crate) type Cell = [u32; MAX_DIMS];

/// Returns the number of cells from `low` to `high`.
#[inline]
pub(super) fn volume(low: &Cell, high: &Cell) -> u64 {
    (0..MAX_DIMS).fold(1, |volume: u64, d| volume.saturating_mul(u64::from(high[d] - low[d]) + 1))
}

/// Visits all cells from `low` to `high`, both included, in row-major order.
#[inline]
pub(super) fn for_each_cell(low: Cell, high: Cell, mut visit: impl FnMut(Cell)) {
    let mut cell = low;
    loop {
        visit(cell);
        let Some(d) = (0..MAX_DIMS).rev().find(|d| cell[*d] < high[*d]) else { return };
        cell[d] += 1;
        cell[d + 1..].copy_from_slice(&low[d + 1..]);
    }
}
