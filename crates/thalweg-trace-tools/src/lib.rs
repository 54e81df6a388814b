//! Tools that show Thalweg traces: the analysis of a run, its summary and report, and exporters for other viewers.
//!
//! The program `thalweg trace` uses them. They are separate from the crate `thalweg-trace`, on which the runtime
//! library depends, so that programs which only write traces compile none of the crates that the tools need.
//!
//! Nothing here talks to a runtime, and nothing changes a trace, except that [`merge`] makes one of several.

pub mod analysis;
pub mod check;
mod counters;
pub mod csv;
pub mod html;
pub mod merge;
pub mod paraver;
pub mod perfetto;
mod ranks;
mod rows;
mod sheets;
#[cfg(feature = "sqlite")]
pub mod sqlite;
pub mod summary;
pub mod text;

pub use thalweg_trace::{
    Access, AccessMode, Copy, Data, Decision, Dependence, Drop, DropReason, Memory, Note, NoteKind, Outcome, ReadError,
    Region, Site, State, StateKind, Task, Trace, Unit, frame, record,
};
