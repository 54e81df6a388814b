//! A machine to simulate, as its file describes it: how long tasks take on its units, and copies on its links.
//!
//! A description and no more: nothing runs here and no time passes. The simulated driver (`driver/simulated/`) alone
//! looks at the figures; policies learn them from samples, as on a real machine.

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
pub(crate) use machine::{LinkModel, Times, Work};
