//! BT-MZ: approximate factorisation into block-tridiagonal systems along x, y and z.
//!
//! A step of a zone, after the exchange: residual, a sweep in each direction, and the addition of the result to the
//! state. Each is a function of its own, which may be a task; [`step`] does them all, [`in_planes`] and [`in_rows`]
//! what planes and rows have for themselves. Source: NASA reports
//! RNR-94-007, section 4.3, and NAS-03-010.

mod block5;
mod fused;
mod jacobian;
mod sweep;
#[cfg(test)]
mod tests;
mod tridiagonal;

use ndarray::{ArrayView4, ArrayViewMut4, Zip, s};

pub(crate) use fused::{in_planes, step};
pub(crate) use sweep::{in_rows, x_sweep, y_sweep, z_sweep};

/// Adds the solution of a step to the state, on the interior.
///
/// # Panics
/// If the shapes differ.
pub(crate) fn add(mut u: ArrayViewMut4<'_, f64>, r: &ArrayView4<'_, f64>, threads: usize) {
    let interior = s![.., 1..-1, 1..-1, 1..-1];
    let zip = Zip::from(u.slice_mut(interior)).and(r.slice(interior));
    if threads > 1 { zip.par_for_each(|u, r| *u += r) } else { zip.for_each(|u, r| *u += r) }
}
