mod api;
mod hiprtc;
mod library;
mod platform;
mod pool;
mod rocm_smi;
mod types;

pub(super) use api::Hip;
