//! Submission of tasks, and their handles.

use crate::body::{Argument, Arguments, Callable, PythonBody, Slot};
use crate::compiled::{Compiled, CompiledBody};
use crate::data::Access;
use crate::device_body::DeviceBodies;
use crate::error::{raised, run_error, submit_error};
use crate::gil;
use crate::group::{Group, Space};
use crate::notify::Job;
use crate::place;
use crate::runtime::Shell;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::borrow::Cow;
use std::sync::Arc;
use thalweg::dynamic::{AnyAccess, AnyView};
use thalweg::error::BoxError;
use thalweg::task::Accesses;
use thalweg::{CallSite, TaskBuilder as TaskBuilderOf, TaskHandle};

/// Properties of a task besides its accesses and its body.
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
}

/// Makes the body of a task with these accesses.
fn body(
    py: Python<'_>,
    shell: &Arc<Shell>,
    body: &Bound<'_, PyAny>,
    given: &mut dyn Iterator<Item = &Access>,
    has_slot: bool,
) -> (Body, Option<Arc<Slot>>) {
    if let Ok(compiled) = body.cast::<Compiled>() {
        return (Body::Compiled(compiled.get().body(py, shell.is_cancelled.clone())), None);
    }
    let mut arguments = Arguments::new();
    for access in given {
        let (owner, dropped, is_shown) = (access.owner.clone(), access.dropped, access.is_shown());
        arguments.push(Argument { owner, dropped, is_shown });
    }
    let slot = has_slot.then(Arc::<Slot>::default);
    let callable = callable(shell, body, slot.clone());
    (Body::Python(PythonBody { callable, arguments }), slot)
}

pub(crate) fn callable(shell: &Shell, body: &Bound<'_, PyAny>, slot: Option<Arc<Slot>>) -> Callable {
    Callable { callable: body.clone().unbind(), slot, is_cancelled: shell.is_cancelled.clone() }
}

/// Checks that a body can be called.
pub(crate) fn check(body: &Bound<'_, PyAny>) -> PyResult<()> {
    if body.cast::<Compiled>().is_ok() || body.is_callable() {
        return Ok(());
    }
    Err(PyTypeError::new_err(format!(
        "cannot use {} as a body: it is not callable; try a function of as many arrays as the task has accesses, or \
         `thalweg.Compiled`",
        body.repr()?
    )))
}

impl Options {
    fn name(&self, py: Python<'_>, body: &Bound<'_, PyAny>) -> PyResult<Cow<'static, str>> {
        check(body)?;
        Ok(match (&self.name, body.cast::<Compiled>()) {
            (Some(name), _) => name.clone().into(),
            (None, Ok(compiled)) => compiled.get().name.clone(),
            (None, Err(_)) => {
                let name = body.getattr(pyo3::intern!(py, "__name__")).and_then(|name| name.extract::<String>());
                name.map_or(Cow::Borrowed("task"), Cow::Owned)
            }
        })
    }

    /// Sets the properties of a task.
    #[inline]
    fn configured<'rt, A: Accesses>(&self, builder: TaskBuilderOf<'rt, A>, place: CallSite) -> TaskBuilderOf<'rt, A> {
        let mut builder = builder.submitted_at(place).priority(self.priority);
        if let Some(cost) = self.cost {
            builder = builder.cost(cost);
        }
        if let Some(group) = &self.group {
            builder = builder.group(&group.get().group);
        }
        if let Some((space, index)) = &self.at {
            builder = builder.at(&space.get().space, *index);
        }
        builder
    }

    /// Submits a task, and returns its handle if one is wanted.
    fn submit(
        &self,
        shell: &Shell,
        (name, place): (Cow<'static, str>, CallSite),
        (bodies, given): (Bodies, &mut dyn ExactSizeIterator<Item = &Access>),
        wants_handle: bool,
    ) -> PyResult<Option<TaskHandle>> {
        macro_rules! send {
            ($accesses:expr, $builder:ident => $configured:expr) => {{
                let $builder = self.configured(shell.rt.task(name, $accesses), place);
                let builder = $configured;
                if wants_handle { builder.submit_handle().map(Some) } else { builder.submit().map(|_| None) }
            }};
        }
        let count = given.len();
        let mut next = || given.next().expect("there are as many as counted").any();
        // Up to three accesses are a tuple, because a list allocates memory three times per task.
        let submitted = match (bodies.cores, bodies.devices, count) {
            (Some(body), None, 1) => {
                send!((next()?,), it => it.cpu(move |_, (mut a,)| body.run(std::slice::from_mut(&mut a))))
            }
            (Some(body), None, 2) => {
                send!((next()?, next()?), it => it.cpu(move |_, (a, b)| body.run(&mut [a, b])))
            }
            (Some(body), None, 3) => {
                send!((next()?, next()?, next()?), it => it.cpu(move |_, (a, b, c)| body.run(&mut [a, b, c])))
            }
            (Some(body), None, _) => {
                send!(list(given)?, it => it.cpu(move |_, mut views| body.run(&mut views)))
            }
            (Some(body), Some(devices), _) => {
                send!(list(given)?, it => devices.add(it).cpu(move |_, mut views| body.run(&mut views)))
            }
            (None, devices, _) => {
                let devices = devices.expect("a task has a body");
                send!(list(given)?, it => devices.add(it))
            }
        };
        submitted.map_err(|error| submit_error(&error))
    }
}

