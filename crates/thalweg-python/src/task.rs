//! Submission of tasks, and their handles.

use crate::body::{Argument, Arguments, PythonBody, Slot};
use crate::compiled::{Compiled, CompiledBody};
use crate::data::Access;
use crate::error::{raised, run_error, submit_error};
use crate::gil;
use crate::group::{Group, Space};
use crate::notify::Job;
use crate::place::Place;
use crate::runtime::Shell;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::sync::Arc;
use thalweg::dynamic::{AnyAccess, AnyView};
use thalweg::error::BoxError;
use thalweg::{TaskBuilder as Builder, TaskHandle};

/// What a task is besides its accesses and its body.
pub(crate) struct Options {
    pub(crate) name: Option<String>,
    pub(crate) priority: i32,
    pub(crate) cost: Option<f64>,
    pub(crate) group: Option<Py<Group>>,
    pub(crate) at: Option<(Py<Space>, usize)>,
}

/// The accesses of a task. Calling it with a body submits the task.
#[pyclass(module = "thalweg", frozen)]
pub(crate) struct TaskBuilder {
    shell: Arc<Shell>,
    accesses: Py<PyTuple>,
    options: Options,
}

impl TaskBuilder {
    pub(crate) fn new(shell: &Arc<Shell>, accesses: &Bound<'_, PyTuple>, options: Options) -> PyResult<Self> {
        if let Some(other) = accesses.iter_borrowed().find(|access| access.cast::<Access>().is_err()) {
            return Err(PyTypeError::new_err(format!(
                "cannot use {} as an access: try a region with a mode, such as `x.inout()` or `x[0:4].input()`",
                other.repr()?
            )));
        }
        Ok(Self { shell: shell.clone(), accesses: accesses.clone().unbind(), options })
    }

    fn name(&self, py: Python<'_>, body: &Bound<'_, PyAny>) -> String {
        if let Some(name) = &self.options.name {
            return name.clone();
        }
        let name = body.getattr(pyo3::intern!(py, "__name__")).and_then(|name| name.extract());
        name.unwrap_or_else(|_| "task".to_owned())
    }

    /// Submits the task with this body.
    fn submit(&self, py: Python<'_>, name: String, accesses: Vec<AnyAccess>, body: Body) -> PyResult<TaskHandle> {
        let Options { priority, cost, group, at, .. } = &self.options;
        let mut builder: Builder<'_, _, _> =
            self.shell.rt.task(name, accesses).cpu(move |_, mut views| body.run(&mut views)).priority(*priority);
        if let Some(cost) = cost {
            builder = builder.cost(*cost);
        }
        if let Some(group) = group {
            builder = builder.group(&group.get().group);
        }
        if let Some((space, index)) = at {
            builder = builder.at(&space.get().space, *index);
        }
        let task = builder.submit_handle().map_err(|error| submit_error(&error))?;
        self.shell.throttle(py)?;
        Ok(task)
    }
}

/// A body of either kind.
enum Body {
    Python(PythonBody),
    Compiled(CompiledBody),
}

