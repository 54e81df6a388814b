//! LU-MZ on accelerators: `kernels/lu.cl`, the counterpart of [`crate::mz::lu`].
//!
//! A sweep is one launch per front of blocks, which are as large as a group in y and z, and [`BLOCK_X`] points long.

use thalweg::kernel::{Argument, Kernel, Launcher, Program};

use super::{COMMON, Enqueued, Rd, Reads, Wr, Writes, add_times, interior, numbers, residual};
use crate::mz::lu::UPDATE;
use crate::mz::physics::Mesh;

/// Points in x of a block: long enough that most of its rows' threads are at work most of the time, short enough that
/// several blocks are in a front.
const BLOCK_X: usize = 32;

#[allow(unsafe_code)]
// SAFETY: the kernels touch the points of a zone that `nx`, `ny` and `nz` say is there; that zones have fewer
// than 2³¹ points, so that `int` can number them, is seen to by `numbers`.
const LU: Program = unsafe { Program::new("lu.cl", include_str!("../../../kernels/lu.cl")) }
    .header(COMMON.0, COMMON.1)
    .define("BLOCK_X", BLOCK_X as i64);
#[allow(unsafe_code)]
// SAFETY: the kernels touch what is theirs by index, which they compare with `n`.
const BLAS: Program = unsafe { Program::new("blas.cl", include_str!("../../../../../kernels/blas.cl")) }
    .header("reduce.h", include_str!("../../../../../kernels/reduce.h"));

/// u, r, w; front; inverse mesh widths, time step; points in x, y, z.
type Forward = (Rd, Rd, Wr, i32, f64, f64, f64, f64, i32, i32, i32);
/// The same without r.
type Backward = (Rd, Wr, i32, f64, f64, f64, f64, i32, i32, i32);

static FORWARD: Kernel<Forward> = Kernel::new(&LU, "forward");
static BACKWARD: Kernel<Backward> = Kernel::new(&LU, "backward");
static FILL: Kernel<(Wr, f64, i32)> = Kernel::new(&BLAS, "fill");

/// A whole step of a zone whose faces have been exchanged: with the residual `r` of the step before, and to the one after.
///
/// # Errors
/// If the device refuses.
///
/// # Panics
/// If `u` or `r` is not a field of the mesh.
pub fn step(
    mesh: &Mesh,
    k: &mut Launcher<'_>,
    u: &mut Writes<'_>,
    forcing: &Reads<'_>,
    r: &mut Writes<'_>,
) -> Enqueued {
    let numbers = numbers(mesh, u);
    // Its boundary is never read, so it need not be zero.
    let mut w = k.scratch::<f64>(5 * mesh.shape.points())?;
    forward_fronts(mesh, numbers, k, &*u, &*r, &mut w)?;
    backward_fronts(mesh, numbers, k, &*u, &mut w)?;
    add_times(UPDATE, mesh, k, u, &w)?;
    residual(mesh, k, &*u, forcing, r)
}

/// The forward sweep: w from the residual `r`, not scaled by Δt; 0 on the boundary.
///
/// # Errors
/// If the device refuses.
///
/// # Panics
/// If `w` is not a field of the mesh, or has more numbers than 32 bits can count.
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

/// The backward sweep, which turns the `w` of the forward one into the correction.
///
/// # Errors
/// If the device refuses.
///
/// # Panics
/// If `w` is not a field of the mesh.
pub fn backward(mesh: &Mesh, k: &mut Launcher<'_>, u: impl Argument<Rd> + Copy, w: &mut Writes<'_>) -> Enqueued {
    backward_fronts(mesh, numbers(mesh, w), k, u, w)
}

/// u ← u + w / ω(2 − ω) on the interior.
///
/// # Errors
/// If the device refuses.
///
/// # Panics
/// If `u` is not a field of the mesh.
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

/// Threads of a launch, and how many fronts there are: a block's coordinates add up to its front's number.
fn fronts(mesh: &Mesh) -> ([usize; 2], i32) {
    let [x, y, z] = interior(mesh);
    let [rows, planes, _] = FORWARD.group().map(|threads| threads as usize);
    let fronts = x.div_ceil(BLOCK_X) + y.div_ceil(rows) + z.div_ceil(planes) - 2;
    ([y, z], fronts as i32)
}
