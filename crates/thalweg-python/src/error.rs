//! Exceptions.

use pyo3::create_exception;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::fmt;
use thalweg::error::{BuildError, FailureReason, RunError, SubmitError, TaskFailure};

create_exception!(thalweg, Error, PyRuntimeError, "The base of this package's exceptions.");
create_exception!(thalweg, Refused, Error, "A call was refused, and nothing has changed.");
create_exception!(
    thalweg,
    TaskError,
    Error,
    "Tasks have failed. `failures` lists them; the exception of the first one is the cause of this exception."
);

/// The error of a body that raised an exception.
///
/// Its text is made in the body: the library formats errors on any thread, which must not need the GIL for that.
#[derive(Debug)]
pub(crate) struct Raised {
    text: String,
    error: PyErr,
}

impl Raised {
    pub(crate) fn new(py: Python<'_>, error: PyErr) -> Self {
        let value = error.value(py);
        let name = value.get_type().qualname().map_or_else(|_| "Exception".to_owned(), |name| name.to_string());
        let text = match value.str().map(|text| text.to_string_lossy().into_owned()) {
            Ok(text) if !text.is_empty() => format!("{name}: {text}"),
            _ => name,
        };
        Self { text, error }
    }

    pub(crate) fn error(&self, py: Python<'_>) -> PyErr {
        self.error.clone_ref(py)
    }
}

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Raised {}

/// Returns the exception that the failed body raised.
pub(crate) fn raised(failure: &TaskFailure) -> Option<&Raised> {
    match failure.reason() {
        FailureReason::Returned(error) => error.downcast_ref(),
        _ => None,
    }
}

/// Returns the exception for failed tasks, with this text.
fn failed<'f>(py: Python<'_>, text: String, failures: impl Iterator<Item = &'f TaskFailure> + Clone) -> PyErr {
    let error = TaskError::new_err(text);
    let list: Vec<_> = failures.clone().map(|failure| entry(py, failure)).collect();
    let listed = error.value(py).setattr("failures", list);
    error.set_cause(py, failures.into_iter().find_map(raised).map(|raised| raised.error(py)));
    listed.map_or_else(|problem| problem, |()| error)
}

/// Returns an entry of `TaskError.failures`: the task's name, the place of its submission, its exception, and the
/// number of tasks that were skipped because of it.
fn entry(py: Python<'_>, failure: &TaskFailure) -> (String, String, Option<Py<PyAny>>, u64) {
    let exception = raised(failure).map(|raised| raised.error.value(py).clone().into_any().unbind());
    let at = failure.submitted_at();
    (failure.name().to_owned(), format!("{}:{}", at.file(), at.line()), exception, failure.skipped())
}

pub(crate) fn run_error(py: Python<'_>, error: RunError) -> PyErr {
    let text = error.to_string();
    match &error {
        RunError::Failed(failures) => failed(py, text, failures.iter().map(|failure| &**failure)),
        RunError::Poisoned(failure) => failed(py, text, std::iter::once(&**failure)),
        RunError::Refused(_) => Refused::new_err(text),
        _ => Error::new_err(text),
    }
}

pub(crate) fn submit_error(error: &SubmitError) -> PyErr {
    Refused::new_err(error.to_string())
}

pub(crate) fn build_error(error: &BuildError) -> PyErr {
    Refused::new_err(error.to_string())
}
