//! CG's numerics: matrix, kernels and tasks, against published and independent values and a plain program.
//!
//! Outside of the library for the reason that `npb`'s tests are. Run by `cargo test --release --test cg_numerics`, and not by
//! `cargo test` alone.

mod gpu;
mod matrix;
mod numbers;
mod runs;
mod serial;
mod sliced;
mod symmetric;
#[path = "../../../npb/tests/mz/testing.rs"]
mod testing;
