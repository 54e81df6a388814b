//! Operations and minimum traffic of SP's stages.
//!
//! All arrays hold five numbers per point, 40 bytes. Interior points are the points that are solved for. Planes of
//! constant z are transformed as a whole, because including the boundary keeps vectors full.

use npb::mz::Shape;

use super::Work;
use super::mz::{FIELD, add, exchange, interior, points, residual};

/// Operations for the flow at a point: 1/ρ and velocities 4, kinetic and internal energy 8, speed of sound 3.
const FLOW: f64 = 15.0;
/// The part of the flow that the sweeps in planes need: all but the kinetic energy per mass.
const FLOW_OF_SWEEPS: f64 = 14.0;
/// Operations of the transform into waves: the compressibility 2, energy 8, its three products 6, momenta 8, sums 2.
const ENTER: f64 = 26.0;
/// Operations of the transform of waves from one direction into another, which is a rotation.
const ROTATE: f64 = 7.0;
/// Operations of the transform back from waves: recomputing the flow 11, density 10, momenta 8, energy 8.
const LEAVE: f64 = 11.0 + 26.0;
/// Operations for three pentadiagonal matrices at a point: 14 for the entries; in the elimination, 2 for the diagonal,
/// 11 for each matrix and 5 for each of the five right-hand sides; in the back substitution, 4 for each right-hand
/// side.
const SOLVE: f64 = 14.0 + 2.0 + 3.0 * 11.0 + 5.0 * 5.0 + 5.0 * 4.0;

/// Returns the number of points in all planes except the first and the last.
fn planes(Shape { nx, ny, nz }: Shape) -> f64 {
    (nx * ny * (nz - 2)) as f64
}

/// Returns the work of a whole step, including the exchange, whose traffic is small. The operations are those of all
/// stages, except that the flow of a plane is computed only once. State and forcing are read, and the state is written.
fn step(shape: Shape) -> Work {
    let operations: f64 = ["residual", "txinvr", "x sweep", "y sweep", "z sweep", "add"]
        .into_iter()
        .map(|stage| work(stage, shape).operations)
        .sum();
    let once = operations - 2.0 * FLOW_OF_SWEEPS * planes(shape);
    Work::new(once, FIELD * (points(shape) + 2.0 * interior(shape)))
}

/// Returns the work of a stage on one zone. Every stage reads the state, and reads and writes the right-hand side.
pub(super) fn work(stage: &str, shape: Shape) -> Work {
    let bytes = 3.0 * FIELD * interior(shape);
    match stage {
        "exchange" => exchange(shape),
        "residual" => residual(shape),
        "txinvr" => Work::new((FLOW + ENTER) * planes(shape), bytes),
        "x sweep" | "y sweep" => Work::new(FLOW_OF_SWEEPS * planes(shape) + (SOLVE + ROTATE) * interior(shape), bytes),
        "z sweep" => Work::new((FLOW + SOLVE + LEAVE) * interior(shape), bytes),
        "add" => add(shape),
        "step" => step(shape),
        _ => unreachable!("SP has no stage {stage}"),
    }
}
