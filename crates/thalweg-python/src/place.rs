//! Places in Python files: where a task is submitted.

use pyo3::ffi;
use pyo3::prelude::*;
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};
use thalweg::CallSite;

/// The places by the address of their file's name and the line. Each entry keeps the name, so that no other object gets
/// its address.
static PLACES: LazyLock<Mutex<HashMap<(usize, i32), (CallSite, Py<PyAny>)>>> = LazyLock::new(Mutex::default);

/// Returns the line of Python code that the calling thread runs.
#[allow(unsafe_code)]
pub(crate) fn here(py: Python<'_>) -> CallSite {
    // SAFETY: the thread is attached. The frame is borrowed from the thread while it runs this call; its code is a new
    // reference.
    let (code, line) = unsafe {
        let frame = ffi::PyEval_GetFrame();
        if frame.is_null() {
            return CallSite::named("an unknown file", 1, 1);
        }
        let code = Bound::from_owned_ptr_or_opt(py, ffi::PyFrame_GetCode(frame).cast());
        (code, ffi::PyFrame_GetLineNumber(frame))
    };
    let file = code.and_then(|code| code.getattr(pyo3::intern!(py, "co_filename")).ok());
    let Some(file) = file else { return CallSite::named("an unknown file", 1, 1) };
    let mut places = PLACES.lock().unwrap_or_else(PoisonError::into_inner);
    let (place, _) = places.entry((file.as_ptr().addr(), line)).or_insert_with(|| {
        let name = file.extract::<String>().unwrap_or_default();
        (CallSite::named(&name, line.max(1) as u32, 1), file.unbind())
    });
    *place
}
