//! Upper bound on a stage's performance on a machine, and how close the stage comes to it (Williams, Waterman and
//! Patterson, "Roofline: an insightful visual performance model", Communications of the ACM 52, 2009).
//!
//! A stage cannot take less time than its operations need at the processor's peak rate, than its minimum traffic needs
//! at the bandwidth of the memory level that can hold all data touched between two passes, or than its gathers need at
//! the gather rate of the memory level that can hold the gathered array. The largest of these three times is the bound.

use serde::Serialize;

use crate::machine::Machine;
use crate::stages::Measured;

/// A measured stage with its bound.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    #[serde(flatten)]
    pub(crate) measured: Measured,
    /// Time of the fastest pass in seconds.
    pub(crate) seconds: f64,
    /// Arithmetic intensity in operations per byte.
    pub(crate) intensity: f64,
    /// Operation rate per second.
    pub(crate) operations_per_s: f64,
    /// Minimum traffic of a pass divided by its time, in bytes per second.
    pub(crate) bytes_per_s: f64,
    /// Name of the limit that bounds the stage.
    pub(crate) bound: String,
    /// The minimum time of a pass divided by the measured time.
    pub(crate) fraction: f64,
}

impl Row {
    pub(crate) fn new(machine: &Machine, measured: Measured) -> Self {
        let (work, seconds) = (measured.work, measured.seconds());
        let level = machine.level_of(measured.resident);
        // Every core reads the whole array that numbers are gathered from.
        let gathered = machine.level_of(measured.gathered * machine.units as f64);
        let bounds = [
            ("peak".to_owned(), work.operations / machine.peak),
            (level.name.clone(), work.bytes / level.triad),
            (format!("gathers, {}", gathered.name), work.gathers / gathered.gathers),
        ];
        let (bound, least) = bounds.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).expect("there are three bounds");
        Self {
            seconds,
            intensity: work.operations / work.bytes,
            operations_per_s: work.operations / seconds,
            bytes_per_s: work.bytes / seconds,
            bound,
            fraction: least / seconds,
            measured,
        }
    }
}
