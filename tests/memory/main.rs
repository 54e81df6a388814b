//! Tests of arrays in several memories: emulated devices, their capacity, arrays shared with other libraries, and the
//! disk.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/random.rs"]
mod random;

mod across_devices;
mod arrays_together;
mod device_only;
mod devices;
mod dlpack;
mod files;
mod filled_arrays;
mod io_errors;
mod lending;
mod shortage;
mod spill;
mod spread;
