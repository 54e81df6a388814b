//! Operations and minimum traffic of BT's stages.
//!
//! All arrays hold five numbers per point, 40 bytes. Interior points are the points that are solved for.

use npb::mz::Shape;

use super::Work;
use super::mz::{FIELD, add, exchange, interior, points, residual};

/// Work of a sweep in any direction, per interior point:
///
/// | operations | for |
/// | --- | --- |
/// | 92 | the three 5 × 5 blocks, from the state: 10 velocities and squares, 18 the inviscid Jacobian, 16 the viscous one, 48 their sums by entries that differ |
/// | 75 | the triangular factors of the diagonal block: 5 inverses, 10 scaled entries, 30 multiply-adds |
/// | 178 | solutions with them for the five columns of a block, zeros at the top left out: 45 + 35 + 29 + 45 + 24 |
/// | 180 | what these subtract from the next diagonal block: five times a block of 18 entries |
/// | 36 + 45 | the same, and the solution, for the right-hand side |
/// | 50 | back substitution: a dense block times the solution |
///
/// A sweep reads the state and the right-hand side, and writes the right-hand side.
const SWEEP: Work = Work::new(656.0, 3.0 * FIELD);

/// Returns the work of a whole step, including the exchange, whose traffic is small. The operations are those of all
/// stages. State and forcing are read, and the state is written. Intermediate results are no larger than a zone, so
/// they can stay in the cache.
fn step(shape: Shape) -> Work {
    let operations: f64 = ["residual", "x sweep", "y sweep", "z sweep", "add"]
        .into_iter()
        .map(|stage| work(stage, shape).operations)
        .sum();
    Work::new(operations, FIELD * (points(shape) + 2.0 * interior(shape)))
}

/// Returns the work of a stage on one zone.
pub(super) fn work(stage: &str, shape: Shape) -> Work {
    match stage {
        "exchange" => exchange(shape),
        "residual" => residual(shape),
        "x sweep" | "y sweep" | "z sweep" => SWEEP * interior(shape),
        "add" => add(shape),
        "step" => step(shape),
        _ => unreachable!("BT has no stage {stage}"),
    }
}
