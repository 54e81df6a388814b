//! The exchange between zones: each zone's outer faces in x and y are copied from its neighbours' inner ones.
//!
//! What is copied is interior where it comes from and boundary where it goes to, so the order of the copies does not
//! matter. Edges and the planes of constant z are never touched (NASA report NAS-03-010, section 4).

use std::ops::Range;

use ndarray::{ArrayView4, ArrayViewMut4, Axis};

use super::physics::COMPONENTS;
use super::zones::Shape;

/// A side of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// i = 0.
    West,
    /// i = nx − 1.
    East,
    /// j = 0.
    South,
    /// j = ny − 1.
    North,
}

impl Side {
    /// All four.
    pub(crate) const ALL: [Side; 4] = [Side::West, Side::East, Side::South, Side::North];
}

/// A face as the ranges of a zone's array: components, z, y, x.
pub(crate) type Face = (Range<usize>, Range<usize>, Range<usize>, Range<usize>);

/// The boundary plane at a `side` of a zone, without its edges.
pub(crate) fn outer_face(Shape { nx, ny, nz }: Shape, side: Side) -> Face {
    let (x, y) = match side {
        Side::West => (0..1, 1..ny - 1),
        Side::East => (nx - 1..nx, 1..ny - 1),
        Side::South => (1..nx - 1, 0..1),
        Side::North => (1..nx - 1, ny - 1..ny),
    };
    (0..COMPONENTS, 1..nz - 1, y, x)
}

/// The plane that a zone's neighbour receives from it, if it lies at `side` of that neighbour.
pub(crate) fn inner_face(Shape { nx, ny, nz }: Shape, side: Side) -> Face {
    let (x, y) = match side {
        Side::West => (nx - 2..nx - 1, 1..ny - 1),
        Side::East => (1..2, 1..ny - 1),
        Side::South => (1..nx - 1, ny - 2..ny - 1),
        Side::North => (1..nx - 1, 1..2),
    };
    (0..COMPONENTS, 1..nz - 1, y, x)
}

/// Copies a face: a box with one index along the axis across it.
///
/// # Panics
/// If the two differ in shape.
pub(crate) fn copy(to: ArrayViewMut4<'_, f64>, from: &ArrayView4<'_, f64>) {
    // The loop goes along the last axis, which a face in x does not have.
    let across = if to.dim().3 == 1 { Axis(3) } else { Axis(2) };
    to.index_axis_move(across, 0).assign(&from.index_axis(across, 0));
}
