//! Tests of units, threads and cores, schedulers, and simulated machines.

#[path = "../common/mod.rs"]
mod common;
#[cfg(feature = "sim")]
#[path = "../common/emulated.rs"]
mod emulated;

mod environment;
#[cfg(feature = "sim")]
mod machine_files;
mod own_policies;
mod own_policy_breaches;
#[cfg(feature = "sim")]
mod schedulers;
#[cfg(feature = "sim")]
mod simulated_policies;
#[cfg(feature = "sim")]
mod simulation;
mod threads;
mod units;
