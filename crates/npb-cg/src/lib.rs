//! NPB CG: computes the smallest eigenvalue of a sparse matrix by inverse power iteration, as tasks.
//!
//! This is the NAS Parallel Benchmark that stresses irregular memory access and global sums.
//!
//! | files | contents |
//! | --- | --- |
//! | `solver`, `front` | the run as tasks, which are submitted or recorded: the only part that uses the runtime |
//! | `kernels` | the phases of the iteration on a block of rows |
//! | `gpu` | the same on accelerators: the calls of `cg.cl` |
//! | `matrix`, `random` | the benchmark's matrix, as rows |
//! | `sliced`, `gather` | the matrix in slices, for cores; the instructions that gather |
//! | `symmetric` | one triangle of the matrix in slices |
//! | `storage` | the matrix as data of the runtime, in the way that is faster |
//! | `classes` | problem sizes and reference values |
//!
//! Tests are in `tests/cg`, which also contains the same benchmark as a plain program.

pub mod kernels;
pub mod sliced;
pub mod symmetric;

// The modules below are public only for `tests/cg`, and are hidden from the documentation.
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
