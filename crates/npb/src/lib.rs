//! The multi-zone NAS Parallel Benchmarks, which Thalweg's examples, benches and tests use. (CG is in `npb-cg`.)
//!
//! The command-line programs are in `examples/`.

mod front;
pub mod mz;
mod platform;

pub use front::{Front, Hints, Place};
pub use platform::Platform;

/// Result of a run. A run fails if a task is refused or fails.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;
