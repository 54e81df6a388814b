//! The primitives that this folder is written on; its model-checking tests put loom's in their place.

pub(super) use super::barrier::{heavy_fence, light_fence};
pub(super) use crossbeam_utils::Backoff;
pub(super) use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering, fence};
pub(super) use std::sync::{Condvar, Mutex};
