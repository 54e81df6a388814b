//! What a kernel's parameters are given, whatever their types.

use crate::region::MAX_DIMS;
use std::sync::Arc;

/// A value, wrapped so that the public traits can mention it.
#[doc(hidden)]
#[derive(Debug, Clone)]
pub struct ArgumentValue(pub(crate) Value);

/// What a device's interface is given.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    /// The first `len` bytes.
    Scalar { bytes: [u8; 8], len: usize },
    /// The first `len` bytes of a structure, in words that are aligned as any may be.
    Plain { words: Arc<[u128]>, len: usize },
    /// Memory from an offset on: so many elements in each dimension, so far apart.
    Memory {
        base: usize,
        offset_bytes: usize,
        element_bytes: usize,
        extents: [usize; MAX_DIMS],
        strides: [usize; MAX_DIMS],
    },
}
