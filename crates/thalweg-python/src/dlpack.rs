//! Exchange of arrays with other libraries by DLPack, legacy and versioned.
//!
//! A capsule that the package imports is never consumed: it is kept, and its own destructor frees the tensor once no
//! task uses it. The destructor thereby runs with the GIL, which deleters of some libraries need.

use crate::array::Home;
use crate::data::{Access, Data, Lent};
use crate::device_array::DeviceArray;
use crate::error::{Refused, run_error, submit_error};
use crate::runtime::Shell;
use crate::{gil, place};
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use std::ffi::{CStr, c_void};
use std::sync::{Arc, PoisonError};
use thalweg::dlpack::{DlManagedTensor, DlTensor, Tensor};
use thalweg::dynamic::{AnyData, Dtype};
use thalweg::ids::{DeviceId, SpaceId};

const LEGACY: &CStr = c"dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";
pub(crate) const READ_ONLY: u64 = 1;

/// `DLManagedTensorVersioned`
#[repr(C)]
struct Versioned {
    version: [u32; 2],
    manager_ctx: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Self)>,
    flags: u64,
    dl_tensor: DlTensor,
}

/// Frees a tensor of ours.
#[allow(unsafe_code)] // a deleter of DLPack gets a raw pointer
unsafe extern "C" fn free(versioned: *mut Versioned) {
    // SAFETY: `export` has leaked both, and a deleter is called once.
    unsafe {
        let versioned = Box::from_raw(versioned);
        drop(Tensor::from_raw(versioned.manager_ctx.cast()));
    }
}

/// Frees the tensor of a capsule without a consumer.
#[allow(unsafe_code)] // the destructor of a capsule gets a raw pointer
unsafe extern "C" fn free_capsule(capsule: *mut ffi::PyObject) {
    // SAFETY: the capsule is one of `export`. A consumer changes the name and calls the deleter itself.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, LEGACY.as_ptr()) != 0 {
            let tensor = ffi::PyCapsule_GetPointer(capsule, LEGACY.as_ptr());
            drop(Tensor::from_raw(tensor.cast::<DlManagedTensor>()));
        } else if ffi::PyCapsule_IsValid(capsule, VERSIONED.as_ptr()) != 0 {
            free(ffi::PyCapsule_GetPointer(capsule, VERSIONED.as_ptr()).cast());
        }
    }
}

