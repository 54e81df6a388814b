//! Bodies that are Python callables.

use crate::array::bytes_of;
use crate::data::Owner;
use crate::error::{Raised, TaskError};
use crate::gil;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use smallvec::SmallVec;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use thalweg::dynamic::AnyView;
use thalweg::error::BoxError;

/// State that a body shares with the handle of its task.
#[derive(Default)]
pub(crate) struct Slot {
    state: AtomicU8,
    value: Mutex<Option<Py<PyAny>>>,
}

/// The error of a body that was cancelled.
pub(crate) const CANCELLED: &str = "cancelled before its body began";

const WAITING: u8 = 0;
const RUNNING: u8 = 1;
const RETURNED: u8 = 2;
const NEVER: u8 = 3;

impl Slot {
    /// Cancels the task unless its body has begun. Returns whether it is cancelled.
    pub(crate) fn cancel(&self) -> bool {
        let exchanged = self.state.compare_exchange(WAITING, NEVER, Ordering::AcqRel, Ordering::Acquire);
        exchanged.is_ok() || self.is_cancelled()
    }

    /// Notes that the body begins. Returns whether it may.
    pub(crate) fn begin(&self) -> bool {
        self.state.compare_exchange(WAITING, RUNNING, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    pub(crate) fn returned(&self, value: Option<Py<PyAny>>) {
        *self.value.lock().unwrap_or_else(PoisonError::into_inner) = value;
        self.state.store(RETURNED, Ordering::Release);
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.state.load(Ordering::Acquire) == NEVER
    }

    pub(crate) fn is_running(&self) -> bool {
        self.state.load(Ordering::Acquire) == RUNNING
    }

    /// Returns what the body returned.
    pub(crate) fn value(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|value| value.clone_ref(py))
    }
}

/// An access for whose view a body gets an argument.
pub(crate) struct Argument {
    pub(crate) owner: Arc<Owner>,
    /// The dimensions that an integer index has removed, as bits.
    pub(crate) dropped: u8,
    /// Whether the access gives a view.
    pub(crate) is_shown: bool,
}

pub(crate) type Arguments = SmallVec<[Argument; 4]>;

/// A Python callable as a body.
pub(crate) struct Callable {
    pub(crate) callable: Py<PyAny>,
    /// `None` if the task has no handle.
    pub(crate) slot: Option<Arc<Slot>>,
    pub(crate) is_cancelled: Arc<AtomicBool>,
}

impl Callable {
    /// Runs `call` with the callable on a unit's thread, and notes the result.
    #[inline]
    pub(crate) fn run<A>(
        self,
        arguments: A,
        call: impl for<'py> FnOnce(Python<'py>, &Bound<'py, PyAny>, &A) -> PyResult<Bound<'py, PyAny>>,
    ) -> Result<(), BoxError> {
        gil::in_body(|| {
            gil::with(|py| {
                // Everything that refers to Python objects is dropped in here, with the GIL.
                let (this, arguments) = (self, arguments);
                let begins = this.slot.as_ref().is_none_or(|slot| slot.begin());
                if !begins || this.is_cancelled.load(Ordering::Relaxed) {
                    let error = TaskError::new_err(CANCELLED);
                    return Err(Raised::new(py, error).into());
                }
                match call(py, this.callable.bind(py), &arguments) {
                    Ok(value) => {
                        if let Some(slot) = &this.slot {
                            slot.returned((!value.is_none()).then(|| value.unbind()));
                        }
                        Ok(())
                    }
                    Err(error) => {
                        this.slot.iter().for_each(|slot| slot.returned(None));
                        Err(Raised::new(py, error).into())
                    }
                }
            })
        })
    }
}

/// A Python callable with its arguments.
pub(crate) struct PythonBody {
    pub(crate) callable: Callable,
    pub(crate) arguments: Arguments,
}

impl PythonBody {
    /// Calls the callable on a unit's thread.
    pub(crate) fn run(self, views: &mut [AnyView<'_>]) -> Result<(), BoxError> {
        self.callable.run(self.arguments, |py, callable, arguments| call(py, callable, arguments, views))
    }
}

#[allow(unsafe_code)] // the copy of a region has no lifetime that Rust knows
fn call<'py>(
    py: Python<'py>,
    callable: &Bound<'py, PyAny>,
    arguments: &Arguments,
    views: &mut [AnyView<'_>],
) -> PyResult<Bound<'py, PyAny>> {
    let mut copies: SmallVec<[(usize, *mut u8); 2]> = SmallVec::new();
    let mut arrays: SmallVec<[Bound<'py, PyAny>; 4]> = SmallVec::new();
    for (index, argument) in arguments.iter().enumerate().filter(|(_, argument)| argument.is_shown) {
        let (array, copy) = argument.owner.home.show(py, &views[index], argument.dropped)?;
        match copy {
            Some(copy) if views[index].is_writable() => copies.push((index, copy)),
            Some(_) => array.getattr("flags")?.setattr("writeable", false)?,
            None => {}
        }
        arrays.push(array);
    }
    let value = callable.call1(PyTuple::new(py, &arrays)?)?;
    for (index, copy) in copies {
        let view = &mut views[index];
        // SAFETY: the copy was made for this view and belongs to an array in `arrays`. Another thread that the body
        // has given it to may write it now, which is a mistake that changes only these bytes.
        view.copy_from(unsafe { bytes_of(copy, view) });
    }
    Ok(value)
}
