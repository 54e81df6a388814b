//! Face arrays, which carry everything that a step needs from other zones.
//!
//! A face across x has one point in each row of a zone's array, and the rest of that point's cache line is of
//! little use. Copying between zones' arrays pays for this twice: at the source and at the destination. A face
//! array, in contrast, is contiguous. A step that reads its neighbours' face arrays and finally writes its own
//! needs nothing else from other zones and writes no other zone's data, so it can be a single task. Because a
//! neighbour's step may run earlier or later, there are two sets of faces: a step reads the set written by the
//! previous step, and writes the other set.
//!
//! Received faces need not be copied to the zone's array, because only the spatial operator uses them and it reads
//! them from the face arrays ([`State`]). Any other code that reads a zone's array after such a step must copy the
//! faces first ([`receive`], [`Sent`]).
//!
//! Faces are named and ordered by the side on which they are received. Faces across x have the shape
//! `[5, nz − 2, ny − 2, 1]`. Faces across y consist of whole rows and have the shape `[5, nz − 2, 1, nx]`, but the
//! ends of the rows are not used.
//!
//! Invariant: numbers are copied and never computed with, so a step yields the same bits no matter how its faces
//! are transferred.

use ndarray::{ArrayView4, ArrayViewMut4};

use super::components::{Components, Slab, components, components_mut};
use super::physics::COMPONENTS;
use super::zones::{Neighbours, Shape};

/// Returns the shapes of a zone's faces, in the order of [`Side::ALL`](super::exchange::Side::ALL).
pub fn shapes(Shape { nx, ny, nz }: Shape) -> [[usize; 4]; 4] {
    let (across_x, across_y) = ([COMPONENTS, nz - 2, ny - 2, 1], [COMPONENTS, nz - 2, 1, nx]);
    [across_x, across_x, across_y, across_y]
}

/// Returns the size of a zone's faces in bytes, both sets together.
pub(crate) fn bytes(shape: Shape) -> usize {
    2 * size_of::<f64>() * shapes(shape).iter().map(|shape| shape.iter().product::<usize>()).sum::<usize>()
}

/// Selects the faces that a zone receives from the faces of all zones.
pub(crate) fn received<'f, F>(neighbours: &Neighbours, faces: &'f [[F; 4]]) -> [&'f F; 4] {
    let Neighbours { west, east, south, north } = *neighbours;
    [&faces[west][0], &faces[east][1], &faces[south][2], &faces[north][3]]
}

/// Which set of faces is current.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sent {
    /// Neither set is current; the zones' arrays are complete.
    #[default]
    Nothing,
    /// This set holds the zones' inner faces.
    Set(usize),
    /// This set holds the zones' inner faces. The last step read the zones' outer faces from the other set, so the
    /// zones' arrays lack them.
    Stepped(usize),
}

impl Sent {
    /// Returns the set that holds the zones' inner faces; `None` if neither does.
    pub(crate) fn set(self) -> Option<usize> {
        match self {
            Self::Nothing => None,
            Self::Set(set) | Self::Stepped(set) => Some(set),
        }
    }
}

/// Sets a zone's faces to the values that its neighbours are to receive.
///
/// # Panics
/// Panics if an array does not belong to a zone of this shape, or is not contiguous.
pub fn send(u: &ArrayView4<'_, f64>, faces: [ArrayViewMut4<'_, f64>; 4]) {
    let (_, nz, ny, nx) = u.dim();
    assert_eq!(faces.each_ref().map(|face| face.shape()), shapes(Shape { nx, ny, nz }).each_ref(), "a zone's faces");
    let [west, east, south, north] = faces.map(|face| face.into_slice().expect("faces are contiguous"));
    let across_x = west.chunks_exact_mut(ny - 2).zip(east.chunks_exact_mut(ny - 2));
    let across_y = south.chunks_exact_mut(nx).zip(north.chunks_exact_mut(nx));
    let u = components(u);
    let planes = u.iter().flat_map(|component| component.chunks_exact(ny * nx).take(nz - 1).skip(1));
    for ((plane, (west, east)), (south, north)) in planes.zip(across_x).zip(across_y) {
        // The face that a neighbour receives on its west side comes from this zone's east side.
        for ((row, west), east) in plane[nx..].chunks_exact(nx).zip(west).zip(east) {
            (*west, *east) = (row[nx - 2], row[1]);
        }
        south.copy_from_slice(&plane[(ny - 2) * nx..][..nx]);
        north.copy_from_slice(&plane[nx..][..nx]);
    }
}

