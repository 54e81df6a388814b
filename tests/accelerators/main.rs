//! Devices that compute kernels, as far as this machine has any.

#[path = "../common/mod.rs"]
mod common;

mod accelerators;
mod kernels;