fn list(given: &mut dyn ExactSizeIterator<Item = &Access>) -> PyResult<Vec<AnyAccess>> {
    given.map(Access::any).collect()
}

/// The bodies of a task: that for cores, and those for accelerators.
struct Bodies {
    cores: Option<Body>,
    devices: Option<DeviceBodies>,
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
    /// Submits the task with this body for cores: a callable, or a `Compiled` function.
    ///
    /// A task may have bodies for accelerators as well, or instead; the unit that runs it uses the one that fits best.
    /// `gpu` is a launch of a kernel, or a list of launches, for devices of all kinds. `cuda` and `hip` are callables
    /// of a `Stream` and a `DeviceArray` for each access: they enqueue work on the stream, and do not wait for it.
    #[pyo3(signature = (callable = None, *, gpu = None, cuda = None, hip = None))]
    fn __call__(
        &self,
        py: Python<'_>,
        callable: Option<&Bound<'_, PyAny>>,
        gpu: Option<&Bound<'_, PyAny>>,
        cuda: Option<&Bound<'_, PyAny>>,
        hip: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Task> {
        let Some(named) = callable.or(cuda).or(hip).or(gpu) else {
            let problem = "it has no body; try a function, or `gpu=kernel.launch(...)`";
            return Err(PyTypeError::new_err(format!("cannot submit a task: {problem}")));
        };
        let place = place::here(py);
        let given = self.accesses.bind(py);
        let list = || given.iter_borrowed().map(|access| access.cast::<Access>().expect("as checked").get());
        let is_for_devices = gpu.is_some() || cuda.is_some() || hip.is_some();
        let (name, bodies, slot) = if let (Some(callable), false) = (callable, is_for_devices) {
            let name = self.options.name(py, callable)?;
            let (body, slot) = body(py, &self.shell, callable, &mut list(), true);
            (name, Bodies { cores: Some(body), devices: None }, slot)
        } else {
            let (devices, slot) = DeviceBodies::new(&self.shell, (gpu, cuda, hip), &mut list())?;
            let name = match (&self.options.name, gpu) {
                (Some(name), _) => name.clone().into(),
                (None, Some(_)) if callable.is_none() && cuda.is_none() && hip.is_none() => devices.name().into(),
                (None, _) => self.options.name(py, named)?,
            };
            let mut cores = callable.map(|callable| body(py, &self.shell, callable, &mut list(), false).0);
            match &mut cores {
                Some(Body::Python(body)) => body.callable.slot = Some(slot.clone()),
                Some(Body::Compiled(body)) => body.slot = Some(slot.clone()),
                None => {}
            }
            (name, Bodies { cores, devices: Some(devices) }, Some(slot))
        };
        let handle = self.options.submit(&self.shell, (name, place), (bodies, &mut list()), true)?;
        let handle = handle.expect("a handle is wanted");
        self.shell.throttle(py)?;
        Ok(Task { handle, slot, shell: self.shell.clone(), place })
    }
}

/// The accesses of several tasks. Calling it with a body submits them.
#[pyclass(module = "thalweg", frozen)]
pub(crate) struct LoopBuilder {
    shell: Arc<Shell>,
    lists: Vec<Vec<Py<Access>>>,
    options: Options,
}

impl LoopBuilder {
    pub(crate) fn new(shell: &Arc<Shell>, given: &Bound<'_, PyTuple>, options: Options) -> PyResult<Self> {
        let mut lists = Vec::new();
        for list in given.iter_borrowed() {
            let list = list.try_iter()?.map(|access| Ok(access?.cast_into::<Access>()?.unbind()));
            lists.push(list.collect::<PyResult<Vec<_>>>()?);
        }
        let lengths: Vec<usize> = lists.iter().map(Vec::len).collect();
        if lengths.is_empty() || lengths.iter().any(|length| *length != lengths[0]) {
            return Err(PyValueError::new_err(format!(
                "cannot make tasks of lists of {lengths:?} accesses; try one or more lists of the same length"
            )));
        }
        Ok(Self { shell: shell.clone(), lists, options })
    }
}

#[pymethods]
impl LoopBuilder {
    /// Submits the tasks with this body: a callable, or a `Compiled` function.
    fn __call__(&self, py: Python<'_>, callable: &Bound<'_, PyAny>) -> PyResult<()> {
        let (name, place) = (self.options.name(py, callable)?, place::here(py));
        for index in 0..self.lists[0].len() {
            let given = || self.lists.iter().map(|list| list[index].get());
            let (body, _) = body(py, &self.shell, callable, &mut given(), false);
            let (named, bodies) = ((name.clone(), place), Bodies { cores: Some(body), devices: None });
            self.options.submit(&self.shell, named, (bodies, &mut given()), false)?;
            self.shell.throttle(py)?;
        }
        Ok(())
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
    place: CallSite,
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
    fn place(&self) -> String {
        format!("{}:{}", self.place.file(), self.place.line())
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