impl Body {
    fn run(self, views: &mut [AnyView<'_>]) -> Result<(), BoxError> {
        match self {
            Self::Python(body) => body.run(views),
            Self::Compiled(body) => body.run(views),
        }
    }
}

#[pymethods]
impl TaskBuilder {
    /// Submits the task with this body: a callable, or a `Compiled` function.
    fn __call__(&self, py: Python<'_>, body: &Bound<'_, PyAny>) -> PyResult<Task> {
        let given = self.accesses.bind(py);
        let mut accesses = Vec::with_capacity(given.len());
        if let Ok(compiled) = body.cast::<Compiled>() {
            for access in given.iter_borrowed() {
                accesses.push(access.cast::<Access>()?.get().any()?);
            }
            let compiled = compiled.get();
            let name = self.options.name.clone().unwrap_or_else(|| compiled.name.clone());
            let handle = self.submit(py, name, accesses, Body::Compiled(compiled.body(py)))?;
            return Ok(Task { handle, slot: None, shell: self.shell.clone(), place: Place::here(py) });
        }
        if !body.is_callable() {
            return Err(PyTypeError::new_err(format!(
                "cannot use {} as a body: it is not callable; try a function of as many arrays as the task has \
                 accesses, or `thalweg.Compiled`",
                body.repr()?
            )));
        }
        let mut arguments = Arguments::new();
        for access in given.iter_borrowed() {
            let access = access.cast::<Access>()?.get();
            accesses.push(access.any()?);
            let (owner, dropped, is_shown) = (access.owner.clone(), access.dropped, access.is_shown());
            arguments.push(Argument { owner, dropped, is_shown });
        }
        let (slot, place) = (Arc::<Slot>::default(), Place::here(py));
        let python = PythonBody {
            callable: body.clone().unbind(),
            arguments,
            slot: slot.clone(),
            is_cancelled: self.shell.is_cancelled.clone(),
            place: place.clone_ref(py),
        };
        let handle = self.submit(py, self.name(py, body), accesses, Body::Python(python))?;
        Ok(Task { handle, slot: Some(slot), shell: self.shell.clone(), place })
    }
}

/// A submitted task, which can be used like a `concurrent.futures.Future` and awaited.
///
/// >>> import thalweg as tw
/// >>> with tw.Runtime("1:CPU:1") as rt:
/// ...     rt.task()(lambda: 6 * 7).result()
/// 42
#[pyclass(module = "thalweg", frozen)]
pub(crate) struct Task {
    handle: TaskHandle,
    /// `None` if the body is compiled.
    slot: Option<Arc<Slot>>,
    shell: Arc<Shell>,
    place: Place,
}

impl Task {
    /// Waits for the end, and returns the exception that the body raised, or that describes why it did not run.
    fn error(&self, py: Python<'_>, call: &str, timeout: Option<f64>) -> PyResult<Option<PyErr>> {
        if !self.handle.is_finished() {
            gil::may_wait(call)?;
        }
        let timeout = gil::duration(call, timeout)?;
        let Err(error) = gil::wait_for(py, call, timeout, self.handle.wait_async())? else { return Ok(None) };
        if self.cancelled() {
            let class = py.import("concurrent.futures")?.getattr("CancelledError")?;
            return Ok(Some(PyErr::from_value(class.call0()?)));
        }
        let failure = self.handle.failure();
        // The exception itself if this task has raised it, and not another task whose output this one uses.
        let own = failure.as_ref().filter(|failure| failure.task() == self.handle.id());
        match own.and_then(|failure| raised(failure)) {
            Some(raised) => Ok(Some(raised.error(py))),
            None => Ok(Some(run_error(py, error))),
        }
    }
}

#[pymethods]
impl Task {
    /// The task's name.
    #[getter]
    fn name(&self) -> &str {
        self.handle.name()
    }

    /// The file and the line that submitted the task.
    #[getter]
    fn place(&self, py: Python<'_>) -> String {
        self.place.text(py)
    }

    fn __repr__(&self) -> String {
        let state = match () {
            () if self.cancelled() => "cancelled",
            () if !self.handle.is_finished() => "pending",
            () if self.handle.failure().is_some() => "failed",
            () => "done",
        };
        format!("<thalweg.Task `{}` {state}>", self.handle.name())
    }

    /// Returns whether the task has run, failed or been skipped.
    fn done(&self) -> bool {
        self.handle.is_finished()
    }

    /// Returns whether the body runs.
    fn running(&self) -> bool {
        self.slot.as_ref().is_some_and(|slot| slot.is_running())
    }

    /// Returns whether `cancel` has succeeded.
    fn cancelled(&self) -> bool {
        self.slot.as_ref().is_some_and(|slot| slot.is_cancelled())
    }

    /// Skips the task unless its body has begun. Returns whether it is skipped. Tasks that use its output are skipped
    /// as after any failure. Compiled bodies cannot be cancelled; try a group.
    fn cancel(&self) -> bool {
        self.slot.as_ref().is_some_and(|slot| slot.cancel())
    }

    /// Waits until the task has ended, for at most `timeout` seconds. Raises `TaskError` if it has failed.
    #[pyo3(signature = (timeout = None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        gil::may_wait("wait")?;
        let timeout = gil::duration("wait", timeout)?;
        gil::wait_for(py, "wait", timeout, self.handle.wait_async())?.map_err(|error| run_error(py, error))
    }

    /// Waits for the task, and returns what its body has returned. Raises the exception that the body has raised, or
    /// `TaskError` if the task was skipped because of another task.
    #[pyo3(signature = (timeout = None))]
    fn result(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<Py<PyAny>>> {
        match self.error(py, "result", timeout)? {
            Some(error) => Err(error),
            None => Ok(self.slot.as_ref().and_then(|slot| slot.value(py))),
        }
    }

    /// Waits for the task, and returns the exception that `result` would raise; `None` if it has succeeded.
    #[pyo3(signature = (timeout = None))]
    fn exception(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<Py<PyAny>>> {
        Ok(self.error(py, "exception", timeout)?.map(|error| error.into_value(py).into_any()))
    }

    /// Calls `callback` with this task when it has ended, on a thread of the package.
    fn add_done_callback(this: Py<Self>, py: Python<'_>, callback: Py<PyAny>) -> PyResult<()> {
        let task = this.get();
        let ending = Box::pin(task.handle.wait_async());
        task.shell.notifier.add(Job { ending, task: this.clone_ref(py), callback })
    }

    fn __await__(this: Py<Self>, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(py.import("thalweg._future")?.call_method1("wait", (this,))?.unbind())
    }
}
