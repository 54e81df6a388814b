//! LU-MZ on accelerators: `kernels/lu.cl`, the counterpart of [`crate::mz::lu`].
//!
//! A sweep takes one launch per front of blocks. A block has the size of a thread group in y and z, and is
//! [`BLOCK_X`] points long in x.

use thalweg::kernel::{Argument, Kernel, Launcher, Program};

use super::{COMMON, Enqueued, Rd, Reads, Wr, Writes, add_times, interior, numbers, residual};
use crate::mz::lu::UPDATE;
use crate::mz::physics::Mesh;

/// Length of a block in x, in points: long enough that most threads of the block's rows are busy most of the time,
/// and short enough that a front has several blocks.
pub(super) const BLOCK_X: usize = 32;

#[allow(unsafe_code)]
// SAFETY: the kernels touch only points of a zone of `nx` × `ny` × `nz` points, and `numbers` ensures that a zone
// has fewer than 2³¹ points. So `int` can index every point, and all accesses are in bounds.
pub(super) const LU: Program = unsafe { Program::new("lu.cl", include_str!("../../../kernels/lu.cl")) }
    .header(COMMON.0, COMMON.1)
    .define("BLOCK_X", BLOCK_X as i64);
#[allow(unsafe_code)]
// SAFETY: each thread compares its index with `n` and touches only the element at that index, so all accesses are
// in bounds.
const BLAS: Program = unsafe { Program::new("blas.cl", include_str!("../../../../../kernels/blas.cl")) }
    .header("reduce.h", include_str!("../../../../../kernels/reduce.h"));

/// Parameters: u, r, w; front; inverse mesh widths, time step; points in x, y, z.
type Forward = (Rd, Rd, Wr, i32, f64, f64, f64, f64, i32, i32, i32);
/// The parameters of [`Forward`] without r.
type Backward = (Rd, Wr, i32, f64, f64, f64, f64, i32, i32, i32);

static FORWARD: Kernel<Forward> = Kernel::new(&LU, "forward");
static BACKWARD: Kernel<Backward> = Kernel::new(&LU, "backward");
static FILL: Kernel<(Wr, f64, i32)> = Kernel::new(&BLAS, "fill");

/// Performs a whole step of a zone whose faces have been exchanged. It starts from the residual `r` that the
/// previous step left, and leaves the residual for the next step.
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
    let numbers = numbers(mesh, u);
    // The boundary of w is never read, so it need not be zero.
    let mut w = k.scratch::<f64>(5 * mesh.shape.points())?;
    forward_fronts(mesh, numbers, k, &*u, &*r, &mut w)?;
    backward_fronts(mesh, numbers, k, &*u, &mut w)?;
    add_times(UPDATE, mesh, k, u, &w)?;
    residual(mesh, k, &*u, forcing, r)
}

/// Performs the forward sweep, which computes w from the residual `r` (not scaled by Δt); w is 0 on the boundary.
///
/// # Errors
/// Returns an error if the device rejects the work.
///
/// # Panics
/// Panics if `w` is not a field of the mesh, or has more numbers than 32 bits can count.
pub fn forward(
    mesh: &Mesh,
    k: &mut Launcher<'_>,
    u: impl Argument<Rd> + Copy,
    r: impl Argument<Rd> + Copy,
    w: &mut Writes<'_>,
) -> Enqueued {
    let numbers = numbers(mesh, w);
    let all = i32::try_from(w.len()).expect("a field of numbers that 32 bits can count");
    k.launch(&FILL, w.len(), (&mut *w, 0.0, all))?;
    forward_fronts(mesh, numbers, k, u, r, w)
}

/// Performs the backward sweep, which turns the `w` of the forward sweep into the correction.
///
/// # Errors
/// Returns an error if the device rejects the work.
///
/// # Panics
/// Panics if `w` is not a field of the mesh.
pub fn backward(mesh: &Mesh, k: &mut Launcher<'_>, u: impl Argument<Rd> + Copy, w: &mut Writes<'_>) -> Enqueued {
    backward_fronts(mesh, numbers(mesh, w), k, u, w)
}

/// Computes u ← u + w / ω(2 − ω) in the interior.
///
/// # Errors
/// Returns an error if the device rejects the work.
///
/// # Panics
/// Panics if `u` is not a field of the mesh.
pub fn add(mesh: &Mesh, k: &mut Launcher<'_>, u: &mut Writes<'_>, w: impl Argument<Rd>) -> Enqueued {
    add_times(UPDATE, mesh, k, u, w)
}

fn forward_fronts<W>(
    mesh: &Mesh,
    ([nx, ny, nz], [tx, ty, tz]): ([i32; 3], [f64; 3]),
    k: &mut Launcher<'_>,
    u: impl Argument<Rd> + Copy,
    r: impl Argument<Rd> + Copy,
    w: &mut W,
) -> Enqueued
where
    for<'w> &'w mut W: Argument<Wr>,
{
    let (threads, fronts) = fronts(mesh);
    for front in 0..fronts {
        k.launch(&FORWARD, threads, (u, r, &mut *w, front, tx, ty, tz, mesh.dt, nx, ny, nz))?;
    }
    Ok(())
}

fn backward_fronts<W>(
    mesh: &Mesh,
    ([nx, ny, nz], [tx, ty, tz]): ([i32; 3], [f64; 3]),
    k: &mut Launcher<'_>,
    u: impl Argument<Rd> + Copy,
    w: &mut W,
) -> Enqueued
where
    for<'w> &'w mut W: Argument<Wr>,
{
    let (threads, fronts) = fronts(mesh);
    for front in 0..fronts {
        k.launch(&BACKWARD, threads, (u, &mut *w, front, tx, ty, tz, mesh.dt, nx, ny, nz))?;
    }
    Ok(())
}

/// Returns the number of threads of a launch and the number of fronts. A block belongs to the front whose number is
/// the sum of the block's coordinates.
pub(super) fn fronts(mesh: &Mesh) -> ([usize; 2], i32) {
    let [x, y, z] = interior(mesh);
    let [rows, planes, _] = FORWARD.group().map(|threads| threads as usize);
    let fronts = x.div_ceil(BLOCK_X) + y.div_ceil(rows) + z.div_ceil(planes) - 2;
    ([y, z], fronts as i32)
}
