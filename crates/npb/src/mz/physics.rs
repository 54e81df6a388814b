//! The physics that all three benchmarks share: constants, the mesh of a zone, the exact solution.
//!
//! The compressible Navier–Stokes equations in five conserved quantities per point, u = (ρ, ρv₁, ρv₂, ρv₃, E), are
//! driven by a forcing term towards a polynomial that is known exactly (NASA report RNR-94-007, section 3).

use super::classes::Benchmark;
use super::zones::Shape;

/// Components of the state at a point.
pub const COMPONENTS: usize = 5;

/// Ratio of specific heats.
pub const C1: f64 = 1.4;
/// C1 − 1.
pub const C2: f64 = 0.4;
/// c₃c₄: viscosity.
pub const C34: f64 = 0.1;
/// c₁c₅: ratio of specific heats times the inverse Prandtl number.
pub const C1C5: f64 = 1.96;
/// c₁c₃c₄c₅: heat conduction.
pub const C1345: f64 = C1C5 * C34;
/// Weight of the viscosity of the velocity along a direction.
pub const CON43: f64 = 4.0 / 3.0;
/// Second-difference dissipation in x, y, z.
pub const DISSIPATION: [f64; 3] = [0.75, 0.75, 1.0];
/// Fourth-difference dissipation.
pub const EPS4: f64 = 0.25;

/// The coefficients of the exact solution, a row per component (RNR-94-007, table 3.1).
#[rustfmt::skip]
const EXACT: [[f64; 13]; COMPONENTS] = [
    [2.0, 0.0, 0.0, 4.0, 5.0, 3.0, 0.5, 0.02, 0.01, 0.03, 0.5, 0.4, 0.3],
    [1.0, 0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 0.01, 0.03, 0.02, 0.4, 0.3, 0.5],
    [2.0, 2.0, 0.0, 0.0, 0.0, 2.0, 3.0, 0.04, 0.03, 0.05, 0.3, 0.5, 0.4],
    [2.0, 2.0, 0.0, 0.0, 0.0, 2.0, 3.0, 0.03, 0.05, 0.04, 0.2, 0.1, 0.3],
    [5.0, 4.0, 3.0, 2.0, 0.1, 0.4, 0.3, 0.05, 0.04, 0.03, 0.1, 0.3, 0.2],
];

/// Returns the exact solution at a point of the unit cube (or beyond it).
pub(crate) fn exact([x, y, z]: [f64; 3]) -> [f64; COMPONENTS] {
    EXACT.map(|e| {
        e[0] + x * (e[1] + x * (e[4] + x * (e[7] + x * e[10])))
            + y * (e[2] + y * (e[5] + y * (e[8] + y * e[11])))
            + z * (e[3] + z * (e[6] + z * (e[9] + z * e[12])))
    })
}

/// How the points of a zone are placed in space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// At multiples of the mesh width of an average zone, in BT and SP.
    MeshWidths,
    /// Such that every zone is the unit cube, in LU.
    UnitCube,
}

/// The mesh of a zone, which is everything that the numerical methods know about the problem.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mesh {
    /// Number of points of the zone in each direction.
    pub shape: Shape,
    /// Mesh widths in x, y, z. They are those of an average zone and the same in all zones of a run.
    pub h: [f64; 3],
    /// Time step.
    pub dt: f64,
    /// Placement of the points.
    pub placement: Placement,
}

impl Mesh {
    /// Creates the mesh of a zone of shape `shape`. The whole mesh has `points` points and is divided into `zones`
    /// zones in x and y.
    pub fn new(benchmark: Benchmark, shape: Shape, points: [usize; 3], zones: [usize; 2], dt: f64) -> Self {
        let zones = [zones[0], zones[1], 1].map(|zones| zones as f64);
        let points = points.map(|points| points as f64);
        let (h, placement) = match benchmark {
            Benchmark::Bt | Benchmark::Sp => {
                (std::array::from_fn(|d| 1.0 / ((points[d] - 1.0) / zones[d])), Placement::MeshWidths)
            }
            Benchmark::Lu => (std::array::from_fn(|d| 1.0 / (points[d] / zones[d] - 1.0)), Placement::UnitCube),
        };
        Self { shape, h, dt, placement }
    }

    /// Returns the position of point (i, j, k) of the zone.
    pub(crate) fn position(&self, [i, j, k]: [usize; 3]) -> [f64; 3] {
        let point = [i as f64, j as f64, k as f64];
        let Shape { nx, ny, nz } = self.shape;
        match self.placement {
            Placement::MeshWidths => std::array::from_fn(|d| point[d] * self.h[d]),
            Placement::UnitCube => std::array::from_fn(|d| point[d] / ([nx, ny, nz][d] as f64 - 1.0)),
        }
    }
}
