//! Operations and minimum traffic of LU's stages.
//!
//! All arrays hold five numbers per point, 40 bytes. Interior points are the points that are solved for. Vector lanes
//! that a wavefront leaves idle at the ends of rows are not counted.

use npb::mz::Shape;

use super::Work;
use super::mz::{FIELD, exchange, interior, points, residual};

/// Work that both sweeps do at each point:
///
/// | operations | for |
/// | --- | --- |
/// | 13 | 1/ρ, velocities, energy and pressure per mass |
/// | 10 | the sum of three neighbours' contributions |
/// | 14 + 14 | the change that a vector causes, and the vector of a change |
/// | 13 | the diagonal block: four entries that depend on the flow, five quotients |
/// | 107 | the point's contributions to three neighbours: 5 in common, 34 in each direction |
const SWEEP: f64 = 13.0 + 10.0 + 14.0 + 14.0 + 13.0 + 107.0;

/// Work of the forward sweep, which additionally does a multiply-add for each number of the right-hand side.
const FORWARD: f64 = SWEEP + 10.0;

/// Work of the backward sweep, which additionally computes the change caused by the forward sweep's w and adds it to
/// the correction.
const BACKWARD: f64 = SWEEP + 14.0 + 5.0;

/// u ← u + w / ω(2 − ω): a multiply-add for each of five numbers.
const ADD: f64 = 10.0;

/// Returns the work of a whole step, including the exchange, whose traffic is small: both sweeps, the update, and the
/// residual for the next step, which is kept until then. Residual and state are read and written; the forcing is only
/// read.
fn step(shape: Shape) -> Work {
    let operations = residual(shape).operations + (FORWARD + BACKWARD + ADD) * interior(shape);
    Work::new(operations, FIELD * (points(shape) + 4.0 * interior(shape)))
}

/// Returns the work of a stage on one zone. Every stage except the whole step reads two arrays and writes one.
pub(super) fn work(stage: &str, shape: Shape) -> Work {
    let bytes = 3.0 * FIELD;
    match stage {
        "exchange" => exchange(shape),
        "forward" => Work::new(FORWARD, bytes) * interior(shape),
        "backward" => Work::new(BACKWARD, bytes) * interior(shape),
        "add" => Work::new(ADD, bytes) * interior(shape),
        "residual" => residual(shape),
        "step" => step(shape),
        _ => unreachable!("LU has no stage {stage}"),
    }
}
