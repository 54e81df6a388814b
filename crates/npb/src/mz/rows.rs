//! Blocks of rows of a zone: what threads share where planes of constant z depend on one another.
//!
//! The counterpart of `components`, which deals out planes. A block is a range of y in every plane; since the
//! arrays are cut in disjoint parts, blocks can be written at the same time.

use std::ops::Range;

use ndarray::{ArrayViewMut4, Axis};

use super::components::{ComponentsMut, components_mut};

/// The rows of one block, per plane of constant z of the array that was cut: the components' points of these rows.
pub(crate) type Block<'a> = Vec<ComponentsMut<'a>>;

/// Cuts `rows` into `blocks` ranges (fewer if there are not enough rows) of a multiple of `multiple` rows each,
/// but for the last.
pub(crate) fn divide(rows: Range<usize>, blocks: usize, multiple: usize) -> Vec<Range<usize>> {
    let share = rows.len().div_ceil(blocks.max(1)).next_multiple_of(multiple).max(1);
    rows.clone().step_by(share).map(|first| first..(first + share).min(rows.end)).collect()
}

/// Cuts an array into blocks of rows. The `blocks` follow one another; rows before, between and after them are left
/// out.
///
/// # Panics
/// If the blocks overlap or leave the array, there are not five components, or rows are not contiguous.
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

/// The planes of a block, one after the other.
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
