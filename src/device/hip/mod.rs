mod api;
mod hiprtc;
mod library;
mod types;

pub(super) use api::Hip;
