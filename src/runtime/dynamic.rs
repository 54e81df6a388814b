//! Creation and reading of data objects whose types are values.

use super::door::{Door, is_countable};
use super::runtime::Runtime;
use crate::error::{RunError, SubmitError};
use crate::memory::adopted::ImportError;
use crate::memory::dlpack::Tensor;
use crate::memory::dynamic::{Allocating, Dtype};
use crate::memory::{DataCell, Element, HostBuffer};
use crate::region::MAX_DIMS;
use crate::task::dynamic::{AnyData, AnyRegion};

/// Allocates the zeros of a home.
struct Zeros {
    bytes: usize,
    number: u64,
}

impl Allocating for Zeros {
    type Made = Option<HostBuffer>;

    fn of<T: Element>(self) -> Option<HostBuffer> {
        HostBuffer::try_zeros::<T>(self.bytes.div_ceil(size_of::<T>()), self.number)
    }
}

/// Adopts a tensor.
struct Adopted<'d>(&'d Door, Tensor, Dtype);

impl Allocating for Adopted<'_> {
    type Made = Result<DataCell, ImportError>;

    fn of<T: Element>(self) -> Self::Made {
        let Self(door, tensor, dtype) = self;
        let data_type = tensor.data_type();
        door.adopt_as::<T>(tensor, data_type, None, (dtype.size(), dtype.align()))
    }
}

impl AnyData {
    /// Registers an array of zeros of one to four dimensions, like [`Runtime::zeros`].
    ///
    /// # Errors
    /// Fails if the number of dimensions is not between one and four, if an element has no bytes, or if the number of
    /// bytes would exceed `isize::MAX` or the memory that the system has.
    pub fn zeros(rt: &Runtime, dtype: Dtype, shape: &[usize]) -> Result<Self, SubmitError> {
        let refuse =
            |problem| Err(SubmitError::NoArray { elements: dtype.to_string(), shape: shape.to_vec(), problem });
        if !(1..=MAX_DIMS).contains(&shape.len()) {
            return refuse("data objects have one to four dimensions; try reshaping it");
        }
        if dtype.size() == 0 {
            return refuse("its elements have no bytes; try elements of one byte or more");
        }
        if !is_countable(shape, dtype.size()) {
            return refuse("the size overflows `isize`; try smaller extents, or several arrays");
        }
        let (door, bytes) = (&*rt.door, shape.iter().product::<usize>() * dtype.size());
        let id = door.next_data();
        let is_phantom = door.driver.simulated().is_some();
        let buffer = if is_phantom { None } else { dtype.allocated_as(Zeros { bytes, number: id.0 }) };
        if !is_phantom && buffer.is_none() {
            return refuse("the system has no memory of this size; try smaller extents, or several arrays");
        }
        let cell = DataCell::of_size(door.id, id, shape, (dtype.size(), dtype.align()), buffer);
        let cell = if is_phantom { cell } else { door.enter(cell) };
        Ok(Self::new(cell, door.owner(), dtype, shape.len()))
    }

    /// Registers an array of another library in place, like [`Runtime::from_dlpack`].
    ///
    /// # Errors
    /// As for [`Runtime::from_dlpack`]; also fails if [`Dtype`] does not list the type of the elements. The error
    /// contains the tensor.
    pub fn from_dlpack(rt: &Runtime, tensor: Tensor) -> Result<Self, ImportError> {
        let (data_type, ndim) = (tensor.data_type(), tensor.shape().len());
        let Some(dtype) = Dtype::from_data_type(data_type) else {
            return Err(ImportError::new(tensor, format!("its elements are {data_type}; try converting them first")));
        };
        let cell = dtype.allocated_as(Adopted(&rt.door, tensor, dtype))?;
        Ok(Self::new(cell, rt.door.owner(), dtype, ndim))
    }
}

impl AnyRegion {
    /// Waits for the region's value and copies its elements in row-major order, like [`Runtime::read`].
    ///
    /// # Errors
    /// As for [`Runtime::read`].
    pub fn read(&self, rt: &Runtime) -> Result<Vec<u8>, RunError> {
        if rt.door.driver.simulated().is_some() {
            return Ok(vec![0; self.bytes()]);
        }
        let read = rt.task("read", vec![self.clone().input()]).returns(|_, views| views[0].to_bytes());
        read.submit().map_err(RunError::from)?.get()
    }

    /// Submits a task that overwrites the region with these elements, in row-major order.
    ///
    /// # Errors
    /// As for other submissions; also fails if the number of bytes is not that of the region.
    pub fn write(&self, rt: &Runtime, bytes: Vec<u8>) -> Result<(), SubmitError> {
        if bytes.len() != self.bytes() {
            return Err(SubmitError::Bytes { given: bytes.len(), needed: self.bytes(), shape: self.shape() });
        }
        let task = rt.task("write", vec![self.clone().output()]);
        task.host(move |_, mut views| _ = views[0].copy_from(&bytes)).submit().map(drop)
    }
}
