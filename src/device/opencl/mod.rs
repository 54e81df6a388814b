//! OpenCL devices, accessed through a dynamically loaded library.
//!
//! The OpenCL driver compiles kernels, and caches the compiled code itself (PoCL and NVIDIA do so). Device memory has
//! no addresses in OpenCL: a buffer is an opaque handle, and kernels get an additional offset into the buffer.

mod backend;
mod commands;
mod copies;
mod fenced;
mod launches;
mod library;
mod locked;
mod objects;
mod programs;
mod times;
mod turns;

pub(super) use library::{find, survey};
