//! Arrays whose memory another library allocated, and arrays in memory that suits devices better.

use super::Runtime;
use crate::error::{Called, SubmitError};
use crate::memory::adopted::AdoptError;
use crate::memory::dlpack::{DlElement, Tensor};
use crate::memory::{DataCell, Element, Shape, resident_bytes};
use crate::task::Data;
use ndarray::IntoDimension;

impl Runtime {
    /// Registers an array of another library as a data object in place: nothing is copied. Rows may have gaps between
    /// them, as in a part of a larger array.
    ///
    /// An array in host memory becomes the data object's home. An array in the memory of a CUDA or HIP device, as
    /// CuPy makes them, becomes a replica there, valid from the beginning; its home gets memory where it is touched,
    /// like that of [`device_only`](Self::device_only). The replica does not count towards the
    /// [bytes](Self::capacity_bytes) that the runtime has there, and stays there even if memory is short. The work
    /// that its producer has enqueued there must have ended, except on the default stream, which the runtime waits
    /// for.
    ///
    /// Only tasks may touch the memory until the data object is gone; then any thread calls the library's own
    /// deleter. A value that tasks have left in another memory is not copied back for that: [`fetch`](Self::fetch) it
    /// if you need it. [`take`](Self::take) copies the elements into a new array. See [`Tensor`] for an example.
    ///
    /// # Errors
    /// If the tensor is in the memory of a device that belongs to none of the runtime's units, or not where it claims
    /// to be; if its elements have another type, it has another number of dimensions, or its strides are not those of
    /// consecutive rows; or if another data object has adopted a part of it. The error contains the tensor.
    pub fn from_dlpack<T: DlElement, S: Shape>(&self, tensor: Tensor) -> Result<Data<T, S>, AdoptError> {
        self.door.adopt(tensor)
    }

    /// Registers an array of one to four dimensions that devices use and the host perhaps never.
    ///
    /// The array has addresses in host memory, but memory at these addresses only where it is written: by a task on
    /// cores, by [`read`](Self::read) or [`take`](Self::take) of elements that a device has written, or by a device
    /// that must make room. Until then there are only replicas on devices. Elements that were never written read as
    /// zeros, on devices too: the zeros are copied to a device that reads first, but not to one that declares
    /// `output`.
    ///
    /// Its home is page-locked only by [request](Self::pin_memory), which gives it memory; `take` copies the
    /// elements.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:EMU:1").build()?;
    /// let (x, between) = (rt.data(vec![1.0; 1000]), rt.device_only::<f64, _>([1000]));
    /// rt.task("first", (x.input(), between.output()))
    ///     .cpu(|_, (x, between)| between.iter_mut().zip(x).for_each(|(b, x)| *b = x + 1.0))
    ///     .submit()?;
    /// rt.task("second", (between.input(), x.inout()))
    ///     .cpu(|_, (between, x)| x.iter_mut().zip(between).for_each(|(x, b)| *x *= b))
    ///     .submit()?;
    /// assert_eq!(rt.take(x)?, [2.0; 1000]);
    /// # #[cfg(target_os = "linux")]
    /// assert_eq!(rt.home_bytes(&between)?, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// If the array would have more elements, or more bytes, than memory has addresses (`isize::MAX`), or than the
    /// system has left for this process.
    #[track_caller]
    pub fn device_only<T: Element, I: IntoDimension>(&self, shape: I) -> Data<T, I::Dim>
    where
        I::Dim: Shape,
    {
        self.door.device_only(shape)
    }

