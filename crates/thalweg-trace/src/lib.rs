//! Thalweg trace files: the format that a runtime writes, and a reader for the tools that display it.
//!
//! A trace describes the run of one runtime: each task with its place in the source, the dependences between tasks,
//! where and when each task ran, each copy between memories, and what units did between tasks. [`record`] defines
//! the binary records and [`frame`] the file around them. [`Trace::read`] turns a file into tables of tasks,
//! dependences, copies and states.
//!
//! The crate never talks to a runtime. The runtime library writes traces using [`record`] and [`frame`], and tools
//! read them using [`Trace`].

#[cfg(feature = "tools")]
pub mod analysis;
#[cfg(feature = "tools")]
pub mod check;
#[cfg(feature = "tools")]
mod counters;
#[cfg(feature = "tools")]
pub mod csv;
pub mod frame;
#[cfg(feature = "tools")]
pub mod html;
#[cfg(feature = "tools")]
pub mod paraver;
#[cfg(feature = "tools")]
pub mod perfetto;
mod read;
pub mod record;
#[cfg(feature = "tools")]
mod rows;
#[cfg(feature = "tools")]
mod sheets;
#[cfg(feature = "sqlite")]
pub mod sqlite;
#[cfg(feature = "tools")]
pub mod summary;
mod tables;
#[cfg(feature = "tools")]
pub mod text;

pub use read::ReadError;
pub use tables::{
    Access, AccessMode, Copy, Data, Decision, Dependence, Memory, Note, NoteKind, Outcome, Region, Site, State,
    StateKind, Task, Trace, Unit,
};
