mod api;
mod library;
mod nvml;
mod nvrtc;
mod platform;
mod types;

pub(super) use api::Cuda;
