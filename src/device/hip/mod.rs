//! AMD's devices, by the HIP runtime, and hipRTC to compile for them.
//!
//! The library is opened at run time: a machine without it has no such device, and says why. References are to the HIP
//! runtime's and hipRTC's manuals, ROCm 5 and 6; ROCm 7 changed structures, so its library is not used.
//!
//! All but the shape of this module is behind the feature `hip`; without it the module says so.

#[cfg(feature = "hip")]
mod compiler;
#[cfg(feature = "hip")]
mod driver;
#[cfg(feature = "hip")]
mod library;

#[cfg(not(feature = "hip"))]
mod absent;

#[cfg(not(feature = "hip"))]
pub(super) use absent::{Hip, compile_for, find, survey};
#[cfg(feature = "hip")]
pub(super) use compiler::compile_for;
#[cfg(feature = "hip")]
pub(super) use driver::Hip;
#[cfg(feature = "hip")]
pub(super) use library::{find, survey};
