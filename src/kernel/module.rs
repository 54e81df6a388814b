//! Kernels that are written for one interface, in its language or as compiled code.
//!
//! A [`Module`] has code for any number of interfaces, and a [`ModuleKernel`] is one function of it, with the types
//! of its parameters. A device takes the code for its interface. The parameters in a text are compared with the types
//! when the constant is evaluated (`module_head.rs`). Nothing is known about compiled code before it is loaded.
//!
//! The memory that such a kernel touches is never checked, because it has no bounds. So each launch is `unsafe`.

use super::bounds::Bounds;
use super::module_head;
use super::program::Source;
use super::value::{ArgumentValue, Value};
use super::{Argument, KernelText, MOST_PARAMETERS, Read, Write};
use crate::machine::UnitKind;
use crate::sealed::Sealed;
use num_complex::Complex;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// Code for one interface.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Code {
    /// Source text, compiled at run time.
    Text(&'static str),
    /// Assembler text, which the driver compiles.
    Ptx(&'static str),
    /// A binary that is loaded as it is.
    Image(&'static [u8]),
    /// An intermediate binary, which the driver compiles.
    SpirV(&'static [u8]),
}

/// Code with kernels, in the languages of one or several interfaces.
///
/// A device gets the code for its interface; if several were added for one, the last of them.
///
/// ```
/// use thalweg::kernel::{Module, ModuleKernel, Read, Write};
/// const CUDA: &str = r#"
///     extern "C" __global__ void twice(const float *x, float *y, int n)
///     {
///         int i = blockIdx.x * blockDim.x + threadIdx.x;
///         if (i < n) y[i] = 2 * x[i];
///     }"#;
/// // A buffer cannot be passed by an address inside it, so the index of the first element follows each buffer.
/// const OPENCL: &str = "
///     __kernel void twice(__global const float *x, ulong x_first, __global float *y, ulong y_first, int n)
///     {
///         int i = get_global_id(0);
///         if (i < n) y[y_first + i] = 2 * x[x_first + i];
///     }";
/// const MODULE: Module = Module::new("twice").cuda(CUDA).opencl(OPENCL);
/// static TWICE: ModuleKernel<(Read<f32>, Write<f32>, i32)> = ModuleKernel::new(&MODULE, "twice", [256, 1, 1]);
/// assert_eq!(TWICE.name(), "twice");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Module {
    name: &'static str,
    cuda: Option<Code>,
    hip: Option<Code>,
    opencl: Option<Code>,
}

impl Module {
    /// Makes a module without code. Messages refer to it by `name`.
    pub const fn new(name: &'static str) -> Self {
        Self { name, cuda: None, hip: None, opencl: None }
    }

    /// Adds a text in CUDA C++, which NVRTC compiles for the device. Its kernels must be `extern "C"`.
    #[must_use]
    pub const fn cuda(self, text: &'static str) -> Self {
        Self { cuda: Some(Code::Text(text)), ..self }
    }

    /// Adds a text in PTX, which the CUDA driver compiles for the device.
    #[must_use]
    pub const fn ptx(self, text: &'static str) -> Self {
        Self { cuda: Some(Code::Ptx(text)), ..self }
    }

    /// Adds code for CUDA devices of one architecture, as made by `nvcc -cubin`.
    #[must_use]
    pub const fn cubin(self, code: &'static [u8]) -> Self {
        Self { cuda: Some(Code::Image(code)), ..self }
    }

    /// Adds code for CUDA devices of several architectures, as made by `nvcc -fatbin`.
    #[must_use]
    pub const fn fatbin(self, code: &'static [u8]) -> Self {
        Self { cuda: Some(Code::Image(code)), ..self }
    }

    /// Adds a text in HIP C++, which hipRTC compiles for the device. Its kernels must be `extern "C"`.
    #[must_use]
    pub const fn hip(self, text: &'static str) -> Self {
        Self { hip: Some(Code::Text(text)), ..self }
    }

    /// Adds code for HIP devices, of one architecture or a bundle for several, as made by `hipcc --genco`.
    #[must_use]
    pub const fn hsaco(self, code: &'static [u8]) -> Self {
        Self { hip: Some(Code::Image(code)), ..self }
    }

    /// Adds a text in OpenCL C. Each parameter that is a buffer must be followed by a `ulong`, which receives the
    /// index of the region's first element in the buffer.
    #[must_use]
    pub const fn opencl(self, text: &'static str) -> Self {
        Self { opencl: Some(Code::Text(text)), ..self }
    }

    /// Adds code in SPIR-V, for OpenCL devices of version 2.1 or later that accept it. Parameters are as for
    /// [`opencl`](Self::opencl).
    #[must_use]
    pub const fn spirv(self, code: &'static [u8]) -> Self {
        Self { opencl: Some(Code::SpirV(code)), ..self }
    }

    /// Returns the name used in messages.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the code for the interface of this kind of units.
    pub(crate) fn code(&self, interface: UnitKind) -> Option<Code> {
        match interface {
            UnitKind::Cuda => self.cuda,
            UnitKind::Hip => self.hip,
            _ => self.opencl,
        }
    }
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Module").field(&self.name).finish()
    }
}

/// A type that kernels of a [`Module`] know by name: an element type of buffers, or a parameter type for numbers and
/// structures.
///
/// Its memory layout in kernels is the same as in Rust; for a structure, this requires `#[repr(C)]` and no padding.
///
/// ```
/// use thalweg::bytemuck::{Pod, Zeroable};
/// use thalweg::kernel::CType;
/// #[derive(Clone, Copy, Pod, Zeroable)]
/// #[repr(C)]
/// struct Particle {
///     position: [f32; 3],
///     mass: f32,
/// }
/// impl CType for Particle {
///     const NAMES: &'static [&'static str] = &["Particle"]; // in texts: `struct Particle` or `Particle`
/// }
/// assert_eq!(<[f64; 5]>::NAMES, ["double"]); // five adjacent values
/// ```
pub trait CType: bytemuck::Pod + Send + Sync {
    /// The names that texts may use for it, without `struct`.
    const NAMES: &'static [&'static str];
    /// The number of adjacent values with these names; an array cannot be a parameter itself.
    #[doc(hidden)]
    const COUNT: usize = 1;
}

