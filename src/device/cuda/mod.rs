mod api;
mod library;
mod nvrtc;
mod platform;

pub(super) use api::Cuda;
