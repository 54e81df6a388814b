//! NumPy arrays: the layout of an array to adopt, and arrays that show views.
//!
//! An array that a body gets must never point to memory that is gone, even if the body keeps it. So an array shows the
//! elements of a view in place only if they are in the NumPy array that the data object has adopted, which it keeps
//! alive. Otherwise, for private replicas of reductions and replicas of emulated devices, it is a copy.

#![allow(unsafe_code)] // NumPy makes arrays of given memory only through its interface for C

use numpy::npyffi::{NPY_ARRAY_WRITEABLE, NpyTypes, PY_ARRAY_API, PyArray_Descr, get_type_object};
use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use std::ffi::c_int;
use std::ptr;
use thalweg::dlpack::Tensor;
use thalweg::dynamic::{AnyView, Dtype};

/// The greatest number of dimensions.
pub(crate) const MAX_DIMS: usize = 4;

/// The NumPy array that is the home of a data object.
pub(crate) struct Home {
    array: Option<Py<PyAny>>,
    descr: Py<PyAny>,
    /// The address of the first element, and the number of bytes to the end of the last one.
    first: usize,
    bytes: usize,
}

/// The layout of an array.
pub(crate) struct Layout {
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<usize>,
    /// The number of elements from one index to the next, per dimension.
    pub(crate) strides: Vec<isize>,
    pub(crate) first: *mut u8,
    pub(crate) is_writable: bool,
}

// SAFETY: the address is only stored here.
unsafe impl Send for Layout {}

impl Layout {
    /// Returns the layout, or the reason why such an array cannot be a data object.
    pub(crate) fn of(array: &Bound<'_, PyUntypedArray>) -> Result<Self, String> {
        let descr = array.dtype();
        let bits = 8 * descr.itemsize();
        let name = match descr.kind() {
            b'b' => Some("bool".to_owned()),
            b'i' => Some(format!("int{bits}")),
            b'u' => Some(format!("uint{bits}")),
            b'f' => Some(format!("float{bits}")),
            b'c' => Some(format!("complex{bits}")),
            _ => None,
        };
        let dtype = name.and_then(|name| name.parse::<Dtype>().ok());
        let Some(dtype) = dtype else {
            return Err(format!("its elements are {descr}; try `astype` to a number type such as float64"));
        };
        if descr.is_native_byteorder() == Some(false) {
            return Err(format!(
                "its elements, {descr}, have another byte order; try `astype(x.dtype.newbyteorder('='))`"
            ));
        }
        if !(1..=MAX_DIMS).contains(&array.ndim()) {
            return Err(format!("it has {} dimensions; try `reshape` to one to four", array.ndim()));
        }
        let size = dtype.size() as isize;
        if let Some(odd) = array.strides().iter().find(|stride| **stride % size != 0) {
            return Err(format!("a stride of {odd} bytes is not a multiple of its elements' {size} bytes; try `copy`"));
        }
        // SAFETY: the array exists, and its fields do not change while this thread is attached.
        let (first, flags) = unsafe { ((*array.as_array_ptr()).fields.data, (*array.as_array_ptr()).fields.flags) };
        Ok(Self {
            dtype,
            shape: array.shape().to_vec(),
            strides: array.strides().iter().map(|stride| stride / size).collect(),
            first: first.cast(),
            is_writable: flags & NPY_ARRAY_WRITEABLE != 0,
        })
    }
}

impl Home {
    pub(crate) fn new(array: &Bound<'_, PyUntypedArray>, layout: &Layout) -> Self {
        let last: usize = layout
            .shape
            .iter()
            .zip(&layout.strides)
            .map(|(n, stride)| n.saturating_sub(1) * stride.unsigned_abs())
            .sum();
        let is_empty = layout.shape.contains(&0);
        Self {
            array: Some(array.clone().into_any().unbind()),
            descr: array.dtype().into_any().unbind(),
            first: layout.first.addr(),
            bytes: if is_empty { 0 } else { (last + 1) * layout.dtype.size() },
        }
    }