    /// Registers an array of zeros, of one to four dimensions, in *unified memory* of CUDA or HIP: tasks on cores and
    /// on devices use the same bytes at the same address.
    ///
    /// The runtime allocates nothing on devices and copies nothing. It waits as it would for copies, and requests
    /// that pages be moved ahead of tasks that use 64 KiB or more of them. The array does not count towards the
    /// [bytes](Self::capacity_bytes) that the runtime has on devices, and may exceed them. So use it for data that do
    /// not fit, or of which tasks touch a few elements here and there. If tasks touch all elements, replicas are
    /// usually faster.
    ///
    /// If there is no such memory, or the host may not use it while kernels run, the array is one of
    /// [`zeros`](Self::zeros). Unified memory requires that all of the runtime's devices be CUDA's or all HIP's, that
    /// each have *concurrent managed access* (on Linux, NVIDIA's since Pascal; AMD's with XNACK), and that the
    /// interface have such memory left. Programs mean the same either way; [`is_unified`](Self::is_unified)
    /// distinguishes them.
    ///
    /// If a device is lost, the elements that were used there last are lost too, as from the device's own memory.
    /// [`take`](Self::take) copies the elements.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?; // or "1:CUDA:1"
    /// let table = rt.unified::<f64, _>([1000, 1000]);
    /// rt.task("row", (table.block((3, ..)).output(),)).cpu(|_, (mut row,)| row.fill(1.0)).submit()?;
    /// assert!(!rt.is_unified(&table)?, "there is no device");
    /// assert_eq!(rt.take(table)?.sum(), 1000.0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// If the array would have more elements, or more bytes, than memory has addresses (`isize::MAX`).
    #[track_caller]
    pub fn unified<T: Element, I: IntoDimension>(&self, shape: I) -> Data<T, I::Dim>
    where
        I::Dim: Shape,
    {
        self.door.unified(shape)
    }

    /// Returns whether a data object is in unified memory, so that devices use its home in place.
    ///
    /// # Errors
    /// If the data object is not this runtime's, or was taken.
    #[track_caller]
    pub fn is_unified<T: Element, S: Shape>(&self, data: &Data<T, S>) -> Result<bool, SubmitError> {
        Ok(self.own_cell("is_unified", data)?.datum.is_unified())
    }

    #[doc(hidden)] // for tests and diagnosis
    /// Returns how many bytes of a data object's home have memory now, in whole pages: those that were touched.
    /// Returns all bytes if the system does not report this (only Linux does), or if there are gaps between the rows;
    /// none in a simulation.
    ///
    /// # Errors
    /// If the data object is not this runtime's, or was taken.
    #[track_caller]
    pub fn home_bytes<T: Element, S: Shape>(&self, data: &Data<T, S>) -> Result<usize, SubmitError> {
        let cell = self.own_cell("home_bytes", data)?;
        let bytes = cell.datum.whole().volume() * cell.datum.element_bytes;
        Ok(match () {
            () if cell.datum.phantom || bytes == 0 => 0,
            () if !cell.is_contiguous(&cell.datum.whole()) => bytes, // an adopted array with gaps has all its memory
            () => resident_bytes(cell.base(), bytes),
        })
    }

    /// Returns the cell of a data object, after checking that it is this runtime's and was not taken.
    #[track_caller]
    fn own_cell<'d, T: Element, S: Shape>(
        &self,
        task: &str,
        data: &'d Data<T, S>,
    ) -> Result<&'d DataCell, SubmitError> {
        let cell = &data.cell;
        if cell.runtime != self.door.id {
            return Err(SubmitError::ForeignData { task: task.into(), data: cell.datum.to_string() }.called_here());
        }
        if cell.datum.is_taken() {
            return Err(SubmitError::Taken { task: task.into(), data: cell.datum.to_string() }.called_here());
        }
        Ok(cell)
    }

    /// Page-locks an array's memory now, so that accelerators copy from and to it at full speed from the first copy
    /// on. Returns whether the memory is locked then. It is unlocked when the data object is gone.
    ///
    /// The runtime page-locks arrays of 1 MiB or more by itself for their second copy, since locking takes time and
    /// decides which NUMA node has the pages. So first write the array from the cores that should be near it. Memory
    /// is not locked if no device gains by it, if the system refuses, or if there are gaps between the rows.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// let x = rt.data(vec![1.0; 1 << 17]);
    /// assert!(!rt.pin_memory(&x)?, "there is no device");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the data object is not this runtime's, or was taken.
    #[track_caller]
    pub fn pin_memory<T: Element, S: Shape>(&self, data: &Data<T, S>) -> Result<bool, SubmitError> {
        let cell = self.own_cell("pin_memory", data)?;
        Ok(self.door.driver.pin_memory(cell))
    }
}
