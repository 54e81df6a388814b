//! Kernel arguments in the format that CUDA and HIP expect: an array of pointers to values.

use crate::kernel::{ArgumentValue, MOST_PARAMETERS, Value};
use arrayvec::ArrayVec;
use std::ffi::c_void;

/// The argument values. Each is either 8 bytes that hold an address or begin with a scalar, or a reference to a
/// structure.
pub(super) struct Arguments<'a>(ArrayVec<Place<'a>, MOST_PARAMETERS>);

enum Place<'a> {
    Here([u8; 8]),
    There(&'a [u128]),
}

impl<'a> Arguments<'a> {
    /// Converts the arguments. Memory becomes the address of its first element.
    ///
    /// # Panics
    /// Panics if there are more arguments than a kernel may have.
    pub(super) fn new(arguments: &'a [ArgumentValue]) -> Self {
        let value = |ArgumentValue(value): &'a ArgumentValue| match value {
            Value::Scalar { bytes, .. } => Place::Here(*bytes),
            Value::Plain { words, .. } => Place::There(words),
            Value::Memory { base, offset_bytes, .. } => Place::Here(((base + offset_bytes) as u64).to_ne_bytes()),
        };
        Self(arguments.iter().map(value).collect())
    }

    /// Returns pointers to the values, which the interface reads while a kernel is being launched.
    pub(super) fn pointers(&mut self) -> ArrayVec<*mut c_void, MOST_PARAMETERS> {
        let place = |value: &mut Place<'_>| match value {
            Place::Here(bytes) => bytes.as_mut_ptr().cast(),
            Place::There(words) => words.as_ptr().cast_mut().cast(), // the interface only reads it
        };
        self.0.iter_mut().map(place).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{Argument, Plain};

    #[test]
    fn scalars_begin_their_bytes_and_memory_is_an_address() {
        let (base, extents, strides) = (0x7000_0000_1000, [5, 1, 1, 1], [1; 4]);
        let memory = Value::Memory { base, offset_bytes: 24, element_bytes: 8, extents, strides };
        let arguments =
            [2.5f64.value(), (-3i32).value(), ArgumentValue(memory), 7u64.value(), Plain([1.5f32, 2.5, 3.5]).value()];
        let mut packed = Arguments::new(&arguments);
        let pointers = packed.pointers();
        // SAFETY: each read covers no more bytes than the kernel would read, and every value has eight bytes.
        unsafe {
            assert_eq!(pointers[0].cast::<f64>().read_unaligned(), 2.5);
            assert_eq!(pointers[1].cast::<i32>().read_unaligned(), -3);
            assert_eq!(pointers[2].cast::<u64>().read_unaligned(), 0x7000_0000_1018);
            assert_eq!(pointers[3].cast::<u64>().read_unaligned(), 7);
            assert_eq!(pointers[4].cast::<[f32; 3]>().read(), [1.5, 2.5, 3.5]);
        }
        assert_eq!(pointers.len(), 5);
    }
}
