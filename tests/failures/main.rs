//! What fails, what that does to others, how it is told, and how a program goes on.

#[path = "../common/mod.rs"]
mod common;

mod failure;
mod group_failures;
mod loss;
mod misuse;
mod odd_numbers;
mod outcome;
mod panics;
mod recovery;
mod reported_failures;
