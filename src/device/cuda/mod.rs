mod api;
mod library;
mod nvrtc;

pub(super) use api::Cuda;
