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

impl ArgumentValue {
    /// Whether an interface is given the same for both.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Value::Scalar { bytes, len }, Value::Scalar { bytes: others, len: others_len }) => {
                (bytes, len) == (others, others_len)
            }
            (Value::Plain { words, len }, Value::Plain { words: others, len: others_len }) => {
                (words, len) == (others, others_len)
            }
            (
                Value::Memory { base, offset_bytes, element_bytes, .. },
                Value::Memory { base: other_base, offset_bytes: other_offset, element_bytes: other_element, .. },
            ) => (base, offset_bytes, element_bytes) == (other_base, other_offset, other_element),
            _ => false,
        }
    }
}
