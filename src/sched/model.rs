//! A performance model: mean task times by name on each unit kind.
//!
//! The model keeps a history per task name, unit kind and region size, as StarPU does (Augonnet et al. 2011). For a
//! size without a history, time is assumed to be proportional to the bytes, based on all sizes of the same name and
//! kind.
//!
//! A model is a plain value, which `model_text` converts to and from text. Nothing here accesses a file.

use crate::machine::UnitKind;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Mean task times.
///
/// ```
/// use thalweg::machine::UnitKind;
/// use thalweg::sched::Model;
/// let mut model = Model::default();
/// model.learn("axpy", UnitKind::Cpu, 8000, 100.0);
/// model.learn("axpy", UnitKind::Cpu, 8000, 140.0);
/// assert_eq!(model.estimate_ns("axpy", UnitKind::Cpu, 8000), Some(120.0));
/// assert_eq!(model.estimate_ns("axpy", UnitKind::Cpu, 16000), Some(240.0)); // proportional to the bytes
/// assert_eq!(model.estimate_ns("axpy", UnitKind::Emulated, 8000), None);
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Model {
    /// Histories by task name, unit kind and bytes.
    pub(super) histories: FxHashMap<String, [Sizes; KINDS]>,
}

/// Number of unit kinds.
pub(super) const KINDS: usize = UnitKind::ALL.len();

/// Histories by bytes.
pub(super) type Sizes = BTreeMap<u64, History>;

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct History {
    pub(super) runs: u64,
    pub(super) mean_ns: f64,
}

/// Length of the running mean: a run weighs at least 1/`MEMORY`, so that a model follows a machine that changes.
const MEMORY: u64 = 64;

impl Model {
    /// Learns that a task took `elapsed_ns`.
    pub fn learn(&mut self, task: &str, unit: UnitKind, bytes: u64, elapsed_ns: f64) {
        let kinds = match self.histories.get_mut(task) {
            Some(kinds) => kinds,
            None => self.histories.entry(task.to_owned()).or_default(),
        };
        let history = kinds[unit as usize].entry(bytes).or_default();
        history.runs += 1;
        history.mean_ns += (elapsed_ns - history.mean_ns) / history.runs.min(MEMORY) as f64;
    }

    /// Returns the expected time of a task in nanoseconds; `None` if no task of this name has run on units of this
    /// kind.
    pub fn estimate_ns(&self, task: &str, unit: UnitKind, bytes: u64) -> Option<f64> {
        estimate_ns(&self.histories.get(task)?[unit as usize], bytes)
    }

    /// Returns the mean of the runs with exactly this many bytes, if any.
    pub(super) fn mean_ns(&self, task: &str, unit: UnitKind, bytes: u64) -> Option<f64> {
        self.histories.get(task)?[unit as usize].get(&bytes).map(|history| history.mean_ns)
    }

    /// Like [`Self::estimate_ns`], but for each unit kind.
    pub(super) fn estimates_ns(&self, task: &str, bytes: u64) -> [Option<f64>; KINDS] {
        self.histories.get(task).map_or([None; KINDS], |kinds| kinds.each_ref().map(|sizes| estimate_ns(sizes, bytes)))
    }

    /// Returns whether nothing has been learned.
    pub fn is_empty(&self) -> bool {
        self.histories.is_empty()
    }
}

fn estimate_ns(sizes: &Sizes, bytes: u64) -> Option<f64> {
    if let Some(history) = sizes.get(&bytes) {
        return Some(history.mean_ns);
    }
    let sums = sizes.iter().fold((0.0, 0.0, 0.0), |(runs, of_bytes, of_ns), (bytes, history)| {
        let weight = history.runs.min(MEMORY) as f64;
        (runs + weight, of_bytes + weight * *bytes as f64, of_ns + weight * history.mean_ns)
    });
    match sums {
        (0.0, _, _) => None,
        (runs, 0.0, of_ns) => Some(of_ns / runs),
        (_, of_bytes, of_ns) => Some(of_ns / of_bytes * bytes as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_times_fade() {
        let mut model = Model::default();
        model.learn("t", UnitKind::Emulated, 0, 7.0);
        assert_eq!(model.estimate_ns("t", UnitKind::Emulated, 9), Some(7.0), "no bytes to scale with");
        (0..1000).for_each(|_| model.learn("t", UnitKind::Cpu, 8, 100.0));
        (0..500).for_each(|_| model.learn("t", UnitKind::Cpu, 8, 10.0));
        let now = model.estimate_ns("t", UnitKind::Cpu, 8).unwrap();
        assert!((10.0..11.0).contains(&now), "{now}");
    }
}
