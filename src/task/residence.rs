//! The memory of a data object: the spaces in which it is valid, unified memory, and page-locked memory.

use super::{Data, Region};
use crate::ids::SpaceId;
use crate::memory::{Element, Shape, resident_bytes};

impl<T: Element, S: Shape> Region<'_, T, S> {
    /// Returns the address spaces in which the whole region is currently valid; none if the runtime is gone.
    pub fn valid_in(&self) -> Vec<SpaceId> {
        self.data.owner().map_or_else(Vec::new, |owner| owner.valid_in(&self.data.cell, &self.block))
    }
}

impl<T: Element, S: Shape> Data<T, S> {
    /// Returns whether the data object is in unified memory
    /// ([`MemoryKind::Unified`](crate::memory::MemoryKind::Unified)), so that devices use its elements in place.
    pub fn is_unified(&self) -> bool {
        self.cell.datum.is_unified()
    }

    /// Page-locks an array's memory now, so that accelerators copy from and to it at full speed from the first copy on.
    /// Returns whether the memory is locked afterwards. It is unlocked when the data object is gone.
    ///
    /// The runtime automatically page-locks arrays of 1 MiB or more, but only at their second copy, because locking
    /// takes time and fixes the NUMA node of the pages. Before you call this method, therefore, write the array from
    /// the cores that should be near it. Memory is not locked if no device benefits, if the system refuses, if there
    /// are gaps between the rows, or if the array was taken.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// let x = rt.data(vec![1.0; 1 << 17]);
    /// assert!(!x.pin_memory(), "there is no device");
    /// # Ok::<(), BuildError>(())
    /// ```
    pub fn pin_memory(&self) -> bool {
        !self.cell.datum.is_taken() && self.owner().is_some_and(|owner| owner.pin_memory(&self.cell))
    }

    #[doc(hidden)] // for tests and diagnosis
    /// Returns how many bytes of the data object's home are resident now, which are the pages that were touched.
    /// Returns the size of the home if the system does not report this (only Linux does) or if there are gaps between
    /// the rows, and 0 in a simulation and after the array was taken.
    pub fn home_bytes(&self) -> usize {
        let bytes = self.cell.datum.whole().volume() * self.cell.datum.element_bytes;
        match () {
            () if self.cell.datum.phantom || self.cell.datum.is_taken() || bytes == 0 => 0,
            () if !self.cell.is_contiguous(&self.cell.datum.whole()) => bytes, // an adopted array has all its memory
            () => resident_bytes(self.cell.base(), bytes),
        }
    }
}
