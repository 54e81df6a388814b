//! Thalweg on many machines: the same program on every rank, tasks where their data are, messages inferred.
//!
//! Every rank submits the same sequence of tasks. A data object consists of tiles, each owned by a rank. A task runs on
//! the rank that owns the regions that it writes; the owners of the regions that it reads send them, once for each
//! version, as soon as it is written. The program contains no message and no barrier:
//!
//! ```no_run
//! use thalweg::Runtime;
//! use thalweg_mpi::{Cluster, ClusterData, owners};
//!
//! let cluster = Cluster::init(Runtime::builder().compute_units("1:CPU:1"))?;
//! let x: ClusterData<f64> = cluster.distributed(1000, 250, owners::block);
//! for tile in x.tiles() {
//!     let first = tile.number() * 250;
//!     cluster
//!         .task("fill", tile.output())
//!         .cpu(move |_, x| x.iter_mut().enumerate().for_each(|(i, x)| *x = (first + i) as f64))
//!         .submit()?;
//! }
//! let total = cluster.data(0, vec![0.0]);
//! for tile in x.tiles() {
//!     cluster
//!         .task("sum", (tile.input(), total.reduction(thalweg::memory::Sum)))
//!         .cpu(|_, (x, total)| total[0] += x.iter().sum::<f64>())
//!         .submit()?;
//! }
//! assert_eq!(cluster.read(&total)?, [499500.0]); // on every rank
//! cluster.wait()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `mpirun -np 4 program` starts it on four ranks, and `program` alone on one.
//!
//! # Design
//!
//! Each rank has one [`Runtime`](thalweg::Runtime) and one communication thread. A tile of another rank is a local data
//! object, the *copy*. A receive is a local task that writes the copy and ends when the bytes have arrived; a send is a
//! local task that reads a region and ends when they have left. Both release their unit at once. Thus all dependences,
//! also those between a copy's old readers and its next version, are the local runtime's.
//!
//! Invariants:
//! 1. *The owner is up to date.* After the tasks submitted so far, the owner's home copy has the latest value of every
//!    element. A task that runs on another rank sends its regions to the owner.
//! 2. *Messages follow from submissions.* Owner and reader know the same valid boxes of the reader's copy, so they
//!    agree on the boxes that a read needs, without asking (`boxes.rs`). The n-th message from one rank to another is
//!    the same on both, so its number is its address.
//! 3. *A rank may leave out tasks on tiles of which it has neither the home nor a copy*: they change nothing that it
//!    knows. A new copy begins with a read, which reader and owner both submit.
//! 4. *Contributions to reductions are combined by the owner, in the order of submission*, also the contributions of
//!    its own tasks, so the result has the same bits on any number of ranks.
//! 5. *Failures travel as messages.* A send of a poisoned region sends the failure; the receive fails with it.
//!
//! # No deadlock
//!
//! Order all local tasks of all ranks by the submission for which they were made. Each waits only for earlier ones: the
//! local ones by the local runtime's dependences, a receive for the send of the same message, which belongs to the same
//! submission and itself waits only for earlier ones. Consider the first unfinished task in this order.
//!
//! - If its rank has submitted it, everything before it has ended. A user's task or a send is ready and runs, because
//!   receives and sends that wait hold no unit. A receive is matched, because its sender has ended all earlier tasks,
//!   so it is not held back by a limit on pending tasks and submits the send, which is ready.
//! - If its rank has not submitted it, no earlier task of the rank is pending, so nothing holds back its submissions.
//!
//! Messages do not wait for each other's memory: a region goes into a packet only if its receiver has reserved memory
//! for it (`budget_bytes`), and otherwise from memory to memory once both tasks are ready, which needs none. Until then
//! the send holds its region, so a rank that is ahead is held back by its own writes. A record that arrives early takes
//! some 100 bytes. The test `tests/oracle.rs` runs with a budget of no bytes at all.
//!
//! # The core library
//!
//! It knows nothing of ranks. Two additions serve this crate: a [`Block`](thalweg::region::Block) denotes a region in
//! code for any number of dimensions, and an `outcome` access can be lent out of a body, so that a send needs no second
//! task to learn of a failure.

#![warn(missing_debug_implementations)]

mod access;
mod boxes;
mod cluster;
mod core;
mod data;
mod dims;
mod error;
mod link;
mod options;
pub mod owners;
mod read;
mod shared;
mod task;
mod transfer;
pub mod transport;
mod uniform;
mod wire;

pub use access::{Accesses, Reads, Reduces, Steps, Updates, Writes};
pub use cluster::Cluster;
pub use data::{ClusterData, Tile};
pub use dims::Dims;
pub use error::{Broken, ClusterError, Failure, Failures};
pub use options::Options;
pub use shared::Traffic;
pub use task::{Task, TaskBuilder};
pub use transport::{Endpoint, Network};
