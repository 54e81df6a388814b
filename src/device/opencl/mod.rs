//! OpenCL devices, through a library that is opened at run time.
//!
//! The device's own compiler compiles kernels, and caches them itself (PoCL and NVIDIA do). Memory has no addresses
//! here: a buffer is a handle, and kernels get an offset in addition.

mod backend;
mod commands;
mod fenced;
mod library;
mod locked;
mod turns;

pub(super) use library::{find, survey};
