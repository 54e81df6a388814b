//! The benchmarks' numerics: every stage against sums taken from the benchmarks' own programs, kernels against stages, whole
//! runs of class S.
//!
//! One program outside of the library, whose numerics are long to compile and slow without optimization: tests within it would
//! compile it a second time. Run by `cargo test --release --test mz`, and not by `cargo test` alone.

#![allow(clippy::reversed_empty_ranges, reason = "the negative ends of ndarray's slices count from the last element")]

mod bt;
mod classes;
mod columns;
mod faces;
mod golden;
mod gpu;
mod lanes;
mod lines;
mod lu;
mod nested;
mod operator;
mod passes;
mod placement;
mod plain_loop;
mod replay;
mod sp;
mod testing;
mod update;
mod verify;
