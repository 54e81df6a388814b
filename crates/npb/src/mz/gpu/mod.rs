//! The stages of a zone's step on accelerators: the kernel counterparts of [`crate::mz::bt`], [`crate::mz::sp`] and
//! [`crate::mz::lu`].
//!
//! The kernel sources are in `kernels/`. This module launches the kernels, for which it chooses the mesh
//! parameters, the number of threads and the scratch memory. Every function only enqueues work, after any work that
//! its task has already enqueued, and computes nothing itself.
//!
//! Invariant: a field is a contiguous region of `[5, nz, ny, nx]` numbers, at any offset. The functions assert
//! this.

pub mod batch;
pub mod bt;
mod exchange;
pub mod faces;
pub mod lu;
pub mod sp;

pub use exchange::copy;

use thalweg::kernel::{Argument, DeviceView, DeviceViewMut, Kernel, Launcher, Program, Read, Write};
use thalweg::prelude::DeviceError;

use crate::mz::physics::Mesh;
use crate::mz::zones::Shape;

/// A field that a task reads.
pub(crate) type Reads<'a> = DeviceView<'a, f64>;
/// A field that a task writes.
pub(crate) type Writes<'a> = DeviceViewMut<'a, f64>;
/// The result of enqueueing work.
pub(crate) type Enqueued = Result<(), DeviceError>;
/// A kernel parameter that is read.
type Rd = Read<f64>;
/// A kernel parameter that is written.
type Wr = Write<f64>;

/// Computes the new u and right-hand side from u, forcing and the old right-hand side.
pub type Step = fn(&Mesh, &mut Launcher<'_>, &mut Writes<'_>, &Reads<'_>, &mut Writes<'_>) -> Enqueued;
/// Computes the right-hand side from u and forcing.
pub(crate) type Residual = fn(&Mesh, &mut Launcher<'_>, &Reads<'_>, &Reads<'_>, &mut Writes<'_>) -> Enqueued;
/// Reads u and updates the right-hand side.
pub(crate) type Sweep = fn(&Mesh, &mut Launcher<'_>, &Reads<'_>, &mut Writes<'_>) -> Enqueued;
/// Adds a change to u.
pub(crate) type Add = fn(&Mesh, &mut Launcher<'_>, &mut Writes<'_>, &Reads<'_>) -> Enqueued;

/// The name and source of the header that the benchmarks' kernels share.
const COMMON: (&str, &str) = ("npb_common.h", include_str!("../../../kernels/npb_common.h"));
#[allow(unsafe_code)]
// SAFETY: the kernels touch only points of a zone of `nx` × `ny` × `nz` points, and `numbers` ensures that a zone
// has fewer than 2³¹ points. So `int` can index every point, and all accesses are in bounds.
const OPERATOR: Program =
    unsafe { Program::new("operator.cl", include_str!("../../../kernels/operator.cl")) }.header(COMMON.0, COMMON.1);

/// Parameters: u, forcing, r; scale; inverse mesh widths; points in x, y, z.
type Operator = (Rd, Rd, Wr, f64, f64, f64, f64, i32, i32, i32);

static RESIDUAL: Kernel<Operator> = Kernel::new(&OPERATOR, "residual");
static ADD: Kernel<(Wr, Rd, f64, i32, i32, i32)> = Kernel::new(&OPERATOR, "add");

/// Sets the interior of `r` to S(u) + forcing.
///
/// # Errors
/// Returns an error if the device rejects the work.
///
/// # Panics
/// Panics if `r` is not a field of the mesh.
pub fn residual(
    mesh: &Mesh,
    k: &mut Launcher<'_>,
    u: impl Argument<Rd>,
    forcing: &Reads<'_>,
    r: &mut Writes<'_>,
) -> Enqueued {
    residual_times(1.0, mesh, k, u, forcing, r)
}

/// Sets the interior of `r` to Δt · (S(u) + forcing).
///
/// # Errors
/// Returns an error if the device rejects the work.
///
/// # Panics
/// Panics if `r` is not a field of the mesh.
pub fn scaled_residual(
    mesh: &Mesh,
    k: &mut Launcher<'_>,
    u: impl Argument<Rd>,
    forcing: &Reads<'_>,
    r: &mut Writes<'_>,
) -> Enqueued {
    residual_times(mesh.dt, mesh, k, u, forcing, r)
}

fn residual_times(
    scale: f64,
    mesh: &Mesh,
    k: &mut Launcher<'_>,
    u: impl Argument<Rd>,
    forcing: &Reads<'_>,
    r: &mut Writes<'_>,
) -> Enqueued {
    let ([nx, ny, nz], [tx, ty, tz]) = numbers(mesh, r);
    k.launch(&RESIDUAL, interior(mesh), (u, forcing, r, scale, tx, ty, tz, nx, ny, nz))
}

/// Adds the solution of a step to the state, in the interior.
///
/// # Errors
/// Returns an error if the device rejects the work.
///
/// # Panics
/// Panics if `u` is not a field of the mesh.
pub fn add(mesh: &Mesh, k: &mut Launcher<'_>, u: &mut Writes<'_>, change: impl Argument<Rd>) -> Enqueued {
    add_times(1.0, mesh, k, u, change)
}

fn add_times(
    factor: f64,
    mesh: &Mesh,
    k: &mut Launcher<'_>,
    u: &mut Writes<'_>,
    change: impl Argument<Rd>,
) -> Enqueued {
    let ([nx, ny, nz], _) = numbers(mesh, u);
    let [x, y, z] = interior(mesh);
    k.launch(&ADD, [x, y, 5 * z], (u, change, factor, nx, ny, nz))
}

/// Returns the interior points in x, y, z.
fn interior(Mesh { shape: Shape { nx, ny, nz }, .. }: &Mesh) -> [usize; 3] {
    [nx - 2, ny - 2, nz - 2]
}

/// Returns the points in x, y, z and the inverse mesh widths, in the types that kernels take.
///
/// # Panics
/// Panics if `field` is not a field of the mesh, or a component has more points than kernels can count.
fn numbers(mesh: &Mesh, field: &Writes<'_>) -> ([i32; 3], [f64; 3]) {
    let Shape { nx, ny, nz } = mesh.shape;
    assert_eq!(field.extents(), mesh.shape.array(), "shape of a zone's array");
    assert_eq!(field.strides(), [nx * ny * nz, nx * ny, nx, 1], "a zone's array is contiguous");
    (integers(mesh), mesh.h.map(|h| 1.0 / h))
}

/// Returns the points in x, y, z, in the type that kernels take.
///
/// # Panics
/// Panics if a component has more points than kernels can count.
fn integers(Mesh { shape, .. }: &Mesh) -> [i32; 3] {
    assert!(i32::try_from(shape.points()).is_ok(), "{} points are too many for one zone", shape.points());
    [shape.nx, shape.ny, shape.nz].map(|n| n as i32)
}
