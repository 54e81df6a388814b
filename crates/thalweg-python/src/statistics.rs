//! Statistics of a runtime.

use pyo3::prelude::*;

/// A snapshot of a runtime's counters.
#[pyclass(module = "thalweg", frozen)]
pub(crate) struct Statistics(thalweg::Statistics);

impl Statistics {
    pub(crate) fn new(statistics: thalweg::Statistics) -> Self {
        Self(statistics)
    }
}

#[pymethods]
impl Statistics {
    /// The number of tasks that each unit has finished.
    #[getter]
    fn tasks(&self) -> Vec<u64> {
        self.0.tasks.iter().map(|(_, tasks)| *tasks).collect()
    }

    /// How many seconds each unit has been running tasks; empty if this is not measured.
    #[getter]
    fn busy(&self) -> Vec<f64> {
        self.0.busy.iter().map(|(_, busy)| busy.as_secs_f64()).collect()
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self) -> String {
        format!("<thalweg.Statistics {}>", self.0)
    }

    pub(crate) fn _repr_html_(&self) -> String {
        let rows = self.0.tasks.iter().map(|(unit, tasks)| {
            let busy = self.0.busy.iter().find(|(other, _)| other == unit);
            let busy = busy.map_or_else(|| "-".to_owned(), |(_, busy)| format!("{:.3} s", busy.as_secs_f64()));
            format!("<tr><td>{unit}</td><td>{tasks}</td><td>{busy}</td></tr>")
        });
        let text = self.0.to_string().replace('&', "&amp;").replace('<', "&lt;");
        format!(
            "<table><tr><th>unit</th><th>tasks</th><th>busy</th></tr>{}</table><pre>{text}</pre>",
            rows.collect::<String>()
        )
    }
}
