//! Units, threads and cores; schedulers; machines that are simulated.

#[path = "../common/mod.rs"]
mod common;
#[cfg(feature = "sim")]
#[path = "../common/emulated.rs"]
mod emulated;

mod environment;
#[cfg(feature = "sim")]
mod machine_files;
mod own_policies;
#[cfg(feature = "sim")]
mod schedulers;
#[cfg(feature = "sim")]
mod simulation;
mod threads;
mod units;
