//! Places in Python files: where a task was submitted.

use pyo3::ffi;
use pyo3::prelude::*;

/// A line of a Python file.
pub(crate) struct Place {
    /// The code object that contains the line; `None` outside of Python code.
    code: Option<Py<PyAny>>,
    line: i32,
}

impl Place {
    /// Returns the line that the calling thread runs.
    #[allow(unsafe_code)]
    pub(crate) fn here(py: Python<'_>) -> Self {
        // SAFETY: the thread is attached. The frame is borrowed from the thread while it runs this call; its code is a
        // new reference.
        unsafe {
            let frame = ffi::PyEval_GetFrame();
            if frame.is_null() {
                return Self { code: None, line: 0 };
            }
            let code = Bound::from_owned_ptr_or_opt(py, ffi::PyFrame_GetCode(frame).cast());
            Self { code: code.map(Bound::unbind), line: ffi::PyFrame_GetLineNumber(frame) }
        }
    }

    /// Returns the place as tracebacks write it.
    pub(crate) fn text(&self, py: Python<'_>) -> String {
        let file = self.code.as_ref().and_then(|code| code.bind(py).getattr("co_filename").ok());
        match file.and_then(|file| file.extract::<String>().ok()) {
            Some(file) => format!("{file}:{}", self.line),
            None => "an unknown place".to_owned(),
        }
    }

    pub(crate) fn clone_ref(&self, py: Python<'_>) -> Self {
        Self { code: self.code.as_ref().map(|code| code.clone_ref(py)), line: self.line }
    }
}
