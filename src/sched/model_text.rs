//! Performance models as text: TOML with one `[[history]]` table per history.

use super::model::{History, Model};
use crate::machine::UnitKind;
use serde::{Deserialize, Serialize};

/// The error returned if the text of a model is invalid.
///
/// ```
/// use thalweg::sched::Model;
/// assert!(Model::from_text("nonsense").unwrap_err().to_string().starts_with("not a performance model: "));
/// ```
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("not a performance model: {problem}")]
pub struct ModelError {
    /// Description and position of the problem.
    pub problem: String,
}

/// A history as written in the text.
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

impl Model {
    /// Returns the model as TOML, with one `[[history]]` table per history.
    ///
    /// ```
    /// use thalweg::machine::UnitKind;
    /// use thalweg::sched::Model;
    /// let mut model = Model::default();
    /// model.learn("axpy", UnitKind::Cpu, 8000, 100.0);
    /// assert_eq!(Model::from_text(&model.to_text())?, model);
    /// # Ok::<(), thalweg::sched::ModelError>(())
    /// ```
    pub fn to_text(&self) -> String {
        let mut text = Text { history: Vec::new() };
        let mut histories: Vec<_> = self.histories.iter().collect();
        histories.sort_unstable_by_key(|(task, _)| *task);
        for (task, kinds) in histories {
            for (unit, sizes) in UnitKind::ALL.into_iter().zip(kinds) {
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

    /// Parses the output of [`to_text`](Self::to_text).
    ///
    /// # Errors Returns an error, with the line, if the text is not in that format, a unit kind does not exist, or a
    /// time is invalid.
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
            let kinds = model.histories.entry(task).or_default();
            kinds[kind as usize].insert(bytes, History { runs, mean_ns });
        }
        Ok(model)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_texts_report_the_problem() {
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
    fn names_with_special_characters_round_trip() {
        let mut model = Model::default();
        model.learn("a \"b\"\n[c]", UnitKind::Emulated, 0, 7.0);
        assert_eq!(Model::from_text(&model.to_text()).unwrap(), model);
    }
}
