//! The multi-zone NAS Parallel Benchmarks that Thalweg's examples, benches and tests stand on. (CG is in `npb-cg`.)
//!
//! Programs with flags and output are not here but in `examples/`.

mod front;
pub mod mz;

/// What a run may fail with: a refused task, or a failed one.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;
