//! The NAS Parallel Benchmarks that Thalweg's examples, benches and tests stand on: CG, and the multi-zone BT, SP and LU.
//!
//! [`cg`] and [`mz`] have nothing in common but their origin. Each keeps two worlds apart: most files compute, on arrays, and
//! know nothing of tasks; few declare what those functions read and write, and know nothing of numerics. Programs with flags
//! and output are not here but in `examples/`.

pub mod cg;
pub mod mz;
#[cfg(test)]
mod testing;

/// What a run may fail with: a refused task, or a failed one.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;
