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
//! | `serial` | the same as a plain program, for tests |

mod classes;
#[path = "../../npb/src/front.rs"]
mod front;
mod gather;
mod gpu;
pub mod kernels;
mod matrix;
mod random;
#[cfg(test)]
mod serial;
pub mod sliced;
mod solver;
mod storage;
pub mod symmetric;
#[cfg(test)]
#[path = "../../npb/src/testing.rs"]
mod testing;
#[cfg(test)]
mod tests;

pub use classes::{Class, EPSILON, Problem};
pub use matrix::Matrix;
pub use solver::Solver;
pub use storage::Storage;
