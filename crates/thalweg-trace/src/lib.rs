//! Thalweg trace files: the format that a runtime writes, and a reader for the tools that display it.
//!
//! A trace describes the run of one runtime: each task with its place in the source, the dependences between tasks,
//! where and when each task ran, each copy between memories, and what units did between tasks. [`record`] defines
//! the binary records and [`frame`] the file around them. [`Trace::read`] turns a file into tables of tasks,
//! dependences, copies and states.
//!
//! The crate never talks to a runtime. The runtime library writes traces using [`record`] and [`frame`], and tools
//! read them using [`Trace`].

mod events;
pub mod frame;
mod joins;
mod read;
pub mod record;
mod rounds;
mod tables;
mod tasks;

pub use read::ReadError;
pub use tables::{
    Access, AccessMode, Copy, Data, Decision, Dependence, Drop, DropReason, Memory, Note, NoteKind, Outcome, Region,
    Site, State, StateKind, Task, Trace, Unit,
};
