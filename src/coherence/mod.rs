//! Coherence: tracks which replicas hold valid parts of a data object, and plans the copies that bring a region to
//! where it is needed.
//!
//! A *replica* is a box of a data object in one address space, with separate memory. The *home* replica covers the
//! whole data object in host memory and always exists. The [`Directory`] is the only place that records which parts are
//! valid where. It plans copies but never performs them: it hands out [`Transfer`]s with IDs, and its callers report
//! each completed transfer through [`Directory::arrived`].
//!
//! A part is in one of three states in a replica: absent from the list (invalid), *filling* by a copy, or *valid*. A
//! part that is valid in only one replica corresponds to the *modified* state of other protocols.
//!
//! Invariants:
//! 1. Every part of every data object is valid in at least one replica, or is being copied from a device that is gone.
//!    A lost part counts as valid at home but has a cause, which is reported to every task that would read the part.
//! 2. A part becomes valid in a single replica when a task that writes it there has finished, or earlier, when that
//!    task is issued or is about to overwrite the part ([`Directory::written`]). Copies add further valid replicas.
//! 3. A replica that a task or a copy uses is pinned, and a pinned replica is never dropped.

mod capacity;
mod directory;
mod eviction;
mod homes;
mod issued;
mod outlook;
mod recency;
mod replicas;

pub(crate) use capacity::{Memories, Room};
pub(crate) use directory::{AnyLoss, Directory, Transfer, Transfers};
pub use eviction::Eviction;
pub(crate) use replicas::{Replica, ReplicaId};

/// Identifies a copy under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct CopyId(pub(crate) u64);
