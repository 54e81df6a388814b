//! The real driver: threads that execute tasks, and the devices that they lead.

pub(crate) mod accelerators;
pub(crate) mod devices;
pub(crate) mod host;
pub(crate) mod ready;
pub(crate) mod start;
pub(crate) mod thief;
