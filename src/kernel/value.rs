//! What a kernel's parameters are given, whatever their types.

use crate::region::MAX_DIMS;

/// A value, wrapped so that the public traits can mention it.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub struct ArgumentValue(pub(crate) Value);

/// What a device's interface is given.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Value {
    /// The first `len` bytes.
    Scalar { bytes: [u8; 8], len: usize },
    /// Memory from an offset on: so many elements in each dimension, so far apart.
    Memory {
        base: usize,
        offset_bytes: usize,
        element_bytes: usize,
        extents: [usize; MAX_DIMS],
        strides: [usize; MAX_DIMS],
    },
}
