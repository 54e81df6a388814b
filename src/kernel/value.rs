//! Untyped values of kernel arguments.

use crate::region::MAX_DIMS;
use std::sync::Arc;

/// A value, wrapped so that public traits can mention it.
#[doc(hidden)]
#[derive(Debug, Clone)]
pub struct ArgumentValue(pub(crate) Value);

/// A value in the form in which a device's interface receives it.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    /// A number, stored in the first `len` bytes.
    Scalar { bytes: [u8; 8], len: usize },
    /// A structure, stored in the first `len` bytes. The words are aligned strictly enough for any structure.
    Plain { words: Arc<[u128]>, len: usize },
    /// Memory starting at an offset, with the number of elements in each dimension and the strides between them.
    Memory {
        base: usize,
        offset_bytes: usize,
        element_bytes: usize,
        extents: [usize; MAX_DIMS],
        strides: [usize; MAX_DIMS],
    },
}

impl ArgumentValue {
    /// Returns whether an interface would receive the same bytes for both values.
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