macro_rules! c_types {
    ($($t:ty: $($name:literal)*;)*) => {$(
        impl CType for $t {
            const NAMES: &'static [&'static str] = &[$($name),*];
        }
    )*};
}

c_types! {
    f64: "double";
    f32: "float";
    i8: "signed char" "char" "int8_t";
    u8: "unsigned char" "uchar" "uint8_t";
    i16: "short" "int16_t";
    u16: "unsigned short" "ushort" "uint16_t";
    i32: "int" "int32_t";
    u32: "unsigned" "unsigned int" "uint" "uint32_t";
    i64: "long long" "long" "int64_t";
    u64: "unsigned long long" "unsigned long" "ulong" "uint64_t" "size_t";
    Complex<f32>: "float2" "cuFloatComplex" "cuComplex" "hipFloatComplex";
    Complex<f64>: "double2" "cuDoubleComplex" "hipDoubleComplex";
}

impl<T: CType, const N: usize> CType for [T; N]
where
    [T; N]: bytemuck::Pod,
{
    const NAMES: &'static [&'static str] = T::NAMES;
    const COUNT: usize = N * T::COUNT;
}

/// A parameter of any [`CType`], and a value for it.
///
/// ```
/// use num_complex::Complex;
/// use thalweg::kernel::{Module, ModuleKernel, Plain, Write};
/// const TEXT: &str = r#"extern "C" __global__ void fill(float2 *z, float2 value, int n)
///     { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) z[i] = value; }"#;
/// const MODULE: Module = Module::new("fill").cuda(TEXT).hip(TEXT);
/// type Z = Complex<f32>;
/// static FILL: ModuleKernel<(Write<Z>, Plain<Z>, i32)> = ModuleKernel::new(&MODULE, "fill", [64, 1, 1]);
/// let value = Plain(Complex::new(1.0f32, 0.0)); // as an argument
/// # println!("{value:?} {FILL:?}");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Plain<T>(pub T);

impl<T> Sealed for Plain<T> {}

impl<T: CType> Argument<Self> for Plain<T> {
    fn value(self) -> ArgumentValue {
        let bytes = bytemuck::bytes_of(&self.0);
        let mut words = vec![0u128; bytes.len().div_ceil(size_of::<u128>())];
        bytemuck::cast_slice_mut(&mut words)[..bytes.len()].copy_from_slice(bytes);
        ArgumentValue(Value::Plain { words: Arc::from(words), len: bytes.len() })
    }
}

/// A parameter as a module's kernel sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CParameter {
    pub(super) passed: Passed,
    pub(super) names: &'static [&'static str],
    pub(super) bytes: usize,
}

