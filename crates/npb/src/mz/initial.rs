//! The initial state of a run.
//!
//! In the interior, the state is a blend of the exact solution on the six faces of the unit cube, linear in each
//! direction (NASA report RNR-94-007, section 3.2.4). On the boundary planes it is the exact solution itself. Where
//! boundary planes meet, the later one in the order x, y, z takes precedence. The precedence affects the error
//! norms, because edges are never exchanged.

use std::ops::Range;

use ndarray::{Array4, ArrayViewMut4};

use super::physics::{COMPONENTS, Mesh, exact};
use super::zones::Shape;

/// Sets the whole state `u`, of shape `[5, nz, ny, nx]`, to the initial state.
///
/// # Panics
/// Panics if `u` does not have the shape of the mesh.
pub(crate) fn initialise(mesh: &Mesh, mut u: ArrayViewMut4<'_, f64>) {
    let Shape { nx, ny, nz } = mesh.shape;
    assert_eq!(u.shape(), mesh.shape.array(), "shape of the state");
    let all = [0..nx, 0..ny, 0..nz];
    fill(&mut u, all.clone(), |point| blend(mesh.position(point)));
    for d in 0..3 {
        let last = all[d].end - 1;
        for (index, coordinate) in [(0, 0.0), (last, 1.0)] {
            let mut plane = all.clone();
            plane[d] = index..index + 1;
            fill(&mut u, plane, |point| {
                let mut position = mesh.position(point);
                position[d] = coordinate;
                exact(position)
            });
        }
    }
}

/// Returns the exact solution at all points of a zone, including the boundary planes.
pub fn exact_state(mesh: &Mesh) -> Array4<f64> {
    let Shape { nx, ny, nz } = mesh.shape;
    let mut u = Array4::zeros(mesh.shape.array());
    fill(&mut u.view_mut(), [0..nx, 0..ny, 0..nz], |point| exact(mesh.position(point)));
    u
}

/// Sets all components at the points (i, j, k) within the ranges to `state([i, j, k])`.
fn fill(u: &mut ArrayViewMut4<'_, f64>, [x, y, z]: [Range<usize>; 3], state: impl Fn([usize; 3]) -> [f64; COMPONENTS]) {
    for k in z {
        for j in y.clone() {
            for i in x.clone() {
                for (m, value) in state([i, j, k]).into_iter().enumerate() {
                    u[[m, k, j, i]] = value;
                }
            }
        }
    }
}

/// Blends the exact values at the six points of the unit cube's faces that share two coordinates with `at`.
fn blend(at: [f64; 3]) -> [f64; COMPONENTS] {
    let along: [[f64; COMPONENTS]; 3] = std::array::from_fn(|d| {
        let (mut near, mut far) = (at, at);
        (near[d], far[d]) = (0.0, 1.0);
        let (near, far) = (exact(near), exact(far));
        std::array::from_fn(|m| at[d] * far[m] + (1.0 - at[d]) * near[m])
    });
    let [x, y, z] = along;
    std::array::from_fn(|m| {
        let (x, y, z) = (x[m], y[m], z[m]);
        x + y + z - x * y - x * z - y * z + x * y * z
    })
}
