//! Tests of waits, inside and outside bodies, by threads and by futures, and of the end of a runtime.

#[path = "../common/mod.rs"]
mod common;

mod abandoned;
mod async_bodies;
mod body_waits;
mod bounded_waits;
mod circles;
mod detached;
mod detached_failures;
mod displayed;
mod embedding;
mod explained;
mod explained_all;
mod explained_queues;
mod futures;
mod isolated_waits;
mod joins;
mod kept_units;
mod polling;
mod shutdown;
mod signalled;
mod stacks;
mod two_runtimes;
mod waiting;
