//! Element types as values.

use crate::memory::Element;
use crate::memory::dlpack::{DlDataType, DlElement};
use num_complex::Complex;
use std::fmt;

macro_rules! dtypes {
    ($($(#[$doc:meta])* $name:ident $text:literal, $storage:ty, $code:literal;)*) => {
        /// The type of a data object's elements, as a value.
        ///
        /// ```
        /// use thalweg::dynamic::Dtype;
        /// assert_eq!(Dtype::of::<f64>(), Dtype::F64);
        /// assert_eq!(("complex64".parse(), Dtype::C64.size()), (Ok(Dtype::C64), 8));
        /// assert_eq!(Dtype::Bytes(24).to_string(), "bytes24");
        /// ```
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Dtype {
            $($(#[$doc])* $name,)*
            /// Elements of this many bytes, such as C structures, which the runtime only moves. They are aligned to the
            /// largest power of two that divides their size, up to 16.
            Bytes(usize),
        }

        impl Dtype {
            /// Returns the number of bytes of an element.
            pub const fn size(self) -> usize {
                match self {
                    $(Self::$name => size_of::<$storage>(),)*
                    Self::Bytes(bytes) => bytes,
                }
            }

            /// Returns the alignment of an element in bytes.
            pub const fn align(self) -> usize {
                match self {
                    $(Self::$name => align_of::<$storage>(),)*
                    Self::Bytes(bytes) => {
                        let power = 1 << bytes.trailing_zeros();
                        if bytes == 0 { 1 } else if power > 16 { 16 } else { power }
                    }
                }
            }

            /// Returns DLPack's description of the type; `None` if it has none. That of [`Bytes`](Self::Bytes) is a
            /// vector of `uint8`, of 2 to 65535 lanes.
            pub const fn data_type(self) -> Option<DlDataType> {
                match self {
                    $(Self::$name => {
                        Some(DlDataType { code: $code, bits: (8 * size_of::<$storage>()) as u8, lanes: 1 })
                    })*
                    Self::Bytes(bytes) if bytes > 1 && bytes <= u16::MAX as usize => {
                        Some(DlDataType { code: 1, bits: 8, lanes: bytes as u16 })
                    }
                    Self::Bytes(_) => None,
                }
            }

            /// Calls `visit` with a value of the type that homes of such elements are allocated as.
            pub(crate) fn allocated_as<V: Allocating>(self, visit: V) -> V::Made {
                match self {
                    $(Self::$name => visit.of::<$storage>(),)*
                    Self::Bytes(_) => visit.of::<u128>(),
                }
            }

            /// The types of numbers.
            const NUMBERS: &[(Self, &str)] = &[$((Self::$name, $text),)*];
        }
    };
}

dtypes! {
    /// A byte that is 0 or 1.
    Bool "bool", u8, 6;
    /// A signed integer of 8 bits.
    I8 "int8", i8, 0;
    /// A signed integer of 16 bits.
    I16 "int16", i16, 0;
    /// A signed integer of 32 bits.
    I32 "int32", i32, 0;
    /// A signed integer of 64 bits.
    I64 "int64", i64, 0;
    /// An unsigned integer of 8 bits.
    U8 "uint8", u8, 1;
    /// An unsigned integer of 16 bits.
    U16 "uint16", u16, 1;
    /// An unsigned integer of 32 bits.
    U32 "uint32", u32, 1;
    /// An unsigned integer of 64 bits.
    U64 "uint64", u64, 1;
    /// A half-precision number, which the runtime only moves.
    F16 "float16", u16, 2;
    /// A number with the exponent of `float32` and 8 bits of significand, which the runtime only moves.
    Bf16 "bfloat16", u16, 4;
    /// A single-precision number.
    F32 "float32", f32, 2;
    /// A double-precision number.
    F64 "float64", f64, 2;
    /// A complex number of two `float32`.
    C64 "complex64", Complex<f32>, 5;
    /// A complex number of two `float64`.
    C128 "complex128", Complex<f64>, 5;
}

/// A function of the type that a home's elements are allocated as.
pub(crate) trait Allocating {
    /// The result.
    type Made;

    fn of<T: Element>(self) -> Self::Made;
}

impl Dtype {
    /// Returns the type as a value.
    pub fn of<T: DlElement>() -> Self {
        Self::from_data_type(T::DATA_TYPE).expect("the numbers that DLPack describes are listed here")
    }

    /// Returns the type that DLPack describes so; `None` if no data object has such elements.
    pub fn from_data_type(described: DlDataType) -> Option<Self> {
        let mut known = Self::NUMBERS.iter().map(|(number, _)| *number).chain([Self::Bytes(described.lanes.into())]);
        known.find(|known| known.data_type() == Some(described))
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "bytes{bytes}"),
            number => f.write_str(Self::NUMBERS.iter().find(|(one, _)| one == number).map_or("", |(_, name)| name)),
        }
    }
}

impl std::str::FromStr for Dtype {
    type Err = String;

    /// Reads a name as NumPy writes it, or `bytesN`.
    fn from_str(name: &str) -> Result<Self, String> {
        let number = Self::NUMBERS.iter().find(|(_, known)| *known == name).map(|(number, _)| *number);
        let bytes = || name.strip_prefix("bytes")?.parse().ok().filter(|bytes| *bytes > 0).map(Self::Bytes);
        number.or_else(bytes).ok_or_else(|| {
            let known: Vec<&str> = Self::NUMBERS.iter().map(|(_, name)| *name).collect();
            format!("cannot use element type `{name}`: it is unknown; try one of {} or bytesN", known.join(", "))
        })
    }
}
