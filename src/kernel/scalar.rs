//! Numeric types that are the same on the host and in kernels.

use super::signature::ElementType;
use crate::sealed::Sealed;

/// A numeric type that is the same on the host and in kernels.
///
/// ```
/// use thalweg::kernel::{ElementType, Scalar};
/// assert_eq!((f64::TYPE, i32::TYPE), (ElementType::F64, ElementType::I32));
/// ```
pub trait Scalar: bytemuck::Pod + Send + Sync + Sealed {
    /// The type's name in kernels.
    const TYPE: ElementType;
}

macro_rules! scalars {
    ($($t:ty: $name:ident;)*) => {$(
        impl Scalar for $t {
            const TYPE: ElementType = ElementType::$name;
        }
    )*};
}

scalars! { f64: F64; f32: F32; i32: I32; u32: U32; i64: I64; u64: U64; }
