//! NPB CG: the smallest eigenvalue of a sparse matrix by inverse power iteration, as tasks.
//!
//! The NAS Parallel Benchmark that stresses irregular memory access and global sums.
//!
//! | files | what is in them |
//! | --- | --- |
//! | `solver`, `front` | the run as tasks, which are submitted or recorded: the only part that knows of the runtime |
//! | `kernels` | a phase of the iteration on a block of rows |
//! | `gpu` | the same on accelerators: the calls of `cg.cl` |
//! | `matrix`, `random` | the benchmark's matrix, as rows |
//! | `sliced`, `gather` | the same in slices, for cores; by which instructions |
//! | `symmetric` | one triangle of it in slices |
//! | `storage` | as data of the runtime, in the way that is faster |
//! | `classes` | problem sizes and reference values |
//!
//! Tests are in `tests/cg`, among them the same as a plain program.

pub mod kernels;
pub mod sliced;
pub mod symmetric;

// The modules below are public for `tests/cg` only, and hidden from the documentation.
#[doc(hidden)]
pub mod classes;
#[doc(hidden)]
pub mod gather;
#[doc(hidden)]
pub mod gpu;
#[doc(hidden)]
pub mod matrix;
#[doc(hidden)]
pub mod random;
#[doc(hidden)]
pub mod storage;

#[path = "../../npb/src/front.rs"]
mod front;
mod solver;

pub use classes::{Class, EPSILON, Problem};
pub use matrix::Matrix;
pub use solver::Solver;
pub use storage::Storage;
