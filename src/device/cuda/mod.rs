mod api;
mod library;
mod nvrtc;
mod platform;
mod types;

pub(super) use api::Cuda;
