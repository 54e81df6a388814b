//! Blocks of rows of a zone: what threads share where planes of constant z depend on one another.
//!
//! The counterpart of `components`, which deals out planes. A block is a range of y in every plane; since the
//! arrays are cut by `split_at_mut`, blocks can be written at the same time.

use std::ops::Range;

use super::components::ComponentsMut;
use super::physics::COMPONENTS;
use super::zones::Shape;

/// The rows of one block, per plane of constant z, boundary planes included: the components' points of these rows.
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
/// If the blocks overlap or leave the zone, or the components are not those of `shape`.
pub(crate) fn blocks<'a>(target: ComponentsMut<'a>, shape: Shape, blocks: &[Range<usize>]) -> Vec<Block<'a>> {
    let Shape { nx, ny, nz } = shape;
    let mut planes = target.map(|component| component.chunks_exact_mut(nx * ny));
    let mut cut: Vec<Block<'a>> = blocks.iter().map(|_| Vec::with_capacity(nz)).collect();
    for _ in 0..nz {
        let mut rest: ComponentsMut<'a> =
            planes.each_mut().map(|planes| planes.next().expect("a component has all planes"));
        let mut row = 0;
        for (rows, block) in blocks.iter().zip(&mut cut) {
            block.push(std::array::from_fn::<_, COMPONENTS, _>(|m| {
                let (_, from) = std::mem::take(&mut rest[m]).split_at_mut((rows.start - row) * nx);
                let (part, from) = from.split_at_mut(rows.len() * nx);
                rest[m] = from;
                part
            }));
            row = rows.end;
        }
    }
    cut
}
