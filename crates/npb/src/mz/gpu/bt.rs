//! BT-MZ on accelerators: `kernels/bt.cl`, the counterpart of [`crate::mz::bt`].

use thalweg::kernel::{Argument, Kernel, Launcher, Program, Scratch};
use thalweg::prelude::DeviceError;

use super::{COMMON, Enqueued, Rd, Reads, Wr, Writes, interior, numbers};
use crate::mz::physics::{C34, DISSIPATION, Mesh};

#[allow(unsafe_code)]
// SAFETY: the kernels touch only points of a zone of `nx` × `ny` × `nz` points, and `numbers` ensures that a zone
// has fewer than 2³¹ points. So `int` can index every point, and all accesses are in bounds.
pub(super) const BT: Program =
    unsafe { Program::new("bt.cl", include_str!("../../../kernels/bt.cl")) }.header(COMMON.0, COMMON.1);

/// Parameters: u, r, scratch; weights of the direction; points in x, y, z.
type SweepX = (Rd, Wr, Wr, f64, f64, f64, i32, i32, i32);
/// The parameters of [`SweepX`], with the direction before the weights.
type SweepYz = (Rd, Wr, Wr, i32, f64, f64, f64, i32, i32, i32);

static SWEEP_X: Kernel<SweepX> = Kernel::new(&BT, "sweep_x");
static SWEEP_YZ: Kernel<SweepYz> = Kernel::new(&BT, "sweep_yz");

/// How many numbers per interior point a sweep stores for back substitution.
pub(super) const STORED: usize = 30;

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
    let mut scratch = scratch(mesh, k)?;
    for d in 0..3 {
        sweep_with(mesh, d, k, &*u, r, &mut scratch)?;
    }
    super::add(mesh, k, u, &*r)
}

/// Solves all lines in direction `d` for the right-hand side `r`, which the solution replaces.
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
    let ([nx, ny, nz], _) = numbers(mesh, r);
    let [inviscid, viscous, dissipation] = weights(mesh, d);
    let lines = mesh.shape.interior() / interior(mesh)[d];
    match d {
        0 => k.launch(&SWEEP_X, lines, (u, r, scratch, inviscid, viscous, dissipation, nx, ny, nz)),
        _ => k.launch(&SWEEP_YZ, lines, (u, r, scratch, d as i32, inviscid, viscous, dissipation, nx, ny, nz)),
    }
}

/// Returns the weights of the inviscid flux, the viscous terms and the dissipation in direction `d`.
pub(super) fn weights(mesh: &Mesh, d: usize) -> [f64; 3] {
    let t = 1.0 / mesh.h[d];
    let square = mesh.dt * t * t;
    [0.5 * mesh.dt * t, C34 * square, DISSIPATION[d] * square]
}
