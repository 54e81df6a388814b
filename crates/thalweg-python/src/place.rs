//! Places in Python files: where a task is submitted.
//!
//! Finding a line takes Python thousands of instructions, because it reads the function's table of lines from the
//! start. So recent places are kept by their instruction. An entry refers to its code object, so that no other object
//! gets its address; the number of entries bounds the memory.

use pyo3::ffi;
use pyo3::prelude::*;
use std::sync::{Mutex, PoisonError};
use thalweg::CallSite;

const ENTRIES: usize = 64;

/// A code object, the index of an instruction in it, and the place of the instruction.
type Entry = (Py<PyAny>, i32, CallSite);

static RECENT: Mutex<[Option<Entry>; ENTRIES]> = Mutex::new([const { None }; ENTRIES]);

/// Returns the line of Python code that the calling thread runs.
#[allow(unsafe_code)] // PyO3 gives no access to the running frame
pub(crate) fn here(py: Python<'_>) -> CallSite {
    // SAFETY: the thread is attached. The frame is borrowed from the thread while it runs this call; its code is a new
    // reference.
    let (frame, code) = unsafe {
        let frame = ffi::PyEval_GetFrame();
        let Some(object) = Bound::from_borrowed_ptr_or_opt(py, frame.cast()) else { return unknown() };
        (object, Bound::from_owned_ptr(py, ffi::PyFrame_GetCode(frame).cast()))
    };
    let instruction = frame.getattr(pyo3::intern!(py, "f_lasti")).and_then(|index| index.extract::<i32>());
    let instruction = instruction.unwrap_or(-1);
    let index = ((code.as_ptr().addr() >> 4) ^ (instruction as usize >> 1)) % ENTRIES;
    let known = |entry: &Entry| entry.0.as_ptr() == code.as_ptr() && entry.1 == instruction;
    let recent =
        RECENT.lock().unwrap_or_else(PoisonError::into_inner)[index].as_ref().filter(|entry| known(entry)).map(|e| e.2);
    if let Some(place) = recent {
        return place;
    }
    let file = code.getattr(pyo3::intern!(py, "co_filename")).and_then(|file| file.extract::<String>());
    // SAFETY: as above; `frame` is a reference to the frame.
    let line = unsafe { ffi::PyFrame_GetLineNumber(frame.as_ptr().cast()) };
    let Ok(file) = file else { return unknown() };
    let place = CallSite::named(&file, line.max(1) as u32, 1);
    let entry = (code.unbind(), instruction, place);
    let before = RECENT.lock().unwrap_or_else(PoisonError::into_inner)[index].replace(entry);
    drop(before); // outside of the lock, since it may run any destructor
    place
}

fn unknown() -> CallSite {
    CallSite::named("a place outside of Python", 1, 1)
}
