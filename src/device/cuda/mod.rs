mod api;
mod bodies;
mod driver_types;
mod graphs;
mod installed;
mod library;
mod nvml;
mod nvrtc;
mod platform;

pub(super) use api::Cuda;
pub use bodies::Cudarc;
