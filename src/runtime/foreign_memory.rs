//! Arrays in memory allocated by another library, and arrays in memory that is better suited to devices.

use super::Runtime;
use crate::error::{Called, SubmitError};
use crate::memory::adopted::AdoptError;
use crate::memory::dlpack::{DlElement, Tensor};
use crate::memory::{DataCell, Element, Shape, resident_bytes};
use crate::task::Data;
use ndarray::IntoDimension;

impl Runtime {
    /// Registers an array of another library as a data object in place, without copying. There may be gaps between
    /// rows, as in a part of a larger array.
    ///
    /// An array in host memory becomes the data object's home. An array in the memory of a CUDA or HIP device, such as
    /// a CuPy array, becomes a replica on that device that is valid from the beginning; the home of such a data object
    /// gets memory only where it is touched, as with [`device_only`](Self::device_only). The replica does not count
    /// towards the [capacity](crate::machine::Machine::capacity_bytes) that the runtime has on the device, and stays there even if memory
    /// is short. Work that the producer has enqueued on the device must have ended, except on the default stream, for
    /// which the runtime waits.
    ///
    /// Only tasks may touch the memory until the data object is gone; at that point, an arbitrary thread calls the
    /// library's deleter. If tasks have left the current value in another memory, it is not copied back before the
    /// deleter is called: [`fetch`](Self::fetch) it if you need it. [`take`](Self::take) copies the elements into a new
    /// array. See [`Tensor`] for an example.
    ///
    /// # Errors
    /// Fails if the tensor is in the memory of a device that belongs to none of the runtime's units, or is not in the
    /// memory that it claims to be in; if it has another element type or number of dimensions, or strides that do not
    /// describe consecutive rows; or if another data object has adopted a part of it. The error contains the tensor.
    pub fn from_dlpack<T: DlElement, S: Shape>(&self, tensor: Tensor) -> Result<Data<T, S>, AdoptError> {
        self.door.adopt(tensor)
    }

    /// Registers an array of one to four dimensions for devices, which the host may never use.
    ///
    /// The array reserves addresses in host memory, but gets host memory only where it is written there: by a task on
    /// cores, by [`read`](Self::read) or [`take`](Self::take) of elements that a device has written, or by a device
    /// that must make room. Until then, there are only replicas on devices. Elements that were never written read as
    /// zeros, on devices too: the zeros are copied to a device whose first access is a read, but not to a device that
    /// declares `output`.
    ///
    /// Its home is page-locked only on [request](Self::pin_memory), which allocates all of its memory; `take` copies
    /// the elements.
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
    /// Panics if the array's number of elements or bytes would exceed `isize::MAX`, or the address space that the
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
    /// The runtime allocates nothing on devices and copies nothing. It waits where it would otherwise wait for copies,
    /// and requests that pages be moved ahead of tasks that use 64 KiB or more of the array. The array does not count
    /// towards the [capacity](crate::machine::Machine::capacity_bytes) that the runtime has on devices, and may exceed it. Use unified
    /// memory for data that do not fit on a device, or if tasks touch only a few scattered elements. If tasks touch all
    /// elements, replicas are usually faster.
    ///
    /// If there is no unified memory, or the host may not use it while kernels run, the call makes an array like
    /// [`zeros`](Self::zeros). Unified memory requires that the runtime's devices be all CUDA devices or all HIP
    /// devices, that each device support *concurrent managed access* (on Linux, NVIDIA devices since Pascal, and AMD
    /// devices with XNACK), and that the interface have enough of this memory left. A program means the same in either
    /// case; [`is_unified`](Self::is_unified) tells which case applies.
    ///
    /// If a device is lost, the elements that were last used on it are lost too, just like data in the device's own
    /// memory. [`take`](Self::take) copies the elements.
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
    /// Panics if the array's number of elements or bytes would exceed `isize::MAX`.
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
    /// Fails if the data object belongs to another runtime or was taken.
    #[track_caller]
    pub fn is_unified<T: Element, S: Shape>(&self, data: &Data<T, S>) -> Result<bool, SubmitError> {
        Ok(self.own_cell("is_unified", data)?.datum.is_unified())
    }

    #[doc(hidden)] // for tests and diagnosis
    /// Returns how many bytes of a data object's home are resident now, which are the pages that were touched. Returns
    /// the size of the home if the system does not report this (only Linux does) or if there are gaps between the rows,
    /// and 0 in a simulation.
    ///
    /// # Errors
    /// Fails if the data object belongs to another runtime or was taken.
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

    /// Returns the cell of a data object, after checking that the object belongs to this runtime and was not taken.
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

    /// Page-locks an array's memory now, so that accelerators copy from and to it at full speed from the first copy on.
    /// Returns whether the memory is locked afterwards. It is unlocked when the data object is gone.
    ///
    /// The runtime automatically page-locks arrays of 1 MiB or more, but only at their second copy, because locking
    /// takes time and fixes the NUMA node of the pages. Before you call this method, therefore, write the array from
    /// the cores that should be near it. Memory is not locked if no device benefits, if the system refuses, or if there
    /// are gaps between the rows.
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
    /// Fails if the data object belongs to another runtime or was taken.
    #[track_caller]
    pub fn pin_memory<T: Element, S: Shape>(&self, data: &Data<T, S>) -> Result<bool, SubmitError> {
        let cell = self.own_cell("pin_memory", data)?;
        Ok(self.door.driver.pin_memory(cell))
    }
}
