//! How large arrays are, by the names of the methods that arrays have.

use crate::region::MAX_DIMS;
use ndarray::{ArrayRef, Ix2, Ix3};

/// Elements along each dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extents<const D: usize>(pub [usize; D]);

impl<const D: usize> Extents<D> {
    /// Of a view on a device.
    pub fn of(extents: [usize; MAX_DIMS]) -> Self {
        Self(std::array::from_fn(|d| extents[d]))
    }

    /// All elements.
    #[allow(clippy::len_without_is_empty)] // nobody asks
    pub fn len(&self) -> usize {
        self.0.iter().product()
    }
}

impl Extents<2> {
    /// As an array's.
    pub fn nrows(&self) -> usize {
        self.0[0]
    }

    /// As an array's.
    pub fn ncols(&self) -> usize {
        self.0[1]
    }
}

/// What has extents.
pub trait Measure<const D: usize> {
    /// They.
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
