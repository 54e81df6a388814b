//! Every stage against sums taken from the benchmarks' own programs, and whole runs of class S.

mod bt;
mod faces;
pub(crate) mod golden;
mod in_loop;
mod lines;
mod operator;
mod replay;
