//! The exchange between zones: each zone's outer faces in x and y are copied from its neighbours' inner ones.
//!
//! What is copied is interior where it comes from and boundary where it goes to, so the order of the copies does not
//! matter. Edges and the planes of constant z are never touched (NASA report NAS-03-010, section 4).

use ndarray::{ArrayView3, ArrayView4, ArrayViewMut3, ArrayViewMut4, s};

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

/// The boundary plane at a `side` of a zone, without its edges: what an exchange overwrites.
pub(crate) fn outer_face(u: ArrayViewMut4<'_, f64>, side: Side) -> ArrayViewMut3<'_, f64> {
    match side {
        Side::West => u.slice_move(s![.., 1..-1, 1..-1, 0]),
        Side::East => u.slice_move(s![.., 1..-1, 1..-1, -1]),
        Side::South => u.slice_move(s![.., 1..-1, 0, 1..-1]),
        Side::North => u.slice_move(s![.., 1..-1, -1, 1..-1]),
    }
}

/// The plane inside the boundary, without its ends, of the zone that lies at `side` of the one that receives it.
pub(crate) fn inner_face(neighbour: ArrayView4<'_, f64>, side: Side) -> ArrayView3<'_, f64> {
    match side {
        Side::West => neighbour.slice_move(s![.., 1..-1, 1..-1, -2]),
        Side::East => neighbour.slice_move(s![.., 1..-1, 1..-1, 1]),
        Side::South => neighbour.slice_move(s![.., 1..-1, -2, 1..-1]),
        Side::North => neighbour.slice_move(s![.., 1..-1, 1, 1..-1]),
    }
}

/// Copies a neighbour's inner face to the outer face of `u` at `side`.
///
/// # Panics
/// If the faces do not match.
pub(crate) fn receive(u: ArrayViewMut4<'_, f64>, side: Side, neighbour: ArrayView4<'_, f64>) {
    outer_face(u, side).assign(&inner_face(neighbour, side));
}
