//! Groups of tasks, and iteration spaces.

use crate::error::run_error;
use crate::gil;
use crate::runtime::Shell;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::Arc;
use thalweg::TaskGroup;
use thalweg::task::IterationSpace;

/// A group of tasks, made by `Runtime.group`. Tasks join it by `rt.task(..., group=group)`.
///
/// >>> import thalweg as tw
/// >>> with tw.Runtime("1:CPU:1") as rt:
/// ...     group = rt.group()
/// ...     task = rt.task(group=group)(lambda: None)
/// ...     group.wait()
/// ...     group.pending
/// 0
#[pyclass(module = "thalweg", frozen)]
pub(crate) struct Group {
    pub(crate) group: TaskGroup,
    _shell: Arc<Shell>,
}

impl Group {
    pub(crate) fn new(shell: &Arc<Shell>) -> Self {
        Self { group: shell.rt.group(), _shell: shell.clone() }
    }
}

#[pymethods]
impl Group {
    /// Waits for the group's tasks, for at most `timeout` seconds.
    #[pyo3(signature = (timeout = None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        gil::may_wait("wait")?;
        let timeout = gil::duration("wait", timeout)?;
        let wait = |slice| self.group.wait_timeout(slice).map(|ended| ended.then_some(())).transpose();
        gil::wait(py, "wait", timeout, wait)?.map_err(|error| run_error(py, error))
    }

    /// Cancels the group: tasks that have not begun are skipped, and no more are accepted.
    fn cancel(&self) {
        self.group.cancel();
    }

    /// Whether the group was cancelled.
    #[getter]
    fn cancelled(&self) -> bool {
        self.group.is_cancelled()
    }

    /// The number of tasks that have not ended.
    #[getter]
    fn pending(&self) -> u64 {
        self.group.pending()
    }
}

/// An iteration space: tasks that recur in each time step, one per weight, which schedulers distribute.
#[pyclass(module = "thalweg", frozen)]
pub(crate) struct Space {
    pub(crate) space: IterationSpace,
}

#[pymethods]
impl Space {
    #[new]
    #[pyo3(signature = (weights, name = "space"))]
    fn new(weights: Vec<f64>, name: &str) -> PyResult<Self> {
        if let Some(wrong) = weights.iter().find(|weight| !weight.is_finite() || **weight < 0.0) {
            let problem = format!("a weight is {wrong}; try finite numbers, 0 or more");
            return Err(PyValueError::new_err(format!("cannot make an iteration space: {problem}")));
        }
        Ok(Self { space: IterationSpace::new(name, weights) })
    }

    /// Begins the next time step.
    fn begin(&self) {
        self.space.begin();
    }
}