/// How a parameter is passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Passed {
    Value,
    /// By an address, for reading.
    Read,
    /// By an address, for writing.
    Write,
}

/// The type of one parameter of a module's kernel: a number, [`Plain`], [`Read`] or [`Write`] of any [`CType`].
pub trait ModuleParameter: Sealed {
    #[doc(hidden)]
    const PARAMETER: CParameter;
}

macro_rules! numbers {
    ($($t:ty)*) => {$(
        impl ModuleParameter for $t {
            const PARAMETER: CParameter = by_value::<$t>();
        }
    )*};
}

numbers! { f64 f32 i32 u32 i64 u64 }

const fn by_value<T: CType>() -> CParameter {
    assert!(T::COUNT == 1, "an array is passed by its address, or in a structure");
    CParameter { passed: Passed::Value, names: T::NAMES, bytes: size_of::<T>() }
}

impl<T: CType> ModuleParameter for Plain<T> {
    const PARAMETER: CParameter = by_value::<T>();
}

impl<T: CType> ModuleParameter for Read<T> {
    const PARAMETER: CParameter = CParameter { passed: Passed::Read, names: T::NAMES, bytes: size_of::<usize>() };
}

impl<T: CType> ModuleParameter for Write<T> {
    const PARAMETER: CParameter = CParameter { passed: Passed::Write, names: T::NAMES, bytes: size_of::<usize>() };
}

/// The types of the parameters of a module's kernel: a tuple of up to 24.
///
/// ```
/// use thalweg::kernel::{ModuleKernel, ModuleParameters, Read, Write};
/// fn name<P: ModuleParameters>(kernel: &ModuleKernel<P>) -> &'static str {
///     kernel.name()
/// }
/// let _: fn(&ModuleKernel<(Read<f32>, Write<f32>)>) -> &'static str = name;
/// ```
pub trait ModuleParameters: Sealed {
    #[doc(hidden)]
    const LIST: &'static [CParameter];
}

macro_rules! tuples {
    ($($p:ident)*) => { tuples! { @ () $($p)* } };
    (@ ($($done:ident)*)) => { tuples! { = $($done)* } };
    (@ ($($done:ident)*) $next:ident $($rest:ident)*) => {
        tuples! { = $($done)* }
        tuples! { @ ($($done)* $next) $($rest)* }
    };
    (= $($p:ident)*) => {
        impl<$($p: ModuleParameter),*> ModuleParameters for ($($p,)*) {
            const LIST: &'static [CParameter] = &[$($p::PARAMETER),*];
        }
    };
}

tuples! { P0 P1 P2 P3 P4 P5 P6 P7 P8 P9 P10 P11 P12 P13 P14 P15 P16 P17 P18 P19 P20 P21 P22 P23 }

/// An error in a module's kernel, or in the types that the host gives it.
///
/// ```
/// use thalweg::kernel::{Module, ModuleError, ModuleKernel, Read};
/// const MODULE: Module = Module::new("odd").cuda(r#"extern "C" __global__ void odd(float *x) {}"#);
/// let refused = ModuleKernel::<(Read<f64>,)>::checked(&MODULE, "odd", [64, 1, 1]);
/// assert_eq!(refused.unwrap_err(), ModuleError::Type { parameter: 0 });
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModuleError {
    /// No code was added.
    #[error("the module has no code; try `Module::cuda` and the like")]
    NoCode,
    /// A group has no threads.
    #[error("the kernel's group is empty in one dimension; try numbers above 0")]
    Group,
    /// A text has no kernel of this name.
    #[error("a text of the module has no kernel of this name")]
    Missing,
    /// A parameter is not understood.
    #[error(
        "parameter {parameter} is not understood: it is neither `type name` nor `[const] type *name` without templates \
         and references; try `ModuleKernel::unchecked`"
    )]
    Parameter {
        /// Its number in the text, from 0.
        parameter: usize,
    },
    /// The numbers of parameters in the text and in Rust differ.
    #[error("the number of the kernel's parameters differs from its Rust type")]
    Count,
    /// A parameter differs from its Rust type.
    #[error(
        "parameter {parameter} differs from its Rust type: `Read<T>` is `const T *`, `Write<T>` is `T *`, with the \
         names that `CType` gives; in OpenCL C a `ulong` must follow each"
    )]
    Type {
        /// Its number in the text, from 0.
        parameter: usize,
    },
}

