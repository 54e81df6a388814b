//! Kernels from text, and their launches as bodies for accelerators.

use crate::error::Refused;
use crate::launch::{self, Given};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyTuple};
use thalweg::dynamic::{AnyArgument, AnyDeviceView, AnyKernel};
use thalweg::error::DeviceError;
use thalweg::kernel::{Launcher, Threads};

/// A kernel of a text in Thalweg's dialect, which CUDA, HIP and OpenCL devices compile.
///
/// `name` is that of the text in the messages of compilers, and `kernel` that of the function. With any arguments of
/// the types in its head, the kernel must touch only the elements that its head declares: this cannot be checked.
///
/// >>> import thalweg as tw
/// >>> text = '''KERNEL(64, 1, 1) scale(double a, INOUT(double, x, n), int n)
/// ... { REGION(x); int i = GLOBAL_ID(0); if (i < n) x[i] *= a; }'''
/// >>> scale = tw.Kernel("scale.cl", text, "scale")
/// >>> scale.launch(1000, 2.0, tw.nth(0), 1000)
/// <thalweg.Launch of `scale`>
///
/// With a device: `rt.task(x.inout())(gpu=scale.launch(1000, 2.0, tw.nth(0), 1000))`.
#[pyclass(module = "thalweg", frozen)]
pub(crate) struct Kernel(AnyKernel);

/// The access of the task with this index, from 0, as an argument of a kernel.
#[pyclass(module = "thalweg", frozen, name = "nth")]
pub(crate) struct Nth(usize);

/// A kernel with its arguments.
#[pyclass(module = "thalweg", frozen)]
#[derive(Clone)]
pub(crate) struct Launch(launch::Launch);

#[pymethods]
impl Nth {
    #[new]
    fn new(access: usize) -> Self {
        Self(access)
    }

    fn __repr__(&self) -> String {
        format!("thalweg.nth({})", self.0)
    }
}

#[pymethods]
impl Kernel {
    #[new]
    #[allow(unsafe_code)] // only the caller can promise what a kernel's text touches
    fn new(name: &str, text: &str, kernel: &str) -> PyResult<Self> {
        // SAFETY: the kernel touches what its head declares, as the class asks.
        let made = unsafe { AnyKernel::new(name, text, kernel) };
        let refused = |error| format!("cannot use kernel `{kernel}` of {name}: {error}; try another head");
        made.map(Self).map_err(|error| Refused::new_err(refused(error)))
    }

    /// The function's name.
    #[getter]
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn __repr__(&self) -> String {
        format!("<thalweg.Kernel `{}`>", self.0.name())
    }

    /// Returns a launch with this number of threads, or these numbers along up to three dimensions.
    ///
    /// The arguments are those of the kernel's head: `nth(i)` for a region, a `float` for `double`, and an `int` for
    /// `int`, or for `INT64` if it needs more bits. Other types are passed as NumPy's numbers, such as
    /// `numpy.float32(2)`.
    #[pyo3(signature = (threads, *arguments))]
    fn launch(&self, threads: &Bound<'_, PyAny>, arguments: &Bound<'_, PyTuple>) -> PyResult<Launch> {
        let given: Vec<usize> = match threads.extract::<usize>() {
            Ok(threads) => vec![threads],
            Err(_) => threads.extract().unwrap_or_default(),
        };
        if !(1..=3).contains(&given.len()) {
            return Err(PyValueError::new_err(format!(
                "cannot launch {} threads: try a number, or a tuple of one to three numbers",
                threads.repr()?
            )));
        }
        let threads = std::array::from_fn(|d| given.get(d).copied().unwrap_or(1));
        let arguments = arguments.iter().map(|argument| self.argument(&argument)).collect::<PyResult<_>>()?;
        Ok(Launch(launch::Launch { kernel: self.0, threads: Threads(threads), arguments }))
    }
}

impl Kernel {
    fn argument(&self, given: &Bound<'_, PyAny>) -> PyResult<Given> {
        if let Ok(nth) = given.cast::<Nth>() {
            return Ok(Given::Access(nth.get().0));
        }
        let dtype = given.getattr("dtype").and_then(|dtype| dtype.getattr("name")?.extract::<String>()).ok();
        let number = match dtype.as_deref() {
            Some("float64") => Some(AnyArgument::F64(given.extract()?)),
            Some("float32") => Some(AnyArgument::F32(given.extract::<f64>()? as f32)),
            Some("int32") => Some(AnyArgument::I32(given.extract()?)),
            Some("uint32") => Some(AnyArgument::U32(given.extract()?)),
            Some("int64") => Some(AnyArgument::I64(given.extract()?)),
            Some("uint64") => Some(AnyArgument::U64(given.extract()?)),
            Some(_) => None,
            None if given.is_instance_of::<PyFloat>() => Some(AnyArgument::F64(given.extract()?)),
            None if given.is_instance_of::<PyInt>() && !given.is_instance_of::<PyBool>() => {
                match given.extract::<i32>() {
                    Ok(number) => Some(AnyArgument::I32(number)),
                    Err(_) => Some(AnyArgument::I64(given.extract()?)),
                }
            }
            None => None,
        };
        number.map(Given::Number).ok_or_else(|| {
            PyTypeError::new_err(format!(
                "cannot pass {given} to kernel `{}`: it is no number of 4 or 8 bytes and no region; try \
                 `numpy.float64(2)`, or `thalweg.nth(0)` for the first access",
                self.0.name()
            ))
        })
    }
}

#[pymethods]
impl Launch {
    fn __repr__(&self) -> String {
        format!("<thalweg.Launch of `{}`>", self.0.kernel.name())
    }
}

impl Launch {
    /// Returns the launches that `given` is, one or several, for a task of this number of accesses.
    pub(crate) fn list(given: &Bound<'_, PyAny>, accesses: usize) -> PyResult<Vec<Self>> {
        let launch = |one: &Bound<'_, PyAny>| one.cast::<Self>().map(|launch| launch.get().clone()).ok();
        let list = match launch(given) {
            Some(one) => Some(vec![one]),
            None => given.try_iter().ok().and_then(|list| list.map(|one| launch(&one.ok()?)).collect()),
        };
        let Some(list) = list else {
            let problem = "it is no launch; try `kernel.launch(threads, ...)`, or a list of launches";
            return Err(PyTypeError::new_err(format!("cannot use {given} as a body for accelerators: {problem}")));
        };
        for Self(launch::Launch { kernel, arguments, .. }) in &list {
            let is_absent = |given: &Given| matches!(given, Given::Access(index) if *index >= accesses);
            if arguments.iter().any(is_absent) {
                return Err(Refused::new_err(format!(
                    "cannot launch `{}`: an argument is no access of the task, which has {accesses}; try \
                     `thalweg.nth(0)` for the first one",
                    kernel.name()
                )));
            }
        }
        Ok(list)
    }

    /// Returns the kernel's name.
    pub(crate) fn name(&self) -> &'static str {
        self.0.kernel.name()
    }

    /// Enqueues the kernel.
    pub(crate) fn enqueue(&self, launcher: &mut Launcher<'_>, views: &[AnyDeviceView<'_>]) -> Result<(), DeviceError> {
        self.0.enqueue(launcher, views)
    }
}
