//! The kinds of memory that an array can be registered in.

/// The kind of memory in which [`Runtime::zeros_in`](crate::Runtime::zeros_in) registers an array. A program computes the
/// same results with each of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemoryKind {
    /// Host memory, as with [`Runtime::zeros`](crate::Runtime::zeros). Tasks on a device use a replica on that device.
    Host,
    /// Memory of devices, for an array that the host may never use.
    ///
    /// The array reserves addresses in host memory, but gets host memory only where it is written there: by a task on
    /// cores, by [`read`](crate::Runtime::read) or [`take`](crate::Runtime::take) of elements that a device has
    /// written, or by a device that must make room. Until then, there are only replicas on devices. Elements that were
    /// never written read as zeros, on devices too: the zeros are copied to a device whose first access is a read, but
    /// not to a device that declares `output`.
    ///
    /// Its home is page-locked only on [request](crate::task::Data::pin_memory), which allocates all of its memory;
    /// `take` copies the elements.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:EMU:1").build()?;
    /// let (x, between) = (rt.data(vec![1.0; 1000]), rt.zeros_in(MemoryKind::DeviceOnly, [1000]));
    /// rt.task("first", (x.input(), between.output()))
    ///     .cpu(|_, (x, between)| between.iter_mut().zip(x).for_each(|(b, x)| *b = x + 1.0))
    ///     .submit()?;
    /// rt.task("second", (between.input(), x.inout()))
    ///     .cpu(|_, (between, x)| x.iter_mut().zip(between).for_each(|(x, b)| *x *= b))
    ///     .submit()?;
    /// assert_eq!(rt.take(x)?, [2.0; 1000]);
    /// # #[cfg(target_os = "linux")]
    /// assert_eq!(between.home_bytes(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    DeviceOnly,
    /// *Unified memory* of CUDA or HIP: tasks on cores and on devices use the same bytes at the same address.
    ///
    /// The runtime allocates nothing on devices and copies nothing. It waits where it would otherwise wait for copies,
    /// and requests that pages be moved ahead of tasks that use 64 KiB or more of the array. The array does not count
    /// towards the [capacity](crate::machine::Machine::capacity_bytes) that the runtime has on devices, and may exceed
    /// it. Use unified memory for data that do not fit on a device, or if tasks touch only a few scattered elements. If
    /// tasks touch all elements, replicas are usually faster.
    ///
    /// If there is no unified memory, or the host may not use it while kernels run, the array is in host memory.
    /// Unified memory requires that the runtime's devices be all CUDA devices or all HIP devices, that each device
    /// support *concurrent managed access* (on Linux, NVIDIA devices since Pascal, and AMD devices with XNACK), and
    /// that the interface have enough of this memory left. [`Data::is_unified`](crate::task::Data::is_unified) tells
    /// which case applies.
    ///
    /// If a device is lost, the elements that were last used on it are lost too, just like data in the device's own
    /// memory. [`take`](crate::Runtime::take) copies the elements.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?; // or "1:CUDA:1"
    /// let table = rt.zeros_in::<f64, _>(MemoryKind::Unified, [1000, 1000]);
    /// rt.task("row", (table.block((3, ..)).output(),)).cpu(|_, (mut row,)| row.fill(1.0)).submit()?;
    /// assert!(!table.is_unified(), "there is no device");
    /// assert_eq!(rt.take(table)?.sum(), 1000.0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    Unified,
}
