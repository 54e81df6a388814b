//! Thalweg on many machines: every rank runs the same program, owners run the tasks, and messages are inferred.
//!
//! Every rank submits the same sequence of tasks. A data object consists of tiles, each owned by a rank. The owner of
//! the regions that a task writes runs the task. The owners of the regions that it reads send each new version once, as
//! soon as it is written. The program contains neither messages nor barriers:
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
//! Each rank has one [`Runtime`](thalweg::Runtime) and one link to the network, which the runtime's threads and the
//! communication thread advance in turn. For a tile of another rank, it has a local data object, the *copy*. A receive
//! is a local task that writes the copy and ends when the bytes have arrived. A send is a local task that reads a
//! region and ends when the bytes have left. Both release their unit at once. So the local runtime orders everything,
//! including the next version of a copy after the readers of the last one.
//!
//! Invariants:
//! 1. *The owner is up to date.* After the tasks submitted so far, the owner's home copy has the latest value of every
//!    element. A task that runs on another rank sends the regions that it wrote to their owners.
//! 2. *Messages follow from submissions.* The owner and the reader know the same valid boxes of the reader's copy, so
//!    they derive the same missing boxes for a read (`boxes.rs`). The n-th message from one rank to another is the same
//!    on both ranks, so its number is its address.
//! 3. *A rank may leave out a task if it has neither the home nor a copy of the task's tiles*: the task changes nothing
//!    that the rank knows. A new copy begins with a read, which both the reader and the owner submit.
//! 4. *The owner combines contributions to a reduction in the order of submission*, whether or not its tasks made
//!    them, so the result has the same bits on any number of ranks.
//! 5. *A plan of a recording repeats only actions that its rank would derive* (`record.rs`), so ranks need not agree on
//!    it.
//! 6. *Failures travel as messages.* A send of a poisoned region sends the failure, and the receive fails with it.
//!
//! # No deadlock
//!
//! Order all local tasks of all ranks by the submission for which they were made. Each task waits only for earlier
//! submissions. A local task does so by the local runtime's dependences. A receive also waits for the send of the same
//! message, which belongs to the same submission and waits only for earlier ones. Consider the first unfinished task in
//! this order.
//!
//! - If its rank has submitted the task, everything before it has ended. A user's task or a send is ready and runs,
//!   because waiting receives and sends hold no unit. A receive is matched: its sender has ended all earlier tasks, so
//!   no limit on pending tasks keeps the sender from submitting the send, which is ready.
//! - If its rank has not submitted the task, no earlier task of the rank is pending, so nothing delays its submissions.
//!
//! Messages do not wait for each other's memory. A region travels in a packet only if the receiver has reserved memory
//! for it (`budget_bytes`). Otherwise it travels from memory to memory once both tasks are ready, which needs no
//! further memory. Until then the send holds its region, so a rank that is ahead waits when it writes the region again.
//! A record that arrives early takes some 100 bytes. The test `tests/oracle.rs` runs with a budget of no bytes at all.
//!
//! # The core library
//!
//! It knows nothing of ranks. Four additions serve this crate. A [`Block`](thalweg::region::Block) denotes a region in
//! code for any number of dimensions. A body can export an `outcome` access, so that a send needs no second task to
//! learn of a failure. [`Accesses::visit`](thalweg::task::Accesses::visit) names a task's regions, so that the tasks of
//! a program for one machine can be submitted to a cluster ([`Cluster::bind`]). Idle threads call a function of
//! [`Builder::while_idle`](thalweg::Builder::while_idle), so that a message is noticed without waking a thread.

#![warn(missing_debug_implementations)]

mod access;
mod balance;
mod bound;
mod boxes;
mod cluster;
mod core;
mod data;
mod dims;
mod error;
mod link;
mod links;
mod options;
pub mod owners;
mod read;
mod record;
mod shared;
mod task;
mod transfer;
pub mod transport;
mod uniform;
mod wire;

pub use access::{Accesses, Reads, Reduces, Repeated, Steps, Updates, Writes};
pub use balance::Balance;
pub use bound::Bound;
pub use cluster::Cluster;
pub use data::{ClusterData, Tile};
pub use dims::Dims;
pub use error::{Broken, ClusterError, Failure, Failures};
pub use links::{Links, Traffic};
pub use options::Options;
pub use record::{RecordedBuilder, Recorder, Recording, WithBody};
pub use task::{Task, TaskBuilder};
pub use transport::{Endpoint, Network};
