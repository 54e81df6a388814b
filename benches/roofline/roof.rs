//! Upper bound of a stage's performance on a machine, and how near the stage comes (Williams, Waterman and
//! Patterson, "Roofline: an insightful visual performance model", Communications of the ACM 52, 2009).
//!
//! A stage cannot take less time than its operations take at the processor's peak, its least bytes at the bandwidth
//! of the level of memory that has room for all the program goes through from one pass to the next, or its gathered
//! numbers at the rate of the level that has room for them. The largest of the three is the bound.

use serde::Serialize;

use crate::machine::Machine;
use crate::stages::Measured;

/// A measured stage with its bound.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    #[serde(flatten)]
    pub(crate) measured: Measured,
    /// Time of the fastest pass.
    pub(crate) seconds: f64,
    /// Operations per byte.
    pub(crate) intensity: f64,
    /// Operations per second.
    pub(crate) operations_per_s: f64,
    /// Least bytes per second.
    pub(crate) bytes_per_s: f64,
    /// The limit that bounds it.
    pub(crate) bound: String,
    /// The least time of a pass, divided by the time that it takes.
    pub(crate) fraction: f64,
}

impl Row {
    pub(crate) fn new(machine: &Machine, measured: Measured) -> Self {
        let (work, seconds) = (measured.work, measured.seconds());
        let level = machine.level_of(measured.resident);
        // Every core reads all of the array that numbers are gathered from.
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
