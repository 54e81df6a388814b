//! Coherence: which replica of which part of a data object is valid, and how to bring a region where it is needed.
//!
//! A *replica* is a box of a data object in one address space, in memory of its own; the *home* replica covers all of
//! the data in host memory and always exists. The [`Directory`] is the only place that knows what is valid where. It
//! plans copies and never performs them: ids go out in [`Transfer`]s, and [`Directory::arrived`] comes back.
//!
//! States of a part in a replica: absent from the list (invalid), *filling* by a copy, or *valid*; a part that is valid
//! in one replica only is what other protocols call modified.
//!
//! Invariants:
//! 1. Every part of every data is valid in at least one replica, or on its way from a device that is gone. What is lost
//!    counts as valid at home, with a cause: who would read it is told.
//! 2. A part becomes valid in one replica alone when a task that writes it there has finished; copies add replicas.
//! 3. A replica that a task or a copy uses is pinned, and a pinned replica is never dropped.

mod capacity;
mod directory;
mod issued;
mod recency;
mod replicas;

pub(crate) use capacity::{Memories, Room};
pub(crate) use directory::{AnyLoss, Directory, Transfer, Transfers};
pub(crate) use replicas::{Replica, ReplicaId};

/// Names a copy under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct CopyId(pub(crate) u64);
