//! Trace files of thalweg: the format that a runtime writes, and a reader for the tools that show it.
//!
//! A trace is what happened in one runtime: each task with its place in the source, the dependences between tasks, where
//! and when each task ran, each copy between memories, and what units did between tasks. [`record`] has the binary
//! records, [`frame`] the file around them, and [`Trace::read`] turns a file into tables of tasks, dependences, copies
//! and states.
//!
//! The crate never talks to a runtime: the library writes with [`record`] and [`frame`], and tools read with [`Trace`].

#[cfg(feature = "tools")]
pub mod analysis;
pub mod frame;
#[cfg(feature = "tools")]
pub mod html;
mod read;
pub mod record;
mod tables;
#[cfg(feature = "tools")]
pub mod text;

pub use read::ReadError;
pub use tables::{
    Copy, Data, Decision, Dependence, Memory, Note, NoteKind, Outcome, Site, State, StateKind, Task, Trace, Unit,
};
