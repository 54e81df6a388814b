//! Values of kernels' arguments, without their types.

use crate::region::MAX_DIMS;
use std::sync::Arc;

/// A value, wrapped so that the public traits can mention it.
#[doc(hidden)]
#[derive(Debug, Clone)]
pub struct ArgumentValue(pub(crate) Value);

/// A value as a device's interface gets it.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    /// A number: the first `len` bytes.
    Scalar { bytes: [u8; 8], len: usize },
    /// A structure: the first `len` bytes, in words with an alignment that suits every structure.
    Plain { words: Arc<[u128]>, len: usize },
    /// Memory from an offset on, with the number of elements in each dimension and the distances between them.
    Memory {
        base: usize,
        offset_bytes: usize,
        element_bytes: usize,
        extents: [usize; MAX_DIMS],
        strides: [usize; MAX_DIMS],
    },
}

impl ArgumentValue {
    /// Whether an interface gets the same bytes for both.
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
