//! The numbers of dimensions that data objects of a cluster can have, and how guards of their regions become bytes.

use thalweg::memory::{Element, Lent, Shape};
use thalweg::ndarray::{ArrayRef, ArrayView, ArrayViewMut, Ix1, Ix2, Ix3, Ix4};

/// One of ndarray's dimensions [`Ix1`](type@Ix1) to [`Ix4`](type@Ix4).
///
/// The trait is implemented for these only.
pub trait Dims: Shape {
    /// Makes an index with these values.
    #[doc(hidden)]
    fn of(extents: &[usize; 4]) -> Self;
    /// The elements, if they are contiguous.
    #[doc(hidden)]
    fn contiguous<T: Element>(region: &Self::Lent<T>) -> Option<&[T]>;
    /// The elements, if they are contiguous.
    #[doc(hidden)]
    fn contiguous_mut<T: Element>(region: &mut Lent<Self::Lent<T>>) -> Option<&mut [T]>;
    /// The elements as an array.
    #[doc(hidden)]
    fn as_array<T: Element>(region: &Self::Lent<T>) -> ArrayView<'_, T, Self>;
    /// The elements as an array.
    #[doc(hidden)]
    fn as_array_mut<T: Element>(region: &mut Lent<Self::Lent<T>>) -> ArrayViewMut<'_, T, Self>;
}

impl Dims for Ix1 {
    fn of(extents: &[usize; 4]) -> Self {
        Ix1(extents[0])
    }

    fn contiguous<T: Element>(region: &[T]) -> Option<&[T]> {
        Some(region)
    }

    fn contiguous_mut<T: Element>(region: &mut Lent<[T]>) -> Option<&mut [T]> {
        Some(region)
    }

    fn as_array<T: Element>(region: &[T]) -> ArrayView<'_, T, Ix1> {
        region.into()
    }

    fn as_array_mut<T: Element>(region: &mut Lent<[T]>) -> ArrayViewMut<'_, T, Ix1> {
        (&mut **region).into()
    }
}

macro_rules! several {
    ($($ix:ident($($d:tt),*);)*) => {$(
        impl Dims for $ix {
            fn of(extents: &[usize; 4]) -> Self {
                $ix($(extents[$d]),*)
            }

            fn contiguous<T: Element>(region: &ArrayRef<T, $ix>) -> Option<&[T]> {
                region.as_slice()
            }

            fn contiguous_mut<T: Element>(region: &mut Lent<ArrayRef<T, $ix>>) -> Option<&mut [T]> {
                region.as_slice_mut()
            }

            fn as_array<T: Element>(region: &ArrayRef<T, $ix>) -> ArrayView<'_, T, $ix> {
                region.view()
            }

            fn as_array_mut<T: Element>(region: &mut Lent<ArrayRef<T, $ix>>) -> ArrayViewMut<'_, T, $ix> {
                region.view_mut()
            }
        }
    )*};
}

several! { Ix2(0, 1); Ix3(0, 1, 2); Ix4(0, 1, 2, 3); }
