mod api;
mod bodies;
mod copies;
mod driver_types;
mod graphs;
mod installed;
mod library;
mod nvml;
mod nvrtc;
mod platform;
mod pool;

pub(super) use api::Cuda;
pub use bodies::Cudarc;
