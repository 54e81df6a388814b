//! Sizes of arrays, with the same method names as arrays.

use crate::region::MAX_DIMS;
use ndarray::{ArrayRef, Ix2, Ix3};

/// The number of elements along each dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extents<const D: usize>(pub [usize; D]);

impl<const D: usize> Extents<D> {
    /// Returns the extents of a view on a device.
    pub fn of(extents: [usize; MAX_DIMS]) -> Self {
        Self(std::array::from_fn(|d| extents[d]))
    }

    /// Returns the total number of elements.
    #[allow(clippy::len_without_is_empty)] // generated code does not need `is_empty`
    pub fn len(&self) -> usize {
        self.0.iter().product()
    }
}

impl Extents<2> {
    /// Returns the number of rows.
    pub fn nrows(&self) -> usize {
        self.0[0]
    }

    /// Returns the number of columns.
    pub fn ncols(&self) -> usize {
        self.0[1]
    }
}

/// A type with extents.
pub trait Measure<const D: usize> {
    /// Returns the extents.
    fn measure(&self) -> Extents<D>;
}

impl<T> Measure<1> for [T] {
    fn measure(&self) -> Extents<1> {
        Extents([self.len()])
    }
}

impl<T> Measure<2> for ArrayRef<T, Ix2> {
    fn measure(&self) -> Extents<2> {
        Extents([self.shape()[0], self.shape()[1]])
    }
}

impl<T> Measure<3> for ArrayRef<T, Ix3> {
    fn measure(&self) -> Extents<3> {
        Extents([self.shape()[0], self.shape()[1], self.shape()[2]])
    }
}