/// Returns a capsule that owns a tensor: a versioned one with these flags, or a legacy one. Its destructor frees the
/// tensor unless a consumer does.
#[allow(unsafe_code)] // PyO3 makes capsules only of values that they own, and DLPack's contain a bare pointer
pub(crate) fn capsule(py: Python<'_>, tensor: Tensor, flags: Option<u64>) -> PyResult<Bound<'_, PyAny>> {
    let tensor = tensor.into_raw();
    // SAFETY: `into_raw` has just returned the tensor, which the capsule owns from now on.
    unsafe {
        let Some(flags) = flags else {
            let capsule = ffi::PyCapsule_New(tensor.cast(), LEGACY.as_ptr(), Some(free_capsule));
            return Bound::from_owned_ptr_or_err(py, capsule);
        };
        let DlTensor { data, device, ndim, dtype, shape, strides, byte_offset } = (*tensor).dl_tensor;
        let versioned = Box::new(Versioned {
            version: [1, 0],
            manager_ctx: tensor.cast(),
            deleter: Some(free),
            flags,
            dl_tensor: DlTensor { data, device, ndim, dtype, shape, strides, byte_offset },
        });
        let capsule = ffi::PyCapsule_New(Box::into_raw(versioned).cast(), VERSIONED.as_ptr(), Some(free_capsule));
        Bound::from_owned_ptr_or_err(py, capsule)
    }
}

/// Waits for the region's value in an address space, and holds the region until the tensor is dropped.
pub(crate) fn hold(py: Python<'_>, access: &Access, call: &str, space: SpaceId) -> PyResult<Tensor> {
    gil::may_wait(call)?;
    if !access.can_be_held() {
        let problem = "only `input` and `inout` of a region can be exported; try one of them";
        return Err(Refused::new_err(format!("cannot hold the region: {problem}")));
    }
    let shell = &access.owner.shell;
    // The export itself cannot be interrupted, so an interruptible wait comes first.
    let before = shell.rt.task(call.to_owned(), vec![access.any()?]).submitted_at(place::here(py)).host(|_, _| ());
    let before = before.submit_handle().map_err(|error| submit_error(&error))?;
    gil::wait_for(py, call, None, before.wait_async())?.map_err(|error| run_error(py, error))?;
    let any = access.any()?;
    py.detach(|| shell.rt.to_dlpack(any, space)).map_err(|error| run_error(py, error))
}

#[pymethods]
impl Access {
    /// Waits for the region's value and gives its array to the block, in place. Other tasks wait meanwhile as if a task
    /// with this access were running.
    ///
    /// >>> import numpy as np, thalweg as tw
    /// >>> with tw.Runtime("1:CPU:1") as rt:
    /// ...     x = rt.data(np.arange(6.0))
    /// ...     with x[2:4].inout() as part:
    /// ...         part *= 10
    /// ...     x.read().tolist()
    /// [0.0, 1.0, 20.0, 30.0, 4.0, 5.0]
    fn __enter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let tensor = hold(py, self, "with", SpaceId::HOST)?;
        let shown = self.owner.home.show_tensor(py, &tensor, self.dropped);
        self.held.lock().unwrap_or_else(PoisonError::into_inner).push(tensor);
        let Some(shown) = shown? else {
            self.__exit__(py, None, None, None);
            let problem = "its memory belongs to another library; try `read`";
            return Err(Refused::new_err(format!("cannot show the region in place: {problem}")));
        };
        Ok(shown)
    }

    #[pyo3(signature = (_class = None, _error = None, _traceback = None))]
    fn __exit__(
        &self,
        py: Python<'_>,
        _class: Option<&Bound<'_, PyAny>>,
        _error: Option<&Bound<'_, PyAny>>,
        _traceback: Option<&Bound<'_, PyAny>>,
    ) {
        let tensor = self.held.lock().unwrap_or_else(PoisonError::into_inner).pop();
        py.detach(|| drop(tensor));
    }

    /// Exports the region in place to another library, as in `numpy.from_dlpack(x.inout())`. Until that library drops
    /// the tensor, other tasks wait as if a task with this access were running.
    #[pyo3(signature = (*, stream = None, max_version = None, dl_device = None, copy = None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<&Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _ = stream; // host memory has no streams
        if copy == Some(true) || dl_device.is_some_and(|device| device != (1, 0)) {
            let problem = "only host memory is exported, in place; try `read` for a copy";
            return Err(pyo3::exceptions::PyBufferError::new_err(format!("cannot export the region so: {problem}")));
        }
        let is_versioned = max_version.is_some_and(|(major, _)| major >= 1);
        if !self.is_written() && !is_versioned {
            let problem = "a tensor of DLPack before 1.0 cannot be read-only; try `inout`";
            return Err(pyo3::exceptions::PyBufferError::new_err(format!("cannot export an input: {problem}")));
        }
        let tensor = hold(py, self, "__dlpack__", SpaceId::HOST)?;
        capsule(py, tensor, is_versioned.then_some(if self.is_written() { 0 } else { READ_ONLY }))
    }

    /// Host memory.
    fn __dlpack_device__(&self) -> (i32, i32) {
        (1, 0)
    }

    /// Waits for the region's value in the memory of a device, one of the runtime's CUDA or HIP devices from 0, and
    /// returns it as an array for other libraries. Until the array and everything that uses it in place are gone, other
    /// tasks wait as if a task with this access were running. By then, the work that was enqueued on it must have
    /// ended, except on the default stream, for which the runtime waits.
    #[pyo3(signature = (device = 0))]
    fn on_device(&self, py: Python<'_>, device: u16) -> PyResult<DeviceArray> {
        let devices = self.owner.shell.rt.machine().num_devices();
        if usize::from(device) >= devices {
            return Err(Refused::new_err(format!(
                "cannot use device {device}: the runtime has {devices}; try units such as `1:CUDA:1`"
            )));
        }
        DeviceArray::of_region(py, self, DeviceId(device).space())
    }
}

