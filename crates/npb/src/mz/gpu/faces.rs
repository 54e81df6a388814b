//! The faces that zones send each other, on accelerators: `kernels/faces.cl`, the counterpart of [`crate::mz::faces`].

use thalweg::kernel::{Argument, Kernel, Launcher, Program};

use super::{COMMON, Enqueued, Rd, Reads, Wr, Writes, integers, numbers};
use crate::mz::faces::shapes;
use crate::mz::physics::Mesh;

#[allow(unsafe_code)]
// SAFETY: the kernels touch only points of a zone of `nx` × `ny` × `nz` points and of its faces, and `integers`
// ensures that a zone has fewer than 2³¹ points. So `int` can index every point, and all accesses are in bounds.
pub(super) const FACES: Program =
    unsafe { Program::new("faces.cl", include_str!("../../../kernels/faces.cl")) }.header(COMMON.0, COMMON.1);

static SEND: Kernel<(Rd, Wr, Wr, Wr, Wr, i32, i32, i32)> = Kernel::new(&FACES, "send");
static RECEIVE: Kernel<(Rd, Rd, Rd, Rd, Wr, i32, i32, i32)> = Kernel::new(&FACES, "receive");

/// Sets a zone's faces to the values that its neighbours are to receive, in the order of the receiving sides:
/// [`Side::ALL`](crate::mz::exchange::Side::ALL).
///
/// # Errors
/// Returns an error if the device rejects the work.
///
/// # Panics
/// Panics if the faces do not have the shapes of the zone's faces.
pub fn send(mesh: &Mesh, k: &mut Launcher<'_>, u: impl Argument<Rd>, faces: [&mut Writes<'_>; 4]) -> Enqueued {
    let [nx, ny, nz] = integers(mesh);
    assert_eq!(faces.each_ref().map(|face| face.extents()), shapes(mesh.shape), "a zone's faces");
    let [west, east, south, north] = faces;
    k.launch(&SEND, threads(mesh), (u, west, east, south, north, nx, ny, nz))
}

/// Copies the faces that the zone has received to the outer faces of `u`, in the order of
/// [`Side::ALL`](crate::mz::exchange::Side::ALL).
///
/// # Errors
/// Returns an error if the device rejects the work.
///
/// # Panics
/// Panics if `u` is not a field of the mesh, or a face belongs to a zone of another shape.
pub fn receive(mesh: &Mesh, k: &mut Launcher<'_>, faces: [&Reads<'_>; 4], u: &mut Writes<'_>) -> Enqueued {
    let ([nx, ny, nz], _) = numbers(mesh, u);
    assert_eq!(faces.map(|face| face.extents()), shapes(mesh.shape), "faces that a zone receives");
    let [west, east, south, north] = faces;
    k.launch(&RECEIVE, threads(mesh), (west, east, south, north, u, nx, ny, nz))
}

fn threads(mesh: &Mesh) -> [usize; 2] {
    [mesh.shape.nx.max(mesh.shape.ny), 5 * (mesh.shape.nz - 2)]
}
