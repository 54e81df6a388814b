//! Memory that others have made, and memory that devices reach faster.

use super::Runtime;
use crate::error::SubmitError;
use crate::memory::dlpack::{AdoptError, DlElement, Tensor};
use crate::memory::{Element, Shape};
use crate::task::Data;

impl Runtime {
    /// Registers an array of another library as a data object, where it lies: nothing is copied. Rows may have gaps between
    /// them, as in a part of a larger array.
    ///
    /// Until the data object goes, tasks alone touch the memory; the library's own deleter is called then, by any thread.
    /// [`take`](Self::take) copies the elements into an array of its own. See [`Tensor`] for an example.
    ///
    /// # Errors
    /// If the tensor lies in a device's memory; has elements of another type, another number of dimensions, or strides that
    /// are not those of rows one behind the other; or if another data object has adopted a part of it. It is in the error.
    pub fn adopt<T: DlElement, S: Shape>(&self, tensor: Tensor) -> Result<Data<T, S>, AdoptError> {
        self.door.adopt(tensor)
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
    /// assert!(!rt.page_lock(&x)?, "there is no device");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the data is not this runtime's, or was taken.
    pub fn page_lock<T: Element, S: Shape>(&self, data: &Data<T, S>) -> Result<bool, SubmitError> {
        let (task, cell) = (|| "page_lock".to_owned(), &data.cell);
        if cell.runtime != self.door.id {
            return Err(SubmitError::ForeignData { task: task(), data: cell.datum.to_string() });
        }
        if cell.datum.is_taken() {
            return Err(SubmitError::Taken { task: task(), data: cell.datum.to_string() });
        }
        Ok(self.door.driver.page_lock(cell))
    }
}
