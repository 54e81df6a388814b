//! Tests of the benchmarks' numerics: compares every stage with sums from the official programs and kernels with
//! stages, and verifies whole runs of class S.
//!
//! The tests are one program outside the library, because the numerics take long to compile and run slowly without
//! optimization, and unit tests would compile them a second time. They are run by `cargo test --release --test mz`,
//! not by a plain `cargo test`.

#![allow(clippy::reversed_empty_ranges, reason = "the negative ends of ndarray's slices count from the last element")]

mod batch;
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
