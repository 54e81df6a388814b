//! Tests of CG's numerics: matrix, kernels and tasks, compared with published and independent values and a plain
//! program.
//!
//! The tests are outside the library for the same reason as `npb`'s tests. They are run by
//! `cargo test --release --test cg_numerics`, not by a plain `cargo test`.

mod gpu;
mod matrix;
mod numbers;
mod runs;
mod serial;
mod sliced;
mod symmetric;
#[path = "../../../npb/tests/mz/testing.rs"]
mod testing;
