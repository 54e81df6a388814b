//! The stages of a zone's step on accelerators: what [`crate::mz::bt`], [`crate::mz::sp`] and [`crate::mz::lu`] do, as kernels.
//!
//! The kernels' texts are in `kernels/`. Here is how they are called: with which numbers of the mesh, how many threads, how
//! much scratch memory. Every function enqueues work behind what its task enqueued before, and computes nothing itself.
//!
//! Invariant: a field is a region of `[5, nz, ny, nx]` numbers side by side, wherever it begins; this is asserted.

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
/// Whether everything could be enqueued.
pub(crate) type Enqueued = Result<(), DeviceError>;
/// A parameter of a kernel that is read.
type Rd = Read<f64>;
/// A parameter of a kernel that is written.
type Wr = Write<f64>;

/// u, forcing and right-hand side before, u and right-hand side after.
pub type Step = fn(&Mesh, &mut Launcher<'_>, &mut Writes<'_>, &Reads<'_>, &mut Writes<'_>) -> Enqueued;
/// From u and forcing to the right-hand side.
pub(crate) type Residual = fn(&Mesh, &mut Launcher<'_>, &Reads<'_>, &Reads<'_>, &mut Writes<'_>) -> Enqueued;
/// Reads u and updates the right-hand side.
pub(crate) type Sweep = fn(&Mesh, &mut Launcher<'_>, &Reads<'_>, &mut Writes<'_>) -> Enqueued;
/// Adds a change to u.
pub(crate) type Add = fn(&Mesh, &mut Launcher<'_>, &mut Writes<'_>, &Reads<'_>) -> Enqueued;

/// The name and the text that the benchmarks' kernels share.
const COMMON: (&str, &str) = ("npb_common.h", include_str!("../../../kernels/npb_common.h"));
#[allow(unsafe_code)]
// SAFETY: the kernels touch the points of a zone that `nx`, `ny` and `nz` say is there; that zones have fewer
// than 2³¹ points, so that `int` can number them, is seen to by `numbers`.
const OPERATOR: Program =
    unsafe { Program::new("operator.cl", include_str!("../../../kernels/operator.cl")) }.header(COMMON.0, COMMON.1);

/// u, forcing, r; scale; inverse mesh widths; points in x, y, z.
type Operator = (Rd, Rd, Wr, f64, f64, f64, f64, i32, i32, i32);

static RESIDUAL: Kernel<Operator> = Kernel::new(&OPERATOR, "residual");
static ADD: Kernel<(Wr, Rd, f64, i32, i32, i32)> = Kernel::new(&OPERATOR, "add");

/// Sets the interior of `r` to S(u) + forcing.
///
/// # Errors
/// If the device refuses.
///
/// # Panics
/// If `r` is not a field of the mesh.
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
/// If the device refuses.
///
/// # Panics
/// If `r` is not a field of the mesh.
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

/// Adds the solution of a step to the state, on the interior.
///
/// # Errors
/// If the device refuses.
///
/// # Panics
/// If `u` is not a field of the mesh.
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

/// Interior points in x, y, z.
fn interior(Mesh { shape: Shape { nx, ny, nz }, .. }: &Mesh) -> [usize; 3] {
    [nx - 2, ny - 2, nz - 2]
}

/// Points in x, y, z and the inverse mesh widths, as kernels take them.
///
/// # Panics
/// If `field` is not a field of the mesh, or a component has more points than kernels can count.
fn numbers(mesh: &Mesh, field: &Writes<'_>) -> ([i32; 3], [f64; 3]) {
    let Shape { nx, ny, nz } = mesh.shape;
    assert_eq!(field.extents(), mesh.shape.array(), "shape of a zone's array");
    assert_eq!(field.strides(), [nx * ny * nz, nx * ny, nx, 1], "a zone's array lies in one piece");
    (integers(mesh), mesh.h.map(|h| 1.0 / h))
}

/// Points in x, y, z, as kernels take them.
///
/// # Panics
/// If a component has more points than kernels can count.
fn integers(Mesh { shape, .. }: &Mesh) -> [i32; 3] {
    assert!(i32::try_from(shape.points()).is_ok(), "{} points are too many for one zone", shape.points());
    [shape.nx, shape.ny, shape.nz].map(|n| n as i32)
}