/// Registers an array of another library in place.
#[allow(unsafe_code)] // a consumer takes the tensor out of its capsule by a raw pointer
pub(crate) fn import(
    py: Python<'_>,
    shell: &Arc<Shell>,
    object: &Bound<'_, PyAny>,
    name: Option<String>,
) -> PyResult<Data> {
    let Ok(method) = object.getattr("__dlpack__") else {
        return Err(PyTypeError::new_err(format!(
            "cannot import {}: it has no `__dlpack__`; try an array of NumPy, CuPy or PyTorch",
            object.get_type().name()?
        )));
    };
    let versions = PyDict::new(py);
    versions.set_item("max_version", (1, 0))?;
    let capsule = match method.call((), Some(&versions)) {
        Err(error) if error.is_instance_of::<PyTypeError>(py) => method.call0()?,
        capsule => capsule?,
    };
    let capsule = capsule.cast_into::<PyCapsule>()?;
    // SAFETY: a capsule with one of these names contains such a tensor, which stays in place while the capsule exists.
    let (tensor, is_readonly) = unsafe {
        let (legacy, versioned) = (LEGACY.as_ptr(), VERSIONED.as_ptr());
        if ffi::PyCapsule_IsValid(capsule.as_ptr(), versioned) != 0 {
            let found = ffi::PyCapsule_GetPointer(capsule.as_ptr(), versioned).cast::<Versioned>();
            if (*found).version[0] != 1 {
                let major = (*found).version[0];
                return Err(Refused::new_err(format!("cannot import a tensor of DLPack {major}; try DLPack 1")));
            }
            (&raw const (*found).dl_tensor, (*found).flags & READ_ONLY != 0)
        } else {
            let found = ffi::PyCapsule_GetPointer(capsule.as_ptr(), legacy).cast::<DlManagedTensor>();
            if found.is_null() {
                return Err(PyErr::fetch(py));
            }
            (&raw const (*found).dl_tensor, false)
        }
    };
    // SAFETY: as above. The lists of a tensor have an entry for each dimension; `strides` may be null.
    let (tensor, shape, strides) = unsafe {
        let tensor = &*tensor;
        let count = usize::try_from(tensor.ndim).unwrap_or(0);
        let list = |first: *const i64| if count == 0 { &[][..] } else { std::slice::from_raw_parts(first, count) };
        (tensor, list(tensor.shape), if tensor.strides.is_null() { None } else { Some(list(tensor.strides)) })
    };
    let shape: Vec<usize> = shape.iter().map(|extent| *extent as usize).collect();
    let strides: Vec<isize> = match strides {
        Some(strides) => strides.iter().map(|stride| *stride as isize).collect(),
        None => (0..shape.len()).map(|d| shape[d + 1..].iter().product::<usize>() as isize).collect(),
    };
    let Some(dtype) = Dtype::from_data_type(tensor.dtype) else {
        return Err(Refused::new_err(format!(
            "cannot import a tensor: its elements are {}; try a number type",
            tensor.dtype
        )));
    };
    let first = tensor.data.cast::<u8>().wrapping_add(tensor.byte_offset as usize);
    let descr = py.import("numpy")?.getattr("dtype")?.call1((dtype.to_string(),))?;
    let home = match tensor.device.device_type {
        1 => Home::over(py, descr, first, (&shape, &strides), (dtype, is_readonly), capsule.as_any())?,
        _ => Home::elsewhere(descr),
    };
    let (lent, returned) = Lent::new(capsule.into_any());
    // SAFETY: the capsule keeps the elements in place. That only tasks touch them is the caller's promise.
    let tensor = unsafe { Tensor::from_parts(lent, first, tensor.device, tensor.dtype, &shape, &strides) };
    let data = AnyData::from_dlpack(&shell.rt, tensor).map_err(|error| Refused::new_err(error.to_string()))?;
    Ok(Data::new(shell, data, home, name, is_readonly, returned))
}
