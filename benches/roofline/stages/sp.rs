//! SP's stages: operations and least bytes.
//!
//! All arrays hold five numbers per point, 40 bytes. Interior points are those that are solved for; planes of constant z are
//! transformed as a whole, since their boundary fills vectors.

use npb::mz::Shape;

use super::Work;
use super::mz::{FIELD, add, exchange, interior, points, residual};

/// 1/ρ, velocities (4), kinetic and internal energy (8), the speed of sound (3), at a point.
const FLOW: f64 = 15.0;
/// Of the flow, what the sweeps in planes need: the kinetic energy per mass is left out.
const FLOW_OF_SWEEPS: f64 = 14.0;
/// Into waves: the compressibility 2, energy 8, the three products of it 6, momenta 8, sums 2.
const ENTER: f64 = 26.0;
/// Waves in one direction from those in another: a rotation.
const ROTATE: f64 = 7.0;
/// Back from waves: the flow anew 11, density 10, momenta 8, energy 8.
const LEAVE: f64 = 11.0 + 26.0;
/// Three pentadiagonal matrices at a point: the entries 14; elimination 2 for the diagonal, 11 for each matrix, 5 for each of
/// the five right-hand sides; 4 for each on the way back.
const SOLVE: f64 = 14.0 + 2.0 + 3.0 * 11.0 + 5.0 * 5.0 + 5.0 * 4.0;

/// Whole planes, all but the first and the last.
fn planes(Shape { nx, ny, nz }: Shape) -> f64 {
    (nx * ny * (nz - 2)) as f64
}

/// A whole step, the exchange included, whose bytes are few: the stages' operations, but that the flow of a plane is found once;
/// state and forcing are read, the state is written.
fn step(shape: Shape) -> Work {
    let operations: f64 = ["residual", "txinvr", "x sweep", "y sweep", "z sweep", "add"]
        .into_iter()
        .map(|stage| work(stage, shape).operations)
        .sum();
    let once = operations - 2.0 * FLOW_OF_SWEEPS * planes(shape);
    Work::new(once, FIELD * (points(shape) + 2.0 * interior(shape)))
}

/// That of a stage on a zone. Of every stage's arrays the state is read, and the right-hand side is read and written.
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
