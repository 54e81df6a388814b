//! Every stage against sums taken from the benchmarks' own programs, and whole runs of class S; kernels against stages.

mod bt;
pub(crate) mod golden;
mod gpu;
mod lines;
mod operator;
