//! Kernel parameter types, and the arguments that each type accepts.

use super::scalar::Scalar;
use super::signature::Parameter;
use super::value::{ArgumentValue, Value};
use super::view::{DeviceSite, DeviceView, DeviceViewMut, Scratch};
use crate::region::MAX_DIMS;
use crate::sealed::Sealed;
use std::marker::PhantomData;

/// A parameter `IN(T, name, bounds)`.
///
/// ```
/// use thalweg::kernel::{Kernel, Program, Read, Write};
/// const TEXT: &str = "
///     KERNEL(64, 1, 1) scale(double a, IN(double, x, n), OUT(double, y, n), int n)
///     {
///         REGION(x); REGION(y);
///         int i = GLOBAL_ID(0);
///         if (i < n) y[i] = a * x[i];
///     }";
/// // SAFETY: the kernel touches the first n elements of x and y.
/// const PROGRAM: Program = unsafe { Program::new("scale.cl", TEXT) };
/// static SCALE: Kernel<(f64, Read<f64>, Write<f64>, i32)> = Kernel::new(&PROGRAM, "scale");
/// println!("{SCALE:?}");
/// ```
#[derive(Debug)]
pub struct Read<T>(PhantomData<T>);

/// A parameter `OUT(T, name, bounds)` or `INOUT(T, name, bounds)`.
///
/// ```
/// use thalweg::kernel::{Kernel, Program, Write};
/// const TEXT: &str = "KERNEL(64, 1, 1) zero(OUT(double, x, n), int n)
///     { REGION(x); if (GLOBAL_ID(0) < n) x[GLOBAL_ID(0)] = 0; }";
/// // SAFETY: the kernel touches the first n elements of x.
/// const PROGRAM: Program = unsafe { Program::new("zero.cl", TEXT) };
/// static ZERO: Kernel<(Write<f64>, i32)> = Kernel::new(&PROGRAM, "zero");
/// println!("{ZERO:?}");
/// ```
#[derive(Debug)]
pub struct Write<T>(PhantomData<T>);

/// The type of one kernel parameter: a number, [`Read`] or [`Write`].
pub trait ParameterType: Sealed {
    #[doc(hidden)]
    const PARAMETER: Parameter;
}

/// The parameter types of a kernel, as a tuple of up to 24 types.
///
/// ```
/// use thalweg::kernel::{Kernel, Parameters, Read, Write};
/// /// A named kernel that a program is configured with.
/// struct Step<P: Parameters + 'static>(&'static str, &'static Kernel<P>);
/// type Axpy = Step<(f64, Read<f64>, Write<f64>, i32)>;
/// # fn name(step: &Axpy) -> &'static str { step.0 }
/// ```
pub trait Parameters: Sealed {
    #[doc(hidden)]
    const LIST: &'static [Parameter];
}

/// An argument for a parameter of type `P`.
///
/// A numeric parameter takes a number of the same type. [`Read`] takes `&view` of a region that the task reads or
/// writes, or `&scratch`. [`Write`] takes `&mut view` of a region that the task writes, or `&mut scratch`.
///
/// ```
/// use thalweg::error::DeviceError;
/// use thalweg::kernel::{DeviceView, DeviceViewMut, Kernel, Launcher, Read, Write};
/// fn scale(
///     k: &mut Launcher<'_>,
///     kernel: &'static Kernel<(f64, Read<f64>, Write<f64>, i32)>,
///     (x, mut y): (DeviceView<'_, f64>, DeviceViewMut<'_, f64>),
/// ) -> Result<(), DeviceError> {
///     // `&x` for `Read`, `&mut y` for `Write`, numbers for numbers.
///     k.launch(kernel, x.len(), (2.0, &x, &mut y, x.len() as i32))
/// }
/// ```
pub trait Argument<P>: Sealed {
    #[doc(hidden)]
    fn value(self) -> ArgumentValue;
}

/// A tuple of arguments for all the parameters in `P`.
///
/// ```
/// use thalweg::error::DeviceError;
/// use thalweg::kernel::{Arguments, Kernel, Launcher, Parameters, Threads};
/// /// Launches a kernel and prints its name.
/// fn loud<P: Parameters + 'static>(
///     k: &mut Launcher<'_>,
///     kernel: &'static Kernel<P>,
///     threads: impl Into<Threads>,
///     arguments: impl Arguments<P>,
/// ) -> Result<(), DeviceError> {
///     println!("{kernel:?}");
///     k.launch(kernel, threads, arguments)
/// }
/// ```
pub trait Arguments<P>: Sealed {
    #[doc(hidden)]
    fn values(self, out: &mut Vec<ArgumentValue>);
}

