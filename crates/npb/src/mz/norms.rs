//! The norms that verify a run: root mean squares of the residual and of the error, and LU's surface integral.
//!
//! A run's norm is the plain sum of its zones' norms (NASA report NAS-03-010, section 5). A zone's norm is based on
//! a sum of squares over the zone, divided by the number of interior points.

use ndarray::{ArrayBase, ArrayView4, Axis, Data, Ix4, s};

use super::initial::exact_state;
use super::physics::{C2, COMPONENTS, Mesh, Placement};
use super::zones::Shape;

/// Returns the root mean squares of a zone's residual over the interior. `r` is scale · (S(u) + forcing), so the
/// norms are divided by the scale.
pub(crate) fn residual_norms(mesh: &Mesh, r: &ArrayView4<'_, f64>, scale: f64) -> [f64; COMPONENTS] {
    norms(mesh, &interior(r)).map(|norm| norm / scale)
}

/// Returns the norms of the difference between `u` and the exact solution. BT and SP sum over all points and LU
/// only over the interior, but all of them divide by the number of interior points.
pub(crate) fn error_norms(mesh: &Mesh, u: &ArrayView4<'_, f64>) -> [f64; COMPONENTS] {
    let difference = u - &exact_state(mesh);
    match mesh.placement {
        Placement::MeshWidths => norms(mesh, &difference),
        Placement::UnitCube => norms(mesh, &interior(&difference)),
    }
}

/// Returns LU's surface integral of the pressure over the six faces of a box within the zone (NASA report
/// RNR-94-007, section 4.5). By definition the box is one point narrower than the interior at its northern and
/// lower sides.
pub(crate) fn surface_integral(mesh: &Mesh, u: &ArrayView4<'_, f64>) -> f64 {
    let Shape { nx, ny, nz } = mesh.shape;
    let pressure = |[i, j, k]: [usize; 3]| {
        let [rho, m1, m2, m3, energy] = std::array::from_fn(|m| u[[m, k, j, i]]);
        C2 * (energy - 0.5 * (m1 * m1 + m2 * m2 + m3 * m3) / rho)
    };
    let box_of = [[1, nx - 2], [1, ny - 3], [2, nz - 2]];
    let mut sum = 0.0;
    for normal in 0..3 {
        let (a, b) = ((normal + 1) % 3, (normal + 2) % 3);
        let mut face = 0.0;
        for side in box_of[normal] {
            for first in box_of[a][0]..box_of[a][1] {
                for second in box_of[b][0]..box_of[b][1] {
                    for (da, db) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                        let mut point = [side; 3];
                        (point[a], point[b]) = (first + da, second + db);
                        face += pressure(point);
                    }
                }
            }
        }
        sum += face * mesh.h[a] * mesh.h[b];
    }
    0.25 * sum
}

/// Returns the interior points of a zone.
fn interior<'a, D: Data<Elem = f64>>(array: &'a ArrayBase<D, Ix4>) -> ArrayView4<'a, f64> {
    array.slice(s![.., 1..-1, 1..-1, 1..-1])
}

/// Returns, per component, the square root of the sum of squares divided by the number of interior points.
fn norms<D: Data<Elem = f64>>(mesh: &Mesh, array: &ArrayBase<D, Ix4>) -> [f64; COMPONENTS] {
    let interior = mesh.shape.interior() as f64;
    let square = |m| array.index_axis(Axis(0), m).fold(0.0, |sum, value| sum + value * value);
    std::array::from_fn(|m| f64::sqrt(square(m) / interior))
}
