//! Import of arrays in device memory by `__cuda_array_interface__`, version 2 or 3.
//!
//! The interface has no deleter, so the object itself is kept. It does not name the device, and HIP uses it as well.

use crate::array::Home;
use crate::data::{Data, Lent};
use crate::error::Refused;
use crate::gil;
use crate::runtime::Shell;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use std::sync::Arc;
use thalweg::dlpack::{DlDevice, Tensor};
use thalweg::dynamic::{AnyData, Dtype};
use thalweg::machine::UnitKind;

/// DLPack's numbers of device types.
pub(crate) const CUDA: i32 = 2;
pub(crate) const ROCM: i32 = 10;

/// The default stream, for which the runtime waits itself.
const DEFAULT_STREAM: usize = 1;

/// The layout that an object's interface describes.
struct Described {
    shape: Vec<usize>,
    /// In elements.
    strides: Vec<isize>,
    dtype: Dtype,
    descr: Py<PyAny>,
    first: usize,
    is_readonly: bool,
    stream: Option<usize>,
}

impl Described {
    /// Returns the layout, or the reason why such an array cannot be a data object.
    fn of(interface: &Bound<'_, PyAny>) -> PyResult<Result<Self, String>> {
        let py = interface.py();
        let entry = |name: &str| interface.call_method1("get", (name,));
        if !entry("mask")?.is_none() {
            return Ok(Err("it has a mask; try an array without one".to_owned()));
        }
        let typestr: String = entry("typestr")?.extract()?;
        let descr = py.import("numpy")?.getattr("dtype")?.call1((&typestr,))?;
        let is_native: bool = descr.getattr("isnative")?.extract()?;
        let dtype = descr.getattr("name")?.extract::<String>()?.parse::<Dtype>();
        let Some(dtype) = dtype.ok().filter(|dtype| is_native && dtype.data_type().is_some()) else {
            return Ok(Err(format!("its elements are {typestr}; try a number type such as `<f8`")));
        };
        let (first, is_readonly): (usize, bool) = entry("data")?.extract()?;
        let shape: Vec<usize> = entry("shape")?.extract()?;
        let size = dtype.size() as isize;
        let strides = match entry("strides")?.extract::<Option<Vec<isize>>>()? {
            Some(strides) if strides.len() != shape.len() => {
                return Ok(Err(format!(
                    "it has {} strides for {} dimensions; try one for each",
                    strides.len(),
                    shape.len()
                )));
            }
            Some(strides) => match strides.iter().find(|stride| **stride % size != 0) {
                Some(odd) => {
                    return Ok(Err(format!(
                        "a stride of {odd} bytes is no multiple of its elements' {size}; try a copy"
                    )));
                }
                None => strides.iter().map(|stride| stride / size).collect(),
            },
            None => (0..shape.len()).map(|d| shape[d + 1..].iter().product::<usize>() as isize).collect(),
        };
        let stream: Option<usize> = entry("stream")?.extract()?;
        Ok(Ok(Self { shape, strides, dtype, descr: descr.unbind(), first, is_readonly, stream }))
    }
}

/// Registers an array of another library in place, on the device with this index.
#[allow(unsafe_code)] // the tensor is made of a bare address
pub(crate) fn import(
    py: Python<'_>,
    shell: &Arc<Shell>,
    object: &Bound<'_, PyAny>,
    device_id: i32,
    name: Option<String>,
) -> PyResult<Data> {
    gil::may_wait("from_cuda_array")?;
    let refused = |problem: &str| Refused::new_err(format!("cannot import an array: {problem}"));
    let Ok(interface) = object.getattr("__cuda_array_interface__") else {
        return Err(PyTypeError::new_err(format!(
            "cannot import {}: it has no `__cuda_array_interface__`; try an array of CuPy or Numba",
            object.get_type().name()?
        )));
    };
    let found = Described::of(&interface)?.map_err(|problem| refused(&problem))?;
    let is_hip = shell.rt.machine().device_units().any(|unit| unit.kind == UnitKind::Hip);
    let device = DlDevice { device_type: if is_hip { ROCM } else { CUDA }, device_id };
    if let Some(stream) = found.stream.filter(|stream| *stream != DEFAULT_STREAM) {
        let waited = py.import("thalweg._stream")?.call_method1("synchronize", (device.device_type, stream))?;
        if let Some(problem) = waited.extract::<Option<String>>()? {
            return Err(refused(&format!("{problem} for its stream; try to wait for its work first")));
        }
    }
    let Described { shape, strides, dtype, descr, first, is_readonly, .. } = found;
    let (lent, returned) = Lent::new(object.clone());
    let data_type = dtype.data_type().expect("numbers have a type of DLPack");
    let first = std::ptr::with_exposed_provenance_mut(first);
    // SAFETY: the object keeps the elements in place, as its interface demands. That only tasks touch them is the
    // caller's promise.
    let tensor = unsafe { Tensor::from_parts(lent, first, device, data_type, &shape, &strides) };
    let data = AnyData::from_dlpack(&shell.rt, tensor).map_err(|error| Refused::new_err(error.to_string()))?;
    Ok(Data::new(shell, data, Home::elsewhere(descr.into_bound(py)), name, is_readonly, returned))
}
