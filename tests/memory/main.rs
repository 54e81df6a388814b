//! Tests of arrays in several memories: emulated devices, their capacity, and arrays shared with other libraries.

#[path = "../common/mod.rs"]
mod common;

mod across_devices;
mod arrays_together;
mod device_only;
mod devices;
mod dlpack;
mod filled_arrays;
mod lending;
mod shortage;
mod spread;
