//! Bodies that are compiled functions, which run without the GIL.
//!
//! A function has the signature of `tw_body` in `thalweg.h`, the header of the C interface, so one function serves
//! both. It gets no context (a null pointer).

use crate::body::{CANCELLED, Slot};
use crate::gil;
use crate::view::{tw_view, view};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use thalweg::dynamic::AnyView;
use thalweg::error::BoxError;

type Function = unsafe extern "C" fn(*mut c_void, *const tw_view, usize, *mut c_void) -> c_int;

/// A compiled body: `int body(void *context, const tw_view *views, size_t count, void *argument)`.
///
/// It runs without the GIL. `context` is null. It returns 0 if it has succeeded. `argument` is an object with a buffer,
/// such as `bytes`; every call gets the address of a copy of it, or null without an argument.
///
/// `function` is a function pointer of ctypes or cffi, a function that numba's `cfunc` has compiled, a capsule of a
/// pointer, or an address.
///
/// >>> import ctypes, thalweg as tw
/// >>> @tw.BODY
/// ... def nothing(context, views, count, argument):
/// ...     return 0
/// >>> with tw.Runtime("1:CPU:1") as rt:
/// ...     task = rt.task()(tw.Compiled(nothing))
#[pyclass(module = "thalweg", frozen)]
pub(crate) struct Compiled {
    function: Function,
    /// The object that keeps the function's code alive.
    owner: Py<PyAny>,
    argument: Arc<[u8]>,
    #[pyo3(get)]
    pub(crate) name: Cow<'static, str>,
}

/// Returns a name that costs nothing to clone. At most `MOST` names are kept like this, until the process ends.
fn kept(name: String) -> Cow<'static, str> {
    const MOST: usize = 1 << 12;
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    match names.get(&*name) {
        Some(known) => Cow::Borrowed(*known),
        None if names.len() >= MOST => Cow::Owned(name),
        None => {
            let name = &*name.leak();
            names.insert(name);
            Cow::Borrowed(name)
        }
    }
}

/// Returns the address of a function that another library has compiled.
fn address(function: &Bound<'_, PyAny>) -> PyResult<usize> {
    if let Ok(address) = function.extract::<usize>() {
        return Ok(address);
    }
    if let Ok(capsule) = function.cast::<PyCapsule>() {
        let name = capsule.name()?;
        // SAFETY: the name is compared with itself, and is valid as long as the capsule.
        #[allow(unsafe_code, reason = "PyO3 cannot know how long a capsule's name is valid")]
        let name = name.map(|name| unsafe { name.as_cstr() });
        return Ok(capsule.pointer_checked(name)?.as_ptr().addr());
    }
    if let Ok(address) = function.getattr("address").and_then(|address| address.extract()) {
        return Ok(address); // numba
    }
    let py = function.py();
    let ctypes = py.import("ctypes")?;
    if function.is_instance(&ctypes.getattr("_CFuncPtr")?)? {
        let address = ctypes.call_method1("cast", (function, ctypes.getattr("c_void_p")?))?.getattr("value")?;
        return address.extract();
    }
    if function.get_type().name()?.to_string_lossy().starts_with("_CData") {
        let ffi = py.import("cffi")?.getattr("FFI")?.call0()?;
        return ffi.call_method1("cast", ("uintptr_t", function))?.call_method0("__int__")?.extract();
    }
    Err(PyTypeError::new_err(format!(
        "cannot use {} as a compiled body: it is no function pointer; try one of ctypes or cffi, numba's `cfunc`, a \
         capsule or an address",
        function.repr()?
    )))
}

#[pymethods]
impl Compiled {
    #[new]
    #[pyo3(signature = (function, argument = None, *, name = None))]
    #[allow(unsafe_code)] // an address becomes a function
    fn new(function: &Bound<'_, PyAny>, argument: Option<&Bound<'_, PyAny>>, name: Option<String>) -> PyResult<Self> {
        let found = address(function)?;
        if found == 0 {
            return Err(PyValueError::new_err("cannot use a null pointer as a body; try the address of a function"));
        }
        let called = || function.getattr("__name__").and_then(|name| name.extract()).ok();
        Ok(Self {
            // SAFETY: the address is not null, and the caller promises that it is that of a function of this type.
            function: unsafe { std::mem::transmute::<usize, Function>(found) },
            owner: function.clone().unbind(),
            argument: bytes(argument)?,
            name: kept(name.or_else(called).unwrap_or_else(|| "compiled".to_owned())),
        })
    }

    /// Returns the same function with another argument.
    fn with_argument(&self, py: Python<'_>, argument: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (function, owner, name) = (self.function, self.owner.clone_ref(py), self.name.clone());
        Ok(Self { function, owner, argument: bytes(Some(argument))?, name })
    }
}

fn bytes(argument: Option<&Bound<'_, PyAny>>) -> PyResult<Arc<[u8]>> {
    let Some(argument) = argument else { return Ok(Arc::default()) };
    if let Ok(bytes) = argument.cast::<PyBytes>() {
        return Ok(bytes.as_bytes().into());
    }
    let bytes = argument.py().import("builtins")?.getattr("bytes")?.call1((argument,))?;
    Ok(bytes.cast::<PyBytes>()?.as_bytes().into())
}

/// A compiled function with its argument.
pub(crate) struct CompiledBody {
    function: Function,
    argument: Arc<[u8]>,
    is_cancelled: Arc<AtomicBool>,
    /// `None` if the task has no other body.
    pub(crate) slot: Option<Arc<Slot>>,
    /// Without the GIL, the reference is left to the next thread that has it.
    _owner: Py<PyAny>,
}

impl Compiled {
    pub(crate) fn body(&self, py: Python<'_>, is_cancelled: Arc<AtomicBool>) -> CompiledBody {
        let argument = self.argument.clone();
        CompiledBody { function: self.function, argument, is_cancelled, slot: None, _owner: self.owner.clone_ref(py) }
    }
}

impl CompiledBody {
    /// Calls the function.
    #[allow(unsafe_code)] // the body is a foreign function
    pub(crate) fn run(self, views: &[AnyView<'_>]) -> Result<(), BoxError> {
        let begins = self.slot.as_ref().is_none_or(|slot| slot.begin());
        if !begins || self.is_cancelled.load(Ordering::Relaxed) {
            return Err(CANCELLED.into());
        }
        let views: SmallVec<[tw_view; 4]> = views.iter().map(view).collect();
        // The element type gives the copy an alignment of 16.
        let mut copy: SmallVec<[u128; 4]> = SmallVec::from_elem(0, self.argument.len().div_ceil(size_of::<u128>()));
        let mut argument = std::ptr::null_mut::<u8>();
        if !self.argument.is_empty() {
            argument = copy.as_mut_ptr().cast();
            // SAFETY: the copy has at least as many bytes as the argument, and is new.
            unsafe { std::ptr::copy_nonoverlapping(self.argument.as_ptr(), argument, self.argument.len()) }
        }
        // SAFETY: the caller of `Compiled` promises that the function has this type and uses the views as declared, and
        // only while it runs.
        let status = gil::in_body(|| unsafe {
            (self.function)(std::ptr::null_mut(), views.as_ptr(), views.len(), argument.cast())
        });
        self.slot.iter().for_each(|slot| slot.returned(None));
        if status == 0 { Ok(()) } else { Err(format!("its body returned {status}").into()) }
    }
}
