//! Runtimes.

use crate::cuda_array;
use crate::data::{Data, Owner, adopt};
use crate::dlpack::import;
use crate::error::{Error, Refused, TaskError, build_error, run_error};
use crate::gil;
use crate::group::{Group, Space};
use crate::notify::Notifier;
use crate::statistics::Statistics;
use crate::task::{LoopBuilder, Options, TaskBuilder};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::mem::ManuallyDrop;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use thalweg_trace_tools::{Trace, html};

/// The number of submissions between two checks whether too many tasks are pending.
const LOOK_EVERY: u32 = 32;

/// The runtimes that `end_all` ends.
static RUNTIMES: Mutex<Vec<Weak<Shell>>> = Mutex::new(Vec::new());

/// A runtime and what belongs to it.
pub(crate) struct Shell {
    pub(crate) rt: ManuallyDrop<thalweg::Runtime>,
    /// Set when the program no longer wants the results of bodies that have not begun.
    pub(crate) is_cancelled: Arc<AtomicBool>,
    has_ended: AtomicBool,
    until_look: AtomicU32,
    data: Mutex<Vec<Weak<Owner>>>,
    pub(crate) notifier: Notifier,
    /// The page to write at the end, and the trace that it shows.
    page: Option<(PathBuf, PathBuf)>,
}

impl Drop for Shell {
    /// Waits for the tasks and joins the threads, for which they need the GIL.
    #[allow(unsafe_code)] // a field is moved out of a reference
    fn drop(&mut self) {
        // SAFETY: the runtime is taken only here, where nothing uses it any more.
        let rt = std::cell::Cell::new(Some(unsafe { ManuallyDrop::take(&mut self.rt) }));
        let ended = Python::try_attach(|py| {
            let rt = rt.take();
            py.detach(|| drop(rt));
        });
        if ended.is_none() {
            std::mem::forget(rt.take()); // the interpreter has ended, and bodies could not run
        }
        self.notifier.end();
    }
}

impl Shell {
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// Notes a data object, whose value is brought home when the runtime ends.
    pub(crate) fn enter(&self, owner: &Arc<Owner>) {
        if self.rt.machine().device_units().len() > 0 {
            let mut data = self.data.lock().unwrap_or_else(PoisonError::into_inner);
            data.retain(|owner| owner.strong_count() > 0);
            data.push(Arc::downgrade(owner));
        }
    }

    /// Waits if too many tasks are pending. A submission itself never waits, because it has the GIL.
    #[inline]
    pub(crate) fn throttle(&self, py: Python<'_>) -> PyResult<()> {
        if !self.until_look.fetch_add(1, Ordering::Relaxed).is_multiple_of(LOOK_EVERY)
            || self.rt.wait_for_room(Duration::ZERO)
        {
            return Ok(());
        }
        gil::wait(py, "submit", None, |slice| self.rt.wait_for_room(slice).then_some(()))
    }

    fn end(&self, py: Python<'_>) -> PyResult<()> {
        if self.has_ended() {
            return Ok(());
        }
        gil::may_wait("shutdown")?;
        let data = std::mem::take(&mut *self.data.lock().unwrap_or_else(PoisonError::into_inner));
        data.iter().filter_map(Weak::upgrade).for_each(|owner| owner.settle());
        let waited = self.wait(py, None);
        if let Err(error) = &waited
            && !error.is_instance_of::<TaskError>(py)
        {
            return waited; // interrupted, or refused
        }
        let ended = py.detach(|| self.rt.shutdown());
        self.has_ended.store(true, Ordering::Release);
        let written = py.detach(|| self.write_page());
        waited.and(ended.map_err(|error| run_error(py, error))).and(written.map_err(Error::new_err))
    }

    /// Writes the page that shows the trace, and removes the trace.
    fn write_page(&self) -> Result<(), String> {
        let Some((page, trace)) = &self.page else { return Ok(()) };
        let read = Trace::read(trace).map_err(|problem| problem.to_string())?;
        html::write(&read, page).map_err(|problem| problem.to_string())?;
        _ = std::fs::remove_file(trace); // the page contains all of it
        Ok(())
    }

    fn wait(&self, py: Python<'_>, timeout: Option<Duration>) -> PyResult<()> {
        let wait = |slice| self.rt.wait_timeout(slice).map(|ended| ended.then_some(())).transpose();
        gil::wait(py, "wait", timeout, wait)?.map_err(|error| run_error(py, error))
    }
}

/// Ends all runtimes, before the interpreter ends.
#[pyfunction]
pub(crate) fn end_all(py: Python<'_>) {
    let runtimes = std::mem::take(&mut *RUNTIMES.lock().unwrap_or_else(PoisonError::into_inner));
    for shell in runtimes.iter().filter_map(Weak::upgrade) {
        if let Err(error) = shell.end(py)
            && !error.is_instance_of::<Refused>(py)
        // in a child of `fork`, where there is nothing to end
        {
            error.write_unraisable(py, None);
        }
        shell.notifier.end();
    }
    gil::ends();
}

