//! Shared parts of the benches: how contenders are built, started, repeated and reported.
//!
//! Contenders run as child processes, so that no runtime's threads, allocator or spinning workers disturb another's
//! figures, and a contender that hangs or crashes does not bring down the bench. Each bench defines its own problems;
//! the harness is independent of them.
//!
//! Invariants: within one repetition every contender runs once before any runs again, in an order that rotates from
//! one repetition to the next; a contender that is not installed is `skipped`, with the reason; a contender that is
//! installed and fails is `failed`, and makes the bench exit with an error.

#![allow(dead_code, unused_imports)] // each bench uses only some of these items

mod arguments;
pub(crate) mod build;
mod campaign;
mod child;
mod report;
mod statistics;

pub(crate) use arguments::Common;
pub(crate) use build::{Workshop, tracks_dependences};
pub(crate) use campaign::{Campaign, Series, exit};
pub(crate) use child::{Contender, Failure, Launch, agree, answer, answer_within};
pub(crate) use report::{Table, write_json};
pub(crate) use statistics::{least, median, median_ratio};
