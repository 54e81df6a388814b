//! Halos and faces, which are the surroundings of a region's border inside and outside of the region.
//!
//! All of them are clipped at the border of the data object, so programs need not distinguish inner parts from outer
//! parts.

use super::Region;
use super::cut::Halo;
use crate::memory::{Element, Shape};
use crate::region::{Block, MAX_DIMS};
use crate::sealed::Sealed;
use ndarray::{Ix1, Ix2, Ix3, Ix4};

/// The widths by which to grow a region: one number for all dimensions and both sides, an array with one number per
/// dimension, or an array with one pair per dimension (the widths before and after the region).
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let x: Data<f64, Ix2> = rt.zeros([10, 10]);
/// let middle = x.block((4..6, 4..6));
/// assert_eq!(format!("{:?}", middle.grow(1)), format!("{:?}", x.block((3..7, 3..7))));
/// assert_eq!(format!("{:?}", middle.grow([2, 0])), format!("{:?}", x.block((2..8, 4..6))));
/// assert_eq!(format!("{:?}", middle.grow([(1, 0), (0, 9)])), format!("{:?}", x.block((3..6, 4..10))));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Widths<S: Shape>: Sealed {
    #[doc(hidden)]
    fn halo(self) -> Halo;
}

impl<S: Shape> Widths<S> for usize {
    fn halo(self) -> Halo {
        let ndim = S::NDIM.unwrap_or(1);
        let widths = std::array::from_fn(|d| if d < ndim { self } else { 0 });
        Halo { before: widths, after: widths }
    }
}

impl<const N: usize> Sealed for [usize; N] {}
impl<const N: usize> Sealed for [(usize, usize); N] {}

macro_rules! widths {
    ($($ix:ident $n:literal;)*) => {$(
        impl Widths<$ix> for [usize; $n] {
            fn halo(self) -> Halo {
                self.map(|width| (width, width)).halo()
            }
        }

        impl Widths<$ix> for [(usize, usize); $n] {
            fn halo(self) -> Halo {
                let (mut before, mut after) = ([0; MAX_DIMS], [0; MAX_DIMS]);
                self.iter().enumerate().for_each(|(d, widths)| (before[d], after[d]) = *widths);
                Halo { before, after }
            }
        }
    )*};
}

widths! { Ix1 1; Ix2 2; Ix3 3; Ix4 4; }

/// One of the two sides of a box along a dimension.
///
/// ```
/// use thalweg::task::Face;
/// let (top, right) = (Face::low(0), Face::high(1)); // of a matrix
/// assert_eq!((top.opposite(), right.dimension), (Face::high(0), 1));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Face {
    /// The dimension perpendicular to the face, counted from 0.
    pub dimension: usize,
    /// The side of the box on which the face is.
    pub side: Side,
}

/// The beginning or the end of a box along a dimension.
///
/// ```
/// use thalweg::task::{Face, Side};
/// assert_eq!(Face::low(2).side, Side::Low);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// The side of low indices.
    Low,
    /// The side of high indices.
    High,
}

impl Face {
    /// Returns the face at the low indices of this dimension.
    pub const fn low(dimension: usize) -> Self {
        Self { dimension, side: Side::Low }
    }

    /// Returns the face at the high indices of this dimension.
    pub const fn high(dimension: usize) -> Self {
        Self { dimension, side: Side::High }
    }

    /// Returns the face on the opposite side. The neighbour at this face touches the region with its opposite face.
    #[must_use]
    pub const fn opposite(self) -> Self {
        match self.side {
            Side::Low => Self::high(self.dimension),
            Side::High => Self::low(self.dimension),
        }
    }
}

impl<T: Element, S: Shape> Region<'_, T, S> {
    /// Returns the region with its halo of these widths, clipped at the data object's border. An empty region remains
    /// unchanged.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// let x = rt.data((0..10).collect::<Vec<i32>>());
    /// assert_eq!(rt.read(x.slice(4..6).grow(1))?, [3, 4, 5, 6]);
    /// assert_eq!(rt.read(x.slice(0..2).grow(1))?, [0, 1, 2], "there is nothing before the first");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn grow(self, widths: impl Widths<S>) -> Self {
        let block = widths.halo().around(&self.block, self.data.cell.datum.shape());
        Self { block, ..self }
    }

    /// Returns the strip inside the region along a face, or all of the region if it is narrower than the strip.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// use thalweg::task::Face;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// let x = rt.array(ndarray::arr2(&[[1, 2, 3], [4, 5, 6], [7, 8, 9]]));
    /// assert_eq!(rt.read(x.all().border(Face::high(1), 1))?, ndarray::arr2(&[[3], [6], [9]]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// Panics if the data object has no such dimension.
    #[must_use]
    #[track_caller]
    pub fn border(self, face: Face, width: usize) -> Self {
        let (mut lo, mut hi, d) = (*self.block.lo(), *self.block.hi(), self.across(face));
        match face.side {
            Side::Low => hi[d] = lo[d].saturating_add(width).min(hi[d]),
            Side::High => lo[d] = hi[d].saturating_sub(width).max(lo[d]),
        }
        Self { block: Block::from_corners(lo, hi), ..self }
    }

    /// Returns the strip outside the region along a face, clipped at the data object's border; it may be empty.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// use thalweg::task::Face;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// let x = rt.data((0..10).collect::<Vec<i32>>());
    /// let part = x.slice(2..5);
    /// assert_eq!(rt.read(part.halo(Face::high(0), 2))?, [5, 6]);
    /// assert_eq!(rt.read(part.halo(Face::low(0), 9))?, [0, 1]);
    /// assert!(x.all().halo(Face::high(0), 1).is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// Panics if the data object has no such dimension.
    #[must_use]
    #[track_caller]
    pub fn halo(self, face: Face, width: usize) -> Self {
        let (mut lo, mut hi, d) = (*self.block.lo(), *self.block.hi(), self.across(face));
        match face.side {
            Side::Low => (lo[d], hi[d]) = (lo[d].saturating_sub(width), lo[d]),
            Side::High => {
                let end = self.data.cell.datum.shape()[d].max(hi[d]);
                (lo[d], hi[d]) = (hi[d], hi[d].saturating_add(width).min(end));
            }
        }
        Self { block: Block::from_corners(lo, hi), ..self }
    }

    #[track_caller]
    fn across(&self, face: Face) -> usize {
        let (d, ndim) = (face.dimension, S::NDIM.unwrap_or(1));
        assert!(d < ndim, "{self:?} has no face across dimension {d}: try one below {ndim}");
        d
    }
}