/// A runtime: it runs tasks on compute units as soon as the tasks that they depend on are done.
///
/// `units` describes them: `"4:CPU:1"` is four units of one core each. By default there is one per core. Leaving the
/// `with` block waits for all tasks.
///
/// `trace` is a file: a page that shows the run if its name ends with `.html`, and otherwise a trace for the program
/// `thalweg`. It is complete once the runtime has ended.
///
/// >>> import numpy as np, thalweg as tw
/// >>> with tw.Runtime("2:CPU:1") as rt:
/// ...     x = rt.data(np.ones(1_000_000))
/// ...     for part in x.blocks(4096):
/// ...         task = rt.task(part.inout())(lambda x: np.multiply(x, 2, out=x))
/// ...     print(x.read().sum())
/// 2000000.0
#[pyclass(module = "thalweg", frozen, weakref)]
pub(crate) struct Runtime {
    pub(crate) shell: Arc<Shell>,
}

#[pymethods]
impl Runtime {
    #[new]
    #[pyo3(signature = (
        units = None, *, scheduler = None, trace = None, max_pending_tasks = None, name = None, pin_threads = None,
        stack_bytes = None
    ))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        units: Option<String>,
        scheduler: Option<String>,
        trace: Option<PathBuf>,
        max_pending_tasks: Option<usize>,
        name: Option<String>,
        pin_threads: Option<bool>,
        stack_bytes: Option<usize>,
    ) -> PyResult<Self> {
        let mut builder = thalweg::Runtime::builder().throttle_submissions(false);
        if let Some(units) = units {
            builder = builder.compute_units(units);
        }
        if let Some(scheduler) = scheduler {
            builder = builder.scheduler(scheduler);
        }
        if let Some(tasks) = max_pending_tasks {
            builder = builder.max_pending_tasks(tasks);
        }
        if let Some(name) = name {
            builder = builder.name(name);
        }
        if let Some(yes) = pin_threads {
            builder = builder.pin_threads(yes);
        }
        if let Some(bytes) = stack_bytes {
            builder = builder.stack_bytes(bytes);
        }
        let is_page = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "html");
        let page = trace.clone().filter(is_page).map(|page| (page.clone(), page.with_extension("thw")));
        if let Some(path) = page.as_ref().map(|(_, trace)| trace).or(trace.as_ref()) {
            builder = builder.trace(path);
        }
        let rt = builder.build().map_err(|error| build_error(&error))?; // runs no body
        let shell = Arc::new(Shell {
            rt: ManuallyDrop::new(rt),
            is_cancelled: Arc::default(),
            has_ended: AtomicBool::new(false),
            until_look: AtomicU32::new(0),
            data: Mutex::default(),
            notifier: Notifier::default(),
            page,
        });
        let mut runtimes = RUNTIMES.lock().unwrap_or_else(PoisonError::into_inner);
        runtimes.retain(|runtime| runtime.strong_count() > 0);
        runtimes.push(Arc::downgrade(&shell));
        drop(runtimes);
        Ok(Self { shell })
    }

    /// Registers a NumPy array in place: until the data object is gone, only tasks may touch its elements.
    ///
    /// >>> import numpy as np, thalweg as tw
    /// >>> with tw.Runtime("1:CPU:1") as rt:
    /// ...     x = rt.data(np.arange(6.0).reshape(2, 3), name="x")
    /// ...     (x.shape, x.dtype)
    /// ((2, 3), dtype('float64'))
    #[pyo3(signature = (array, *, name = None))]
    fn data(&self, array: &Bound<'_, PyAny>, name: Option<String>) -> PyResult<Data> {
        adopt(&self.shell, array, name)
    }

    /// Registers an array of another library in place, by DLPack: an array of host memory, or of the memory of a CUDA
    /// or ROCm device that is one of the runtime's.
    ///
    /// >>> import numpy as np, thalweg as tw
    /// >>> with tw.Runtime("1:CPU:1") as rt:
    /// ...     x = rt.from_dlpack(np.ones(3))  # or an array of PyTorch or CuPy
    /// ...     x.read().tolist()
    /// [1.0, 1.0, 1.0]
    #[pyo3(signature = (array, *, name = None))]
    #[allow(clippy::wrong_self_convention)] // the name that other libraries use
    fn from_dlpack(&self, py: Python<'_>, array: &Bound<'_, PyAny>, name: Option<String>) -> PyResult<Data> {
        import(py, &self.shell, array, name)
    }

    /// Registers an array of device memory in place, by `__cuda_array_interface__`, which CuPy, Numba and PyTorch have,
    /// for HIP as well. `device` is the index of its CUDA or HIP device. Work on the array's stream is waited for.
    #[pyo3(signature = (array, device = 0, *, name = None))]
    #[allow(clippy::wrong_self_convention)] // as `from_dlpack`
    fn from_cuda_array(
        &self,
        py: Python<'_>,
        array: &Bound<'_, PyAny>,
        device: i32,
        name: Option<String>,
    ) -> PyResult<Data> {
        cuda_array::import(py, &self.shell, array, device, name)
    }

    /// Registers a new array of zeros.
    #[pyo3(signature = (shape, dtype = None, *, name = None))]
    fn zeros(
        &self,
        py: Python<'_>,
        shape: &Bound<'_, PyAny>,
        dtype: Option<&Bound<'_, PyAny>>,
        name: Option<String>,
    ) -> PyResult<Data> {
        let zeros = py.import("numpy")?.getattr("zeros")?;
        let array = if let Some(dtype) = dtype { zeros.call1((shape, dtype))? } else { zeros.call1((shape,))? };
        adopt(&self.shell, &array, name)
    }

    /// Begins a task with these accesses. Calling the result with a body submits the task and returns its handle, so it
    /// is a decorator as well. The body gets an array for each access, in their order.
    ///
    /// `priority`: ready tasks with larger priorities go first. `cost`: the amount of work, in any unit. `at`: an
    /// iteration space and an index in it.
    ///
    /// >>> import numpy as np, thalweg as tw
    /// >>> with tw.Runtime("2:CPU:1") as rt:
    /// ...     x, total = rt.data(np.ones(8)), rt.zeros(1)
    /// ...     @rt.task(x.input(), total.inout(), name="add up")
    /// ...     def add(x, total):
    /// ...         total += x.sum()
    /// ...     add.wait()
    /// ...     float(total.read()[0])
    /// 8.0
    #[pyo3(signature = (*accesses, name = None, priority = 0, cost = None, group = None, at = None))]
    fn task(
        &self,
        accesses: &Bound<'_, PyTuple>,
        name: Option<String>,
        priority: i32,
        cost: Option<f64>,
        group: Option<Py<Group>>,
        at: Option<(Py<Space>, usize)>,
    ) -> PyResult<TaskBuilder> {
        TaskBuilder::new(&self.shell, accesses, Options { name, priority, cost, group, at })
    }

    /// Begins a task for each entry of these lists of accesses, which have the same length. Calling the result with a
    /// body submits the tasks, which have no handles; one call for all costs less than a call for each.
    ///
    /// >>> import numpy as np, thalweg as tw
    /// >>> with tw.Runtime("2:CPU:1") as rt:
    /// ...     x = rt.data(np.ones(1000))
    /// ...     rt.for_each(part.inout() for part in x.blocks(100))(lambda x: np.multiply(x, 2, out=x))
    /// ...     print(x.read().sum())
    /// 2000.0
    #[pyo3(signature = (*lists, name = None, priority = 0, cost = None, group = None))]
    fn for_each(
        &self,
        lists: &Bound<'_, PyTuple>,
        name: Option<String>,
        priority: i32,
        cost: Option<f64>,
        group: Option<Py<Group>>,
    ) -> PyResult<LoopBuilder> {
        LoopBuilder::new(&self.shell, lists, Options { name, priority, cost, group, at: None })
    }

    /// Waits for all tasks, for at most `timeout` seconds.
    ///
    /// Raises `TaskError` if tasks have failed since the last call that waited, and `TimeoutError`.
    #[pyo3(signature = (timeout = None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        gil::may_wait("wait")?;
        self.shell.wait(py, gil::duration("wait", timeout)?)
    }

    /// Waits for all tasks and ends the runtime, as leaving the `with` block does. Arrays of data objects contain their
    /// values afterwards.
    fn shutdown(&self, py: Python<'_>) -> PyResult<()> {
        self.shell.end(py)
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    /// If the block has raised an exception, bodies that have not begun are skipped.
    fn __exit__(
        &self,
        py: Python<'_>,
        class: &Bound<'_, PyAny>,
        _error: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let is_raised = !class.is_none();
        if is_raised {
            self.shell.is_cancelled.store(true, Ordering::SeqCst);
        }
        match self.shell.end(py) {
            Err(error) if is_raised && error.is_instance_of::<TaskError>(py) => Ok(false),
            ended => ended.map(|()| false),
        }
    }

    /// Makes a group of tasks, which can be waited for and cancelled together.
    fn group(&self) -> Group {
        Group::new(&self.shell)
    }

    /// The numbers of tasks that each unit has finished, of copies, and so on.
    fn statistics(&self) -> Statistics {
        Statistics::new(self.shell.rt.statistics())
    }

    /// The compute units, as `units` describes them.
    #[getter]
    fn units(&self) -> String {
        self.shell.rt.machine().configuration().to_owned()
    }

    fn __repr__(&self) -> String {
        format!("<thalweg.Runtime {}>", self.units())
    }

    fn _repr_html_(&self) -> String {
        self.statistics()._repr_html_()
    }
}