    /// Returns a home in host memory that `owner` keeps alive.
    pub(crate) fn over<'py>(
        py: Python<'py>,
        descr: Bound<'py, PyAny>,
        first: *mut u8,
        (shape, strides): (&[usize], &[isize]),
        (dtype, is_readonly): (Dtype, bool),
        owner: &Bound<'py, PyAny>,
    ) -> PyResult<Self> {
        let home = Self::elsewhere(descr);
        if !(1..=MAX_DIMS).contains(&shape.len()) || strides.iter().any(|stride| *stride < 0) || shape.contains(&0) {
            return Ok(home); // the runtime refuses it, or it has no elements to show
        }
        let steps: Vec<usize> = strides.iter().map(|stride| stride.unsigned_abs()).collect();
        let owner = owner.clone().unbind();
        // SAFETY: the tensor has elements of this type at these strides, and its owner keeps them in place.
        let array = unsafe { home.make(py, first, (shape, Some(&steps)), (!is_readonly, Some(&owner)), dtype.size()) }?;
        let layout =
            Layout { dtype, shape: shape.to_vec(), strides: strides.to_vec(), first, is_writable: !is_readonly };
        Ok(Self::new(array.cast::<PyUntypedArray>()?, &layout))
    }

    /// Returns a home that is not a NumPy array.
    pub(crate) fn elsewhere(descr: Bound<'_, PyAny>) -> Self {
        Self { array: None, descr: descr.unbind(), first: 0, bytes: 0 }
    }

    pub(crate) fn descr<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        self.descr.bind(py).clone()
    }

    pub(crate) fn array<'a, 'py>(&'a self, py: Python<'py>) -> Option<&'a Bound<'py, PyAny>> {
        self.array.as_ref().map(|array| array.bind(py))
    }

    /// Makes an array of a NumPy type at this address, or of new memory if it is null.
    ///
    /// # Safety
    /// The address is null, or elements of this type are at these strides, in memory that `base` keeps alive.
    unsafe fn make<'py>(
        &self,
        py: Python<'py>,
        first: *mut u8,
        (shape, strides): (&[usize], Option<&[usize]>),
        (is_writable, base): (bool, Option<&Py<PyAny>>),
        size: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (mut dims, mut steps) = ([0isize; MAX_DIMS], [0isize; MAX_DIMS]);
        for (d, extent) in shape.iter().enumerate() {
            dims[d] = *extent as isize;
            steps[d] = strides.map_or(0, |strides| (strides[d] * size) as isize);
        }
        let steps = if strides.is_some() { steps.as_mut_ptr() } else { ptr::null_mut() };
        let flags = if is_writable && !first.is_null() { NPY_ARRAY_WRITEABLE } else { 0 };
        let descr = self.descr.clone_ref(py).into_ptr().cast::<PyArray_Descr>();
        // SAFETY: the call takes the reference of the type. Extents and strides are in bounds, by this function's
        // contract. The base is a new reference, which the second call takes.
        unsafe {
            let class = get_type_object(py, NpyTypes::PyArray_Type);
            let made = PY_ARRAY_API.PyArray_NewFromDescr(
                py,
                class,
                descr,
                shape.len() as c_int,
                dims.as_mut_ptr(),
                steps,
                first.cast(),
                flags,
                ptr::null_mut(),
            );
            let made = Bound::from_owned_ptr_or_err(py, made)?;
            if let Some(base) = base
                && PY_ARRAY_API.PyArray_SetBaseObject(py, made.as_ptr().cast(), base.clone_ref(py).into_ptr()) != 0
            {
                return Err(PyErr::fetch(py));
            }
            Ok(made)
        }
    }

    /// Returns a new array in row-major order, and the address of its elements.
    pub(crate) fn fresh<'py>(&self, py: Python<'py>, shape: &[usize]) -> PyResult<(Bound<'py, PyAny>, *mut u8)> {
        // SAFETY: NumPy allocates the memory.
        let made = unsafe { self.make(py, ptr::null_mut(), (shape, None), (true, None), 0) }?;
        // SAFETY: the array was just made.
        let first = unsafe { (*made.as_ptr().cast::<numpy::npyffi::PyArrayObject>()).fields.data };
        Ok((made, first.cast()))
    }

    /// Returns an array that shows an exported region in place; `None` if the region is not in the NumPy array.
    pub(crate) fn show_tensor<'py>(
        &self,
        py: Python<'py>,
        tensor: &Tensor,
        dropped: u8,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (first, is_written) = (tensor.address(), !tensor.is_read_only());
        if first.addr().wrapping_sub(self.first) >= self.bytes {
            return Ok(None);
        }
        let kept: Vec<usize> = (0..tensor.shape().len()).filter(|d| dropped & (1 << d) == 0).collect();
        let list = |list: &[i64]| kept.iter().map(|d| list[*d] as usize).collect::<Vec<_>>();
        let (shape, strides) = (list(tensor.shape()), list(tensor.strides().unwrap_or_default()));
        let size = usize::from(tensor.data_type().bits) / 8;
        // SAFETY: the region's elements are in the home, which the array keeps alive as its base.
        unsafe { self.make(py, first, (&shape, Some(&strides)), (is_written, self.array.as_ref()), size) }.map(Some)
    }

    /// Returns an array that shows a view, without the dimensions whose bits are in `dropped`. Of a copy,
    /// also returns the address.
    #[inline]
    pub(crate) fn show<'py>(
        &self,
        py: Python<'py>,
        view: &AnyView<'_>,
        dropped: u8,
    ) -> PyResult<(Bound<'py, PyAny>, Option<*mut u8>)> {
        let (mut shape, mut strides, mut ndim) = ([0; MAX_DIMS], [0; MAX_DIMS], 0);
        for (d, extent) in view.shape().iter().enumerate().filter(|(d, _)| dropped & (1 << d) == 0) {
            (shape[ndim], strides[ndim]) = (*extent, view.strides()[d]);
            ndim += 1;
        }
        let (first, shape) = (view.as_ptr().cast_mut(), &shape[..ndim]);
        if first.addr().wrapping_sub(self.first) < self.bytes {
            let placed = (shape, Some(&strides[..ndim]));
            // SAFETY: the view's elements are in the home, which the array keeps alive as its base.
            let made = unsafe {
                self.make(py, first, placed, (view.is_writable(), self.array.as_ref()), view.dtype().size())
            }?;
            return Ok((made, None));
        }
        let (made, copy) = self.fresh(py, shape)?;
        // SAFETY: the array is new and has the bytes of the view's elements.
        view.copy_to(unsafe { bytes_of(copy, view) });
        Ok((made, Some(copy)))
    }
}

/// Returns the bytes of a copy of a view.
///
/// # Safety
/// The copy has all elements of the view, and nothing else uses them.
pub(crate) unsafe fn bytes_of<'a>(copy: *mut u8, view: &AnyView<'_>) -> &'a mut [u8] {
    // SAFETY: the caller upholds the contract. NumPy's memory is initialised, or is plain bytes that are only written.
    unsafe { std::slice::from_raw_parts_mut(copy, view.len() * view.dtype().size()) }
}
