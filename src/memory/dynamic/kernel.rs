//! Kernels whose text, parameters and arguments are values.
//!
//! Invariants: an argument has the type of its parameter, and only a region that the task may write is passed for a
//! parameter that the kernel writes, as for typed kernels. Both are checked at the launch.

use super::{AnyDeviceView, Dtype};
use crate::error::DeviceError;
use crate::kernel::{
    ArgumentValue, DeviceRegion, DeviceSite, ElementType, KernelText, Launcher, Parameter, Program, SignatureError,
    Threads, Value,
};
use crate::sync::share;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::fmt;
use std::sync::LazyLock;

/// A kernel of the runtime's dialect whose text is known only at run time.
///
/// ```no_run
/// use thalweg::dynamic::{AnyArgument, AnyData, AnyKernel, Dtype};
/// use thalweg::prelude::*;
/// const TEXT: &str = "KERNEL(64, 1, 1) scale(double a, INOUT(double, x, n), int n)
///     { REGION(x); int i = GLOBAL_ID(0); if (i < n) x[i] *= a; }";
/// // SAFETY: the kernel touches the first n elements of x.
/// let scale = unsafe { AnyKernel::new("scale.cl", TEXT, "scale") }?;
/// let rt = Runtime::builder().compute_units("1:OPENCL:1").build()?;
/// let x = AnyData::zeros(&rt, Dtype::F64, &[1000])?;
/// rt.task("scale", vec![x.all().inout()])
///     .gpu(move |launcher, views| {
///         let arguments = [AnyArgument::F64(2.0), AnyArgument::Region(&views[0]), AnyArgument::I32(1000)];
///         scale.launch(launcher, 1000, &arguments)
///     })
///     .submit()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct AnyKernel(&'static Known);

/// A kernel with its parameters.
struct Known {
    text: KernelText,
    parameters: Vec<Parameter>,
}

/// An argument of an [`AnyKernel`].
#[derive(Debug, Clone, Copy)]
pub enum AnyArgument<'v, 'a> {
    /// A region, for `IN`, `OUT` and `INOUT`.
    Region(&'v AnyDeviceView<'a>),
    /// A `double`.
    F64(f64),
    /// A `float`.
    F32(f32),
    /// An `int`.
    I32(i32),
    /// An `unsigned`.
    U32(u32),
    /// An `INT64`.
    I64(i64),
    /// A `UINT64`.
    U64(u64),
}

impl AnyKernel {
    /// Returns the kernel `kernel` of a text. Compiler messages refer to the text as `name`.
    ///
    /// The first call for a text keeps it until the process ends; further calls for it take no memory.
    ///
    /// # Safety
    /// As for [`Program::new`](crate::kernel::Program::new).
    ///
    /// # Errors
    /// As for [`Kernel::checked`](crate::kernel::Kernel::checked).
    pub unsafe fn new(name: &str, text: &str, kernel: &str) -> Result<Self, SignatureError> {
        type Key = [Box<str>; 3];
        static KNOWN: LazyLock<Mutex<FxHashMap<Key, &'static Known>>> = LazyLock::new(Mutex::default);
        let key = [name, text, kernel].map(Box::from);
        let (_unforked, mut known) = (share(), KNOWN.lock());
        if let Some(known) = known.get(&key) {
            return Ok(Self(known));
        }
        let kept = |text: &str| &*String::from(text).leak();
        let (name, text, kernel) = (kept(name), kept(text), kept(kernel));
        // SAFETY: the caller upholds the same contract.
        let (text, parameters) = KernelText::of(&unsafe { Program::new(name, text) }, kernel)?;
        let made = &*Box::leak(Box::new(Known { text, parameters }));
        known.insert(key, made);
        Ok(Self(made))
    }

    /// Returns the kernel's name.
    pub fn name(&self) -> &'static str {
        self.0.text.name
    }

    /// Enqueues the kernel with the given number of threads, like [`Launcher::launch`].
    ///
    /// # Errors
    /// As for [`Launcher::launch`]. Also fails if the arguments are not those that the kernel's head declares.
    pub fn launch(
        &self,
        launcher: &mut Launcher<'_>,
        threads: impl Into<Threads>,
        arguments: &[AnyArgument<'_, '_>],
    ) -> Result<(), DeviceError> {
        let Known { text, parameters } = self.0;
        let refuse = |problem| Err(DeviceError::Arguments { kernel: text.name.to_owned(), problem });
        if arguments.len() != parameters.len() {
            return refuse(format!("it has {} parameters, and {} are given", parameters.len(), arguments.len()));
        }
        for (i, (argument, parameter)) in arguments.iter().zip(parameters).enumerate() {
            if let Err(problem) = argument.check(*parameter) {
                return refuse(format!("argument {} (`{}`) is {problem}", i + 1, text.names[i]));
            }
        }
        launcher.launch_values(text, threads.into(), |values| values.extend(arguments.iter().map(AnyArgument::value)))
    }
}

impl fmt::Debug for AnyKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AnyKernel").field(&self.name()).finish()
    }
}

const fn dtype(element: ElementType) -> Dtype {
    match element {
        ElementType::F64 => Dtype::F64,
        ElementType::F32 => Dtype::F32,
        ElementType::I32 => Dtype::I32,
        ElementType::U32 => Dtype::U32,
        ElementType::I64 => Dtype::I64,
        ElementType::U64 => Dtype::U64,
    }
}

impl AnyArgument<'_, '_> {
    fn dtype(&self) -> Dtype {
        match self {
            Self::Region(view) => view.dtype(),
            Self::F64(_) => Dtype::F64,
            Self::F32(_) => Dtype::F32,
            Self::I32(_) => Dtype::I32,
            Self::U32(_) => Dtype::U32,
            Self::I64(_) => Dtype::I64,
            Self::U64(_) => Dtype::U64,
        }
    }

    /// Returns what is wrong with the argument for this parameter.
    fn check(&self, parameter: Parameter) -> Result<(), String> {
        let (given, what) = (self.dtype(), if matches!(self, Self::Region(_)) { "a region" } else { "a number" });
        let (element, needed) = match parameter {
            Parameter::Scalar(element) => (element, "a number"),
            Parameter::Read(element) | Parameter::Write(element) => (element, "a region"),
        };
        if what != needed || given != dtype(element) {
            return Err(format!("{what} of {given}, and the parameter {needed} of {}", dtype(element)));
        }
        match (parameter, self) {
            (Parameter::Write(_), Self::Region(view)) if !view.is_writable() => {
                Err("a region that the task only reads, and the kernel writes it".to_owned())
            }
            _ => Ok(()),
        }
    }

    fn value(&self) -> ArgumentValue {
        fn scalar<const N: usize>(number: [u8; N]) -> ArgumentValue {
            let mut bytes = [0; 8];
            bytes[..N].copy_from_slice(&number);
            ArgumentValue(Value::Scalar { bytes, len: N })
        }
        match self {
            Self::Region(view) => {
                let DeviceSite { base, offset_bytes, extents, strides } = *view.place();
                let element_bytes = view.dtype().size();
                ArgumentValue(Value::Memory { base, offset_bytes, element_bytes, extents, strides })
            }
            Self::F64(number) => scalar(number.to_ne_bytes()),
            Self::F32(number) => scalar(number.to_ne_bytes()),
            Self::I32(number) => scalar(number.to_ne_bytes()),
            Self::U32(number) => scalar(number.to_ne_bytes()),
            Self::I64(number) => scalar(number.to_ne_bytes()),
            Self::U64(number) => scalar(number.to_ne_bytes()),
        }
    }
}
