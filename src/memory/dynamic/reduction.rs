//! Reductions whose operation and element type are values.

use super::Dtype;
use crate::depend::{Mode, OpId, Site};
use crate::memory::access::{Declared, Replicated};
use crate::memory::buffer::DataCell;
use crate::memory::reduce::Reduce;
use crate::memory::{Element, Max, Min, Reducer, Sum, operation};
use crate::region::Block;
use crate::sealed::Internal;
use ndarray::Ix4;
use num_complex::Complex;
use std::fmt;

/// An operation of a reduction, as a value: [`Sum`], [`Min`] or [`Max`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// [`Sum`], of numbers and complex numbers.
    Sum,
    /// [`Min`], of numbers.
    Min,
    /// [`Max`], of numbers.
    Max,
}

/// The private replica of a reduction, whatever its type.
///
/// One- to three-dimensional regions are combined as four-dimensional ones, whose last extents are 1.
pub(crate) trait Combining: Replicated + Send + fmt::Debug {
    /// Begins a new replica for a body that finds the region at `site`, and returns the replica's site.
    ///
    /// # Safety
    /// As for `Access::view`, until the replica is combined.
    unsafe fn begin(&self, site: Option<Site>) -> Site;

    fn again(&self, right: Internal) -> Box<dyn Combining>;
}

impl<T: Element, R: Reducer<T>> Combining for Reduce<T, Ix4, R>
where
    Self: fmt::Debug,
{
    unsafe fn begin(&self, site: Option<Site>) -> Site {
        // SAFETY: the caller upholds the same contract.
        unsafe { self.begin_for(site) }
    }

    fn again(&self, right: Internal) -> Box<dyn Combining> {
        Box::new(crate::memory::Access::again(self, right))
    }
}

/// Expands to `$visit!(number T)` or `$visit!(complex T)` for the type of these elements, or to `None` if they have no
/// operation.
macro_rules! by_type {
    ($dtype:expr, $visit:ident) => {
        match $dtype {
            Dtype::I8 => $visit!(number i8),
            Dtype::I16 => $visit!(number i16),
            Dtype::I32 => $visit!(number i32),
            Dtype::I64 => $visit!(number i64),
            Dtype::U8 => $visit!(number u8),
            Dtype::U16 => $visit!(number u16),
            Dtype::U32 => $visit!(number u32),
            Dtype::U64 => $visit!(number u64),
            Dtype::F32 => $visit!(number f32),
            Dtype::F64 => $visit!(number f64),
            Dtype::C64 => $visit!(complex Complex<f32>),
            Dtype::C128 => $visit!(complex Complex<f64>),
            Dtype::Bool | Dtype::F16 | Dtype::Bf16 | Dtype::Bytes(_) => None,
        }
    };
}

impl Op {
    /// Returns the mode of an access with this operation, or `None` if elements of this type do not have it.
    pub(crate) fn mode(self, dtype: Dtype) -> Option<Mode> {
        fn id<T>(reducer: &impl Reducer<T>) -> Option<OpId> {
            Some(operation(reducer))
        }
        macro_rules! id {
            (number $t:ty) => {
                match self {
                    Self::Sum => id::<$t>(&Sum),
                    Self::Min => id::<$t>(&Min),
                    Self::Max => id::<$t>(&Max),
                }
            };
            (complex $t:ty) => {
                if self == Self::Sum { id::<$t>(&Sum) } else { None }
            };
        }
        by_type!(dtype, id).map(Mode::Reduction)
    }

    /// Makes the replica of an access with this operation, to begin later. The region is within the data object's
    /// bounds, and the type is that of its elements.
    pub(crate) fn store(self, cell: &DataCell, block: &Block, dtype: Dtype) -> Option<Box<dyn Combining>> {
        fn boxed<T: Element + fmt::Debug, R: Reducer<T> + fmt::Debug>(
            cell: &DataCell,
            block: &Block,
            reducer: R,
        ) -> Option<Box<dyn Combining>> {
            Some(Box::new(Reduce::<T, Ix4, R>::new(Declared::new(cell, block), reducer)))
        }
        macro_rules! boxed {
            (number $t:ty) => {
                match self {
                    Self::Sum => boxed::<$t, _>(cell, block, Sum),
                    Self::Min => boxed::<$t, _>(cell, block, Min),
                    Self::Max => boxed::<$t, _>(cell, block, Max),
                }
            };
            (complex $t:ty) => {
                if self == Self::Sum { boxed::<$t, _>(cell, block, Sum) } else { None }
            };
        }
        by_type!(dtype, boxed)
    }
}
