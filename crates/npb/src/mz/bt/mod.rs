//! BT-MZ: approximate factorisation into block-tridiagonal systems along x, y and z.
//!
//! A step of a zone, after the exchange, is a residual, a sweep in each direction, and the addition of the result
//! to the state. Each of these stages is a function that can run as a task. [`step`] performs all stages;
//! [`in_planes`] and [`in_rows`] perform the stages that stay within planes and within rows. Source: NASA reports
//! RNR-94-007, section 4.3, and NAS-03-010.

mod block5;
mod fused;
pub mod jacobian;
mod sweep;
pub mod tridiagonal;

use ndarray::{ArrayView4, ArrayViewMut4};

use super::update;
pub use fused::{in_planes, step};
pub use sweep::{in_rows, x_sweep, y_sweep, z_sweep};

/// Adds the solution of a step to the state, on the interior.
///
/// # Panics
/// Panics under the same conditions as [`update::add`].
pub fn add(u: ArrayViewMut4<'_, f64>, r: &ArrayView4<'_, f64>, threads: usize) {
    update::add(1.0, r, u, threads);
}
