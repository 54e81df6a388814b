mod api;
mod hiprtc;
mod library;
mod platform;
mod types;

pub(super) use api::Hip;
