mod api;
mod library;
mod nvml;
mod nvrtc;
mod platform;

pub(super) use api::Cuda;
