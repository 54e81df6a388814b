//! A step of BT or SP in two passes: residual, x and y plane by plane, then z row by row together with the update
//! of the state.

use std::cell::Cell;
use std::ops::Range;

use ndarray::{ArrayView4, ArrayViewMut4, ShapeBuilder, s};

use super::faces::{Halo, State};
use super::lanes::Scratch;
use super::physics::{COMPONENTS, Mesh};
use super::zones::Shape;

/// A function that computes planes of the right-hand side from u and planes of forcing, on the given number of
/// threads.
pub type InPlanes = fn(&Mesh, Range<usize>, &State<'_>, &ArrayView4<'_, f64>, ArrayViewMut4<'_, f64>, usize);
/// A function that updates rows of u using the right-hand side, on the given number of threads.
pub type InRows = fn(&Mesh, Range<usize>, ArrayViewMut4<'_, f64>, &ArrayView4<'_, f64>, usize);

/// Performs a whole step of a zone whose outer faces are in its halo, or have been exchanged. Between the passes,
/// the right-hand side is kept in thread-local memory, which stays in the cache from zone to zone.
///
/// # Panics
/// Panics if an array does not have the shape of the mesh, or a component of it is not contiguous.
pub(crate) fn step(
    (in_planes, in_rows): (InPlanes, InRows),
    mesh: &Mesh,
    (mut u, halo): (ArrayViewMut4<'_, f64>, Option<Halo<'_>>),
    forcing: &ArrayView4<'_, f64>,
    threads: usize,
) {
    thread_local!(static RIGHT: Cell<Scratch> = const { Cell::new(Scratch::new()) });
    let Shape { nx, ny, nz } = mesh.shape;
    let interior = s![.., 1..-1, .., ..];
    let (shape, distance) = ([COMPONENTS, nz - 2, ny, nx], apart((nz - 2) * ny * nx));
    let mut scratch = RIGHT.take();
    let numbers = scratch.numbers(COMPONENTS * distance);
    // The sweeps rely on zeros at the ends of lines. The residual sets only the ends of lines in x.
    for component in numbers.chunks_exact_mut(distance) {
        for plane in component.chunks_exact_mut(ny * nx).take(nz - 2) {
            plane[..nx].fill(0.0);
            plane[(ny - 1) * nx..].fill(0.0);
        }
    }
    let r = ArrayViewMut4::from_shape(shape.strides([distance, ny * nx, nx, 1]), numbers);
    let mut r = r.expect("components one after the other");
    let state = State::new(u.view(), halo);
    in_planes(mesh, 1..nz - 1, &state, &forcing.slice(interior), r.view_mut(), threads);
    in_rows(mesh, 1..ny - 1, u.slice_mut(s![.., 1..-1, 1..-1, ..]), &r.view(), threads);
    RIGHT.set(scratch);
}

/// Returns the distance between components, which is an odd number of cache lines so that corresponding points are
/// in different cache sets.
fn apart(points: usize) -> usize {
    const LINE: usize = 8;
    LINE * (points.div_ceil(LINE) | 1)
}
