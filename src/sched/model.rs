//! A performance model: what tasks of a name took on units of a kind.
//!
//! A history per task name, kind of unit and size of the regions, as StarPU keeps them (Augonnet et al., "StarPU: a unified
//! platform for task scheduling on heterogeneous multicore architectures", 2011). For a size without history the time is
//! taken to grow with the bytes, from all sizes of the same name and kind.
//!
//! A model is a value: it can be written as text and read again. Nothing here touches a file.

use crate::machine::UnitKind;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What is wrong with the text of a model.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("not a performance model: {problem}")]
pub struct ModelError {
    /// What and where.
    pub problem: String,
}

/// Mean times of tasks.
///
/// ```
/// use thalweg::machine::UnitKind;
/// use thalweg::sched::Model;
/// let mut model = Model::default();
/// model.learn("axpy", UnitKind::Cpu, 8000, 100.0);
/// model.learn("axpy", UnitKind::Cpu, 8000, 140.0);
/// assert_eq!(model.estimate_ns("axpy", UnitKind::Cpu, 8000), Some(120.0));
/// assert_eq!(model.estimate_ns("axpy", UnitKind::Cpu, 16000), Some(240.0)); // as bytes grow
/// assert_eq!(model.estimate_ns("axpy", UnitKind::Emulated, 8000), None);
/// assert_eq!(Model::from_text(&model.to_text())?, model);
/// # Ok::<(), thalweg::sched::ModelError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Model {
    /// By name, kind and bytes.
    histories: BTreeMap<String, BTreeMap<UnitKind, BTreeMap<u64, History>>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct History {
    runs: u64,
    mean_ns: f64,
}

/// One history, as the text has it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    task: String,
    unit: String,
    bytes: u64,
    runs: u64,
    mean_ns: f64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    #[serde(default)]
    history: Vec<Line>,
}

/// So many runs weigh as much as all before: a model follows a machine that changes.
const MEMORY: u64 = 64;

impl Model {
    /// A task took so long.
    pub fn learn(&mut self, task: &str, unit: UnitKind, bytes: u64, elapsed_ns: f64) {
        if !self.histories.contains_key(task) {
            self.histories.insert(task.to_owned(), BTreeMap::new());
        }
        let kinds = self.histories.get_mut(task).expect("inserted above if it was missing");
        let history = kinds.entry(unit).or_default().entry(bytes).or_default();
        history.runs += 1;
        history.mean_ns += (elapsed_ns - history.mean_ns) / history.runs.min(MEMORY) as f64;
    }

    /// What a task is expected to take, in nanoseconds; nothing if none of its name has run on units of this kind.
    pub fn estimate_ns(&self, task: &str, unit: UnitKind, bytes: u64) -> Option<f64> {
        let sizes = self.histories.get(task)?.get(&unit)?;
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

    /// Whether nothing has been learned.
    pub fn is_empty(&self) -> bool {
        self.histories.is_empty()
    }

    /// As TOML: a table `[[history]]` for each.
    pub fn to_text(&self) -> String {
        let mut text = Text { history: Vec::new() };
        for (task, kinds) in &self.histories {
            for (unit, sizes) in kinds {
                text.history.extend(sizes.iter().map(|(bytes, history)| Line {
                    task: task.clone(),
                    unit: unit.keyword().to_owned(),
                    bytes: *bytes,
                    runs: history.runs,
                    mean_ns: history.mean_ns,
                }));
            }
        }
        toml::to_string(&text).expect("strings and numbers can be written as TOML")
    }

    /// Reads what [`to_text`](Self::to_text) wrote.
    ///
    /// # Errors
    /// If it is not that, with the line; if a kind of unit does not exist, or a time is not a time.
    pub fn from_text(text: &str) -> Result<Self, ModelError> {
        let text: Text = toml::from_str(text).map_err(|error| ModelError { problem: error.to_string() })?;
        let mut model = Self::default();
        for Line { task, unit, bytes, runs, mean_ns } in text.history {
            let kind = UnitKind::ALL.into_iter().find(|kind| kind.keyword() == unit);
            let kind =
                kind.ok_or_else(|| ModelError { problem: format!("task `{task}`: no kind of unit is `{unit}`") })?;
            if !(mean_ns.is_finite() && mean_ns >= 0.0) || runs == 0 {
                let problem = format!("task `{task}` on {unit}: a mean of {mean_ns} ns from {runs} runs");
                return Err(ModelError { problem });
            }
            model.histories.entry(task).or_default().entry(kind).or_default().insert(bytes, History { runs, mean_ns });
        }
        Ok(model)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_texts_say_what_is_wrong() {
        let said = |text: &str| Model::from_text(text).unwrap_err().to_string();
        let line = |unit: &str, runs: &str, mean: &str| {
            format!("[[history]]\ntask = \"t\"\nunit = \"{unit}\"\nbytes = 8\nruns = {runs}\nmean_ns = {mean}\n")
        };
        assert!(Model::from_text(&line("CPU", "3", "5.0")).is_ok());
        assert!(said(&line("TPU", "3", "5.0")).ends_with("task `t`: no kind of unit is `TPU`"));
        assert!(said(&line("CPU", "0", "5.0")).ends_with("a mean of 5 ns from 0 runs"));
        assert!(said(&line("CPU", "1", "nan")).ends_with("a mean of NaN ns from 1 runs"));
        assert!(said(&line("CPU", "1", "-1.0")).contains("a mean of -1 ns"));
        assert!(said(&line("CPU", "many", "1.0")).contains("line 5"));
        assert!(said("colour = 3").contains("colour"));
        assert!(Model::from_text("").unwrap().is_empty());
    }

    #[test]
    fn names_may_hold_anything_and_old_times_fade() {
        let mut model = Model::default();
        model.learn("a \"b\"\n[c]", UnitKind::Emulated, 0, 7.0);
        assert_eq!(Model::from_text(&model.to_text()).unwrap(), model);
        assert_eq!(model.estimate_ns("a \"b\"\n[c]", UnitKind::Emulated, 9), Some(7.0), "no bytes to scale with");
        (0..1000).for_each(|_| model.learn("t", UnitKind::Cpu, 8, 100.0));
        (0..500).for_each(|_| model.learn("t", UnitKind::Cpu, 8, 10.0));
        let now = model.estimate_ns("t", UnitKind::Cpu, 8).unwrap();
        assert!((10.0..11.0).contains(&now), "{now}");
    }
}
