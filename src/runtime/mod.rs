//! The public entry point: the calls that a program makes.
//!
//! [`Runtime`] is a [driver](crate::driver) with a [`Door`], through which bodies enter as well. It also ends the
//! runtime, and writes the final output. Submission ([`submit`]), waiting and reading ([`wait`]), recovery
//! ([`recovery`]) and building ([`builder`], [`build`]) are in separate files, which add methods.
//!
//! Invariant: imports between these files go one way. This file imports all of them, so none imports this file:
//! `tests/repository/layers.rs` checks it.
//!
//! Nothing in this module executes a task or knows about threads.

mod admission;
mod any_driver;
mod bodies;
mod body_data;
mod build;
mod builder;
mod capacities;
mod children;
mod detached;
mod device_checks;
mod door;
#[cfg(feature = "dynamic")]
mod dynamic;
mod end;
mod entrance;
mod explain;
mod export;
#[cfg(unix)]
mod files;
mod fill;
mod for_each;
mod foreign_memory;
mod futures;
mod group;
mod handle;
mod hints;
mod join;
mod live;
mod multi_device;
mod open_scopes;
mod pending;
mod raw;
mod record;
mod recovery;
mod release;
mod resource;
mod returning;
#[allow(clippy::module_inception)] // contains the type `Runtime`, to which the other files add methods
mod runtime;
mod scope;
mod shared_bodies;
mod statistics;
mod submit;
mod take;
mod values;
mod wait;

pub use crate::driver::reasons::{PendingTask, PendingTasks, WaitReason, WaitStep};
pub use crate::driver::watch::{RunningTask, Stall};
pub(crate) use build::environment;
pub use builder::Builder;
#[cfg(unix)]
pub use files::{ArrayFile, FileArray};
pub use for_each::{LoopBody, LoopBuilder};
pub use futures::Reading;

pub use group::{CancelOnDrop, TaskGroup};
pub use handle::TaskHandle;
pub use pending::{Pending, ResultFuture};
pub use record::{Explanation, Recorder, Recording};
pub use recovery::{Accept, Clear};
pub use returning::Returning;
pub use runtime::Runtime;
pub use scope::Scope;
pub use statistics::{LinkStatistics, Statistics};
pub use submit::TaskBuilder;
