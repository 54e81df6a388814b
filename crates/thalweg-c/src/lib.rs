//! The C interface of Thalweg: the header `include/thalweg.h` is generated from this crate.
//!
//! Conventions:
//! - Every function that can fail returns a [`tw_status`](status::tw_status); [`tw_last_error`](status::tw_last_error)
//!   returns the text of the calling thread's last failure, which is the same as in Rust.
//! - Handles are numbers with a generation. A handle that was released, or never existed, is refused with
//!   `TW_INVALID`; it never reaches freed memory.
//! - No panic crosses the interface.
//! - All functions may be called from any thread, and from bodies of tasks, as in Rust.
//!
//! The interface cannot check that memory stays valid: each function states which memory it reads, and for how long.

#![allow(unsafe_code, non_camel_case_types)] // it is C's interface, with C's names

pub mod body;
pub mod borrow;
pub mod data;
pub mod device;
pub mod group;
mod handles;
mod launch;
pub mod runtime;
pub mod status;
pub mod task;
pub mod view;

/// The version of this interface. It increases when a program that was compiled with an older header would break.
pub const TW_ABI_VERSION: u32 = 1;

/// Returns the version of the interface of this library, to be compared with `TW_ABI_VERSION`.
#[unsafe(no_mangle)]
pub extern "C" fn tw_abi_version() -> u32 {
    TW_ABI_VERSION
}
