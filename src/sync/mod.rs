//! The lock-free core: task blocks, successor lists, sleeping and waking of idle threads, and the one short lock.
//!
//! Every task pays for this layer, so it is written by hand and kept small: a task is one block of pooled memory, an
//! edge of the dependence graph is two words inside the *successor's* block ([`Successors`] links edges without a
//! lock), and a task becomes ready through a single countdown. This layer knows nothing about data, accesses or units;
//! the dependence layer gives tasks their meaning by implementing [`Kind`].
//!
//! Rules that hold across the files in this folder:
//! 1. An edge is linked into its predecessor's list only before that list is closed, and a list is closed only once.
//! 2. Owning a [`Submitting`] or an [`OwnedTask`] proves exclusive access to the task's body. At most one of them
//!    exists per task at any time. While a task is blocked, neither exists, and the thread that counts down the task's
//!    last blocker takes up the ownership.
//! 3. A list is closed and walked by a single thread, which reads an edge's link before it counts the successor down,
//!    because the successor may run immediately afterwards and its block may be reused. Other threads look at the list
//!    only while it cannot be closed ([`Suspended`], [`Walk`]).

#![allow(unsafe_code)] // the lock-free core; every use states its reason

mod atomic;
mod batch;
mod borrowed;
mod brief;
mod call_site;
mod counted;
mod deferred_drop;
mod detached;
mod edges;
mod expect;
mod exposed;
pub(crate) mod fiber;
mod fixed;
mod fork;
mod forked;
mod found;
mod lock;
mod owned;
mod pool;
mod pooled;
mod prefetch;
mod quota;
mod readers;
mod ref_count;
mod rounds;
mod scope;
mod sleep;
mod spin;
mod stacks;
mod start;
mod submitting;
mod successors;
mod suspended;
mod tail;
mod task;
#[cfg(test)]
mod tests;
mod transitions;
mod walk;

pub(crate) use borrowed::Borrowed;
#[cfg(any(feature = "cuda", feature = "hip", feature = "opencl"))]
pub(crate) use brief::may_block;
pub(crate) use brief::{Brief, BriefGuard};
pub use call_site::CallSite;
pub(crate) use counted::Counted;
pub(crate) use deferred_drop::DeferredDrop;
pub(crate) use detached::Detached;
pub(crate) use exposed::{Apart, Exposed};
pub(crate) use fork::{End, Market, Offer, fork};
pub(crate) use forked::{Birth, InChild, handle_forks, share, tell_in_child};
pub(crate) use lock::{Lock, LockGuard};
pub(crate) use owned::OwnedTask;
pub(crate) use pooled::Pooled;
pub(crate) use prefetch::prefetch;
pub(crate) use quota::{Quota, Share};
pub(crate) use readers::Readers;
pub(crate) use rounds::{Helper, Idle, Rounds};
pub(crate) use scope::{Frames, Scope};
pub(crate) use sleep::{Parker, Sleep};
pub(crate) use stacks::mapped;
pub(crate) use start::{start, start_scoped};
pub(crate) use submitting::Submitting;
pub(crate) use suspended::{Behind, Key, Search, Step, Suspended};
#[cfg(test)]
pub(crate) use task::LINKED;
pub(crate) use task::{Flow, Kind, Task, TaskRef, drop_quietly};
pub(crate) use walk::{Met, Next, Running, Walk};
