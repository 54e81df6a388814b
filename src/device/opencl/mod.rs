//! OpenCL devices, through a library that is opened at run time.
//!
//! Kernels are compiled by the device's own compiler, which keeps what it has compiled (PoCL and NVIDIA do). Memory has no
//! addresses here: a buffer is a handle, and kernels get an offset beside it.

mod backend;
mod commands;
mod fenced;
mod library;
mod locked;
mod turns;

pub(super) use library::{find, survey};
