//! Tests of failures: their causes, their effects on other tasks, their reports, and recovery from them.

#[path = "../common/mod.rs"]
mod common;

mod failure;
mod group_failures;
mod lent_outcome;
mod loss;
mod misuse;
mod odd_numbers;
mod outcome;
mod panics;
mod recovery;
mod reported_failures;
