//! LU's stages: operations and least bytes.
//!
//! All arrays hold five numbers per point, 40 bytes. Interior points are those that are solved for. Lanes that a wavefront
//! leaves idle at the ends of rows are not counted.

use npb::mz::Shape;

use super::Work;
use super::mz::{FIELD, exchange, interior, points, residual};

/// A sweep at a point:
///
/// | operations | for |
/// | --- | --- |
/// | 14 | velocities, kinetic energy, energy and enthalpy per mass |
/// | 10 + 15 | the sum of what three neighbours contribute, and of it and the right-hand side |
/// | 43 | the diagonal block, lower triangular: 5 + 3 · 12 + 2 |
/// | 131 | what the point contributes to three neighbours: 26 in common, 35 in each direction |
const SWEEP: f64 = 14.0 + 10.0 + 15.0 + 43.0 + 131.0;

/// u ← u + w / ω(2 − ω): a multiply-add for each of five numbers.
const ADD: f64 = 10.0;

/// A whole step after the exchange: both sweeps, the update, and the residual of the next step, which is kept until then.
/// Residual and state are read and written, the forcing is read.
fn step(shape: Shape) -> Work {
    let operations = residual(shape).operations + (2.0 * SWEEP + ADD) * interior(shape);
    Work::new(operations, FIELD * (points(shape) + 4.0 * interior(shape)))
}

/// That of a stage on a zone. Every stage but the step reads two arrays and writes one.
pub(super) fn work(stage: &str, shape: Shape) -> Work {
    let bytes = 3.0 * FIELD;
    match stage {
        "exchange" => exchange(shape),
        "forward" | "backward" => Work::new(SWEEP, bytes) * interior(shape),
        "add" => Work::new(ADD, bytes) * interior(shape),
        "residual" => residual(shape),
        "step" => step(shape),
        _ => unreachable!("LU has no stage {stage}"),
    }
}
