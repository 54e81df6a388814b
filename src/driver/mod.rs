//! Drivers: who carries out what the engine decides.

pub(crate) mod conflict;
pub(crate) mod progress;
pub(crate) mod shared;
pub(crate) mod simulated;
pub(crate) mod threads;
pub(crate) mod waiters;
pub(crate) mod watch;
pub(crate) mod window;
