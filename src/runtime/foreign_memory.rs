//! Memory that others have made, and memory that devices reach faster.

use super::Runtime;
use crate::error::{Called, SubmitError};
use crate::memory::adopted::AdoptError;
use crate::memory::dlpack::{DlElement, Tensor};
use crate::memory::{DataCell, Element, Shape, resident_bytes};
use crate::task::Data;
use ndarray::IntoDimension;

impl Runtime {
    /// Registers an array of another library as a data object, where it lies: nothing is copied. Rows may have gaps between
    /// them, as in a part of a larger array.
    ///
    /// An array in host memory is the data object's home. One in the memory of a CUDA or HIP device, as CuPy has it, is a
    /// replica there, valid from the beginning; its home is made where it is touched, as that of
    /// [`device_only`](Self::device_only). It takes nothing of the [bytes](Self::capacity_bytes) that the runtime has there,
    /// and stays there, also if memory is short. What its producer has enqueued there has ended, but for what is on the default
    /// stream, which is waited for.
    ///
    /// Until the data object goes, tasks alone touch the memory; the library's own deleter is called then, by any thread. A
    /// value that tasks have left in another memory is not brought there for that: [`fetch`](Self::fetch) it if it is wanted.
    /// [`take`](Self::take) copies the elements into an array of its own. See [`Tensor`] for an example.
    ///
    /// # Errors
    /// If the tensor lies in memory of a device that is none of the runtime's units', or not where it says; has elements of another type, another number of dimensions, or strides that
    /// are not those of rows one behind the other; or if another data object has adopted a part of it. It is in the error.
    pub fn from_dlpack<T: DlElement, S: Shape>(&self, tensor: Tensor) -> Result<Data<T, S>, AdoptError> {
        self.door.adopt(tensor)
    }

    /// Registers an array of one to four dimensions that devices use and the host perhaps never: it has addresses in host
    /// memory, and memory behind them only where it is written there: by a task on cores, by [`read`](Self::read) or
    /// [`take`](Self::take) of what a device has written, or by what a device must give up to make room. Until then there are
    /// replicas on devices alone. What nobody has written reads as zeros, on devices too; a device that reads it first has the
    /// zeros copied there, and one that declares `output` has not.
    ///
    /// Its home is page-locked by [request](Self::pin_memory) alone, which gives it memory; `take` copies what is there.
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
    /// If the array would have more elements, or more bytes, than memory has addresses (`isize::MAX`), or than the system has
    /// left for this process.
    #[track_caller]
    pub fn device_only<T: Element, I: IntoDimension>(&self, shape: I) -> Data<T, I::Dim>
    where
        I::Dim: Shape,
    {
        self.door.device_only(shape)
    }

    /// Registers an array of zeros, of one to four dimensions, in *unified memory* of CUDA or HIP: tasks on cores and on devices
    /// use the same bytes at the same address. Nothing is allocated on devices and nothing copied by the runtime; it waits as
    /// it would for copies, and asks for pages to be moved ahead of tasks that use 64 KiB and more of them. The array takes
    /// nothing of the [bytes](Self::capacity_bytes) that the runtime has on devices, and may be larger than these: so use it for
    /// what does not fit, or where tasks touch a few elements here and there. Where they touch all, replicas are faster as a rule.
    ///
    /// Where there is no such memory, or the host may not use it while kernels run, the array is one of [`zeros`](Self::zeros):
    /// so it is unless all of the runtime's devices are CUDA's or all HIP's and each has *concurrent managed access* (on
    /// Linux, NVIDIA's since Pascal; AMD's with XNACK), and also where the interface has none left. Programs mean the same
    /// either way; [`is_unified`](Self::is_unified) tells.
    ///
    /// If a device is lost, so is what was used last there, as from memory of its own. [`take`](Self::take) copies the elements.
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

    /// Whether a data object is in unified memory, so that devices use it where it is at home.
    ///
    /// # Errors
    /// If the data is not this runtime's, or was taken.
    #[track_caller]
    pub fn is_unified<T: Element, S: Shape>(&self, data: &Data<T, S>) -> Result<bool, SubmitError> {
        Ok(self.own_cell("is_unified", data)?.datum.is_unified())
    }

    /// How many bytes of a data object's home have memory now, in whole pages: those that were touched. All of them where the
    /// system does not tell (only Linux does), or where there are gaps between the rows; none in a simulation.
    ///
    /// # Errors
    /// If the data is not this runtime's, or was taken.
    #[track_caller]
    pub fn home_bytes<T: Element, S: Shape>(&self, data: &Data<T, S>) -> Result<usize, SubmitError> {
        let cell = self.own_cell("home_bytes", data)?;
        let bytes = cell.datum.whole().volume() * cell.datum.element_bytes;
        Ok(match () {
            () if cell.datum.phantom || bytes == 0 => 0,
            () if !cell.is_contiguous(&cell.datum.whole()) => bytes, // what is lent with gaps is there
            () => resident_bytes(cell.base(), bytes),
        })
    }

    /// The data object, which is this runtime's and was not taken.
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

    /// Page-locks an array's memory now, so that accelerators copy from and to it at full speed from the first copy on; whether
    /// it is locked after that. It is unlocked when the data object goes.
    ///
    /// By itself the runtime does that to arrays of 1 MiB and more, for their second copy, since it takes time and decides on
    /// which NUMA node the pages lie. So first write the array from where it is to lie. It is not done where no device gains
    /// by it, where the system refuses, or where the memory has gaps between its rows.
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
    /// If the data is not this runtime's, or was taken.
    #[track_caller]
    pub fn pin_memory<T: Element, S: Shape>(&self, data: &Data<T, S>) -> Result<bool, SubmitError> {
        let cell = self.own_cell("pin_memory", data)?;
        Ok(self.door.driver.pin_memory(cell))
    }
}
