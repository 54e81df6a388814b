//! Arrays in the memory of CUDA and HIP devices: the views of bodies with a stream, and regions that other libraries
//! hold.
//!
//! Libraries use them in place, by `__cuda_array_interface__` (which HIP has as well) and by DLPack. Invariant: an
//! array gives its address only while the elements are there: a view while its body runs, and a held region as long as
//! the array or a tensor of it exists.

use crate::data::Access;
use crate::dlpack::{READ_ONLY, capsule, hold};
use crate::error::Refused;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use thalweg::dlpack::{DlDevice, Tensor};
use thalweg::dynamic::Dtype;
use thalweg::ids::SpaceId;

/// The layout of an array, and the place of its elements.
pub(crate) struct Elements {
    pub(crate) first: usize,
    pub(crate) shape: Vec<usize>,
    /// The number of elements from one index to the next, per dimension.
    pub(crate) strides: Vec<usize>,
    pub(crate) dtype: Dtype,
    pub(crate) is_read_only: bool,
    pub(crate) device: DlDevice,
}

/// The reason why the elements are there.
enum Kept {
    /// The flag says whether the body with this stream has returned.
    Body(Arc<AtomicBool>, usize),
    /// The tensor, which is dropped without the GIL.
    Region(Mutex<Option<Tensor>>),
}

/// An array in the memory of a device: `cupy.asarray(x)` and `torch.from_dlpack(x)` use it in place.
///
/// A body for CUDA or HIP gets one for each access, which is there until the body returns. `x.inout().on_device()`
/// makes one of a region.
#[pyclass(module = "thalweg", frozen)]
pub(crate) struct DeviceArray {
    elements: Elements,
    kept: Kept,
}

impl Drop for DeviceArray {
    /// Gives a held region back, which waits for the device's default stream.
    fn drop(&mut self) {
        if let Kept::Region(tensor) = &mut self.kept {
            let tensor = tensor.get_mut().ok().and_then(Option::take);
            _ = Python::try_attach(move |py| py.detach(move || drop(tensor)));
        }
    }
}

impl DeviceArray {
    /// Returns the array of a body's view, until `has_returned` is set.
    pub(crate) fn of_body(elements: Elements, has_returned: &Arc<AtomicBool>, stream: usize) -> Self {
        Self { elements, kept: Kept::Body(has_returned.clone(), stream) }
    }

    /// Waits for a region's value in the memory of a device, and holds the region.
    pub(crate) fn of_region(py: Python<'_>, access: &Access, space: SpaceId) -> PyResult<Self> {
        let tensor = hold(py, access, "on_device", space)?;
        let kept = |d: &usize| access.dropped & (1 << d) == 0;
        let list = |list: &[i64]| (0..list.len()).filter(kept).map(|d| list[d] as usize).collect();
        let elements = Elements {
            first: tensor.address().addr(),
            shape: list(tensor.shape()),
            strides: list(tensor.strides().unwrap_or_default()),
            dtype: Dtype::from_data_type(tensor.data_type()).expect("only known types are exported"),
            is_read_only: tensor.is_read_only(),
            device: tensor.device(),
        };
        Ok(Self { elements, kept: Kept::Region(Mutex::new(Some(tensor))) })
    }

    /// Returns the elements and the stream on which earlier work may be in flight, if they are still there.
    fn get(&self) -> PyResult<(&Elements, Option<usize>)> {
        match &self.kept {
            Kept::Body(has_returned, _) if has_returned.load(Ordering::Acquire) => {
                let problem = "its body has returned; try `on_device` of an access, outside of bodies";
                Err(Refused::new_err(format!("cannot use an array of a body: {problem}")))
            }
            Kept::Body(_, stream) => Ok((&self.elements, Some(*stream))),
            Kept::Region(_) => Ok((&self.elements, None)),
        }
    }
}

#[pymethods]
impl DeviceArray {
    /// The number of elements along each dimension.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.elements.shape)
    }

    /// The type of the elements.
    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("numpy")?.getattr("dtype")?.call1((self.elements.dtype.to_string(),))
    }

    fn __repr__(&self) -> String {
        let Elements { shape, dtype, device, .. } = &self.elements;
        format!("<thalweg.DeviceArray {shape:?} of {dtype} on device {}>", device.device_id)
    }

    /// The address, the layout and the stream, for libraries such as CuPy, Numba and PyTorch.
    #[getter]
    fn __cuda_array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (elements, stream) = self.get()?;
        let bytes = |stride: &usize| stride * elements.dtype.size();
        let interface = PyDict::new(py);
        let is_empty = elements.shape.contains(&0);
        interface.set_item("version", 3)?;
        interface.set_item("shape", self.shape(py)?)?;
        interface.set_item("typestr", self.dtype(py)?.getattr("str")?)?;
        interface.set_item("data", (if is_empty { 0 } else { elements.first }, elements.is_read_only))?;
        interface.set_item("strides", PyTuple::new(py, elements.strides.iter().map(bytes))?)?;
        interface.set_item("stream", stream)?;
        Ok(interface)
    }

    /// Exports the array in place. In a body, the consumer works on the body's stream.
    #[pyo3(signature = (*, stream = None, max_version = None, dl_device = None, copy = None))]
    #[allow(unsafe_code)] // the tensor is made of a bare address
    fn __dlpack__<'py>(
        this: &Bound<'py, Self>,
        stream: Option<isize>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let refused = |problem: &str| Err(PyBufferError::new_err(format!("cannot export the array so: {problem}")));
        let py = this.py();
        let (elements, own) = this.get().get()?;
        if copy == Some(true) || dl_device.is_some_and(|device| device != this.get().__dlpack_device__()) {
            return refused("it stays where it is; try its own device, without a copy");
        }
        if own.is_some_and(|own| stream.is_none_or(|stream| stream != -1 && stream as usize != own)) {
            return refused("its body's stream is another one; try the import with that stream as the current one");
        }
        let is_versioned = max_version.is_some_and(|(major, _)| major >= 1);
        if elements.is_read_only && !is_versioned {
            return refused("a tensor of DLPack before 1.0 cannot be read-only; try `inout`");
        }
        let strides: Vec<isize> = elements.strides.iter().map(|stride| *stride as isize).collect();
        let data_type = elements.dtype.data_type().expect("numbers have a type of DLPack");
        let first = std::ptr::with_exposed_provenance_mut(elements.first);
        // SAFETY: this array keeps a held region in place. The elements of a body's view are there while it runs, and
        // its stream, which is the consumer's, orders the work on them.
        let tensor = unsafe {
            let owner = this.clone().unbind();
            Tensor::from_parts(owner, first, elements.device, data_type, &elements.shape, &strides)
        };
        capsule(py, tensor, is_versioned.then_some(if elements.is_read_only { READ_ONLY } else { 0 }))
    }

    /// The type of the device, by DLPack's numbers, and its index.
    fn __dlpack_device__(&self) -> (i32, i32) {
        (self.elements.device.device_type, self.elements.device.device_id)
    }
}
