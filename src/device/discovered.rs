//! What an interface finds, before it is opened.

use super::Accelerator;
use crate::energy::{EnergyMeter, MeterError};
use crate::error::DeviceError;
use crate::machine::UnitKind;

/// A device that an interface has found, not yet opened.
pub(super) trait Discovered {
    /// Its name, for people to read.
    fn name(&self) -> String;

    /// Whether units of this kind may have it; the kind is one that the interface is asked for.
    fn serves(&self, _kind: UnitKind) -> bool {
        true
    }

    /// The meter of its energy, or why that cannot be read; none if devices of this sort have none.
    fn meter(&self) -> Option<Result<Box<dyn EnergyMeter>, MeterError>> {
        None
    }

    /// Opens it.
    ///
    /// # Errors
    /// If it cannot be used.
    fn open(&self) -> Result<Box<dyn Accelerator>, DeviceError>;
}
