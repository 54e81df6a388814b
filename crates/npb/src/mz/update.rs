//! The end of a step as a separate stage: adds the change to the state.
//!
//! If it is fused with the computation of the change, the update costs next to nothing; as a separate stage, it is
//! memory-bound. So whole planes are processed, as one stream in each of the two arrays. Skipping the boundary
//! rows, where nothing changes, would interrupt the streams at every plane, which costs more than reading these
//! rows.

use ndarray::{ArrayView4, ArrayViewMut4, Axis};
use pulp::{Simd, WithSimd};

use super::components::{Components, ComponentsMut, components, components_mut, over_planes};
use super::lanes::{Lane, MAX_LANES, dispatch};
use super::prefetch::{asks_for_line, prefetch_far};

/// Prefetch distance, in points.
const AHEAD: usize = 128;

/// Computes u ← u + `factor` · `change` in the interior planes. `change` must be 0 on the boundary of these planes.
///
/// # Panics
/// Panics if the shapes differ, or a component is not contiguous.
pub fn add(factor: f64, change: &ArrayView4<'_, f64>, u: ArrayViewMut4<'_, f64>, threads: usize) {
    assert_eq!(change.shape(), u.shape(), "shapes of a state and its change");
    let [nz, ny, nx] = [1, 2, 3].map(|axis| u.len_of(Axis(axis)));
    let change = components(change);
    over_planes(threads, components_mut(u), nx * ny, 1..nz - 1, |planes, u| {
        let change = change.map(|component| &component[planes.start * nx * ny..planes.end * nx * ny]);
        dispatch(MAX_LANES, Add { factor, change, u });
    });
}

/// Planes of u, with the change to add to them.
struct Add<'a, 'u> {
    factor: f64,
    change: Components<'a>,
    u: ComponentsMut<'u>,
}

impl WithSimd for Add<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { factor, change, u } = self;
        let factor = Lane::splat(simd, factor);
        for (change, u) in change.into_iter().zip(u) {
            for at in (0..u.len()).step_by(S::F64_LANES) {
                if asks_for_line::<S>(at) {
                    prefetch_far(change, at + AHEAD);
                    prefetch_far(u, at + AHEAD);
                }
                factor.mul_add(Lane::load_some(simd, change, at), Lane::load_some(simd, u, at)).store_some(u, at);
            }
        }
    }
}
