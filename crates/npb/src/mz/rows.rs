//! Blocks of rows of a zone, which are divided among threads if planes of constant z depend on one another.
//!
//! This is the counterpart of `components`, which deals out planes. A block is a range of y in every plane. The
//! blocks of an array are disjoint, so they can be written at the same time.

use std::ops::Range;

use ndarray::{ArrayViewMut4, Axis};

use super::components::{ComponentsMut, components_mut};

/// The rows of one block: for each plane of constant z in the divided array, the components' points in these rows.
pub(crate) type Block<'a> = Vec<ComponentsMut<'a>>;

/// Divides `rows` into `blocks` ranges, or fewer if there are not enough rows. The length of every range but the
/// last is a multiple of `multiple`.
pub(crate) fn divide(rows: Range<usize>, blocks: usize, multiple: usize) -> Vec<Range<usize>> {
    let share = rows.len().div_ceil(blocks.max(1)).next_multiple_of(multiple).max(1);
    rows.clone().step_by(share).map(|first| first..(first + share).min(rows.end)).collect()
}

/// Divides an array into blocks of rows. The `blocks` are in ascending order; rows before, between and after them
/// are left out.
///
/// # Panics
/// Panics if the blocks overlap or leave the array, there are not five components, or rows are not contiguous.
pub(crate) fn blocks<'a>(target: ArrayViewMut4<'a, f64>, blocks: &[Range<usize>]) -> Vec<Block<'a>> {
    let mut cut = Vec::with_capacity(blocks.len());
    let (mut rest, mut row) = (target, 0);
    for rows in blocks {
        let (_, from) = rest.split_at(Axis(2), rows.start - row);
        let (block, after) = from.split_at(Axis(2), rows.len());
        cut.push(planes(block));
        (rest, row) = (after, rows.end);
    }
    cut
}

/// Returns the planes of a block, one after the other.
fn planes(block: ArrayViewMut4<'_, f64>) -> Block<'_> {
    let mut planes = Vec::with_capacity(block.len_of(Axis(1)));
    let mut rest = block;
    while !rest.is_empty() {
        let (plane, above) = rest.split_at(Axis(1), 1);
        planes.push(components_mut(plane));
        rest = above;
    }
    planes
}
