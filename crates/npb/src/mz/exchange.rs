//! The exchange between zones, which copies the neighbours' inner faces in x and y to each zone's outer faces.
//!
//! Copies read only interior points and write only boundary points, so their order does not matter. Edges and the
//! planes of constant z are never touched (NASA report NAS-03-010, section 4).

use std::ops::Range;

use ndarray::{ArrayView4, ArrayViewMut4, Axis, Zip};

use super::physics::COMPONENTS;
use super::zones::Shape;

/// A side of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
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
    /// All four sides.
    pub const ALL: [Side; 4] = [Side::West, Side::East, Side::South, Side::North];
}

/// A face, as the ranges of its components, z, y and x in a zone's array.
pub type Face = (Range<usize>, Range<usize>, Range<usize>, Range<usize>);

/// Returns the boundary plane on `side` of a zone, without its edges.
pub fn outer_face(Shape { nx, ny, nz }: Shape, side: Side) -> Face {
    let (x, y) = match side {
        Side::West => (0..1, 1..ny - 1),
        Side::East => (nx - 1..nx, 1..ny - 1),
        Side::South => (1..nx - 1, 0..1),
        Side::North => (1..nx - 1, ny - 1..ny),
    };
    (0..COMPONENTS, 1..nz - 1, y, x)
}

/// Returns the plane that a zone provides to the neighbour on whose `side` the zone lies.
pub fn inner_face(Shape { nx, ny, nz }: Shape, side: Side) -> Face {
    let (x, y) = match side {
        Side::West => (nx - 2..nx - 1, 1..ny - 1),
        Side::East => (1..2, 1..ny - 1),
        Side::South => (1..nx - 1, ny - 2..ny - 1),
        Side::North => (1..nx - 1, 1..2),
    };
    (0..COMPONENTS, 1..nz - 1, y, x)
}

/// Copies the neighbours' inner faces (`from`) to a zone's outer faces (`to`), both in the order of [`Side::ALL`].
/// Each is a box with a single index along its normal axis.
///
/// # Panics
/// Panics if a face differs in shape from its source.
pub(crate) fn receive(to: [ArrayViewMut4<'_, f64>; 4], from: [ArrayView4<'_, f64>; 4]) {
    // Drop the normal axis, because loops run along the last axis and a face in x has only one point along that
    // axis.
    let [west, east, south, north] = to;
    let [mut west, mut east] = [west, east].map(|face| face.index_axis_move(Axis(3), 0));
    let [from_west, from_east, from_south, from_north] = from;
    let [from_west, from_east] = [from_west, from_east].map(|face| face.index_axis_move(Axis(3), 0));
    // The end of one row and the beginning of the next are adjacent in memory, so both faces in x are written
    // together.
    let both = Zip::from(&mut west).and(&from_west).and(&mut east).and(&from_east);
    both.for_each(|west, &from_west, east, &from_east| (*west, *east) = (from_west, from_east));
    for (face, from) in [(south, from_south), (north, from_north)] {
        face.index_axis_move(Axis(2), 0).assign(&from.index_axis(Axis(2), 0));
    }
}
