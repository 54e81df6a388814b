//! A step of BT or SP in two passes: residual, x and y plane by plane, then z row by row with the addition to the state.

use std::ops::Range;

use ndarray::{ArrayView4, ArrayViewMut4, s};

use super::physics::Mesh;
use super::zones::Shape;

/// From u, and planes of forcing, to the planes of the right-hand side, on so many threads.
pub(crate) type InPlanes =
    fn(&Mesh, Range<usize>, &ArrayView4<'_, f64>, &ArrayView4<'_, f64>, ArrayViewMut4<'_, f64>, usize);
/// Updates rows of u by the right-hand side, on so many threads.
pub(crate) type InRows = fn(&Mesh, Range<usize>, ArrayViewMut4<'_, f64>, &ArrayView4<'_, f64>, usize);

/// A whole step of a zone whose faces have been exchanged. `r` has to be 0 on the boundary; what its interior holds
/// afterwards is of no use.
///
/// # Panics
/// If an array does not have the shape of the mesh, or a component of it is not contiguous.
pub(crate) fn step(
    (in_planes, in_rows): (InPlanes, InRows),
    mesh: &Mesh,
    mut u: ArrayViewMut4<'_, f64>,
    forcing: &ArrayView4<'_, f64>,
    mut r: ArrayViewMut4<'_, f64>,
    threads: usize,
) {
    let Shape { ny, nz, .. } = mesh.shape;
    let interior = s![.., 1..-1, .., ..];
    in_planes(mesh, 1..nz - 1, &u.view(), &forcing.slice(interior), r.slice_mut(interior), threads);
    in_rows(mesh, 1..ny - 1, u.slice_mut(s![.., 1..-1, 1..-1, ..]), &r.slice(interior), threads);
}