/// Copies the received faces to the outer faces of a zone's array.
///
/// # Panics
/// Panics if a component of the array is not contiguous.
pub fn receive(u: ArrayViewMut4<'_, f64>, halo: Halo<'_>) {
    let (_, nz, ny, nx) = u.dim();
    let mut u = components_mut(u);
    for (m, u) in u.iter_mut().enumerate() {
        for (k, plane) in u.chunks_exact_mut(ny * nx).enumerate().take(nz - 1).skip(1) {
            let [west, east, south, north] = halo.in_plane(k).map(|face| face[m]);
            for ((row, west), east) in plane.chunks_exact_mut(nx).skip(1).zip(west).zip(east) {
                (row[0], row[nx - 1]) = (*west, *east);
            }
            for (row, face) in [(0, south), (ny - 1, north)] {
                plane[row * nx..][1..nx - 1].copy_from_slice(&face[1..nx - 1]);
            }
        }
    }
}

/// The faces that a zone has received.
#[derive(Clone, Copy, Debug)]
pub struct Halo<'a> {
    /// For each face, the planes of each component.
    faces: [&'a [f64]; 4],
    shape: Shape,
}

impl<'a> Halo<'a> {
    /// Creates the halo of a zone of this shape from the faces received.
    ///
    /// # Panics
    /// Panics if a face has another shape, or is not contiguous.
    pub fn new(shape: Shape, faces: [ArrayView4<'a, f64>; 4]) -> Self {
        assert_eq!(faces.each_ref().map(|face| face.shape()), shapes(shape).each_ref(), "faces that a zone receives");
        Self { faces: faces.map(|face| face.to_slice().expect("faces are contiguous")), shape }
    }

    /// Returns the received values around the interior plane `k`, per component: one number per interior row for
    /// west and east, and one row each for south and north.
    #[inline(always)]
    pub(crate) fn in_plane(&self, k: usize) -> [Components<'a>; 4] {
        let Shape { nx, ny, nz } = self.shape;
        tabulate!(|side| {
            let points = if side < 2 { ny - 2 } else { nx };
            tabulate!(|m| &self.faces[side][(m * (nz - 2) + k - 1) * points..][..points])
        })
    }
}

/// A zone's state as read by the spatial operator: the zone's array and, if the outer faces are not in the array, a
/// halo that holds them.
#[derive(Clone, Copy, Debug)]
pub struct State<'a> {
    pub(crate) u: ArrayView4<'a, f64>,
    halo: Option<Halo<'a>>,
}

impl<'a> State<'a> {
    /// Combines the array with the faces received for it.
    pub fn new(u: ArrayView4<'a, f64>, halo: Option<Halo<'a>>) -> Self {
        Self { u, halo }
    }

    /// Returns the state plane by plane.
    ///
    /// # Panics
    /// Panics if a component of the array is not contiguous.
    pub fn planes(&self) -> StatePlanes<'a> {
        StatePlanes { slab: Slab::new(0, &self.u), halo: self.halo }
    }
}

impl<'a> From<&ArrayView4<'a, f64>> for State<'a> {
    fn from(u: &ArrayView4<'a, f64>) -> Self {
        Self::new(*u, None)
    }
}

/// The planes of a zone's state.
#[derive(Clone, Copy)]
pub struct StatePlanes<'a> {
    /// The planes without the halo.
    pub(crate) slab: Slab<'a>,
    halo: Option<Halo<'a>>,
}

/// A plane of a zone's state.
#[derive(Clone, Copy)]
pub(crate) struct StatePlane<'a> {
    /// The plane of the array.
    pub(crate) u: Components<'a>,
    /// The received values around it, as returned by [`Halo::in_plane`].
    pub(crate) halo: Option<[Components<'a>; 4]>,
}

impl<'a> StatePlanes<'a> {
    /// Returns plane `k`. The first and the last plane have no halo.
    #[inline(always)]
    pub(crate) fn plane(&self, k: usize) -> StatePlane<'a> {
        let halo = match &self.halo {
            Some(halo) if 0 < k && k < halo.shape.nz - 1 => Some(halo.in_plane(k)),
            _ => None,
        };
        StatePlane { u: self.slab.plane(k), halo }
    }
}
