//! Descriptions of machines to simulate, as contained in machine files: how long tasks take on units, and how long
//! copies take on links.
//!
//! This module only describes machines: it runs nothing, and no time passes. Only the simulated driver
//! (`driver/simulated/`) reads the figures; policies learn them from samples, as on a real machine.

mod curve;
mod error;
mod file;
mod machine;
mod noise;

#[cfg(test)]
pub(crate) use curve::Beyond;
pub(crate) use curve::Curve;
pub use error::MachineFileError;
pub use machine::SimulatedMachine;
pub(crate) use machine::{LinkModel, SpeedChange, SwitchModel, Times, Work};
