//! NVIDIA's devices, by the CUDA driver interface, and NVRTC to compile for them.
//!
//! Both libraries are opened at run time: a machine without them has no such device, and says why. Each device is used in
//! its primary context, which other users of CUDA in the process share, and which calls leave current on their threads.
//! References are to the CUDA Driver API manual, version 13.0, and the NVRTC manual.
//!
//! Streams share the hardware's work queues, eight unless `CUDA_DEVICE_MAX_CONNECTIONS` says otherwise; a device has seven
//! here.

mod compiler;
mod driver;
mod library;

pub(super) use compiler::compile_for;
pub(super) use driver::Cuda;
pub(super) use library::{find, survey};