impl<T> Sealed for Read<T> {}
impl<T> Sealed for Write<T> {}
impl<T> Sealed for DeviceView<'_, T> {}
impl<T> Sealed for DeviceViewMut<'_, T> {}
impl<T> Sealed for &mut DeviceViewMut<'_, T> {}
impl<T> Sealed for &Scratch<'_, T> {}
impl<T> Sealed for &mut Scratch<'_, T> {}

macro_rules! scalars {
    ($($t:ty)*) => {$(
        impl ParameterType for $t {
            const PARAMETER: Parameter = Parameter::Scalar(<$t>::TYPE);
        }

        impl Argument<$t> for $t {
            fn value(self) -> ArgumentValue {
                let mut bytes = [0; 8];
                bytes[..size_of::<$t>()].copy_from_slice(&self.to_ne_bytes());
                ArgumentValue(Value::Scalar { bytes, len: size_of::<$t>() })
            }
        }
    )*};
}

scalars! { f64 f32 i32 u32 i64 u64 }

impl<T: Scalar> ParameterType for Read<T> {
    const PARAMETER: Parameter = Parameter::Read(T::TYPE);
}

impl<T: Scalar> ParameterType for Write<T> {
    const PARAMETER: Parameter = Parameter::Write(T::TYPE);
}

fn region<T>(site: &DeviceSite) -> ArgumentValue {
    let DeviceSite { base, offset_bytes, strides, extents } = *site;
    ArgumentValue(Value::Memory { base, offset_bytes, element_bytes: size_of::<T>(), extents, strides })
}

fn vector<T>(base: usize, len: usize) -> ArgumentValue {
    region::<T>(&DeviceSite { base, offset_bytes: 0, strides: [1; MAX_DIMS], extents: [len, 1, 1, 1] })
}

impl<T> Argument<Read<T>> for &DeviceView<'_, T> {
    fn value(self) -> ArgumentValue {
        region::<T>(self.site())
    }
}

impl<T> Argument<Read<T>> for &DeviceViewMut<'_, T> {
    fn value(self) -> ArgumentValue {
        region::<T>(self.site())
    }
}

impl<T> Argument<Write<T>> for &mut DeviceViewMut<'_, T> {
    fn value(self) -> ArgumentValue {
        region::<T>(self.site())
    }
}

impl<T: Scalar> Argument<Read<T>> for &Scratch<'_, T> {
    fn value(self) -> ArgumentValue {
        vector::<T>(self.base(), self.len())
    }
}

impl<T: Scalar> Argument<Write<T>> for &mut Scratch<'_, T> {
    fn value(self) -> ArgumentValue {
        vector::<T>(self.base(), self.len())
    }
}

macro_rules! tuples {
    ($(($($p:ident $a:ident $i:tt),*))*) => {$(
        impl<$($p: ParameterType),*> Parameters for ($($p,)*) {
            const LIST: &'static [Parameter] = &[$($p::PARAMETER),*];
        }

        impl<$($p, $a: Argument<$p>),*> Arguments<($($p,)*)> for ($($a,)*) {
            #[allow(unused_variables)] // unused for the empty tuple
            fn values(self, out: &mut Vec<ArgumentValue>) {
                $(out.push(self.$i.value());)*
            }
        }
    )*};
}

macro_rules! prefixes {
    (($($done:tt)*)) => { tuples! { ($($done)*) } };
    (($($done:tt)*) $p:ident $a:ident $i:tt $($rest:tt)*) => {
        tuples! { ($($done)*) }
        prefixes! { ($($done)* , $p $a $i) $($rest)* }
    };
}

tuples! { () }
prefixes! {
    (P0 A0 0)
    P1 A1 1 P2 A2 2 P3 A3 3 P4 A4 4 P5 A5 5 P6 A6 6 P7 A7 7 P8 A8 8 P9 A9 9 P10 A10 10 P11 A11 11
    P12 A12 12 P13 A13 13 P14 A14 14 P15 A15 15 P16 A16 16 P17 A17 17 P18 A18 18 P19 A19 19 P20 A20 20 P21 A21 21
    P22 A22 22 P23 A23 23
}
