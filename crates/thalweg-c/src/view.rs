//! The views that bodies in C get.
//!
//! The Python package compiles this file too, because functions that C's interface calls are bodies in Python as well.

use std::ffi::c_void;
use thalweg::dynamic::{AnyView, Dtype};

/// The greatest number of dimensions.
pub const TW_MAX_DIMS: usize = 4;

/// A type of elements.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum tw_dtype {
    /// `int8_t`
    TW_INT8 = 0,
    /// `int16_t`
    TW_INT16 = 1,
    /// `int32_t`
    TW_INT32 = 2,
    /// `int64_t`
    TW_INT64 = 3,
    /// `uint8_t`
    TW_UINT8 = 4,
    /// `uint16_t`
    TW_UINT16 = 5,
    /// `uint32_t`
    TW_UINT32 = 6,
    /// `uint64_t`
    TW_UINT64 = 7,
    /// `float`
    TW_FLOAT32 = 8,
    /// `double`
    TW_FLOAT64 = 9,
    /// `float _Complex`
    TW_COMPLEX64 = 10,
    /// `double _Complex`
    TW_COMPLEX128 = 11,
    /// Elements of another type, such as structures.
    TW_BYTES = 12,
}

/// Returns the number of a type.
pub(crate) fn number(dtype: Dtype) -> u32 {
    let number = match dtype {
        Dtype::I8 => tw_dtype::TW_INT8,
        Dtype::I16 => tw_dtype::TW_INT16,
        Dtype::I32 => tw_dtype::TW_INT32,
        Dtype::I64 => tw_dtype::TW_INT64,
        Dtype::U8 => tw_dtype::TW_UINT8,
        Dtype::U16 => tw_dtype::TW_UINT16,
        Dtype::U32 => tw_dtype::TW_UINT32,
        Dtype::U64 => tw_dtype::TW_UINT64,
        Dtype::F32 => tw_dtype::TW_FLOAT32,
        Dtype::F64 => tw_dtype::TW_FLOAT64,
        Dtype::C64 => tw_dtype::TW_COMPLEX64,
        Dtype::C128 => tw_dtype::TW_COMPLEX128,
        Dtype::Bool | Dtype::F16 | Dtype::Bf16 | Dtype::Bytes(_) => tw_dtype::TW_BYTES,
    };
    number as u32
}

/// A view of a region in host memory.
#[repr(C)]
#[derive(Debug)]
pub struct tw_view {
    /// The first element; null if the access gives no view. Elements of `TW_IN` must not be written.
    pub data: *mut c_void,
    /// A `tw_dtype`.
    pub r#type: u32,
    /// The number of dimensions.
    pub ndim: usize,
    /// The number of elements along each dimension; 1 beyond the last.
    pub shape: [usize; TW_MAX_DIMS],
    /// The number of elements from one index to the next, per dimension.
    pub strides: [usize; TW_MAX_DIMS],
    /// The number of elements.
    pub count: usize,
    /// The number of bytes of an element.
    pub element_bytes: usize,
    /// Whether the task may write the region.
    pub is_writable: bool,
}

/// Describes a region in host memory.
pub(crate) fn view(view: &AnyView<'_>) -> tw_view {
    let (mut shape, mut strides) = ([1; TW_MAX_DIMS], [1; TW_MAX_DIMS]);
    // Copies of slices of so few numbers would be calls.
    for d in 0..TW_MAX_DIMS {
        if let (Some(extent), Some(stride)) = (view.shape().get(d), view.strides().get(d)) {
            (shape[d], strides[d]) = (*extent, *stride);
        }
    }
    let ndim = view.shape().len();
    tw_view {
        data: view.as_ptr().cast_mut().cast(),
        r#type: number(view.dtype()),
        ndim,
        shape,
        strides,
        count: view.len(),
        element_bytes: view.dtype().size(),
        is_writable: view.is_writable(),
    }
}