impl ModuleError {
    const fn message(self) -> &'static str {
        match self {
            Self::NoCode => "the module has no code; try `Module::cuda` and the like",
            Self::Group => "the kernel's group is empty in one dimension; try numbers above 0",
            Self::Missing => "a text of the module has no kernel of this name",
            Self::Parameter { .. } => "a parameter is not understood; try `ModuleKernel::unchecked`",
            Self::Count => "the number of the kernel's parameters differs from its Rust type",
            Self::Type { .. } => {
                "a parameter of the kernel differs from its Rust type: `Read<T>` is `const T *`, `Write<T>` is `T *`, \
                 with the names that `CType` gives; in OpenCL C a `ulong` must follow each"
            }
        }
    }
}

/// One kernel of a [`Module`]; `P` is a tuple of its parameters' types. Launch it with
/// [`Launcher::launch_module`](super::Launcher::launch_module).
///
/// ```
/// use thalweg::kernel::{Module, ModuleKernel, Write};
/// const PTX: &str = "
///     .version 7.0
///     .target sm_50
///     .address_size 64
///     .visible .entry nothing(.param .u64 nothing_param_0, .param .u32 nothing_param_1) { ret; }";
/// const MODULE: Module = Module::new("nothing.ptx").ptx(PTX);
/// static NOTHING: ModuleKernel<(Write<f64>, i32)> = ModuleKernel::new(&MODULE, "nothing", [128, 1, 1]);
/// assert_eq!(NOTHING.group(), [128, 1, 1]);
/// ```
pub struct ModuleKernel<P> {
    text: KernelText,
    parameters: PhantomData<fn(P)>,
}

impl<P: ModuleParameters> ModuleKernel<P> {
    /// Returns the kernel `name` of `module`, launched with groups of this many threads.
    ///
    /// # Panics
    /// Panics if the module has no code, or one of its texts has no such kernel or one with other parameters. In a
    /// constant or static this is a compile-time error.
    #[track_caller]
    pub const fn new(module: &Module, name: &'static str, group: [u32; 3]) -> Self {
        match Self::checked(module, name, group) {
            Ok(kernel) => kernel,
            Err(error) => panic!("{}", error.message()),
        }
    }

    /// As [`new`](Self::new), for code that is known only at run time.
    ///
    /// # Errors
    /// Returns an error where [`new`](Self::new) panics.
    pub const fn checked(module: &Module, name: &'static str, group: [u32; 3]) -> Result<Self, ModuleError> {
        if module.cuda.is_none() && module.hip.is_none() && module.opencl.is_none() {
            return Err(ModuleError::NoCode);
        }
        if group[0] == 0 || group[1] == 0 || group[2] == 0 {
            return Err(ModuleError::Group);
        }
        let (codes, mut n) = ([module.cuda, module.hip, module.opencl], 0);
        while n < codes.len() {
            let checked = match codes[n] {
                Some(Code::Text(text)) => module_head::check(text, name, P::LIST, n == 2),
                Some(Code::Ptx(text)) => module_head::check_ptx(text, name, P::LIST),
                Some(Code::Image(_) | Code::SpirV(_)) | None => Ok(()),
            };
            if let Err(error) = checked {
                return Err(error);
            }
            n += 1;
        }
        Ok(Self::unchecked(module, name, group))
    }

    /// As [`new`](Self::new), for texts whose parameters cannot be parsed because they consist of macros or
    /// templates: nothing is compared.
    ///
    /// # Panics
    /// Panics if a group would have no threads.
    #[track_caller]
    pub const fn unchecked(module: &Module, name: &'static str, group: [u32; 3]) -> Self {
        assert!(group[0] > 0 && group[1] > 0 && group[2] > 0, "a group has threads in each dimension");
        let names = [""; MOST_PARAMETERS];
        let text = KernelText::new(Source::Module(*module), name, group, names, Bounds::NONE);
        Self { text, parameters: PhantomData }
    }
}

impl<P> ModuleKernel<P> {
    /// Returns the kernel's name.
    pub const fn name(&self) -> &'static str {
        self.text.name
    }

    /// Returns the number of threads per group, in three dimensions.
    pub const fn group(&self) -> [u32; 3] {
        self.text.group
    }

    pub(super) fn text(&self) -> &KernelText {
        &self.text
    }
}

impl<P> fmt::Debug for ModuleKernel<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModuleKernel").field("module", &self.text.source).field("name", &self.text.name).finish()
    }
}
