//! SP-MZ on accelerators: `kernels/sp.cl`, the counterpart of [`crate::mz::sp`].

use thalweg::kernel::{Argument, Kernel, Launcher, Program, Scratch};
use thalweg::prelude::DeviceError;

use super::{COMMON, Enqueued, Rd, Reads, Wr, Writes, interior, numbers};
use crate::mz::physics::Mesh;

#[allow(unsafe_code)]
// SAFETY: the kernels touch only points of a zone of `nx` × `ny` × `nz` points, and `numbers` ensures that a zone
// has fewer than 2³¹ points. So `int` can index every point, and all accesses are in bounds.
pub(super) const SP: Program =
    unsafe { Program::new("sp.cl", include_str!("../../../kernels/sp.cl")) }.header(COMMON.0, COMMON.1);

/// Parameters: u, r, scratch; inverse mesh width, time step; points in x, y, z.
type SweepX = (Rd, Wr, Wr, f64, f64, i32, i32, i32);
/// The parameters of [`SweepX`], with the direction before the inverse mesh width.
type SweepYz = (Rd, Wr, Wr, i32, f64, f64, i32, i32, i32);

static TXINVR: Kernel<(Rd, Wr, i32, i32, i32)> = Kernel::new(&SP, "txinvr");
static SWEEP_X: Kernel<SweepX> = Kernel::new(&SP, "sweep_x");
static SWEEP_YZ: Kernel<SweepYz> = Kernel::new(&SP, "sweep_yz");

/// How many numbers per interior point a sweep stores for back substitution.
pub(super) const STORED: usize = 11;

/// Performs a whole step of a zone whose faces have been exchanged. Leaves the change of `u` in `r`.
///
/// # Errors
/// Returns an error if the device rejects the work.
///
/// # Panics
/// Panics if `u` or `r` is not a field of the mesh.
pub fn step(
    mesh: &Mesh,
    k: &mut Launcher<'_>,
    u: &mut Writes<'_>,
    forcing: &Reads<'_>,
    r: &mut Writes<'_>,
) -> Enqueued {
    super::scaled_residual(mesh, k, &*u, forcing, r)?;
    transform(mesh, k, &*u, r)?;
    let mut scratch = scratch(mesh, k)?;
    for d in 0..3 {
        sweep_with(mesh, d, k, &*u, r, &mut scratch)?;
    }
    super::add(mesh, k, u, &*r)
}

/// Transforms the right-hand side `r` into waves in x ("txinvr").
///
/// # Errors
/// Returns an error if the device rejects the work.
///
/// # Panics
/// Panics if `r` is not a field of the mesh.
pub fn transform(mesh: &Mesh, k: &mut Launcher<'_>, u: impl Argument<Rd>, r: &mut Writes<'_>) -> Enqueued {
    let ([nx, ny, nz], _) = numbers(mesh, r);
    k.launch(&TXINVR, interior(mesh), (u, r, nx, ny, nz))
}

/// Solves all lines in direction `d` for the right-hand side `r`. The solution replaces `r`, already transformed
/// for what follows: the next direction's sweep, or the addition to the state.
///
/// # Errors
/// Returns an error if the device rejects the work.
///
/// # Panics
/// Panics if `r` is not a field of the mesh.
pub fn sweep(mesh: &Mesh, d: usize, k: &mut Launcher<'_>, u: impl Argument<Rd>, r: &mut Writes<'_>) -> Enqueued {
    let mut scratch = scratch(mesh, k)?;
    sweep_with(mesh, d, k, u, r, &mut scratch)
}

fn scratch<'k>(mesh: &Mesh, k: &mut Launcher<'k>) -> Result<Scratch<'k, f64>, DeviceError> {
    k.scratch(STORED * mesh.shape.interior())
}

fn sweep_with(
    mesh: &Mesh,
    d: usize,
    k: &mut Launcher<'_>,
    u: impl Argument<Rd>,
    r: &mut Writes<'_>,
    scratch: &mut Scratch<'_, f64>,
) -> Enqueued {
    let ([nx, ny, nz], t) = numbers(mesh, r);
    let lines = mesh.shape.interior() / interior(mesh)[d];
    match d {
        0 => k.launch(&SWEEP_X, lines, (u, r, scratch, t[0], mesh.dt, nx, ny, nz)),
        _ => k.launch(&SWEEP_YZ, lines, (u, r, scratch, d as i32, t[d], mesh.dt, nx, ny, nz)),
    }
}
