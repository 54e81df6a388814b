//! Arrays in memory allocated by another library, and arrays in memory that is better suited to devices.

use super::runtime::Runtime;
use crate::memory::adopted::ImportError;
use crate::memory::dlpack::{DlElement, Tensor};
use crate::memory::{Element, MemoryKind, Shape};
use crate::task::Data;
use ndarray::IntoDimension;

impl Runtime {
    /// Registers an array of another library as a data object in place, without copying. There may be gaps between
    /// rows, as in a part of a larger array.
    ///
    /// An array in host memory becomes the data object's home. An array in the memory of a CUDA or HIP device, such as
    /// a CuPy array, becomes a replica on that device that is valid from the beginning; the home of such a data object
    /// gets memory only where it is touched, as with [`MemoryKind::DeviceOnly`]. The replica does not count towards the
    /// [capacity](crate::machine::Machine::capacity_bytes) that the runtime has on the device, and is never evicted.
    /// Work that the producer has enqueued on the device must have ended, except on the default stream, for which the
    /// runtime waits.
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
    pub fn from_dlpack<T: DlElement, S: Shape>(&self, tensor: Tensor) -> Result<Data<T, S>, ImportError> {
        self.door.adopt(tensor)
    }

    /// Registers an array of zeros, of one to four dimensions, in memory of this kind.
    ///
    /// # Panics
    /// Panics if the array's number of elements or bytes would exceed `isize::MAX`, or the address space that the
    /// system has left for this process.
    #[track_caller]
    pub fn zeros_in<T: Element, I: IntoDimension>(&self, kind: MemoryKind, shape: I) -> Data<T, I::Dim>
    where
        I::Dim: Shape,
    {
        match kind {
            MemoryKind::Host => self.door.zeros(shape),
            MemoryKind::DeviceOnly => self.door.device_only(shape),
            MemoryKind::Unified => self.door.unified(shape),
        }
    }
}
