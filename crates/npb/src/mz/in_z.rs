//! The sweep in z of BT and SP, which solves the lines through rows of constant y. The rows are divided among
//! threads.
//!
//! This module contains the code that both methods share, which divides the arrays and either stores the solution
//! in the right-hand side or adds it to the state. The method itself ([`InZ`]) decides how lines are solved.

use std::ops::Range;

use ndarray::{ArrayView4, ArrayViewMut4, Axis, s};
use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use super::components::{Components, ComponentsMut, components};
use super::lanes::{Scratch, dispatch, with_scratch};
use super::physics::{COMPONENTS, Mesh};
use super::rows::{Block, blocks, divide};
use super::zones::Shape;

/// A method that solves lines in z.
pub(crate) trait InZ: Copy + Sync {
    /// Solves the lines of `rows` rows.
    fn sweep<S: Simd>(self, simd: S, mesh: &Mesh, rows: usize, planes: &mut Rows<'_, '_>, scratch: &mut Scratch);
}

/// The arrays that a sweep in z reads and writes, plane by plane from the first interior plane on.
pub(crate) enum Rows<'a, 'r> {
    /// The state is read and the right-hand side is replaced, as a separate stage.
    Replace {
        /// The state's points from the first row on. The stride between planes is that of the zone.
        u: Components<'a>,
        /// The right-hand side.
        r: &'a mut [ComponentsMut<'r>],
    },
    /// The right-hand side is read and the solution is added to the state, as the end of a step.
    Add {
        /// The state.
        u: &'a mut [ComponentsMut<'r>],
        /// The right-hand side's points from the first row on. The stride between planes is that of the zone.
        r: Components<'a>,
    },
}

/// Solves all lines in z for the right-hand side `r`, which the solution replaces.
///
/// # Panics
/// Panics if an array does not have the shape of the mesh, or a component of it is not contiguous.
pub(crate) fn replace(
    method: impl InZ,
    mesh: &Mesh,
    u: &ArrayView4<'_, f64>,
    mut r: ArrayViewMut4<'_, f64>,
    threads: usize,
) {
    let nx = mesh.shape.nx;
    let u = u.slice(s![.., 1..-1, .., ..]);
    let u = components(&u);
    over_rows(threads, r.slice_mut(s![.., 1..-1, 1..-1, ..]), 1, |rows, r| {
        let u = u.map(|component| &component[rows.start * nx..]);
        dispatch(nx - 2, Sweep { method, mesh, rows: rows.len(), planes: Rows::Replace { u, r } });
    });
}

/// Solves the lines in z in the rows `rows` for the right-hand side `r`, and adds the solution to the state `u`.
/// This completes a step. Both arrays have only the interior planes; `u` has only these rows.
///
/// # Panics
/// Panics if an array does not have this shape, or if a row of `u` or a component of `r` is not contiguous.
pub(crate) fn add(
    method: impl InZ,
    mesh: &Mesh,
    rows: Range<usize>,
    u: ArrayViewMut4<'_, f64>,
    r: &ArrayView4<'_, f64>,
    threads: usize,
) {
    let Shape { nx, ny, nz } = mesh.shape;
    let of = |rows| [COMPONENTS, nz - 2, rows, nx];
    assert_eq!([u.shape(), r.shape()], [of(rows.len()), of(ny)], "shapes in rows {rows:?}");
    let r = components(r);
    over_rows(threads, u, rows.start, |rows, u| {
        let r = r.map(|component| &component[rows.start * nx..]);
        dispatch(nx - 2, Sweep { method, mesh, rows: rows.len(), planes: Rows::Add { u, r } });
    });
}

/// One call of [`InZ::sweep`].
struct Sweep<'a, 'b, 'r, M> {
    method: M,
    mesh: &'a Mesh,
    rows: usize,
    planes: Rows<'b, 'r>,
}

impl<M: InZ> WithSimd for Sweep<'_, '_, '_, M> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        with_scratch(
            #[inline(always)]
            |scratch| self.method.sweep(simd, self.mesh, self.rows, &mut self.planes, scratch),
        );
    }
}

/// Runs `work` on the rows of `target`, divided among `threads` threads. The first row of `target` is row `first`
/// of the zone. `work` receives a range of the zone's rows and, for each plane of `target`, the components' points
/// in these rows.
///
/// # Panics
/// Panics if rows are not contiguous, or `work` panics.
fn over_rows(
    threads: usize,
    target: ArrayViewMut4<'_, f64>,
    first: usize,
    work: impl Fn(Range<usize>, &mut [ComponentsMut<'_>]) + Sync,
) {
    let ranges = divide(0..target.len_of(Axis(2)), threads, 1);
    let blocks = blocks(target, &ranges);
    let work = |(Range { start, end }, mut block): (Range<usize>, Block<'_>)| {
        work(first + start..first + end, &mut block);
    };
    if threads <= 1 {
        ranges.into_iter().zip(blocks).for_each(work);
    } else {
        ranges.into_par_iter().zip(blocks).for_each(work);
    }
}
