//! AMD's devices, by the HIP runtime, and hipRTC to compile for them.
//!
//! The library is opened at run time: a machine without it has no such device, and says why. References are to the HIP
//! runtime's and hipRTC's manuals, ROCm 5 to 7. Types are declared here ([`types`]); what changed between releases is asked
//! for by the newer name first.

mod compiler;
mod driver;
mod library;
mod types;

pub(super) use compiler::compile_for;
pub(super) use driver::Hip;
pub(super) use library::{find, survey};
